//! Lines on a terminal.

use std::io::{self, Write};

use pillion_terminal::wrap::{width, wrapped};

/// The least number of columns for words: in a narrower terminal, lines are longer than it.
const LEAST: usize = 20;

/// Writes lines, wrapped at words if the width is known.
pub struct Page<'a> {
    out: &'a mut dyn Write,
    columns: Option<usize>,
}

impl<'a> Page<'a> {
    /// Returns a page with this number of columns; `None` for a file or a pipe, in which a line stays a line.
    pub fn new(out: &'a mut dyn Write, columns: Option<usize>) -> Self {
        Self { out, columns }
    }

    /// Writes `start` and a text. The lines on which it goes on begin with `indent` spaces.
    ///
    /// # Errors
    /// If the stream takes no more.
    pub fn line(&mut self, start: &str, indent: usize, text: &str) -> io::Result<()> {
        let Some(columns) = self.columns else { return writeln!(self.out, "{start}{text}") };
        let room = columns.saturating_sub(indent.max(width(start))).max(LEAST);
        let mut lines = wrapped(text, room).into_iter();
        writeln!(self.out, "{start}{}", lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(self.out, "{:indent$}{line}", ""))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_pipe(None, "  a  one two three four five six seven\n")]
    #[case::wide(Some(80), "  a  one two three four five six seven\n")]
    #[case::narrow(Some(28), "  a  one two three four\n       five six seven\n")]
    #[case::narrower_than_any_terminal(Some(3), "  a  one two three four\n       five six seven\n")]
    fn lines_go_on_below_their_text(#[case] columns: Option<usize>, #[case] expected: &str) {
        let mut out = Vec::new();
        Page::new(&mut out, columns).line("  a  ", 7, "one two three four five six seven").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
