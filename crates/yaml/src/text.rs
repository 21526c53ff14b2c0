//! The text of a file, in the encodings that editors and shells write.

use std::borrow::Cow;

/// A file is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoText {
    /// Neither UTF-8 nor marked as UTF-16.
    #[error("line {line} is not UTF-8: save the file as UTF-8")]
    NotUtf8 {
        /// The line of the first byte that is wrong, from 1.
        line: usize,
    },
    /// Marked as UTF-16, which it is not.
    #[error("line {line} is not UTF-16, although the file starts with its mark: save the file as UTF-8")]
    NotUtf16 {
        /// The line of the first character that is wrong, from 1.
        line: usize,
    },
}

/// Returns the text of a file: UTF-8, or UTF-16 with a byte order mark, as Windows PowerShell writes it. The mark is left
/// out.
///
/// # Errors
/// If the file is something else.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, NoText> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest).map(Cow::Borrowed),
        all => utf8(all).map(Cow::Borrowed),
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, NoText> {
    str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        NoText::NotUtf8 { line: before.split(|byte| *byte == b'\n').count() }
    })
}

fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Result<String, NoText> {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(units.len());
    for char in char::decode_utf16(units.iter().map(|bytes| unit(*bytes))) {
        match char {
            Ok(char) => text.push(char),
            Err(_) => return Err(NoText::NotUtf16 { line: 1 + text.matches('\n').count() }),
        }
    }
    if rest.is_empty() { Ok(text) } else { Err(NoText::NotUtf16 { line: 1 + text.matches('\n').count() }) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn encoded(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[rstest]
    #[case::utf8("a: ä\n".into())]
    #[case::marked_utf8("\u{feff}a: ä\n".into())]
    #[case::utf16_of_powershell(encoded("\u{feff}a: ä\n", u16::to_le_bytes))]
    #[case::utf16_of_networks(encoded("\u{feff}a: ä\n", u16::to_be_bytes))]
    fn files_of_editors_and_shells_are_texts(#[case] bytes: Vec<u8>) {
        assert_eq!(decode(&bytes).unwrap(), "a: ä\n");
    }

    #[rstest]
    #[case::latin(b"a: 1\nb: \xe4\n".into(), NoText::NotUtf8 { line: 2 })]
    #[case::utf16_without_a_mark(encoded("a: ä", u16::to_le_bytes), NoText::NotUtf8 { line: 1 })]
    #[case::half_a_character([encoded("\u{feff}a\nb", u16::to_le_bytes), vec![0x20]].concat(), NoText::NotUtf16 { line: 2 })]
    #[case::half_a_pair(vec![0xff, 0xfe, 0x00, 0xd8], NoText::NotUtf16 { line: 1 })]
    fn other_files_are_told_to_be_saved_as_utf8(#[case] bytes: Vec<u8>, #[case] error: NoText) {
        assert_eq!(decode(&bytes), Err(error));
        assert!(error.to_string().ends_with("save the file as UTF-8"));
    }
}
