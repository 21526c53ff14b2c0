//! Intended differences between computed resources and those of the reference.

use pillion_kubernetes::json;
use pillion_kubernetes::quantity::Quantity;
use pillion_sidecarset::names;
use serde_json::Value;

use super::Case;
use super::compare::Difference;

/// Whether the compatibility table covers a difference: a constant limit that the reference drops (DIFF-9), or memory
/// that is rounded up to whole bytes (DIFF-10).
pub(super) fn is_row(case: &Case, object: &Value, difference: &Difference) -> bool {
    let Some(path) = ResourcesPath::parse(difference.path.as_str()) else { return false };
    let name = json::text(json::items(object, &["spec", path.list]).get(path.index).unwrap_or(&Value::Null), &["name"]);
    let Some(policy) = policy_of(case, name) else { return false };
    let is_constant = |resource: &str| {
        let expression = json::text(policy, &["resourcesExpr", path.side, resource]);
        !expression.is_empty() && has_no_variable(expression)
    };
    match (&difference.expected, &difference.actual) {
        (None, Some(Value::Object(amounts))) if path.side == "limits" => amounts.keys().all(|key| is_constant(key)),
        (None, Some(_)) if path.side == "limits" => is_constant(path.resource),
        (Some(theirs), Some(ours)) if path.resource == "memory" => {
            match (Quantity::from_json(theirs), Quantity::from_json(ours)) {
                (Ok(theirs), Ok(ours)) => !theirs.is_whole() && theirs.round_up_to_whole() == ours,
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether the reference complains about missing targets and Pillion does not: every policy with that pattern is
/// constant, so Pillion does not look for targets (DIFF-9).
pub(super) fn needs_no_targets(case: &Case) -> bool {
    let Some(pattern) = case.message().strip_prefix("no containers match the regex pattern ") else { return false };
    let Ok(pattern) = serde_json::from_str::<String>(pattern) else { return false };
    let mut policies = sidecars(case)
        .filter_map(|sidecar| json::at(sidecar, &["resourcesPolicy"]))
        .filter(|policy| json::text(policy, &["targetContainersNameRegex"]) == pattern);
    policies.all(|policy| {
        ["limits", "requests"].iter().all(|side| {
            ["cpu", "memory"].iter().all(|name| has_no_variable(json::text(policy, &["resourcesExpr", side, name])))
        })
    })
}

fn has_no_variable(expression: &str) -> bool {
    let expression = expression.to_ascii_lowercase();
    !expression.contains("cpu") && !expression.contains("memory")
}

/// `spec.<list>[<index>].resources.<side>` or one resource in it. `resource` is empty for the whole side.
struct ResourcesPath<'a> {
    list: &'a str,
    index: usize,
    side: &'a str,
    resource: &'a str,
}

impl<'a> ResourcesPath<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let (list, rest) = path.strip_prefix("spec.")?.split_once('[')?;
        let (index, rest) = rest.split_once("].resources.")?;
        let (side, resource) = rest.split_once('.').unwrap_or((rest, ""));
        Some(Self { list, index: index.parse().ok()?, side, resource })
    }
}

/// Returns the policy of the sidecar from which this container was made.
fn policy_of<'a>(case: &'a Case, name: &str) -> Option<&'a Value> {
    let is_it = |sidecar: &&Value| {
        let own = json::text(sidecar, &["name"]);
        name == own || name.strip_prefix(own).is_some_and(|half| matches!(half, "-1" | "-2"))
    };
    sidecars(case).filter(is_it).find_map(|sidecar| json::at(sidecar, &["resourcesPolicy"]))
}

/// Returns the sidecars of the sets that the reference injected, or of all sets if it records none.
fn sidecars(case: &Case) -> impl Iterator<Item = &Value> {
    let list = json::text(case.expected(), &["metadata", "annotations", names::INJECTED_LIST]);
    let injected: Vec<&str> = list.split(',').collect();
    case.of_kind("SidecarSet")
        .filter(move |set| list.is_empty() || injected.contains(&json::text(set, &["metadata", "name"])))
        .flat_map(|set| ["containers", "initContainers"].map(|list| json::items(set, &["spec", list])))
        .flatten()
}
