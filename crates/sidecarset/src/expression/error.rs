//! What can be wrong with an expression.

use super::Slot;

/// Why an expression is refused, or has no result. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// A token where another one has to stand.
    #[error("syntax error at column {column}: found {found}, expected {expected}")]
    Syntax {
        /// Where.
        column: usize,
        /// The token, quoted, or `the end`.
        found: String,
        /// What may stand here.
        expected: &'static str,
    },
    /// Something that starts like a number and is none.
    #[error(
        "malformed number {literal:?} at column {column}: use a number (1.5, 1e3), a percentage (50%), or a number with one of the suffixes m k M G T P Ki Mi Gi Ti Pi"
    )]
    Literal {
        /// Where it starts.
        column: usize,
        /// The text.
        literal: String,
    },
    /// A number beyond 64 bits, written or computed.
    #[error("overflow at column {column}: numbers must stay below 2^63 thousandths")]
    Overflow {
        /// The literal or the operator.
        column: usize,
    },
    /// A name that is no variable.
    #[error("undefined variable: {name} at column {column}: the variables are cpu and memory")]
    UnknownVariable {
        /// Where.
        column: usize,
        /// The name as written.
        name: String,
    },
    /// `memory` in an expression for cpu, or the other way round.
    #[error("undefined variable: {} at column {column}: the only variable here is {}", .found.variable(), .found.other().variable())]
    WrongVariable {
        /// Where.
        column: usize,
        /// The variable that stands there.
        found: Slot,
    },
    /// A call of something else than `max` and `min`.
    #[error("unknown function: {name} at column {column}: the functions are max(a, b) and min(a, b)")]
    UnknownFunction {
        /// Where.
        column: usize,
        /// The name as written.
        name: String,
    },
    /// A call with one argument, or with more than two.
    #[error("{name} at column {column} requires exactly 2 arguments, got {got}")]
    Arguments {
        /// Where.
        column: usize,
        /// `max` or `min`.
        name: &'static str,
        /// How many there are.
        got: usize,
    },
    /// More nested parentheses and signs than the limit.
    #[error("nested too deeply at column {column}: at most {limit} levels of parentheses, calls and signs", limit = pillion_kubernetes::json::MAX_DEPTH)]
    TooDeep {
        /// Where the level begins that is one too many.
        column: usize,
    },
    /// `cpu * cpu`.
    #[error("multiplication of two quantities at column {column}: one of the factors must be a plain number")]
    QuantityTimesQuantity {
        /// The operator.
        column: usize,
    },
    /// `1 / cpu`.
    #[error("division by quantity at column {column}: the divisor must be a plain number")]
    DivisionByQuantity {
        /// The operator.
        column: usize,
    },
    /// `cpu / 0`.
    #[error("division by zero at column {column}")]
    DivisionByZero {
        /// The operator.
        column: usize,
    },
    /// The result of the whole expression is below 0.
    #[error("calculation result is negative: {0}; max(0, ...) keeps it from falling below zero")]
    Negative(String),
}
