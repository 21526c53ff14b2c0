//! Aggregation of the target containers' resources (EXPR-2).

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::quantity::{Quantity, QuantityError};
use serde_json::Value;

use super::Slot;

/// `targetContainersMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// `sum`: the sum over all targets.
    Sum,
    /// `max`: the maximum over all targets.
    Max,
}

impl Mode {
    /// Parses `targetContainersMode`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "sum" => Some(Self::Sum),
            "max" => Some(Self::Max),
            _ => None,
        }
    }

    fn join(self, left: &Quantity, right: Quantity) -> Result<Quantity, QuantityError> {
        match self {
            Self::Sum => left.checked_add(&right).ok_or(QuantityError::TooLarge),
            // If both are equal, the first one stays.
            Self::Max if right > *left => Ok(right),
            Self::Max => Ok(left.clone()),
        }
    }
}

/// The aggregated limits of the targets. `None` means unlimited: at least one target has no such limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Cores.
    pub cpu: Option<Quantity>,
    /// Bytes.
    pub memory: Option<Quantity>,
}

/// The aggregated requests of the targets. A missing request counts as 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Cores.
    pub cpu: Quantity,
    /// Bytes.
    pub memory: Quantity,
}

/// The input of expressions. The default is that of no targets: unlimited, and no requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// `resources.limits`.
    pub limits: Limits,
    /// `resources.requests`.
    pub requests: Requests,
}

/// Aggregates the limits and requests of `containers` (core/v1 Containers).
///
/// # Errors
/// Every quantity that cannot be parsed, at `containers[<name>].resources.limits[cpu]` and the like.
pub fn aggregate(mode: Mode, containers: &[&Value]) -> Result<Aggregate, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut join = |section, slot, all| together(mode, containers, section, slot, all, &mut errors);
    let aggregate = Aggregate {
        limits: Limits { cpu: join("limits", Slot::Cpu, true), memory: join("limits", Slot::Memory, true) },
        requests: Requests {
            cpu: join("requests", Slot::Cpu, false).unwrap_or_default(),
            memory: join("requests", Slot::Memory, false).unwrap_or_default(),
        },
    };
    if errors.is_empty() { Ok(aggregate) } else { Err(errors) }
}

/// Aggregates one resource of one section. Returns `None` if no container has it, or if `all` containers must have it
/// and one does not.
fn together(
    mode: Mode,
    containers: &[&Value],
    section: &str,
    slot: Slot,
    all: bool,
    errors: &mut Vec<FieldError>,
) -> Option<Quantity> {
    let mut total: Option<Quantity> = None;
    let mut missing = false;
    for container in containers {
        let Some(value) = json::at(container, &["resources", section, slot.variable()]) else {
            missing = true;
            continue;
        };
        let joined = Quantity::from_json(value).and_then(|quantity| match &total {
            Some(total) => mode.join(total, quantity),
            None => match mode {
                // Start at zero: a sum does not keep the text of its summands.
                Mode::Sum => mode.join(&Quantity::default(), quantity),
                Mode::Max => Ok(quantity),
            },
        });
        match joined {
            Ok(joined) => total = Some(joined),
            Err(error) => {
                let path = FieldPath::new("containers");
                let container = path.key(json::text(container, &["name"]));
                let shown = value.as_str().map_or_else(|| json::shown(value), str::to_owned);
                let path = container.child("resources");
                let path = path.child(section);
                errors.push(FieldError::invalid(path.key(slot.variable()), shown, error.to_string()));
            }
        }
    }
    if all && missing { None } else { total }
}
