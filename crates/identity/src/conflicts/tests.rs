#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::partners::Origin;

fn set(name: &str, account: &str, spec: Value) -> SidecarSet {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "serviceAccountName": account},
    });
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    SidecarSet::from_decoded(object)
}

fn checked(set: &SidecarSet, other: &SidecarSet, rules: &Rules) -> Findings {
    let mut findings = Findings::default();
    let (declared, theirs) = (Declared::from_sidecar_set(set).unwrap(), Declared::from_sidecar_set(other).unwrap());
    check((set, &declared), (other, &theirs), rules, &mut findings);
    findings
}

/// Returns the kind of a conflict between two sets, in either order.
fn told(one: &SidecarSet, other: &SidecarSet, rules: &Rules) -> &'static str {
    let kind = |findings: Findings| match (findings.refused.len(), findings.warnings.len(), findings.invalid.len()) {
        (0, 0, 0) => "none",
        (1, 0, 0) => "certain",
        (0, 1, 0) => "possible",
        _ => panic!("{findings:?}"),
    };
    let told = kind(checked(one, other, rules));
    assert_eq!(kind(checked(other, one, rules)), told, "it does not matter who comes first");
    told
}

fn selecting(labels: Value) -> Value {
    json!({"selector": {"matchLabels": labels}})
}

fn in_namespace(name: &str) -> Value {
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}})
}

#[rstest]
#[case::same_selector(json!({}), json!({}), "certain")]
#[case::one_within_the_other(json!({}), selecting(json!({"app": "web", "tier": "front"})), "certain")]
#[case::within_one_namespace(in_namespace("a"), json!({}), "certain")]
#[case::each_wider_in_one(
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}, "selector": {"matchLabels": {"app": "web"}}}),
    selecting(json!({"app": "web", "tier": "front"})),
    "possible"
)]
#[case::some_pods_of_both(selecting(json!({"app": "web"})), selecting(json!({"tier": "front"})), "possible")]
#[case::no_pod_of_both(json!({}), selecting(json!({"app": "db"})), "none")]
#[case::no_namespace_of_both(in_namespace("a"), in_namespace("b"), "none")]
#[case::isolated(json!({}), json!({"serviceAccountMode": "Isolate"}), "none")]
#[case::both_isolated(json!({"serviceAccountMode": "Isolate"}), json!({"serviceAccountMode": "Isolate"}), "none")]
#[case::mode_pod(json!({}), json!({"serviceAccountMode": "Pod"}), "certain")]
#[case::one_merges(json!({}), json!({"behaviorWhenServiceAccountInjection": "Merge"}), "certain")]
#[case::both_merge(
    json!({"behaviorWhenServiceAccountInjection": "Merge"}),
    json!({"behaviorWhenServiceAccountInjection": "Merge"}),
    "certain"
)]
#[case::trust2_partners_merge(
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPartners": ["b"]}),
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPartners": ["a"]}),
    "none"
)]
#[case::trust2_one_alone_names_the_other(
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPartners": ["b"]}),
    json!({"behaviorWhenServiceAccountInjection": "Merge"}),
    "certain"
)]
#[case::no_account(json!({}), json!({"serviceAccountName": null}), "none")]
#[case::paused(json!({}), json!({"injectionStrategy": {"paused": true}}), "possible")]
fn idv4_idc6_conflicts(#[case] one: Value, #[case] other: Value, #[case] expected: &str) {
    let (one, other) = (set("a", "x", one), set("b", "y", other));
    assert_eq!(told(&one, &other, &Rules::default()), expected);
    // With `onConflict: Skip`, a certain conflict only causes a warning.
    let skip = Rules { on_conflict: Otherwise::Skip, ..Rules::default() };
    assert_eq!(told(&one, &other, &skip), if expected == "certain" { "possible" } else { expected });
}

#[rstest]
#[case::of_the_settings(Origin::Settings, Origin::Settings, false, "none")]
#[case::of_both(Origin::Settings, Origin::Cluster, false, "certain")]
#[case::of_the_cluster(Origin::Cluster, Origin::Cluster, false, "certain")]
#[case::of_the_cluster_that_trusts_all_alike(Origin::Cluster, Origin::Cluster, true, "none")]
fn trust2_who_may_merge(#[case] one: Origin, #[case] other: Origin, #[case] alike: bool, #[case] expected: &str) {
    let merge = json!({"behaviorWhenServiceAccountInjection": "Merge"});
    let (one, other) = (set("a", "x", merge.clone()).with_origin(one), set("b", "y", merge).with_origin(other));
    let rules = Rules { merge_cluster_sets: alike, ..Rules::default() };
    assert_eq!(told(&one, &other, &rules), expected);
}

#[test]
fn trust2_the_message_says_which_line_to_add_where() {
    let merge = json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPartners": ["a"]});
    let (one, other) = (set("b", "y", merge), set("a", "x", json!({"behaviorWhenServiceAccountInjection": "Merge"})));
    let findings = checked(&one, &other.with_origin(Origin::Settings), &Rules::default());
    let messages: Vec<String> = findings.refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "SidecarSet \"b\": spec.serviceAccountName: SidecarSet \"a\" wants ServiceAccount \"x\" for the same Pods, and the \
          two do not trust each other with a merged one; add \"b\" to spec.serviceAccountPartners of SidecarSet \"a\" in the \
          policy's settings, or give them one account or the mode Isolate (serviceAccounts.mergeClusterSets)"
        ]
    );
}

#[test]
fn idv4_the_same_account_is_no_conflict() {
    assert_eq!(told(&set("a", "x", json!({})), &set("b", "x", json!({})), &Rules::default()), "none");
}

#[test]
fn idv4_a_set_does_not_conflict_with_itself_or_its_canary() {
    let set_a = set("a", "x", json!({}));
    assert_eq!(told(&set_a, &set("a", "y", json!({})), &Rules::default()), "none");
    let mut canary = set("a-canary", "y", json!({})).into_value();
    canary["metadata"]["annotations"] =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a"});
    assert_eq!(told(&set_a, &SidecarSet::from_decoded(canary), &Rules::default()), "none");
}

#[test]
fn idv4_the_message_names_the_other_set_and_the_way_out() {
    let (one, other) = (set("a", "x", json!({})), set("b", "y", json!({})));
    assert_eq!(
        checked(&one, &other, &Rules::default()).refused[0].to_string(),
        "SidecarSet \"a\": spec.serviceAccountName: SidecarSet \"b\" wants ServiceAccount \"y\" for the same Pods, and \
         not both merge; give them one account, the behaviour Merge or the mode Isolate"
    );
    let other = set("b", "y", selecting(json!({"tier": "front"})));
    assert_eq!(
        checked(&one, &other, &Rules::default()).warnings,
        ["where both match: SidecarSet \"b\" wants ServiceAccount \"y\" for the same Pods, and not both merge"]
    );
}
