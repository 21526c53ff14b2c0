//! The expressions of `resourcesPolicy`, which compute a sidecar's resources from those of other containers.
//!
//! The language is that of the reference (EXPR-3 to EXPR-10). Unlike in the reference, type errors are found when the
//! `SidecarSet` is admitted, not when a Pod is (DIFF-6 to DIFF-10).

mod aggregate;
mod arithmetic;
mod error;
mod lexer;
mod parser;
mod policy;
#[cfg(test)]
mod tests;

pub use aggregate::{Aggregate, Amounts, Limits, Mode, Requests, Section, aggregate};
pub use error::ExpressionError;
pub use policy::ResourcesPolicy;

use arithmetic::{Operand, Operator};
use pillion_kubernetes::quantity::{Format, Quantity};

/// The resource that an expression computes. It determines the variable and the unit. The reference guesses them from
/// the text (EXPR-4), which is unreliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Cores. The variable is `cpu`.
    Cpu,
    /// Whole bytes. The variable is `memory`.
    Memory,
}

impl Slot {
    /// Returns the name of the variable, which is also that of the resource.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// Returns the other resource.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Cpu,
        }
    }
}

/// A node of the syntax tree. Nodes are nested at most [`pillion_kubernetes::json::MAX_DEPTH`] deep, so that recursion
/// is safe.
#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    Quantity(Quantity),
    Variable { slot: Slot, column: usize },
    Negated(Box<Node>),
    Chain(Box<Node>, Vec<Step>),
    Pick { greater: bool, column: usize, arguments: Box<[Node; 2]> },
}

/// One operator of a chain with its right operand.
#[derive(Clone, Debug)]
struct Step {
    operator: Operator,
    column: usize,
    right: Node,
}

/// The value of the variable.
struct Binding<'a> {
    slot: Slot,
    /// `None` if only the types matter.
    value: Option<&'a Quantity>,
}

impl Node {
    fn evaluate(&self, binding: &Binding<'_>) -> Result<Operand, ExpressionError> {
        match self {
            Self::Number(number) => Ok(Operand::Number(*number)),
            Self::Quantity(quantity) => Ok(Operand::Quantity(quantity.clone())),
            Self::Variable { slot, column } if *slot != binding.slot => {
                Err(ExpressionError::WrongVariable { column: *column, found: *slot })
            }
            Self::Variable { .. } => {
                Ok(binding.value.map_or(Operand::Unknown, |value| Operand::Quantity(value.clone())))
            }
            Self::Negated(inner) => inner.evaluate(binding).map(arithmetic::negated),
            Self::Chain(first, steps) => steps.iter().try_fold(first.evaluate(binding)?, |left, step| {
                arithmetic::apply(step.operator, step.column, left, step.right.evaluate(binding)?)
            }),
            Self::Pick { greater, column, arguments } => {
                let [left, right] = arguments.as_ref();
                arithmetic::pick(*greater, *column, left.evaluate(binding)?, right.evaluate(binding)?)
            }
        }
    }

    fn has_variable(&self) -> bool {
        match self {
            Self::Number(_) | Self::Quantity(_) => false,
            Self::Variable { .. } => true,
            Self::Negated(inner) => inner.has_variable(),
            Self::Chain(first, steps) => first.has_variable() || steps.iter().any(|step| step.right.has_variable()),
            Self::Pick { arguments, .. } => arguments.iter().any(Self::has_variable),
        }
    }
}

