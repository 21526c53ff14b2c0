//! `SidecarSet`s that match no Pod, or more than they ask for (MATCH-4, API-10, WARN-6).

use pillion_kubernetes::json;
use pillion_kubernetes::selector::{Selector, overlap};
use serde_json::{Value, json};

use super::{Rule, Warning, Written};
use crate::names;
use crate::sidecar_set::version::Version;

const SELECTOR: &str = "spec.selector";
const NAMESPACE_SELECTOR: &str = "spec.namespaceSelector";

pub(super) fn check(written: &Written<'_>, found: &mut Vec<Warning>) {
    let object = written.object;
    if json::flag(object, &["spec", "injectionStrategy", "paused"]) {
        let message = "injection is paused: no new Pod gets this SidecarSet";
        let path = "spec.injectionStrategy.paused";
        found.push(Warning::new(Rule::Paused, path, message, "set it to false to inject"));
    }
    let mut contradicting = |path, nothing| {
        let message = format!("the requirements contradict each other: no {nothing} can be selected");
        found.push(Warning::new(Rule::Contradiction, path, message, "all of them have to hold at once; remove one"));
    };
    if selector(object, "selector").is_some_and(|selector| !overlap(&selector, &selector)) {
        contradicting(SELECTOR, "Pod");
    }
    let Some(own) = selector(object, "namespaceSelector") else { return };
    if let Some(namespace) = only_namespace(written) {
        let message = format!("the selector has no effect beside spec.namespace: namespace {namespace:?} alone counts");
        let remedy =
            "remove one of the two, or write v1beta1 and add the label kubernetes.io/metadata.name to the selector";
        found.push(Warning::new(Rule::ReplacedSelector, NAMESPACE_SELECTOR, message, remedy));
        return;
    }
    if !can_select_a_namespace(&own) {
        contradicting(NAMESPACE_SELECTOR, "namespace");
    }
}

/// Whether some Namespace can satisfy a selector. The API server adds a label with its name to every Namespace.
pub fn can_select_a_namespace(selector: &Selector<'_>) -> bool {
    let named = json!({"matchExpressions": [{"key": names::NAMESPACE_NAME_LABEL, "operator": "Exists"}]});
    overlap(selector, selector) && Selector::parse(&named).is_ok_and(|named| overlap(selector, &named))
}

/// Returns the namespace that replaces the `namespaceSelector` (API-10).
fn only_namespace<'a>(written: &Written<'a>) -> Option<&'a str> {
    let namespace = json::text(written.object, &["spec", "namespace"]);
    (written.version == Version::V1Alpha1 && !namespace.is_empty()).then_some(namespace)
}

/// Returns a selector, or `None` if it cannot be parsed or has no requirements.
fn selector<'a>(object: &'a Value, field: &str) -> Option<Selector<'a>> {
    Selector::parse(json::at(object, &["spec", field])?).ok().filter(|selector| !selector.is_empty())
}
