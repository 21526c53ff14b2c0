//! Warnings about selectors of a policy that exclude Pods, or that have no effect.

use pillion_kubernetes::json;
use pillion_kubernetes::selector::{Selector, overlap};
use pillion_sidecarset::names;
use serde_json::{Value, json};

use super::Policy;
use crate::lint::matching::{NAMESPACE_SELECTOR, SELECTOR};
use crate::report::Finding;
use crate::subject::{Spot, Subject};

/// Returns warnings about labels that Kubewarden drops, and about `SidecarSet`s whose Pods the policy never gets.
pub(super) fn check(policy: &Policy<'_>) -> Vec<Finding> {
    let (document, spec) = (&policy.document, policy.spec);
    let mut findings: Vec<Finding> = dropped_labels(document, spec).into_iter().collect();
    if policy.asks.pods() {
        let subjects = policy.judged.subjects.iter();
        findings.extend(subjects.flat_map(|subject| out_of_reach(subject, document.raw, spec)));
    }
    findings
}

/// Kubewarden's controller keeps only `matchExpressions` when it merges its own exclusions into the selector (HOST-14).
fn dropped_labels(policy: &Spot<'_>, spec: &Value) -> Option<Finding> {
    let labels = json::object(spec, &["namespaceSelector", "matchLabels"]).filter(|labels| !labels.is_empty());
    if labels.is_none() || is_inside_allowed(spec) {
        return None;
    }
    Some(policy.warning(
        "spec.namespaceSelector.matchLabels",
        "Kubewarden silently drops matchLabels: the policy gets the Pods of every namespace",
        "use matchExpressions with operator In",
    ))
}

fn is_inside_allowed(spec: &Value) -> bool {
    json::flag(spec, &["allowInsideAdmissionControllerNamespace"])
}

/// Returns warnings about selectors of a `SidecarSet` that exclude all requests of this policy.
fn out_of_reach(subject: &Subject<'_>, policy: &Value, spec: &Value) -> Vec<Finding> {
    let of_set = |field: &str| Selector::parse(subject.set.spec(&[field])?).ok();
    let mut findings = Vec::new();
    let objects = json::at(spec, &["objectSelector"]).and_then(|selector| Selector::parse(selector).ok());
    if let Some((own, objects)) = of_set("selector").zip(objects).filter(|(own, objects)| !overlap(own, objects)) {
        let message = format!("the policy's objectSelector ({objects}) lets none of these Pods through ({own})");
        findings.push(subject.spot.warning(SELECTOR, message, "change one of the two"));
    }
    let namespaces = namespaces(policy, spec);
    let namespaces = Selector::parse(&namespaces).ok();
    let own = of_set("namespaceSelector").zip(namespaces).filter(|(own, namespaces)| !overlap(own, namespaces));
    if let Some((own, namespaces)) = own {
        let message = format!("the policy is for other namespaces ({namespaces}) than these ({own})");
        findings.push(subject.spot.warning(NAMESPACE_SELECTOR, message, "change one of the two"));
    }
    findings
}

/// Returns the selector of the namespaces whose requests a policy gets.
fn namespaces(policy: &Value, spec: &Value) -> Value {
    if json::text(policy, &["kind"]) == "AdmissionPolicy" {
        let namespace = json::text(policy, &["metadata", "namespace"]);
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        return json!({"matchLabels": {names::NAMESPACE_NAME_LABEL: namespace}});
    }
    let mut selector = json::at(spec, &["namespaceSelector"]).cloned().unwrap_or_default();
    if let Some(selector) = selector.as_object_mut()
        && !is_inside_allowed(spec)
    {
        selector.remove("matchLabels");
    }
    selector
}
