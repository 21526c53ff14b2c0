//! Aggregation of the target containers' resources (EXPR-2).

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
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

    /// Joins the amounts so far with a further one.
    fn join(self, before: Option<Quantity>, next: &Quantity) -> Option<Quantity> {
        match (self, before) {
            // Start at zero: a sum does not keep the text of its summands.
            (Self::Sum, before) => before.unwrap_or_default().increased(next),
            // If both are equal, the first one stays.
            (Self::Max, Some(before)) if *next <= before => Some(before),
            (Self::Max, _) => Some(next.clone()),
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

/// A section of `resources` and of `resourcesExpr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The most that a container may use.
    Limits,
    /// What is set aside for a container.
    Requests,
}

impl Section {
    /// Returns the name of the section.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Requests => "requests",
        }
    }

    /// Returns the other section.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Limits => Self::Requests,
            Self::Requests => Self::Limits,
        }
    }
}

/// An amount of cpu or memory, or `None` if the container names none.
type Amount = Option<Result<Quantity, QuantityError>>;

/// The limits and requests of one container, parsed once for all policies that aggregate them (E18).
#[derive(Clone, Debug)]
pub struct Amounts<'a> {
    /// A core/v1 Container.
    container: &'a Value,
    /// Cpu and memory.
    limits: [Amount; 2],
    requests: [Amount; 2],
}

impl<'a> Amounts<'a> {
    /// Reads the amounts of a core/v1 Container.
    pub fn from_container(container: &'a Value) -> Self {
        let read = |section: Section| {
            [Slot::Cpu, Slot::Memory].map(|slot| written(container, section, slot).map(Quantity::from_json))
        };
        Self { container, limits: read(Section::Limits), requests: read(Section::Requests) }
    }

    fn get(&self, section: Section, slot: Slot) -> Option<&Result<Quantity, QuantityError>> {
        let [cpu, memory] = match section {
            Section::Limits => &self.limits,
            Section::Requests => &self.requests,
        };
        match slot {
            Slot::Cpu => cpu.as_ref(),
            Slot::Memory => memory.as_ref(),
        }
    }

    /// Returns the error for an amount that cannot be used.
    fn error(&self, section: Section, slot: Slot, error: &QuantityError) -> FieldError {
        let shown = written(self.container, section, slot)
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let path = FieldPath::new("containers");
        let container = path.key(json::text(self.container, &["name"]));
        let path = container.child("resources");
        let path = path.child(section.key());
        FieldError::invalid(path.key(slot.variable()), shown.unwrap_or_default(), error.to_string())
    }
}

fn written(container: &Value, section: Section, slot: Slot) -> Option<&Value> {
    json::at(container, &["resources", section.key(), slot.variable()])
}

/// Aggregates the limits and requests of containers.
///
/// # Errors
/// The quantities that cannot be parsed, at `containers[<name>].resources.limits[cpu]` and the like.
pub fn aggregate(mode: Mode, containers: &[&Amounts<'_>]) -> Result<Aggregate, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut join = |section, slot| together(mode, containers, (section, slot), &mut errors);
    let aggregate = Aggregate {
        limits: Limits { cpu: join(Section::Limits, Slot::Cpu), memory: join(Section::Limits, Slot::Memory) },
        requests: Requests {
            cpu: join(Section::Requests, Slot::Cpu).unwrap_or_default(),
            memory: join(Section::Requests, Slot::Memory).unwrap_or_default(),
        },
    };
    if errors.is_empty() { Ok(aggregate) } else { Err(errors) }
}

/// Aggregates one resource of one section. Returns `None` if no container has it, or if it is a limit and one container
/// has none.
fn together(
    mode: Mode,
    containers: &[&Amounts<'_>],
    (section, slot): (Section, Slot),
    errors: &mut Vec<FieldError>,
) -> Option<Quantity> {
    let mut total: Option<Quantity> = None;
    let mut missing = false;
    for amounts in containers {
        match amounts.get(section, slot) {
            None => missing = true,
            Some(Ok(quantity)) => {
                total = mode.join(total, quantity);
                if total.is_none() {
                    errors.add(|| amounts.error(section, slot, &QuantityError::TooLarge));
                }
            }
            Some(Err(error)) => errors.add(|| amounts.error(section, slot, error)),
        }
    }
    if section == Section::Limits && missing { None } else { total }
}
