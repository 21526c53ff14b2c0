//! Whether Kubewarden asks the policy about a Pod at all, according to the rest of a ClusterAdmissionPolicy. `inject`
//! and `explain` share this code, so that they agree.

use pillion_explain::finding::{Finding, Kind};
use pillion_explain::labels::{Labelled, POD};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::names;
use serde_json::Value;

use super::cluster::Manifests;

/// How Kubewarden treats the module's answer to one Pod.
#[derive(Debug, Default)]
pub struct Heed {
    /// Why Kubewarden does not ask the policy, or only logs its answer; empty if neither.
    pub ignored: Vec<Finding>,
    /// Why the policy server refuses the Pod that the module changes.
    pub forbidden: Option<Finding>,
}

/// Returns how Kubewarden treats a Pod of `namespace` under this policy, given as its manifest. `is_changed` says
/// whether the module changes the Pod.
pub fn heed(policy: &Value, pod: &Value, namespace: &str, cluster: &Manifests, is_changed: bool) -> Heed {
    let labels = cluster.namespace_labels(namespace, selects_by_labels(policy));
    let ignored = blockers(policy, pod, namespace, labels.as_ref());
    let forbidden = forbids_changes(policy).filter(|_| is_changed && ignored.is_empty());
    Heed { ignored, forbidden }
}

/// Whether the policy's selector uses labels of the Namespace other than its name.
fn selects_by_labels(policy: &Value) -> bool {
    kept_selector(policy).as_ref().is_some_and(uses_labels)
}

/// Whether a selector of Namespaces uses other labels than the name, which every Namespace has.
pub(super) fn uses_labels(selector: &Value) -> bool {
    let labels = json::object(selector, &["matchLabels"]).into_iter().flatten().map(|(key, _)| key.as_str());
    let expressions = json::items(selector, &["matchExpressions"]).iter();
    let mut keys = labels.chain(expressions.map(|expression| json::text(expression, &["key"])));
    keys.any(|key| key != names::NAMESPACE_NAME_LABEL)
}

/// Returns every reason why a policy, given as its manifest, has no effect on a Pod in a namespace with these labels.
/// Returns nothing if the module's answer takes effect.
fn blockers(policy: &Value, pod: &Value, namespace: &str, labels: Option<&Object>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(own_namespace(policy, namespace));
    findings.extend(rules(policy));
    let name = format!("Namespace \"{namespace}\"");
    let labelled = Labelled { name: &name, labels, kind: Kind::Policy };
    findings.extend(failing(kept_selector(policy).as_ref(), "namespaceSelector", labelled));
    let labelled = Labelled { name: POD, labels: json::object(pod, &["metadata", "labels"]), kind: Kind::Policy };
    findings.extend(failing(json::at(policy, &["spec", "objectSelector"]), "objectSelector", labelled));
    if json::text(policy, &["spec", "mode"]) == "monitor" {
        findings.push(Finding {
            wanted: "protect".to_owned(),
            found: Some("monitor".to_owned()),
            ..finding("mode", "nothing is injected and nothing refused, only logged", "set mode to protect")
        });
    }
    findings
}

/// Returns why Kubewarden refuses a Pod that the module changes.
fn forbids_changes(policy: &Value) -> Option<Finding> {
    let mutates = json::at(policy, &["spec", "mutating"]);
    (mutates == Some(&Value::Bool(false))).then(|| Finding {
        wanted: "true".to_owned(),
        found: Some("false".to_owned()),
        ..finding("mutating", "the policy server refuses Pods that the policy changes", "set mutating to true")
    })
}

