//! A part of a text.

use std::ops::Range;

/// A part of a text that is read on its own: a document with its marker and comments, or text without a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bytes of the whole part. Between two parts may be white space, or the directives of the second.
    pub whole: Range<usize>,
    /// The bytes without the marker and a byte order mark, but with directives.
    pub(crate) content: Range<usize>,
    /// Whether the text is a stream of JSON values, of which this is one.
    pub is_json: bool,
}
