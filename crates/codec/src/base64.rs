//! Base64 (RFC 4648, section 5: the alphabet that JSON never escapes; without padding), of which any part can be read
//! without the rest.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The text of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut bits = 0_u32;
        for index in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(index).copied().unwrap_or_default());
        }
        for index in 0..=chunk.len() {
            let digit = bits >> (18 - 6 * index) & 63;
            text.extend(ALPHABET.get(digit as usize).map(|digit| char::from(*digit)));
        }
    }
    text
}

/// How many bytes a text stands for.
pub const fn decoded_len(text: &[u8]) -> usize {
    text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1)
}

/// The bytes from `start` up to `end`; `None` where they are not there, or are no Base64.
pub fn decode(text: &[u8], start: usize, end: usize) -> Option<Vec<u8>> {
    if start > end || end > decoded_len(text) {
        return None;
    }
    let first = start / 3;
    let digits = text.get(first * 4..text.len().min(end.div_ceil(3) * 4))?;
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    let digits = many(digits, &mut bytes)?;
    let (groups, rest) = digits.as_chunks::<4>();
    for [one, two, three, four] in groups {
        let bits = value(*one)? << 18 | value(*two)? << 12 | value(*three)? << 6 | value(*four)?;
        let [_, one, two, three] = bits.to_be_bytes();
        bytes.extend_from_slice(&[one, two, three]);
    }
    if !rest.is_empty() {
        let mut bits = 0;
        for index in 0..4 {
            bits = bits << 6 | rest.get(index).map_or(Some(0), |digit| value(*digit))?;
        }
        let [_, rest_of @ ..] = bits.to_be_bytes();
        bytes.extend(rest_of.iter().take(rest.len() - 1));
    }
    let skip = start - first * 3;
    bytes.truncate(skip + (end - start));
    bytes.drain(..skip);
    (bytes.len() == end - start).then_some(bytes)
}

/// Reads digits as long as there are sixteen; answers those that are left.
#[cfg(target_arch = "wasm32")]
#[target_feature(enable = "simd128")]
fn many<'a>(digits: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    use core::arch::wasm32::{
        i8x16_all_true, i8x16_swizzle, u8x16, u8x16_add, u8x16_eq, u8x16_lt, u8x16_splat, u8x16_sub, u32x4_shl,
        u32x4_shr, u32x4_splat, v128_and, v128_or,
    };
    let (blocks, rest) = digits.as_chunks::<16>();
    for block in blocks {
        let digits = crate::simd::load(*block);
        // Those from `first` on, `count` of them, whose values begin with `value`; and which they are.
        let range = |first: u8, count: u8, value: u8| {
            let index = u8x16_sub(digits, u8x16_splat(first));
            let is_in = u8x16_lt(index, u8x16_splat(count));
            (is_in, v128_and(is_in, u8x16_add(index, u8x16_splat(value))))
        };
        let one = |digit: u8, value: u8| {
            let is_it = u8x16_eq(digits, u8x16_splat(digit));
            (is_it, v128_and(is_it, u8x16_splat(value)))
        };
        let (mut known, mut values) = range(b'A', 26, 0);
        for (is_in, value) in [range(b'a', 26, 26), range(b'0', 10, 52), one(b'-', 62), one(b'_', 63)] {
            known = v128_or(known, is_in);
            values = v128_or(values, value);
        }
        if !i8x16_all_true(known) {
            return None;
        }
        // Four times six bits, the first of them lowest, become 24, the first of them highest.
        let part = |mask: u32| v128_and(values, u32x4_splat(mask));
        let joined = v128_or(
            v128_or(u32x4_shl(part(0x3f), 18), u32x4_shl(part(0x3f00), 4)),
            v128_or(u32x4_shr(part(0x003f_0000), 10), u32x4_shr(values, 24)),
        );
        let ordered = i8x16_swizzle(joined, u8x16(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 16, 16, 16, 16));
        let [twelve @ .., _, _, _, _] = crate::simd::store(ordered);
        bytes.extend_from_slice(&twelve);
    }
    Some(rest)
}

/// Reads none of them: what the compiler makes of the loop is good enough elsewhere.
#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::unnecessary_wraps, clippy::missing_const_for_fn, reason = "as it is on WebAssembly")]
fn many<'a>(digits: &'a [u8], _: &mut Vec<u8>) -> Option<&'a [u8]> {
    Some(digits)
}

/// What each byte stands for; [`NONE`] where it is no digit.
const VALUES: [u8; 256] = values();
const NONE: u8 = 0xff;

#[allow(clippy::indexing_slicing, reason = "the compiler would notice")]
const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value: u8 = 0;
    while value < 64 {
        values[ALPHABET[value as usize] as usize] = value;
        value += 1;
    }
    values
}

fn value(digit: u8) -> Option<u32> {
    VALUES.get(usize::from(digit)).copied().filter(|value| *value != NONE).map(u32::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 4648, section 10, without padding.
    #[test]
    fn texts_are_those_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text.as_bytes(), 0, bytes.len()).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
    }

    proptest! {
        #[test]
        fn every_part_can_be_read(bytes: Vec<u8>, start: prop::sample::Index, end: prop::sample::Index) {
            let text = encode(&bytes).into_bytes();
            prop_assert_eq!(decoded_len(&text), bytes.len());
            let (start, end) = (start.index(bytes.len() + 1), end.index(bytes.len() + 1));
            prop_assert_eq!(decode(&text, start, end), bytes.get(start..end).map(<[u8]>::to_vec));
        }

        #[test]
        fn no_text_panics(text in ".*", start in 0_usize..40, end in 0_usize..40) {
            let _ = decode(text.as_bytes(), start, end);
        }
    }
}