/// Returns warnings about fields that this command does not evaluate, or that are missing.
pub fn doubts(policy: &Value) -> Vec<String> {
    let conditions = json::items(policy, &["spec", "matchConditions"]);
    let unknown = (!conditions.is_empty())
        .then(|| "the policy's spec.matchConditions are not looked at; they may keep Pods from it".to_owned());
    // The definition of the resource requires both: a policy without them is a draft.
    let missing = [("rules", "Pods"), ("mutating", "changes")].into_iter().filter_map(|(field, what)| {
        let is_absent = json::at(policy, &["spec", field]).is_none_or(Value::is_null);
        is_absent
            .then(|| format!("the policy has no spec.{field}, which Kubewarden requires; it is taken to be for {what}"))
    });
    unknown.into_iter().chain(missing).collect()
}

fn finding(field: &str, problem: &str, remedy: &str) -> Finding {
    Finding {
        kind: Kind::Policy,
        path: FieldPath::new("spec").child(field).to_string(),
        wanted: String::new(),
        found: None,
        problem: problem.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// Returns a finding if an AdmissionPolicy is in another namespace than the Pod.
fn own_namespace(policy: &Value, namespace: &str) -> Option<Finding> {
    let own = json::text(policy, &["metadata", "namespace"]);
    let is_elsewhere = json::text(policy, &["kind"]) == "AdmissionPolicy" && !own.is_empty() && own != namespace;
    is_elsewhere.then(|| Finding {
        kind: Kind::Policy,
        path: "metadata.namespace".to_owned(),
        wanted: own.to_owned(),
        found: Some(namespace.to_owned()),
        problem: format!("an AdmissionPolicy is for its own namespace \"{own}\", the Pod's is \"{namespace}\""),
        remedy: "use a ClusterAdmissionPolicy".to_owned(),
    })
}

fn rules(policy: &Value) -> Option<Finding> {
    let rules = json::at(policy, &["spec", "rules"]).filter(|rules| !rules.is_null())?;
    let remedy = "add apiGroups [\"\"], apiVersions [v1], resources [pods], operations [CREATE]";
    (!cover_new_pods(rules)).then(|| finding("rules", "none is about the creation of Pods", remedy))
}

/// Whether one of the rules of a policy or a webhook is about the creation of Pods.
pub(super) fn cover_new_pods(rules: &Value) -> bool {
    let has = |rule: &Value, key: &str, wanted: &[&str]| {
        let mut items = json::items(rule, &[key]).iter().filter_map(Value::as_str);
        items.any(|item| item == "*" || wanted.contains(&item))
    };
    let covers = |rule: &Value| {
        has(rule, "apiGroups", &[""])
            && has(rule, "apiVersions", &["v1"])
            && has(rule, "resources", &["pods", "*/*"])
            && has(rule, "operations", &["CREATE"])
            && json::text(rule, &["scope"]) != "Cluster"
    };
    json::items(rules, &[]).iter().any(covers)
}

/// Returns the `namespaceSelector` as Kubewarden registers it: only its `matchExpressions`, unless the policy also
/// covers Kubewarden's own namespace.
fn kept_selector(policy: &Value) -> Option<Value> {
    let mut selector = json::at(policy, &["spec", "namespaceSelector"])?.clone();
    if !json::flag(policy, &["spec", "allowInsideAdmissionControllerNamespace"])
        && let Some(selector) = selector.as_object_mut()
    {
        selector.remove("matchLabels");
    }
    Some(selector)
}

fn failing(selector: Option<&Value>, field: &str, labelled: Labelled<'_>) -> Vec<Finding> {
    let selector = selector.filter(|selector| !selector.is_null()).map(Selector::parse_known).unwrap_or_default();
    labelled.unsatisfied(&selector, &FieldPath::new("spec").child(field))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn policy() -> Value {
        json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
            "spec": {
                "mutating": true, "mode": "protect",
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
                "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
                ]}
            }
        })
    }

    fn said(policy: &Value, namespace: &str) -> Vec<String> {
        let labels = json!({"kubernetes.io/metadata.name": namespace});
        let pod = json!({"metadata": {"labels": {"app": "web"}}});
        blockers(policy, &pod, namespace, labels.as_object()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_policy_for_pods_is_asked() {
        assert_eq!(said(&policy(), "shop"), [] as [&str; 0]);
        assert_eq!(forbids_changes(&policy()), None);
        assert_eq!(doubts(&policy()), [] as [&str; 0]);
    }

    #[rstest]
    #[case::excluded_namespace("/spec/x", json!(null), "kube-system",
        r#"spec.namespaceSelector.matchExpressions[0]: Namespace "kube-system" has kubernetes.io/metadata.name="kube-system", wanted not "kube-system""#)]
    #[case::monitor("/spec/mode", json!("monitor"), "shop", "spec.mode: nothing is injected and nothing refused, only logged")]
    #[case::other_resources("/spec/rules/0/resources", json!(["deployments"]), "shop", "spec.rules: none is about the creation of Pods")]
    #[case::objects_without_namespace("/spec/rules/0/scope", json!("Cluster"), "shop", "spec.rules: none is about the creation of Pods")]
    #[case::updates("/spec/rules/0/operations", json!(["UPDATE"]), "shop", "spec.rules: none is about the creation of Pods")]
    #[case::object_selector("/spec/objectSelector", json!({"matchLabels": {"app": "api"}}), "shop",
        r#"spec.objectSelector.matchLabels[app]: Pod has "web", wanted "api""#)]
    #[case::another_namespace("/kind", json!("AdmissionPolicy"), "shop",
        r#"metadata.namespace: an AdmissionPolicy is for its own namespace "own", the Pod's is "shop""#)]
    fn a_policy_that_is_not_asked_says_why(
        #[case] pointer: &str,
        #[case] value: Value,
        #[case] namespace: &str,
        #[case] expected: &str,
    ) {
        let mut policy = policy();
        policy["metadata"] = json!({"namespace": "own"});
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        policy.pointer_mut(parent).unwrap()[key] = value;
        assert_eq!(said(&policy, namespace), [expected]);
    }

    /// HOST-14.
    #[test]
    fn match_labels_of_the_namespace_selector_are_dropped_by_kubewarden() {
        let mut policy = policy();
        policy["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
        assert_eq!(said(&policy, "shop"), [] as [&str; 0]);
        policy["spec"]["allowInsideAdmissionControllerNamespace"] = json!(true);
        assert_eq!(said(&policy, "shop").len(), 1);
    }

    #[test]
    fn a_policy_may_be_kept_from_changing_anything_or_say_more_than_is_looked_at() {
        let mut policy = policy();
        policy["spec"]["mutating"] = json!(false);
        policy["spec"]["matchConditions"] = json!([{"name": "x", "expression": "true"}]);
        assert_eq!(forbids_changes(&policy).unwrap().path.as_str(), "spec.mutating");
        assert_eq!(doubts(&policy).len(), 1);
    }

    #[test]
    fn a_draft_is_taken_to_be_for_pods() {
        let mut policy = policy();
        let spec = policy["spec"].as_object_mut().unwrap();
        spec.remove("rules");
        spec.remove("mutating");
        assert_eq!(said(&policy, "shop"), [] as [&str; 0]);
        assert_eq!(forbids_changes(&policy), None);
        assert_eq!(doubts(&policy).len(), 2);
        policy["spec"]["rules"] = json!([]);
        assert_eq!(said(&policy, "shop").len(), 1);
    }

    #[test]
    fn a_namespace_counts_as_assumed_only_where_its_labels_decide() {
        let cluster = Manifests::new([], "default", BTreeMap::new());
        let pod = json!({"metadata": {"name": "p"}});
        let mut policy = policy();
        assert_eq!(heed(&policy, &pod, "kube-system", &cluster, true).ignored.len(), 1);
        assert_eq!(cluster.assumed(), [] as [&str; 0]);
        policy["spec"]["namespaceSelector"]["matchExpressions"][0]["key"] = json!("team");
        assert_eq!(heed(&policy, &pod, "shop", &cluster, true).ignored.len(), 0);
        assert_eq!(cluster.assumed(), ["shop"]);
    }
}
