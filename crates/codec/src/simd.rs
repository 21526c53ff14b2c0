//! WebAssembly's vectors, between memory and numbers.

use core::arch::wasm32::{u64x2, u64x2_extract_lane, v128};

/// A vector of these bytes.
#[target_feature(enable = "simd128")]
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "halves are meant")]
pub fn load(bytes: [u8; 16]) -> v128 {
    let bits = u128::from_le_bytes(bytes);
    u64x2(bits as u64, (bits >> 64) as u64)
}

/// The bytes of a vector.
#[target_feature(enable = "simd128")]
#[inline]
pub fn store(vector: v128) -> [u8; 16] {
    let (low, high) = (u64x2_extract_lane::<0>(vector), u64x2_extract_lane::<1>(vector));
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}
