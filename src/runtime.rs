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

/// Compares memory as C does: negative, zero or positive, by the first byte that differs.
///
/// The C library of this target goes byte by byte. Maps compare each key with some twenty others, so that a map of long
/// keys that begin alike took most of an evaluation (`serviceaccounts.md` E18).
///
/// # Safety
/// Both pointers are valid for reads of `length` bytes.
#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    const WORD: usize = size_of::<u64>();
    let mut at = 0;
    while length - at >= WORD {
        // SAFETY: there are as many bytes left in both.
        let (left, right) =
            unsafe { (one.add(at).cast::<u64>().read_unaligned(), other.add(at).cast::<u64>().read_unaligned()) };
        if left != right {
            // The first byte in memory decides.
            return if u64::from_be_bytes(left.to_ne_bytes()) < u64::from_be_bytes(right.to_ne_bytes()) {
                -1
            } else {
                1
            };
        }
        at += WORD;
    }
    while at < length {
        // SAFETY: `at` is within both.
        let (left, right) = unsafe { (*one.add(at), *other.add(at)) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
        at += 1;
    }
    0
}

/// Whether memory differs: not zero where it does.
///
/// # Safety
/// As [`memcmp`].
#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    // SAFETY: the caller says so.
    unsafe { memcmp(one, other, length) }
}

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
