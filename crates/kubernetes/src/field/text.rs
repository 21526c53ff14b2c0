//! Shortening of user texts for messages.

/// The maximum number of characters that an error shows of a value.
const SHOWN: usize = 80;

/// Returns the beginning of a text, with dots if something is left out.
pub fn shortened(text: &str) -> String {
    cut(text, SHOWN)
}

/// Returns up to `characters` characters of a text, with dots if there are more.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("{beginning}..."),
        None => text.to_owned(),
    }
}
