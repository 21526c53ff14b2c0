//! What a program needs of the machine below it, in place of the standard library's runtime: memory, a clock, and an
//! end for panics.
#![allow(unsafe_code, reason = "the clock writes into the guest's memory")]

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

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

/// Seconds since 1970, by the host's clock; 0 where it has none.
pub fn seconds() -> u64 {
    const REALTIME: u32 = 0;
    const SECOND: u64 = 1_000_000_000;
    let mut time = 0;
    // SAFETY: the host writes eight bytes to a place that holds as many.
    let _ = unsafe { clock_time_get(REALTIME, SECOND, &raw mut time) };
    time / SECOND
}
