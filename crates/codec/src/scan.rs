//! Finding the end of what needs no second look, eight bytes at a time.

/// How many bytes at the beginning of a text stand in a JSON string as they are: no quote, no backslash, no control
/// character below U+0020 (RFC 8259, section 7). And whether all of them are certainly ASCII.
pub fn plain(text: &[u8]) -> (usize, bool) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let (words, _) = text.as_chunks::<8>();
    let mut at = 0;
    let mut all = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (0x22 * ONES);
        let backslash = word ^ (0x5c * ONES);
        all |= word;
        // The highest bit of a byte is set where it is zero, and in some more; these are looked at one by one.
        let found = quote.wrapping_sub(ONES) | backslash.wrapping_sub(ONES) | word.wrapping_sub(0x20 * ONES);
        if found & HIGH & !word != 0 {
            let bytes = text.get(at..at + 8).unwrap_or_default();
            if let Some(special) = bytes.iter().position(is_special) {
                return (at + special, all & HIGH == 0);
            }
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    let rest = rest.get(..rest.iter().position(is_special).unwrap_or(rest.len())).unwrap_or_default();
    (at + rest.len(), all & HIGH == 0 && rest.is_ascii())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what `position` asks for")]
fn is_special(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1f)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_special_is_passed_over(text in prop::collection::vec(prop_oneof![
            8 => any::<u8>(), 1 => prop::sample::select(b"\"\\\x00\x1f \x7f\x80\xa2\xdc".as_slice())
        ], 0..40)) {
            let expected = text.iter().position(is_special).unwrap_or(text.len());
            let (length, is_ascii) = plain(&text);
            prop_assert_eq!(length, expected);
            prop_assert!(!is_ascii || text[..length].is_ascii());
        }

        #[test]
        fn runs_of_any_length_are_passed_over(before in 0_usize..40, special in prop::sample::select(b"\"\\\n".as_slice()), text in "[^\"\\\\\\x00-\\x1f]{0,40}") {
            let mut bytes = vec![b'a'; before];
            bytes.extend(text.as_bytes());
            let length = bytes.len();
            prop_assert_eq!(plain(&bytes), (length, bytes.is_ascii()));
            bytes.push(special);
            bytes.extend(b"more");
            prop_assert_eq!(plain(&bytes).0, length);
        }
    }
}
