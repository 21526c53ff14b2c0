//! Texts of the user as messages show them.

/// The longest value that an error shows, in characters.
const SHOWN: usize = 80;

/// The beginning of a text, with dots if something is left out.
pub(crate) fn shortened(text: &str) -> String {
    cut(text, SHOWN)
}

/// Up to `characters` characters of a text, and dots if there are more.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("{beginning}..."),
        None => text.to_owned(),
    }
}

/// A text in quotes and on one line, as Rust's `{:?}` writes it: what would break the line, or hide or turn parts of
/// it, is escaped. (That of the standard library knows every character of Unicode, which is seven kilobytes.)
pub(crate) fn quoted(text: &str) -> String {
    quoted_in('"', text)
}

/// [`quoted`] with another quotation mark.
pub(crate) fn quoted_in(mark: char, text: &str) -> String {
    let mut quoted = String::new();
    quoted.push(mark);
    for character in text.chars() {
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\0' => quoted.push_str("\\0"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{1}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => quoted.extend(character.escape_unicode()),
            _ => {
                if character == mark {
                    quoted.push('\\');
                }
                quoted.push(character);
            }
        }
    }
    quoted.push(mark);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_or_hides_a_line_is_escaped() {
        for text in [
            "",
            "a b",
            "say \"no\" \\ 'yes'",
            "1\n2\r\t3",
            "\u{1b}[31m",
            "é 日本 \u{202e}abc\u{200b}",
            "\u{85}\u{2028}\0",
        ] {
            assert_eq!(quoted(text), format!("{text:?}"));
        }
    }
}
