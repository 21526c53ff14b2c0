//! Finding the end of what needs no second look, sixteen bytes at a time.

/// So many bytes are looked at together.
const LANES: usize = 16;

/// How many bytes at the beginning of a text stand in a JSON string as they are: no quote, no backslash, no control
/// character below U+0020 (RFC 8259, section 7). And whether all of them are ASCII.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
pub fn plain(text: &[u8]) -> (usize, bool) {
    let (blocks, rest) = text.as_chunks::<LANES>();
    let mut at = 0;
    let mut above = 0;
    for block in blocks {
        let found = Found::of(*block);
        if found.special != 0 {
            let (end, is_ascii) = found.first();
            return (at + end, is_ascii && above == 0);
        }
        above |= found.above;
        at += LANES;
    }
    let (end, is_ascii) = Found::of(padded(rest)).first();
    (at + end.min(rest.len()), is_ascii && above == 0)
}

/// [`plain`] of what is expected to be long, such as the text of a bundle: four blocks at a time as long as all of them are
/// plain and ASCII. Where texts are short, most of these would be looked at twice.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
pub fn plain_long(text: &[u8]) -> (usize, bool) {
    let (chunks, _) = text.as_chunks::<{ 4 * LANES }>();
    let mut at = 0;
    for chunk in chunks {
        if !is_plain_ascii(chunk) {
            break;
        }
        at += chunk.len();
    }
    let (end, is_ascii) = plain(text.get(at..).unwrap_or_default());
    (at + end, is_ascii)
}

#[cfg(target_arch = "wasm32")]
#[target_feature(enable = "simd128")]
fn is_plain_ascii(chunk: &[u8; 4 * LANES]) -> bool {
    use core::arch::wasm32::{i8x16_lt, i8x16_splat, u8x16_eq, u8x16_splat, v128_any_true, v128_or};
    let (blocks, _) = chunk.as_chunks::<LANES>();
    // Below a space as signed numbers: control characters, and all that is not ASCII.
    let mut found = i8x16_splat(0);
    for block in blocks {
        let bytes = super::simd::load(*block);
        let quoting = v128_or(u8x16_eq(bytes, u8x16_splat(b'"')), u8x16_eq(bytes, u8x16_splat(b'\\')));
        found = v128_or(found, v128_or(quoting, i8x16_lt(bytes, i8x16_splat(0x20))));
    }
    !v128_any_true(found)
}

#[cfg(not(target_arch = "wasm32"))]
fn is_plain_ascii(chunk: &[u8; 4 * LANES]) -> bool {
    chunk.iter().all(|byte| matches!(byte, 0x20..=0x7f) && !matches!(byte, b'"' | b'\\'))
}

/// What is shorter than a block, and spaces, which are as plain as what is not there. Made of numbers, not byte by byte in
/// memory, from where a block could only be read when all of them have arrived.
fn padded(rest: &[u8]) -> [u8; LANES] {
    let (words, last) = rest.as_chunks::<8>();
    let mut word = 0x2020_2020_2020_2020_u64;
    for byte in last.iter().rev() {
        word = word << 8 | u64::from(*byte);
    }
    let block = match words {
        [first, ..] => u128::from(word) << 64 | u128::from(u64::from_le_bytes(*first)),
        [] => 0x2020_2020_2020_2020 << 64 | u128::from(word),
    };
    block.to_le_bytes()
}

/// What is where in a block: a bit for each byte, the lowest for the first.
#[derive(Clone, Copy)]
struct Found {
    /// What does not stand in a string as it is.
    special: u16,
    /// What is not ASCII.
    above: u16,
}

impl Found {
    #[cfg(target_arch = "wasm32")]
    #[target_feature(enable = "simd128")]
    fn of(block: [u8; LANES]) -> Self {
        use core::arch::wasm32::{i8x16_bitmask, u8x16_eq, u8x16_lt, u8x16_splat, v128_any_true, v128_or};
        let bytes = super::simd::load(block);
        let quoting = v128_or(u8x16_eq(bytes, u8x16_splat(b'"')), u8x16_eq(bytes, u8x16_splat(b'\\')));
        let special = v128_or(quoting, u8x16_lt(bytes, u8x16_splat(0x20)));
        // A mask takes long to make where the machine has no instruction for it.
        let special = if v128_any_true(special) { i8x16_bitmask(special) } else { 0 };
        Self { special, above: i8x16_bitmask(bytes) }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn of(block: [u8; LANES]) -> Self {
        let bits = |is: fn(u8) -> bool| block.iter().rev().fold(0, |bits, byte| bits << 1 | u16::from(is(*byte)));
        Self { special: bits(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)), above: bits(|byte| !byte.is_ascii()) }
    }

    /// Where the first special byte is, [`LANES`] where there is none, and whether everything before it is ASCII.
    const fn first(self) -> (usize, bool) {
        let end = self.special.trailing_zeros();
        let before = 1_u32.wrapping_shl(end).wrapping_sub(1);
        (end as usize, self.above as u32 & before == 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "what `position` asks for")]
    fn is_special(byte: &u8) -> bool {
        matches!(byte, b'"' | b'\\' | 0..=0x1f)
    }

    proptest! {
        #[test]
        fn nothing_special_is_passed_over(text in prop::collection::vec(prop_oneof![
            8 => any::<u8>(), 1 => prop::sample::select(b"\"\\\x00\x1f \x7f\x80\xa2\xdc".as_slice())
        ], 0..200)) {
            let expected = text.iter().position(is_special).unwrap_or(text.len());
            prop_assert_eq!(plain(&text), (expected, text[..expected].is_ascii()));
            prop_assert_eq!(plain_long(&text), plain(&text));
        }

        #[test]
        fn runs_of_any_length_are_passed_over(before in 0_usize..200, special in prop::sample::select(b"\"\\\n".as_slice()), text in "[^\"\\\\\\x00-\\x1f]{0,40}") {
            let mut bytes = vec![b'a'; before];
            bytes.extend(text.as_bytes());
            let length = bytes.len();
            prop_assert_eq!(plain(&bytes), (length, bytes.is_ascii()));
            bytes.push(special);
            bytes.extend(b"more");
            prop_assert_eq!(plain(&bytes), (length, bytes[..length].is_ascii()));
            prop_assert_eq!(plain_long(&bytes), plain(&bytes));
        }
    }
}
