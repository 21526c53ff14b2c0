//! Wraps text at words.

use anstream::adapter::strip_str;

/// Returns the lines of a text that is wrapped at a number of columns. A word that is longer has a line of its own.
/// Styles take no columns.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the number of columns that a text takes.
pub fn width(text: &str) -> usize {
    strip_str(text).map(|part| part.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_at_words() {
        assert_eq!(wrapped("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("incomprehensibilities", 5), ["incomprehensibilities"]);
        assert_eq!(wrapped("", 5), [""; 0]);
    }

    #[test]
    fn styles_take_no_columns() {
        assert_eq!(wrapped("\u{1b}[31mone\u{1b}[0m two three", 7), ["\u{1b}[31mone\u{1b}[0m two", "three"]);
        assert_eq!(width("\u{1b}[31mone\u{1b}[0m"), 3);
    }
}
