//! Regular expressions written by users: RE2's syntax, as in Go, executed by `regex-lite`.
//!
//! It never runs longer than its limit on cost allows. Start with [`Pattern`].
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;
mod translate;

use std::cell::OnceCell;

use regex_lite::{Regex, RegexBuilder};
use thiserror::Error;

/// The maximum length of a text, in bytes. No Kubernetes name is longer: the longest are keys of annotations, with a
/// prefix of 253 bytes, a slash and a name of 63 bytes.
const TEXT_MAX: usize = 317;
/// The maximum length of an expression, in bytes. An expression may have many characters in few steps: `[abc…]`.
const EXPRESSION_MAX: usize = 64 * 1024;
/// The maximum number of steps of all expressions in a whitelist together. An expression takes at least 150 bytes of
/// memory.
pub const STEPS_TOGETHER_MAX: usize = 1 << 16;
/// The message for a whitelist with more steps.
pub const TOO_MANY_EXPRESSIONS: &str = "too many or too long expressions: all of them together may have 65,536 steps; a character is a step, and {n} repeats";
/// The maximum effort of all matches of one request: steps of expressions, and two more, times bytes of texts (E18).
pub const EFFORT_MAX: usize = 1_500_000;
/// The maximum number of steps of an expression. The compiler copies the repeated part for each round of a repetition,
/// and a match takes each step for each character of the text.
const STEPS_MAX: usize = 1 << 13;
/// The maximum number of rounds of a repetition, and of nested repetitions multiplied: RE2's limit.
const ROUNDS_MAX: usize = 1000;
/// The cost of compiling one step, in steps of a match of one byte.
const COMPILING: usize = 8;
/// The cost of a byte that does not depend on the expression, in steps.
const EACH_BYTE: usize = 2;
/// The cost of a match that does not depend on its text, in steps of a match of one byte.
const EACH_MATCH: usize = 8;
/// The maximum nesting of groups, repetitions, sequences and alternatives: the limit of `regex-lite`.
const DEPTH_MAX: usize = 50;
/// The maximum size of a compiled expression, in bytes. [`STEPS_MAX`] keeps every expression far below it on every
/// platform, so only an error in the count of steps can exceed it.
const BYTES_MAX: usize = 4 << 20;

/// The reason why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The expression ends with a backslash.
    #[error("it ends with a backslash")]
    TrailingBackslash,
    /// An escape that RE2 does not have, or that needs its Unicode tables.
    #[error("\\{0} is not supported")]
    Escape(char),
    /// A Unicode class.
    #[error("\\p is not supported; list the characters in brackets")]
    UnicodeClass,
    /// A quoted text.
    #[error("\\Q...\\E is not supported; put a backslash before each special character")]
    Quoted,
    /// A reference to a group, or an octal code.
    #[error("back references are not supported")]
    BackReference,
    /// An invalid code point.
    #[error("\\x is not followed by two hexadecimal digits, or by a code point in braces")]
    CodePoint,
    /// A class without a closing bracket.
    #[error("a bracket is not closed")]
    OpenClass,
    /// `[:name:]` with an unknown name.
    #[error("[:{0}:] is no class")]
    NamedClass(String),
    /// A range in a class that does not go from a character to the same or a later one.
    #[error("a range in a class does not go from one character to a later one")]
    Range,
    /// A group without a closing parenthesis.
    #[error("a parenthesis is not closed")]
    OpenGroup,
    /// A closing parenthesis without an opening one.
    #[error("a closing parenthesis has no opening one")]
    ClosedGroup,
    /// `(?` with a continuation that RE2 does not have.
    #[error("(? is not followed by a name, by flags (i, m, s, U) or by a colon")]
    Flags,
    /// A group name that is empty or has other characters.
    #[error("the name of a group may have letters, digits and underscores")]
    GroupName,
    /// A group name that appears twice.
    #[error("two groups have the same name")]
    SameName,
    /// A repetition without a part before it.
    #[error("there is nothing to repeat")]
    NothingToRepeat,
    /// A repetition directly after another one.
    #[error("a repetition of a repetition; use parentheses")]
    RepeatedRepetition,
    /// A repetition with a minimum above its maximum: `{2,1}`.
    #[error("the minimum number of rounds of a repetition is greater than its maximum")]
    Rounds,
    /// A repetition with more than [`ROUNDS_MAX`] rounds.
    #[error("repetitions may have at most {ROUNDS_MAX} rounds; those of nested ones multiply")]
    TooManyRounds,
    /// An expression with more than [`STEPS_MAX`] steps.
    #[error("it is too large: repetitions multiply")]
    TooLarge,
    /// An expression with more than [`EXPRESSION_MAX`] bytes.
    #[error("it has more than {EXPRESSION_MAX} bytes; make several of it")]
    TooLong,
    /// An expression that is nested more than [`DEPTH_MAX`] deep.
    #[error("it is nested too deeply")]
    TooDeep,
}

