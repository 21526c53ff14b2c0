//! What is wrong with a text.

use std::ops::Range;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What is wrong, without the place.
    pub message: String,
    /// What to do, if there is more to say than the message.
    pub help: Option<&'static str>,
    /// The bytes of the text that are wrong.
    pub range: Range<usize>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>, range: Range<usize>) -> Self {
        Self { message: message.into(), help: None, range }
    }

    pub(crate) fn help(self, help: &'static str) -> Self {
        Self { help: Some(help), ..self }
    }

    /// Moves the place by the offset of the part that was read.
    pub(crate) fn moved(self, offset: usize) -> Self {
        Self { range: self.range.start + offset..self.range.end + offset, ..self }
    }
}
