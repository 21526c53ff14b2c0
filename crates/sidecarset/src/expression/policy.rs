//! The `resourcesPolicy` of a sidecar, which computes its resources from those of the targets (EXPR-3).

use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::quantity::Quantity;
use serde_json::Value;

use super::aggregate::Section;
use super::{Aggregate, Amounts, Expression, ExpressionError, Mode, Slot, aggregate};

const PLACES: [(Section, Slot); 4] = [
    (Section::Limits, Slot::Cpu),
    (Section::Limits, Slot::Memory),
    (Section::Requests, Slot::Cpu),
    (Section::Requests, Slot::Memory),
];

fn path(section: Section, slot: Slot) -> String {
    FieldPath::new("resourcesExpr").child(section.key()).child(slot.variable()).to_string()
}

/// One expression with its section and resource.
#[derive(Clone, Debug)]
struct Entry {
    section: Section,
    slot: Slot,
    expression: Expression,
}

/// A `resourcesPolicy` with well-formed expressions.
#[derive(Clone, Debug)]
pub struct ResourcesPolicy {
    mode: Option<Mode>,
    name_regex: String,
    entries: Vec<Entry>,
}

impl ResourcesPolicy {
    /// Parses the JSON of a `resourcesPolicy`. An expression that is absent or `""` computes nothing.
    ///
    /// An unknown mode counts as none: the CRD's enum and [`crate::validation::validate_manifest`] refuse it, and in a
    /// stored policy it aggregates nothing, as in the reference.
    ///
    /// # Errors
    /// Every malformed expression, with its path below the policy.
    pub fn from_json(policy: &Value) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mode = Mode::parse(json::text(policy, &["targetContainersMode"]));
        let mut entries = Vec::new();
        for (section, slot) in PLACES {
            let text = json::text(policy, &["resourcesExpr", section.key(), slot.variable()]);
            if text.is_empty() {
                continue;
            }
            match Expression::parse(text) {
                Ok(expression) => entries.push(Entry { section, slot, expression }),
                Err(error) => errors.push(FieldError::invalid(path(section, slot), text, error.to_string())),
            }
        }
        let name_regex = json::text(policy, &["targetContainersNameRegex"]).to_owned();
        if errors.is_empty() { Ok(Self { mode, name_regex, entries }) } else { Err(errors) }
    }

    /// Aggregates the resources of the targets as `targetContainersMode` says.
    ///
    /// # Errors
    /// Every invalid amount, see [`aggregate`].
    pub fn aggregate(&self, targets: &[&Amounts<'_>]) -> Result<Aggregate, Vec<FieldError>> {
        self.mode.map_or_else(|| Ok(Aggregate::default()), |mode| aggregate(mode, targets))
    }

    /// Returns `targetContainersMode`, or `None` if it is none that the reference knows.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Returns `targetContainersNameRegex` as written, or `""` if it is absent. It matches anywhere in the name of a
    /// target (EXPR-1).
    pub fn name_regex(&self) -> &str {
        &self.name_regex
    }

    /// Whether the result depends on a container, because some expression has a variable (DIFF-9).
    pub fn needs_targets(&self) -> bool {
        self.entries.iter().any(|entry| !entry.expression.is_constant())
    }

    /// Returns the amounts of the targets that the expressions read, each as its section and resource: `limits` and
    /// `cpu`. A constant reads none.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let reading = self.entries.iter().filter(|entry| !entry.expression.is_constant());
        reading.map(|Entry { section, slot, .. }| (section.key(), slot.variable()))
    }

    /// Returns the sidecar's new `resources`, which replace the old ones completely (EXPR-3).
    ///
    /// Omits a limit that depends on an unlimited resource (DIFF-9), and empty maps. Without targets, pass the default
    /// aggregate.
    ///
    /// # Errors
    /// Every expression that has no result, at `resourcesExpr.limits.cpu` and the like.
    pub fn evaluate(&self, targets: &Aggregate) -> Result<Value, Vec<(String, ExpressionError)>> {
        let mut resources = Object::new();
        let mut errors = Vec::new();
        let unused = Quantity::default();
        for Entry { section, slot, expression } in &self.entries {
            let variable = match (section, slot) {
                (Section::Limits, Slot::Cpu) => targets.limits.cpu.as_ref(),
                (Section::Limits, Slot::Memory) => targets.limits.memory.as_ref(),
                (Section::Requests, Slot::Cpu) => Some(&targets.requests.cpu),
                (Section::Requests, Slot::Memory) => Some(&targets.requests.memory),
            };
            // A constant does not use its variable.
            let Some(variable) = variable.or(expression.is_constant().then_some(&unused)) else { continue };
            match expression.evaluate(*slot, variable) {
                Ok(quantity) => {
                    if let Some(map) = json::object_mut(&mut resources, section.key()) {
                        map.insert(slot.variable().to_owned(), Value::String(quantity.to_string()));
                    }
                }
                Err(error) => errors.push((path(*section, *slot), error)),
            }
        }
        if errors.is_empty() { Ok(Value::Object(resources)) } else { Err(errors) }
    }
}