/// A regular expression. The first match compiles it, so validating it costs only time proportional to its length.
#[derive(Clone, Debug)]
pub struct Pattern {
    translation: String,
    steps: usize,
    regex: OnceCell<Option<Regex>>,
}

impl Pattern {
    /// Parses an expression.
    ///
    /// Refuses what RE2 refuses, and also `\p{...}`, `\P{...}`, `\Q...\E`, `\C` and octal codes. Names of containers
    /// and keys of annotations are ASCII, so differences in other characters do not matter.
    ///
    /// # Errors
    /// The problem, and for some of them the alternative.
    ///
    /// # Examples
    /// ```
    /// use pillion_pattern::{Pattern, PatternError};
    ///
    /// for (expression, error) in [
    ///     (r"\p{Greek}", PatternError::UnicodeClass),
    ///     (r"(a)\1", PatternError::BackReference),
    ///     ("(?=a)", PatternError::Flags), // RE2 has no lookahead
    ///     ("(a", PatternError::OpenGroup),
    ///     ("a**", PatternError::RepeatedRepetition),
    ///     ("a{2,1}", PatternError::Rounds),
    ///     ("a{1001}", PatternError::TooManyRounds),
    ///     ("(a{100}){100}", PatternError::TooManyRounds),
    /// ] {
    ///     assert_eq!(Pattern::new(expression).unwrap_err(), error);
    /// }
    /// ```
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.len() > EXPRESSION_MAX {
            return Err(PatternError::TooLong);
        }
        let (translation, steps) = translate::translate(text)?;
        Ok(Self { translation, steps, regex: OnceCell::new() })
    }

    /// Returns the compiled expression. The engine compiles every translated expression; the tests check this. If it
    /// failed nevertheless, no text would match, and both rules that use expressions would refuse.
    fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| RegexBuilder::new(&self.translation).size_limit(BYTES_MAX).build().ok()).as_ref()
    }

    /// Returns the number of steps of the expression, at least one.
    pub const fn steps(&self) -> usize {
        self.steps + 1
    }

    /// Whether the expression matches anywhere in `text`. The time is proportional to the lengths of both. A text of
    /// more than 317 bytes is not a name and does not match.
    ///
    /// # Examples
    /// ```
    /// use pillion_pattern::Pattern;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for (expression, text, matches) in [
    ///     ("example", "my.example.com/key", true), // matches anywhere
    ///     ("^example", "my.example.com/key", false),
    ///     (r"^my\.example\.com/[a-z]+$", "my.example.com/key", true),
    ///     ("(?i)KEY$", "my.example.com/key", true),
    /// ] {
    ///     assert_eq!(Pattern::new(expression)?.is_match(text), matches);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_match(&self, text: &str) -> bool {
        text.len() <= TEXT_MAX && self.regex().is_some_and(|regex| regex.is_match(text))
    }

    /// Returns an upper bound for the effort of matching `text`, including compilation if this is the first text.
    /// Callers compare the sum of all efforts with [`EFFORT_MAX`].
    pub fn effort(&self, text: &str) -> usize {
        if text.len() > TEXT_MAX {
            return 1;
        }
        let compiling = if self.regex.get().is_none() { COMPILING } else { 0 };
        self.steps() * compiling + (self.steps() + EACH_BYTE) * (text.len() + 1) + EACH_MATCH
    }
}