/// A well-formed expression.
///
/// The language has `+ - * /`, evaluated from left to right with the usual precedence, the sign `-`, parentheses,
/// `max(a, b)`, `min(a, b)`, the variables `cpu` and `memory`, numbers (`1.5`, `1e3`, `50%`) and quantities (`200m`,
/// `1Gi`). Names are case-insensitive (EXPR-6).
#[derive(Clone, Debug)]
pub struct Expression {
    root: Node,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// Syntax errors, malformed or too large literals, unknown names, nesting deeper than
    /// [`pillion_kubernetes::json::MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        parser::parse(text).map(|root| Self { root })
    }

    /// Whether the expression has no variable, so that its value does not depend on any container.
    pub fn is_constant(&self) -> bool {
        !self.root.has_variable()
    }

    /// Finds the errors that occur for every value of the variable (DIFF-6, DIFF-7, DIFF-8).
    ///
    /// # Errors
    /// The other slot's variable, a product of two quantities, division by a quantity or by a constant zero, an
    /// overflow of constants, a negative constant. A result that is negative only for some values is accepted.
    ///
    /// # Examples
    /// ```
    /// use pillion_sidecarset::expression::{Expression, ExpressionError, Slot};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for (expression, result) in [
    ///     ("cpu - 1", Ok(())), // negative for some values only
    ///     ("memory", Err(ExpressionError::WrongVariable { column: 1, found: Slot::Memory })),
    ///     ("cpu * cpu", Err(ExpressionError::QuantityTimesQuantity { column: 5 })),
    ///     ("1 / cpu", Err(ExpressionError::DivisionByQuantity { column: 3 })),
    ///     ("cpu / 0", Err(ExpressionError::DivisionByZero { column: 5 })),
    ///     ("1 - 2", Err(ExpressionError::Negative("-1".to_owned()))),
    /// ] {
    ///     assert_eq!(Expression::parse(expression)?.check(Slot::Cpu), result);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self, slot: Slot) -> Result<(), ExpressionError> {
        match self.root.evaluate(&Binding { slot, value: None })? {
            Operand::Unknown => Ok(()),
            known => finish(slot, known).map(|_| ()),
        }
    }

    /// Evaluates the expression: to cores for cpu, to whole bytes for memory, rounding up (DIFF-10).
    ///
    /// A result that is a plain number counts as cores, truncated to thousandths, or as bytes (EXPR-5).
    ///
    /// # Errors
    /// Those of [`Self::check`], a negative result, an overflow.
    ///
    /// # Examples
    /// ```
    /// use pillion_kubernetes::quantity::Quantity;
    /// use pillion_sidecarset::expression::{Expression, Slot};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for (expression, slot, variable, result) in [
    ///     ("cpu*50%", Slot::Cpu, "200m", "100m"),
    ///     ("max(CPU,1)", Slot::Cpu, "200m", "1"),
    ///     ("cpu - 50m", Slot::Cpu, "200m", "150m"),
    ///     ("memory / 3", Slot::Memory, "100", "34"), // rounded up to whole bytes
    ///     ("min(memory, 64Mi)", Slot::Memory, "100Mi", "64Mi"),
    /// ] {
    ///     let value = Expression::parse(expression)?.evaluate(slot, &Quantity::parse(variable)?)?;
    ///     assert_eq!(value.to_string(), result);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn evaluate(&self, slot: Slot, variable: &Quantity) -> Result<Quantity, ExpressionError> {
        finish(slot, self.root.evaluate(&Binding { slot, value: Some(variable) })?)
    }
}

/// Converts the value of a whole expression to the unit of its slot.
fn finish(slot: Slot, result: Operand) -> Result<Quantity, ExpressionError> {
    // An overflow here is one of the whole expression.
    let overflow = ExpressionError::Overflow { column: 1 };
    match (slot, result) {
        (_, Operand::Number(number)) if number < 0.0 => Err(ExpressionError::Negative(number.to_string())),
        (_, Operand::Quantity(quantity)) if quantity.is_negative() => {
            Err(ExpressionError::Negative(quantity.to_string()))
        }
        (Slot::Cpu, Operand::Number(number)) => arithmetic::number_to_quantity(number).ok_or(overflow),
        (Slot::Memory, Operand::Number(number)) => {
            let bytes = arithmetic::to_i64_ceil(number).ok_or(overflow)?;
            Ok(Quantity::from_units(bytes, Format::DecimalSi))
        }
        // Kubernetes truncates values that do not fit into 64 bits, or computes with other values.
        (_, Operand::Quantity(quantity)) if quantity.to_i64_ceil().is_none() => Err(overflow),
        (Slot::Cpu, Operand::Quantity(quantity)) => Ok(quantity),
        (Slot::Memory, Operand::Quantity(quantity)) => Ok(quantity.round_up_to_whole()),
        // Only a check has unknown values, and it does not get here.
        (_, Operand::Unknown) => Ok(Quantity::default()),
    }
}
