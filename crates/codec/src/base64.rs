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
