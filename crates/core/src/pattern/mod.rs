//! Regular expressions that users write: RE2's syntax, as Go has it.
//!
//! A small engine: texts are names of containers and keys of annotations, the question is only whether they match, and
//! ASCII is all that `\w`, `\b` and `(?i)` know. `regex-lite`, which does all this and captures, too, is five times as
//! large and needs the standard library.

mod parse;
mod program;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod yardstick;

use program::Program;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Pattern(Program);

impl Pattern {
    /// Compiles an expression. The error says what is wrong and what to use instead.
    ///
    /// What RE2 refuses is refused. `\p{...}`, `\P{...}`, `\Q...\E` and `\C` are refused too: the engine is small, and
    /// names of containers and keys of annotations are ASCII.
    pub fn new(text: &str) -> Result<Self, String> {
        parse::parse(text).map(Self)
    }

    /// Whether the expression matches anywhere in `text`. Takes time in proportion to both.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}
