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

/// No text that is longer is a name of Kubernetes: the longest are keys of annotations, with 317 bytes.
const TEXT_MAX: usize = 512;
/// The longest expression, in bytes. One may have many characters in few steps: `[abc…]`.
const EXPRESSION_MAX: usize = 4_096;
/// How many steps the expressions of a whitelist may have together; an expression takes 150 bytes of memory and more.
pub const STEPS_TOGETHER_MAX: usize = 1 << 16;
/// The problem with a whitelist of more.
pub const TOO_MANY_EXPRESSIONS: &str = "too many or too long expressions: all of them together may have 65,536 steps; a character is a step, and {n} repeats";
/// How much all matches of one request may take together: steps of expressions times bytes of texts (E18).
pub const EFFORT_MAX: usize = 8_000_000;

impl Pattern {
    /// Compiles an expression. The error says what is wrong and what to use instead.
    ///
    /// What RE2 refuses is refused. `\p{...}`, `\P{...}`, `\Q...\E` and `\C` are refused too: the engine is small, and
    /// names of containers and keys of annotations are ASCII.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > EXPRESSION_MAX {
            return Err(format!("it has more than {EXPRESSION_MAX} bytes; make several of it"));
        }
        parse::parse(text).map(Self)
    }

    /// How many steps the expression has, one at least.
    pub const fn steps(&self) -> usize {
        self.0.steps.len().saturating_add(1)
    }

    /// Whether the expression matches anywhere in `text`. Takes time in proportion to both. A text of more than 512 bytes is
    /// no name, and does not match.
    pub fn is_match(&self, text: &str) -> bool {
        text.len() <= TEXT_MAX && self.0.is_match(text)
    }

    /// What a match of `text` takes at most; the sum of all is compared with [`EFFORT_MAX`].
    pub fn effort(&self, text: &str) -> usize {
        if text.len() > TEXT_MAX { 1 } else { self.steps().saturating_mul(text.len() + 1) }
    }
}
