//! Texts of the user as messages show them.

/// The longest value that an error shows, in characters.
const SHOWN: usize = 80;

/// The beginning of a text, with dots if something is left out.
pub fn shortened(text: &str) -> String {
    cut(text, SHOWN)
}

/// Up to `characters` characters of a text, and dots if there are more.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("{beginning}..."),
        None => text.to_owned(),
    }
}
