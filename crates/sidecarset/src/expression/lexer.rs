//! Splitting of a text into tokens (EXPR-6).

use std::iter::Peekable;
use std::str::Chars;

use pillion_kubernetes::quantity::{Quantity, QuantityError};

use super::ExpressionError;

/// The suffixes of quantities; exa, micro and nano are not part of the language.
const UNITS: [&str; 11] = ["m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Quantity(Quantity),
    Name(String),
    /// One of `+ - * / ( ) ,`, or a character that is not part of the language.
    Symbol(char),
    End,
}

/// Reads one token at a time.
pub(super) struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    /// The column of the next character.
    column: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), column: 1 }
    }

    fn take(&mut self, accepts: impl FnOnce(char) -> bool) -> Option<char> {
        let character = self.rest.next_if(|character| accepts(*character))?;
        self.column = self.column.saturating_add(1);
        Some(character)
    }

    /// Returns the next token with the column where it starts.
    pub(super) fn next(&mut self) -> Result<(Token, usize), ExpressionError> {
        while self.take(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')).is_some() {}
        let column = self.column;
        let token = match self.rest.peek() {
            None => Token::End,
            Some(first) if first.is_ascii_digit() || *first == '.' => self.number(column)?,
            Some(first) if first.is_alphabetic() => {
                let mut name = String::new();
                while let Some(character) = self.take(|c| c.is_alphanumeric() || c == '_') {
                    name.push(character);
                }
                Token::Name(name)
            }
            Some(_) => self.take(|_| true).map_or(Token::End, Token::Symbol),
        };
        Ok((token, column))
    }

    fn number(&mut self, column: usize) -> Result<Token, ExpressionError> {
        // All characters up to a space or an operator belong to the number.
        let mut text = String::new();
        loop {
            let exponent = text.strip_suffix(['e', 'E']).is_some_and(is_mantissa);
            let Some(character) = self
                .take(|c| c.is_alphanumeric() || matches!(c, '.' | '%' | '_') || (exponent && matches!(c, '+' | '-')))
            else {
                return literal(text, column);
            };
            text.push(character);
        }
    }
}

/// Whether the text is digits with at most one point.
fn is_mantissa(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!whole.is_empty() || !fraction.is_empty()) && digits(whole) && digits(fraction)
}

fn is_number(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return is_mantissa(text) };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    is_mantissa(mantissa) && !exponent.is_empty() && exponent.bytes().all(|byte| byte.is_ascii_digit())
}

fn literal(text: String, column: usize) -> Result<Token, ExpressionError> {
    let (number, percent) = text.strip_suffix('%').map_or((text.as_str(), false), |number| (number, true));
    if is_number(number) {
        return match number.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Number(if percent { value / 100.0 } else { value })),
            _ => Err(ExpressionError::Overflow { column }),
        };
    }
    let number = text.trim_end_matches(|c: char| c.is_alphabetic());
    if is_mantissa(number) && UNITS.iter().any(|unit| text.strip_prefix(number) == Some(unit)) {
        match Quantity::parse(&text) {
            Ok(quantity) => return Ok(Token::Quantity(quantity)),
            Err(QuantityError::TooLarge) => return Err(ExpressionError::Overflow { column }),
            Err(_) => {}
        }
    }
    Err(ExpressionError::Literal { column, literal: text })
}
