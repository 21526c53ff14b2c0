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
    const HALF: usize = size_of::<u32>();
    // The difference of the first bytes that differ. WebAssembly is little-endian: the first byte is the lowest one.
    let differ = |left: u64, right: u64| {
        let shift = (left ^ right).trailing_zeros() & !7;
        let [left, ..] = (left >> shift).to_le_bytes();
        let [right, ..] = (right >> shift).to_le_bytes();
        i32::from(left) - i32::from(right)
    };
    if length == 0 {
        return 0;
    }
    // Most keys differ in their first byte.
    // SAFETY: there is a byte in both.
    let (left, right) = unsafe { (*one, *other) };
    if left != right {
        return i32::from(left) - i32::from(right);
    }
    if length >= WORD {
        let last = length - WORD;
        let mut at = 0;
        loop {
            // SAFETY: `at` is at most `last`, so that a word is left in both.
            let (left, right) =
                unsafe { (one.add(at).cast::<u64>().read_unaligned(), other.add(at).cast::<u64>().read_unaligned()) };
            if left != right {
                return differ(left, right);
            }
            if at >= last {
                return 0;
            }
            // The last word overlaps the one before it: bytes that are known to be equal decide nothing.
            at = last.min(at + WORD);
        }
    }
    if length >= HALF {
        for at in [0, length - HALF] {
            // SAFETY: half a word is left in both.
            let (left, right) =
                unsafe { (one.add(at).cast::<u32>().read_unaligned(), other.add(at).cast::<u32>().read_unaligned()) };
            if left != right {
                return differ(left.into(), right.into());
            }
        }
        return 0;
    }
    for at in 1..length {
        // SAFETY: `at` is within both.
        let (left, right) = unsafe { (*one.add(at), *other.add(at)) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
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
