//! Base64 without padding, with the URL-safe alphabet, which JSON never escapes (RFC 4648, section 5). Any part can be
//! decoded without the rest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Returns the Base64 text of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the number of bytes that a text encodes.
pub(crate) const fn decoded_len(text: &[u8]) -> usize {
    text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1)
}

/// Decodes the bytes from `start` up to `end`. Returns `None` if they are not there or not Base64.
pub fn decode(text: &[u8], start: usize, end: usize) -> Option<Vec<u8>> {
    if start > end || end > decoded_len(text) {
        return None;
    }
    // Four digits encode three bytes.
    let first = start / 3;
    let digits = text.get(first * 4..text.len().min(end.div_ceil(3) * 4))?;
    let mut bytes = URL_SAFE_NO_PAD.decode(digits).ok()?;
    let skip = start - first * 3;
    bytes.truncate(skip + (end - start));
    bytes.drain(..skip);
    (bytes.len() == end - start).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
