//! Warnings about `SidecarSet`s that match no Pod, according to other objects.

use pillion_kubernetes::json;
use pillion_kubernetes::selector::{Op, Requirement, Selector, overlap};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::warnings::can_select_a_namespace;
use serde_json::{Value, json};

use crate::report::Finding;
use crate::subject::Subject;

/// The selecting fields of a `SidecarSet`.
pub(super) const SELECTOR: &str = "spec.selector";
pub(super) const NAMESPACE_SELECTOR: &str = "spec.namespaceSelector";

/// Returns a warning about a `SidecarSet` that matches none of the given Namespaces.
pub(super) fn not_given(subject: &Subject<'_>, namespaces: &[&Value]) -> Option<Finding> {
    let own = selector(&subject.set, "namespaceSelector")?;
    if namespaces.is_empty()
        || namespaces.iter().any(|namespace| is_selected(&own, namespace))
        || !can_select_a_namespace(&own)
    {
        return None;
    }
    let message = match namespaces.len() {
        1 => "the Namespace that was given is not selected".to_owned(),
        count => format!("none of the {count} Namespaces that were given is selected"),
    };
    Some(subject.spot.warning(NAMESPACE_SELECTOR, message, "compare it with their labels"))
}

fn is_selected(selector: &Selector<'_>, namespace: &Value) -> bool {
    let labels = json::object(namespace, &["metadata", "labels"]);
    let name = json::text(namespace, &["metadata", "name"]);
    selector.matches(|key| match pillion_kubernetes::selector::label_of(labels, key) {
        None if key == names::NAMESPACE_NAME_LABEL => Some(name),
        label => label,
    })
}

/// Returns a selector of a `SidecarSet`, or `None` if it cannot be parsed or has no requirements.
fn selector<'a>(set: &'a SidecarSet, field: &str) -> Option<Selector<'a>> {
    Selector::parse(set.spec(&[field])?).ok().filter(|selector| !selector.is_empty())
}

/// Whether both select some common Pod in some common namespace.
pub(super) fn may_meet(one: &SidecarSet, other: &SidecarSet) -> bool {
    let overlapping = |field: &str| match (selector(one, field), selector(other, field)) {
        (Some(one), Some(other)) => overlap(&one, &other),
        _ => true,
    };
    overlapping("selector") && overlapping("namespaceSelector")
}

/// Returns warnings about bases whose Pods all get their canary instead.
pub(super) fn hidden_bases(group: &[Subject<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for base in group {
        let canaries = group.iter().filter(|canary| canary.set.canary_of() == Some(base.set.name()));
        for canary in canaries.filter(|canary| canary.set.name() != base.set.name() && covers(&canary.set, &base.set)) {
            let message = format!(
                "its canary {:?} selects every Pod that this SidecarSet selects; no Pod gets this one",
                canary.set.name()
            );
            findings.push(base.spot.warning(
                SELECTOR,
                message,
                "let the canary select fewer Pods, or remove one of them",
            ));
        }
    }
    findings
}

/// Whether `canary` selects everything that `base` selects: nothing satisfies the base and violates a requirement of
/// the canary.
fn covers(canary: &SidecarSet, base: &SidecarSet) -> bool {
    let is_paused = json::flag(canary.as_value(), &["spec", "injectionStrategy", "paused"]);
    let Some(selects) = selector(canary, "selector") else { return false };
    let everything = Value::Object(json::Object::new());
    let of_base = |field: &str| base.spec(&[field]).unwrap_or(&everything);
    let implied = |selector: &Selector<'_>, by: &Value| {
        Selector::parse(by).is_ok_and(|by| selector.requirements().iter().all(|own| !can_be_broken(own, &by)))
    };
    // A namespace selector that cannot be parsed selects nothing.
    let namespaces = match canary.spec(&["namespaceSelector"]).map(Selector::parse) {
        None => true,
        Some(Ok(selector)) => implied(&selector, of_base("namespaceSelector")),
        Some(Err(_)) => false,
    };
    !is_paused && namespaces && selector(base, "selector").is_some() && implied(&selects, of_base("selector"))
}

fn can_be_broken(requirement: &Requirement<'_>, given: &Selector<'_>) -> bool {
    let opposite = match requirement.op {
        Op::In => Op::NotIn,
        Op::NotIn => Op::In,
        Op::Exists => Op::DoesNotExist,
        Op::DoesNotExist => Op::Exists,
    };
    let values: Vec<&str> = requirement.values.iter().collect();
    let broken =
        json!({"matchExpressions": [{"key": requirement.key, "operator": opposite.as_str(), "values": values}]});
    Selector::parse(&broken).is_ok_and(|broken| overlap(given, &broken))
}
