use pillion_kubernetes::field::FieldError;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::conflicts;
use super::{collect, container, paths, set};
use crate::sidecar_set::SidecarSet;

const NAME: &str = "spec.containers[0].name";

/// Returns the conflicts with any of `others`.
fn errors(set: &SidecarSet, others: &[SidecarSet]) -> Vec<FieldError> {
    collect(|errors| others.iter().for_each(|other| conflicts::check(set, other, errors)))
}

fn labels(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

#[rstest]
#[case::same_pods(json!({}), &[NAME])]
#[case::val50_other_pods(json!({"selector": labels("app", "db")}), &[])]
#[case::val50_some_pods(json!({"selector": {"matchLabels": null, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}}), &[NAME])]
#[case::val50_one_namespace_of_all(json!({"namespaceSelector": labels("env", "prod")}), &[NAME])]
#[case::a_requirement_that_nobody_understands_rules_nothing_out(
    json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Lt"}]}}), &[NAME]
)]
#[case::no_selector_selects_nothing(json!({"selector": null}), &[])]
#[case::other_name(json!({"containers": [container("metrics", json!({}))]}), &[])]
#[case::val52_init_containers_are_another_list(json!({"containers": [], "initContainers": [container("logger", json!({}))]}), &[])]
#[case::val53_another_volume(
    json!({"containers": [], "volumes": [{"name": "log", "hostPath": {"path": "/log", "type": ""}}]}),
    &["spec.volumes[0]"]
)]
#[case::val53_an_equal_volume(json!({"containers": [], "volumes": [{"name": "log", "emptyDir": {"medium": ""}}]}), &[])]
fn val50_val53_other_sets(#[case] changes: Value, #[case] expected: &[&str]) {
    let other = set("other", json!({"spec": changes}));
    assert_eq!(paths(&errors(&set("a", json!({})), &[other])), expected);
}

#[test]
fn val50_disjoint_namespaces_never_meet() {
    let of = |name, env| set(name, json!({"spec": {"namespaceSelector": labels("env", env)}}));
    assert_eq!(errors(&of("a", "prod"), &[of("b", "test")]), []);
    assert_eq!(paths(&errors(&of("a", "prod"), &[of("b", "prod")])), [NAME]);
}

#[test]
fn val50_a_set_does_not_conflict_with_what_it_replaces() {
    assert_eq!(errors(&set("a", json!({})), &[set("a", json!({}))]), []);
}

#[test]
fn val52_init_containers() {
    let of = |name| set(name, json!({"spec": {"containers": [], "initContainers": [container("i", json!({}))]}}));
    let errors = errors(&of("a"), &[of("b")]);
    assert_eq!(paths(&errors), ["spec.initContainers[0].name"]);
    assert!(errors[0].detail.contains("\"b\""), "{}", errors[0]);
}

/// Pods get `logger-1` and `logger-2` of a hot-upgrade container `logger`.
#[rstest]
#[case::a_half(container("logger-2", json!({})), Some(r#"HotUpgrade makes "logger-2" of it"#))]
#[case::another_pair(hot("logger"), None)]
#[case::the_written_name(container("logger", json!({})), None)]
fn val52_halves_are_compared_as_they_are_made(#[case] theirs: Value, #[case] made: Option<&str>) {
    let of = |name, container: &Value| set(name, json!({"spec": {"containers": [container]}}));
    let (own, theirs) = (of("a", &hot("logger")), of("b", &theirs));
    let found = errors(&own, std::slice::from_ref(&theirs));
    assert_eq!(paths(&found), [NAME]);
    assert_eq!(made.is_some(), found[0].detail.contains("HotUpgrade"), "{}", found[0]);
    assert!(made.is_none_or(|made| found[0].detail.ends_with(made)), "{}", found[0]);
    assert_eq!(paths(&errors(&theirs, &[own])), [NAME]);
    assert_eq!(errors(&of("a", &hot("logger")), &[of("b", &container("logger-3", json!({})))]), []);
}

fn hot(name: &str) -> Value {
    container(name, json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}}))
}

#[test]
fn val53_volumes_are_compared_by_what_they_say() {
    let of = |name, size: Value| {
        set(name, json!({"spec": {"containers": [], "volumes": [{"name": "v", "emptyDir": {"sizeLimit": size}}]}}))
    };
    assert_eq!(errors(&of("a", json!("1024Mi")), &[of("b", json!("1Gi"))]), []);
    assert_eq!(paths(&errors(&of("a", json!("1G")), &[of("b", json!("1Gi"))])), ["spec.volumes[0]"]);
}

#[rstest]
#[case::retain("Retain", "Overwrite", false)]
#[case::retained_there("Overwrite", "Retain", false)]
#[case::both_overwrite("Overwrite", "Overwrite", true)]
#[case::own_overwrites("Overwrite", "MergePatchJson", true)]
#[case::other_overwrites("MergePatchJson", "Overwrite", true)]
#[case::both_merge("MergePatchJson", "MergePatchJson", false)]
fn val54_annotations(#[case] own: &str, #[case] theirs: &str, #[case] conflict: bool) {
    let of = |name, policy: &str| {
        let patches = json!([{"annotations": {"free": name}, "patchPolicy": "Retain"}, {"annotations": {"a": "b"}, "patchPolicy": policy}]);
        set(name, json!({"spec": {"containers": [container(name, json!({}))], "patchPodMetadata": patches}}))
    };
    let errors = errors(&of("x", own), &[of("y", theirs)]);
    let expected: &[&str] = if conflict { &["spec.patchPodMetadata[1].annotations[a]"] } else { &[] };
    assert_eq!(paths(&errors), expected);
}

#[test]
fn val55_diff1_a_canary_and_its_base_share_containers_and_two_canaries_do_not() {
    let canary = |name| {
        let annotations = json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"});
        set(name, json!({"metadata": {"annotations": annotations}}))
    };
    let base = || set("base", json!({}));
    assert_eq!(errors(&canary("c"), &[base()]), []);
    assert_eq!(errors(&base(), &[canary("c")]), []);
    assert_eq!(paths(&errors(&canary("c"), &[base(), canary("d")])), [NAME]);
}
