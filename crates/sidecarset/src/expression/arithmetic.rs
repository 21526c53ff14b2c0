//! The arithmetic of expressions (EXPR-7).
//!
//! Results must equal those of the reference, so the floating-point operations have the same order: a quantity counts
//! as its thousandths, rounded up, as a float64, and a result is truncated to whole thousandths. Overflow and infinity
//! are errors, unlike in the reference.

use pillion_kubernetes::quantity::{Format, Quantity};

use super::ExpressionError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// An intermediate value.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Number(f64),
    Quantity(Quantity),
    /// A quantity that depends on the variable, whose value is not known yet. Only its type is known.
    Unknown,
}

/// The most decimal digits of an intermediate sum, those of a nano included. A result has at most 19 digits before the
/// point; adding to a number of thousands of digits takes long (E18).
const DIGITS_MAX: usize = 63;

/// 2⁶³ as a float: the first value beyond `i64`.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

/// Returns the integer part of `value`, if it fits.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked, and the fraction is to be cut off")]
pub(super) fn to_i64(value: f64) -> Option<i64> {
    (-I64_END..I64_END).contains(&value).then_some(value as i64)
}

/// Returns the least integer that is not below `value`, if it fits.
pub(super) fn to_i64_ceil(value: f64) -> Option<i64> {
    let cut = to_i64(value)?;
    // A float with a fraction is far from the limits of `i64`.
    Some(if to_f64(cut) < value { cut + 1 } else { cut })
}

#[expect(clippy::cast_precision_loss, reason = "the reference computes with the nearest float")]
fn to_f64(value: i64) -> f64 {
    value as f64
}

/// Converts a plain number to a quantity, truncated to thousandths.
pub(super) fn number_to_quantity(number: f64) -> Option<Quantity> {
    Some(Quantity::from_milli(to_i64(number * 1000.0)?, Format::DecimalSi))
}

fn finite(number: f64) -> Option<Operand> {
    number.is_finite().then_some(Operand::Number(number))
}

/// Applies `change` to the thousandths of `quantity`, keeping its format.
fn scaled(quantity: &Quantity, change: impl FnOnce(f64) -> f64) -> Option<Operand> {
    let milli = to_i64(change(to_f64(quantity.to_milli_ceil()?)))?;
    Some(Operand::Quantity(Quantity::from_milli(milli, quantity.format())))
}

/// Joins two operands as quantities. A number counts as its thousandths. Returns `None` on overflow.
fn joined(left: Operand, right: Operand, join: fn(Quantity, Quantity) -> Option<Quantity>) -> Option<Operand> {
    let to_quantity = |operand| match operand {
        Operand::Number(number) => number_to_quantity(number).map(Operand::Quantity),
        quantity => Some(quantity),
    };
    match (to_quantity(left)?, to_quantity(right)?) {
        (Operand::Quantity(left), Operand::Quantity(right)) => {
            join(left, right).filter(|joined| !joined.is_longer_than(DIGITS_MAX)).map(Operand::Quantity)
        }
        _ => Some(Operand::Unknown),
    }
}

/// Computes `left operator right`.
pub(super) fn apply(
    operator: Operator,
    column: usize,
    left: Operand,
    right: Operand,
) -> Result<Operand, ExpressionError> {
    use Operand::{Number, Quantity, Unknown};
    let result = match (operator, left, right) {
        (Operator::Add, Number(left), Number(right)) => finite(left + right),
        (Operator::Subtract, Number(left), Number(right)) => finite(left - right),
        (Operator::Add, left, right) => joined(left, right, |left, right| left.increased(&right)),
        (Operator::Subtract, left, right) => joined(left, right, |left, right| left.checked_sub(&right)),
        (Operator::Multiply, Number(left), Number(right)) => finite(left * right),
        (Operator::Multiply, Number(number), Quantity(quantity))
        | (Operator::Multiply, Quantity(quantity), Number(number)) => scaled(&quantity, |milli| milli * number),
        (Operator::Multiply, Quantity(_) | Unknown, Quantity(_) | Unknown) => {
            return Err(ExpressionError::QuantityTimesQuantity { column });
        }
        (Operator::Divide, _, Quantity(_) | Unknown) => return Err(ExpressionError::DivisionByQuantity { column }),
        (Operator::Divide, _, Number(0.0)) => return Err(ExpressionError::DivisionByZero { column }),
        (Operator::Divide, Number(left), Number(right)) => finite(left / right),
        (Operator::Divide, Quantity(quantity), Number(number)) => scaled(&quantity, |milli| milli / number),
        (Operator::Multiply, Number(_), Unknown) | (Operator::Multiply | Operator::Divide, Unknown, Number(_)) => {
            Some(Unknown)
        }
    };
    result.ok_or(ExpressionError::Overflow { column })
}

/// Returns the greater or the lesser operand, or the left one if they are equal.
pub(super) fn pick(greater: bool, column: usize, left: Operand, right: Operand) -> Result<Operand, ExpressionError> {
    if let (Operand::Number(left), Operand::Number(right)) = (&left, &right) {
        let takes_left = if greater { left >= right } else { left <= right };
        return Ok(Operand::Number(if takes_left { *left } else { *right }));
    }
    let result = if greater {
        joined(left, right, |left, right| Some(if left >= right { left } else { right }))
    } else {
        joined(left, right, |left, right| Some(if left <= right { left } else { right }))
    };
    result.ok_or(ExpressionError::Overflow { column })
}

/// Computes `-operand`.
pub(super) fn negated(operand: Operand) -> Operand {
    match operand {
        Operand::Number(number) => Operand::Number(-number),
        Operand::Quantity(quantity) => Operand::Quantity(quantity.negated()),
        Operand::Unknown => Operand::Unknown,
    }
}
