//! A checksum against accidents, eight bytes at a time.
//!
//! Against accidents only: whoever can write a bundle can write its checksums. A CRC takes a dozen instructions for each
//! byte, and was a twentieth of an admission.

/// Odd, so that no two states become one: bytes that differ in one word always have different states.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of some bytes. It is part of the format of bundles.
pub fn checksum(bytes: &[u8]) -> u32 {
    let step = |state: u64, word: u64| {
        let product = (state ^ word).wrapping_mul(FACTOR);
        product ^ product >> 32
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut state = step(bytes.len() as u64, 0);
    for word in words {
        state = step(state, u64::from_le_bytes(*word));
    }
    for byte in rest {
        state = step(state, u64::from(*byte));
    }
    #[allow(clippy::cast_possible_truncation, reason = "half of it is meant")]
    let half = state as u32;
    half
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn checksums_stay_what_they_are_in_bundles_that_exist() {
        assert_eq!(checksum(b""), 0);
        assert_eq!(checksum(b"123456789"), 0xb94b_c445);
        assert_eq!(checksum(b"{\"metadata\":{\"name\":\"logs\"}}"), 0x6c90_d1d2);
    }

    proptest! {
        #[test]
        fn what_was_changed_added_or_lost_is_noticed(bytes in prop::collection::vec(any::<u8>(), 1..60), at: prop::sample::Index, by in 1_u8..) {
            let sum = checksum(&bytes);
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= by;
            prop_assert_ne!(checksum(&changed), sum);
            let mut longer = bytes.clone();
            longer.push(0);
            prop_assert_ne!(checksum(&longer), sum);
            prop_assert_ne!(checksum(&bytes[..bytes.len() - 1]), sum);
        }
    }
}
