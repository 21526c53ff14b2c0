//! The expressions of `resourcesPolicy`: a sidecar's resources computed from those of other containers.
//!
//! The language is that of the reference (`sidecarset.md`, E-3 to E-10), type-checked where the `SidecarSet` is
//! admitted instead of failing when a Pod is (`product.md`, rows ).

mod aggregate;
mod arithmetic;
mod error;
mod lexer;
mod parser;
mod policy;
#[cfg(test)]
mod tests;

pub use aggregate::{Aggregate, Limits, Mode, Requests, aggregate};
pub use error::ExpressionError;
pub use policy::ResourcesPolicy;

use arithmetic::{Operand, Operator};
use pillion_kubernetes::quantity::{Format, Quantity};

/// What an expression computes. It decides the variable and the unit: the reference's guess from the text (E-4)
/// does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Cores. The variable is `cpu`.
    Cpu,
    /// Bytes, always whole ones. The variable is `memory`.
    Memory,
}

impl Slot {
    /// The name of the variable, and of the resource.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// The resource that this one is not.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Cpu,
        }
    }
}

/// A part of an expression. Nested at most [`pillion_kubernetes::json::MAX_DEPTH`] deep, so that walking it is safe.
#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    Quantity(Quantity),
    Variable { slot: Slot, column: usize },
    Negated(Box<Node>),
    Chain(Box<Node>, Vec<Step>),
    Pick { greater: bool, column: usize, arguments: Box<[Node; 2]> },
}

/// One operator of a chain with what stands to its right.
#[derive(Clone, Debug)]
struct Step {
    operator: Operator,
    column: usize,
    right: Node,
}

/// What the variable stands for.
struct Binding<'a> {
    slot: Slot,
    /// `None` where only the types matter.
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

/// An expression that is well formed.
///
/// `+ - * /` from left to right with the usual precedence, a sign `-`, parentheses, `max(a, b)`, `min(a, b)`, the
/// variables `cpu` and `memory`, numbers (`1.5`, `1e3`, `50%`) and quantities (`200m`, `1Gi`); names in any case (E-6).
#[derive(Clone, Debug)]
pub struct Expression {
    root: Node,
}

impl Expression {
    /// Reads an expression.
    ///
    /// Errors: syntax, malformed or too large literals, unknown names, nesting beyond [`pillion_kubernetes::json::MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        parser::parse(text).map(|root| Self { root })
    }

    /// Whether it has no variable: its value does not depend on any container.
    pub fn is_constant(&self) -> bool {
        !self.root.has_variable()
    }

    /// Finds what is wrong whatever the variable's value will be.
    ///
    /// Errors: the other slot's variable, quantity × quantity, division by a quantity or by a constant zero, an
    /// overflow of constants, a negative constant. A result that is negative for some values is accepted.
    pub fn check(&self, slot: Slot) -> Result<(), ExpressionError> {
        match self.root.evaluate(&Binding { slot, value: None })? {
            Operand::Unknown => Ok(()),
            known => finish(slot, known).map(|_| ()),
        }
    }

    /// Computes it: cores for cpu, whole bytes for memory, where a fraction rounds up.
    ///
    /// A result that is a plain number counts as cores, cut off to thousandths, or as bytes (E-5).
    ///
    /// Errors: those of [`Self::check`], a negative result, an overflow.
    pub fn evaluate(&self, slot: Slot, variable: &Quantity) -> Result<Quantity, ExpressionError> {
        finish(slot, self.root.evaluate(&Binding { slot, value: Some(variable) })?)
    }
}

/// The value of a whole expression in the unit of its slot.
fn finish(slot: Slot, result: Operand) -> Result<Quantity, ExpressionError> {
    // An overflow here is about the whole expression.
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
        // Kubernetes cuts off what does not fit into 64 bits, or computes with something else.
        (_, Operand::Quantity(quantity)) if quantity.to_i64_ceil().is_none() => Err(overflow),
        (Slot::Cpu, Operand::Quantity(quantity)) => Ok(quantity),
        (Slot::Memory, Operand::Quantity(quantity)) => Ok(quantity.round_up_to_whole()),
        // Only a check has unknown values, and it does not come here.
        (_, Operand::Unknown) => Ok(Quantity::default()),
    }
}
