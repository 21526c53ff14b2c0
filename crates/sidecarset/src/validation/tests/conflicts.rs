use pillion_kubernetes::field::FieldError;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::conflicts::{self, Claims};
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
#[case::val52_an_init_container_of_the_name_of_a_container(json!({"containers": [], "initContainers": [container("logger", json!({}))]}), &[NAME])]
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

/// Pods get `logger-1` and `logger-2` of a hot-upgrade container `logger`. OpenKruise compares the names in the sets, list
/// by list, which counts, too. `refused` tells whether injection refuses a Pod of both.
#[rstest]
#[case::a_container(
    container("logger", json!({})), ("containers", container("logger", json!({}))),
    r#"SidecarSet "b" has a container of this name for the same Pods; rename one of them or change a selector"#, true
)]
#[case::an_init_container(
    container("logger", json!({})), ("initContainers", container("logger", json!({}))),
    r#"SidecarSet "b" has an init container of this name for the same Pods; rename the init container or change a selector"#, true
)]
#[case::a_half_and_a_container(
    hot("logger"), ("containers", container("logger-2", json!({}))),
    r#"HotUpgrade makes "logger-2" of it, and SidecarSet "b" has a container of that name for the same Pods; rename one of them or change a selector"#, true
)]
#[case::a_container_and_a_half(
    container("logger-1", json!({})), ("containers", hot("logger")),
    r#"SidecarSet "b" makes a container of this name by HotUpgrade for the same Pods; rename one of them or change a selector"#, true
)]
#[case::a_half_and_an_init_container(
    hot("logger"), ("initContainers", container("logger-1", json!({}))),
    r#"HotUpgrade makes "logger-1" of it, and SidecarSet "b" has an init container of that name for the same Pods; rename the init container or change a selector"#, true
)]
#[case::halves_in_two_lists(
    hot("logger"), ("initContainers", native(hot("logger"))),
    r#"HotUpgrade makes "logger-1" of it, and SidecarSet "b" makes an init container of that name by HotUpgrade for the same Pods; rename the init container or change a selector"#, true
)]
#[case::two_pairs(
    hot("logger"), ("containers", hot("logger")),
    r#"SidecarSet "b" has a container of this name for the same Pods; rename one of them or change a selector"#, true
)]
#[case::a_pair_and_a_container(
    hot("logger"), ("containers", container("logger", json!({}))),
    r#"SidecarSet "b" has a container of this name for the same Pods; rename one of them or change a selector"#, false
)]
#[case::a_pair_and_an_init_container(hot("logger"), ("initContainers", container("logger", json!({}))), "", false)]
#[case::a_name_that_a_pair_does_not_make(hot("logger"), ("containers", container("logger-3", json!({}))), "", false)]
#[case::an_init_container_that_is_no_pair(container("logger-1", json!({})), ("initContainers", hot("logger")), "", false)]
fn val52_names_are_compared_as_they_are_made(
    #[case] own: Value,
    #[case] (list, theirs): (&str, Value),
    #[case] expected: &str,
    #[case] refused: bool,
) {
    let of = |name, list: &str, sidecar: Value| {
        let mut spec = json!({"containers": [container(&format!("only-{name}"), json!({}))]});
        spec[list] = json!([sidecar]);
        set(name, json!({"spec": spec}))
    };
    let (own, theirs) = (of("a", "containers", own), of("b", list, theirs));
    let found = errors(&own, std::slice::from_ref(&theirs));
    assert_eq!(found.iter().map(|error| error.detail.as_str()).collect::<Vec<_>>().concat(), expected);
    assert_eq!(paths(&found), if expected.is_empty() { vec![] } else { vec![NAME] });
    let place = format!("spec.{list}[0].name");
    let found = errors(&theirs, std::slice::from_ref(&own));
    assert_eq!(paths(&found), if expected.is_empty() { vec![] } else { vec![place.as_str()] });
    assert_eq!(Claims::from_sidecar_set(&own).shared_container(&Claims::from_sidecar_set(&theirs)).is_some(), refused);
}

fn native(mut init_container: Value) -> Value {
    init_container["restartPolicy"] = "Always".into();
    init_container
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
