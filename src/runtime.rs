//! What a program needs of the machine below it, in place of the standard library's runtime: memory, a clock, and an
//! end for panics.
#![allow(unsafe_code, reason = "the clock writes into the guest's memory")]

use std::time::Duration;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: crate::memory::Memory<crate::memory::Module> = crate::memory::Memory::new();

/// Takes back the memory of all earlier calls.
///
/// # Safety
/// Comes first in a call, before anything is allocated; no static may hold anything that was.
#[cfg(target_arch = "wasm32")]
pub unsafe fn begin() {
    // SAFETY: the caller says so.
    unsafe { MEMORY.reset() };
}

/// Native memory takes care of itself.
#[cfg(not(target_arch = "wasm32"))]
pub const unsafe fn begin() {}

/// Nothing of ours panics; should something, the instance ends at once. There is nobody to read a message.
#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

// Comparing memory is the C library's business on this target; nothing else of it is taken.
#[cfg(target_arch = "wasm32")]
#[link(name = "c")]
unsafe extern "C" {}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    /// Writes the time of a clock in nanoseconds; 0 where it could.
    fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u16;
}

/// The time of a clock, where the host has it.
fn time(clock: u32) -> Option<Duration> {
    let mut nanoseconds = 0;
    // SAFETY: the host writes eight bytes to a place that holds as many.
    let error = unsafe { clock_time_get(clock, 1, &raw mut nanoseconds) };
    (error == 0).then(|| Duration::from_nanos(nanoseconds))
}

/// Seconds since 1970; 0 where the host does not know.
pub fn seconds() -> u64 {
    const REALTIME: u32 = 0;
    time(REALTIME).unwrap_or_default().as_secs()
}

/// The time of a clock that only goes forward, since some moment.
pub fn monotonic() -> Option<Duration> {
    const MONOTONIC: u32 = 1;
    time(MONOTONIC)
}
