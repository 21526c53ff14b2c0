//! Errors of expressions.

use super::Slot;

/// The reason why an expression is refused or has no result. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// An unexpected token.
    #[error("syntax error at column {column}: found {found}, expected {expected}")]
    Syntax {
        /// The column of the token.
        column: usize,
        /// The token, quoted, or `the end`.
        found: String,
        /// The tokens that are valid here.
        expected: &'static str,
    },
    /// A malformed number.
    #[error(
        "malformed number {literal:?} at column {column}: use a number (1.5, 1e3), a percentage (50%), or a number with one of the suffixes m k M G T P Ki Mi Gi Ti Pi"
    )]
    Literal {
        /// The column where the number starts.
        column: usize,
        /// The text.
        literal: String,
    },
    /// A number beyond 64 bits, either written or computed.
    #[error("overflow at column {column}: numbers must stay below 2^63 thousandths")]
    Overflow {
        /// The column of the literal or the operator.
        column: usize,
    },
    /// A name that is not a variable.
    #[error("undefined variable: {name} at column {column}: the variables are cpu and memory")]
    UnknownVariable {
        /// The column of the token.
        column: usize,
        /// The name as written.
        name: String,
    },
    /// `memory` in an expression for cpu, or `cpu` in one for memory.
    #[error("undefined variable: {} at column {column}: the only variable here is {}", .found.variable(), .found.other().variable())]
    WrongVariable {
        /// The column of the token.
        column: usize,
        /// The variable that was found.
        found: Slot,
    },
    /// A call of a function other than `max` and `min`.
    #[error("unknown function: {name} at column {column}: the functions are max(a, b) and min(a, b)")]
    UnknownFunction {
        /// The column of the token.
        column: usize,
        /// The name as written.
        name: String,
    },
    /// A call that does not have two arguments.
    #[error("{name} at column {column} requires exactly 2 arguments, got {got}")]
    Arguments {
        /// The column of the token.
        column: usize,
        /// `max` or `min`.
        name: &'static str,
        /// The number of arguments.
        got: usize,
    },
    /// Parentheses, calls and signs are nested deeper than the limit.
    #[error("nested too deeply at column {column}: at most {limit} levels of parentheses, calls and signs", limit = pillion_kubernetes::json::MAX_DEPTH)]
    TooDeep {
        /// The column where the first level beyond the limit starts.
        column: usize,
    },
    /// `cpu * cpu`.
    #[error("multiplication of two quantities at column {column}: one of the factors must be a plain number")]
    QuantityTimesQuantity {
        /// The column of the operator.
        column: usize,
    },
    /// `1 / cpu`.
    #[error("division by quantity at column {column}: the divisor must be a plain number")]
    DivisionByQuantity {
        /// The column of the operator.
        column: usize,
    },
    /// `cpu / 0`.
    #[error("division by zero at column {column}")]
    DivisionByZero {
        /// The column of the operator.
        column: usize,
    },
    /// The result of the whole expression is below 0.
    #[error("calculation result is negative: {0}; max(0, ...) keeps it from falling below zero")]
    Negative(String),
}
