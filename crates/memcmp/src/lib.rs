//! `memcmp` and `bcmp` of C for WebAssembly, a word at a time.
//!
//! The C library of `wasm32-wasip1` goes byte by byte. Sorting long texts that begin alike, or looking them up, then took
//! most of an evaluation (`serviceaccounts.md` E18; docs/design.md has the measurement). The linker takes these functions
//! instead of those of the C library wherever this crate is linked.
#![allow(unsafe_code, reason = "the functions get pointers")]

use std::cmp::Ordering;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Bytes of half a word.
const HALF: usize = size_of::<u32>();

/// The order of two texts of the same length: that of the first bytes that differ.
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    // Most texts differ in their first byte.
    match (one.first(), other.first()) {
        (Some(left), Some(right)) if left == right => {}
        (left, right) => return left.cmp(&right),
    }
    if let (Some(left), Some(right)) = (one.last_chunk::<WORD>(), other.last_chunk::<WORD>()) {
        let words = one.as_chunks::<WORD>().0.iter().zip(other.as_chunks::<WORD>().0);
        // The last word overlaps the one before it: bytes that are known to be equal decide nothing.
        let unequal = words.chain([(left, right)]).find(|(left, right)| left != right);
        return unequal
            .map_or(Ordering::Equal, |(left, right)| u64::from_be_bytes(*left).cmp(&u64::from_be_bytes(*right)));
    }
    if let (Some(left), Some(right)) = (one.last_chunk::<HALF>(), other.last_chunk::<HALF>()) {
        let halves = one.first_chunk::<HALF>().zip(other.first_chunk::<HALF>());
        let unequal = halves.into_iter().chain([(left, right)]).find(|(left, right)| left != right);
        return unequal
            .map_or(Ordering::Equal, |(left, right)| u32::from_be_bytes(*left).cmp(&u32::from_be_bytes(*right)));
    }
    let unequal = one.iter().zip(other).find(|(left, right)| left != right);
    unequal.map_or(Ordering::Equal, |(left, right)| left.cmp(right))
}

/// Compares memory: negative, zero or positive, by the first byte that differs.
///
/// # Safety
/// Both pointers are valid for reads of `length` bytes.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    if length == 0 {
        return 0;
    }
    // SAFETY: the caller says so.
    let (one, other) = unsafe { (std::slice::from_raw_parts(one, length), std::slice::from_raw_parts(other, length)) };
    compare(one, other) as i32
}

/// Whether memory differs: not zero if it does.
///
/// # Safety
/// As [`memcmp`].
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    // SAFETY: the caller says so.
    unsafe { memcmp(one, other, length) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As slices are compared, which is what C promises.
        #[test]
        fn memory_is_compared_as_slices_are(
            start in proptest::collection::vec(any::<u8>(), 0..40),
            (one, other) in (0_usize..12).prop_flat_map(|length| {
                let bytes = || proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()], length);
                (bytes(), bytes())
            }),
            end in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let [one, other] = [one, other].map(|middle| [&*start, &middle, &end].concat());
            // SAFETY: both have this length.
            let (order, differ) = unsafe {
                (memcmp(one.as_ptr(), other.as_ptr(), one.len()), bcmp(one.as_ptr(), other.as_ptr(), one.len()))
            };
            prop_assert_eq!(order.cmp(&0), one.cmp(&other));
            prop_assert_eq!(differ == 0, one == other);
        }
    }
}
