//! Places in a text.

use crate::manifest::Source;

use std::ops::Range;
use std::sync::Arc;

/// A range of characters in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The text.
    pub source: Arc<Source>,
    /// The byte range of the characters. Not empty, unless the text has no visible character there.
    pub span: Range<usize>,
}

/// A position in a text, as editors show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

impl FilePlace {
    /// Creates a place. Moves an empty or out-of-range `span` so that a caret can point at it.
    pub fn new(source: &Arc<Source>, span: Range<usize>) -> Self {
        let span = visible(&source.text, span);
        Self { source: Arc::clone(source), span }
    }

    /// Returns the place of the character at a position, or of the line's or text's end if it is shorter.
    pub fn at(source: &Arc<Source>, line: usize, column: usize) -> Self {
        let text = &source.text;
        let start = source.line_start(line);
        let rest = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
        let offset = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(offset, _)| offset);
        Self::new(source, start + offset..start + offset)
    }

    /// Returns the position of the first character.
    pub fn start(&self) -> Position {
        position(&self.source, self.span.start)
    }

    /// Returns the position after the last character.
    pub fn end(&self) -> Position {
        position(&self.source, self.span.end)
    }

    /// Returns the first line, without its line break, and the byte range of the place in it.
    pub fn first_line(&self) -> (&str, Range<usize>) {
        let text = &self.source.text;
        let before = text.get(..self.span.start).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
        let end = self.span.end.saturating_sub(start).min(line.len());
        let from = self.span.start.saturating_sub(start).min(end);
        (line, from..end)
    }
}

/// Returns a span of at least one character if possible, without trailing space and line breaks.
fn visible(text: &str, span: Range<usize>) -> Range<usize> {
    let start = floor(text, span.start.min(text.len()));
    let end = floor(text, span.end.min(text.len()));
    let inside = text.get(start..end).unwrap_or_default().trim_end();
    if !inside.is_empty() {
        return start..start + inside.len();
    }
    match text.get(start..).and_then(|rest| rest.chars().next()) {
        Some(first) if first != '\n' && first != '\r' => start..start + first.len_utf8(),
        // At the end of a line, use its last character.
        _ => match text.get(..start).and_then(|before| before.chars().next_back()) {
            Some(last) if last != '\n' => start - last.len_utf8()..start,
            _ => start..start,
        },
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn position(source: &Source, offset: usize) -> Position {
    let line = source.line(offset);
    let before = source.text.get(source.line_start(line)..offset).unwrap_or_default();
    Position { line, column: before.chars().count() + 1 }
}
