//! Regular expressions that users write: RE2's syntax, as Go has it, run by `regex-lite`.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;
mod translate;

use std::cell::OnceCell;

use regex_lite::{Regex, RegexBuilder};
use thiserror::Error;

/// No text that is longer is a name of Kubernetes: the longest are keys of annotations, with 317 bytes.
const TEXT_MAX: usize = 512;
/// The longest expression, in bytes. One may have many characters in few steps: `[abc…]`.
const EXPRESSION_MAX: usize = 64 * 1024;
/// How many steps the expressions of a whitelist may have together; an expression takes 150 bytes of memory and more.
pub const STEPS_TOGETHER_MAX: usize = 1 << 16;
/// The problem with a whitelist of more.
pub const TOO_MANY_EXPRESSIONS: &str = "too many or too long expressions: all of them together may have 65,536 steps; a character is a step, and {n} repeats";
/// How much all matches of one request may take together: steps of expressions times bytes of texts (E18).
pub const EFFORT_MAX: usize = 2_000_000;
/// The most steps of an expression. Repetitions write their part out, and each step is taken for each character of a text.
const STEPS_MAX: usize = 1 << 13;
/// The most rounds of a repetition, and of nested ones together: RE2's limit.
const ROUNDS_MAX: usize = 1000;
/// What it takes to compile a step, in steps of a match of one byte.
const COMPILING: usize = 8;
/// How deep groups, repetitions, sequences and alternatives may be nested: the limit of `regex-lite`.
const DEPTH_MAX: usize = 50;
/// How many bytes a compiled expression may take. [`STEPS_MAX`] keeps every expression far below it, on every platform; so
/// this catches only an error in the count of steps.
const BYTES_MAX: usize = 4 << 20;

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Nothing follows a backslash.
    #[error("it ends with a backslash")]
    TrailingBackslash,
    /// An escape that RE2 does not have, or that its Unicode tables would be needed for.
    #[error("\\{0} is not supported")]
    Escape(char),
    /// A class of Unicode.
    #[error("\\p is not supported; list the characters in brackets")]
    UnicodeClass,
    /// A quoted text.
    #[error("\\Q...\\E is not supported; put a backslash before each special character")]
    Quoted,
    /// A reference to a group, or an octal code.
    #[error("back references are not supported")]
    BackReference,
    /// A code point that is none.
    #[error("\\x is not followed by two hexadecimal digits, or by a code point in braces")]
    CodePoint,
    /// A class without its closing bracket.
    #[error("a bracket is not closed")]
    OpenClass,
    /// `[:name:]` with another name.
    #[error("[:{0}:] is no class")]
    NamedClass(String),
    /// A range in a class whose end comes before its start.
    #[error("a range in a class does not go from one character to a later one")]
    Range,
    /// A group without its closing parenthesis.
    #[error("a parenthesis is not closed")]
    OpenGroup,
    /// A parenthesis that closes nothing.
    #[error("a parenthesis is closed that is not open")]
    ClosedGroup,
    /// A question mark after a parenthesis with something that RE2 does not have.
    #[error("(? is not followed by a name, by flags (i, m, s, U) or by a colon")]
    Flags,
    /// A name of a group with other characters, or without any.
    #[error("the name of a group may have letters, digits and underscores")]
    GroupName,
    /// A name that two groups have.
    #[error("two groups have the same name")]
    SameName,
    /// A repetition at the beginning.
    #[error("there is nothing to repeat")]
    NothingToRepeat,
    /// A repetition directly after another.
    #[error("a repetition of a repetition; use parentheses")]
    RepeatedRepetition,
    /// `{2,1}`.
    #[error("a repetition has more rounds at least than at most")]
    Rounds,
    /// More than [`ROUNDS_MAX`].
    #[error("repetitions may have at most {ROUNDS_MAX} rounds; those of nested ones multiply")]
    TooManyRounds,
    /// More than [`STEPS_MAX`].
    #[error("it is too large: repetitions multiply")]
    TooLarge,
    /// More than [`EXPRESSION_MAX`].
    #[error("it has more than {EXPRESSION_MAX} bytes; make several of it")]
    TooLong,
    /// More than [`DEPTH_MAX`].
    #[error("it is nested too deeply")]
    TooDeep,
}

/// An expression. The first text compiles it: an expression that is only validated costs no more than its length.
#[derive(Clone, Debug)]
pub struct Pattern {
    translation: String,
    steps: usize,
    regex: OnceCell<Option<Regex>>,
}

impl Pattern {
    /// Reads an expression.
    ///
    /// What RE2 refuses is refused. `\p{...}`, `\P{...}`, `\Q...\E`, `\C` and octal codes are refused, too. Names of
    /// containers and keys of annotations are ASCII, so classes and letters that are not do not matter.
    ///
    /// # Errors
    /// What is wrong, and what to use instead.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.len() > EXPRESSION_MAX {
            return Err(PatternError::TooLong);
        }
        let (translation, steps) = translate::translate(text)?;
        Ok(Self { translation, steps, regex: OnceCell::new() })
    }

    /// The compiled expression. The engine takes everything that the translation lets through, which the tests hold
    /// together; of anything else nothing would match, and both rules that ask refuse then.
    fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| RegexBuilder::new(&self.translation).size_limit(BYTES_MAX).build().ok()).as_ref()
    }

    /// How many steps the expression has, one at least.
    pub const fn steps(&self) -> usize {
        self.steps + 1
    }

    /// Whether the expression matches anywhere in `text`. Takes time in proportion to both. A text of more than 512 bytes is
    /// no name, and does not match.
    pub fn is_match(&self, text: &str) -> bool {
        text.len() <= TEXT_MAX && self.regex().is_some_and(|regex| regex.is_match(text))
    }

    /// The most steps that a match of `text` takes, the compiling included if this text is the first. Callers add them up and
    /// compare the sum with [`EFFORT_MAX`].
    pub fn effort(&self, text: &str) -> usize {
        if text.len() > TEXT_MAX {
            return 1;
        }
        let compiling = if self.regex.get().is_none() { COMPILING } else { 0 };
        self.steps() * (text.len() + 1 + compiling)
    }
}
