//! Who leaves which `SidecarSet` out.

use pillion_kubernetes::lookup::Failure;
use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::json;

use super::*;

/// Returns a cluster with one Namespace, `shop`, which has this annotation; without one, the Namespace is not there.
fn shop(names: Option<&str>) -> FakeObjects {
    let of = |names| json!({"metadata": {"name": "shop", "annotations": {OPT_OUT_OF: names}}});
    FakeObjects::new().with("Namespace shop", Ok(names.map(of)))
}

fn set(name: &str, annotations: &Value) -> SidecarSet {
    SidecarSet::from_decoded(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": name, "annotations": annotations}, "spec": {"selector": {"matchLabels": {"app": "x"}}},
    }))
}

/// Two SidecarSets that may be left out, `log` and its canary, and two that may not: `mesh`, and `wrong`, whose annotation
/// has an unknown value.
fn sets() -> Vec<SidecarSet> {
    vec![
        set("log", &json!({OPT_OUT: "Allowed"})),
        set(
            "log-canary",
            &json!({OPT_OUT: "Allowed", "apps.kruise.io/sidecarset-canary": "true",
            "apps.kruise.io/sidecarset-base": "log"}),
        ),
        set("mesh", &json!({})),
        set("wrong", &json!({OPT_OUT: "yes"})),
    ]
}

fn asked(pod: &str, cluster: &dyn Lookup, sets: &[SidecarSet]) -> Result<Vec<String>, Reason> {
    let pod = json!({"metadata": {"annotations": {OPT_OUT_OF: pod}}, "spec": {"containers": []}});
    let query = Query { pod: Pod::decode(&pod).unwrap(), namespace: "shop", uid: "u" };
    let compiled: Vec<CompiledSet<'_>> = sets.iter().map(CompiledSet::new).collect();
    let matched: Vec<&CompiledSet<'_>> = compiled.iter().collect();
    let short =
        |one: OptedOut| format!("{} {}{}", one.sidecar_set, one.by, if one.is_allowed { "" } else { ", in vain" });
    Ok(opted_out(&matched, query, cluster)?.into_iter().map(short).collect())
}

#[rstest]
#[case::nobody("", None, &[])]
#[case::a_pod("log-canary", None, &["log-canary Pod"])]
#[case::a_base_with_its_canary("log", None, &["log Pod", "log-canary Pod"])]
#[case::with_spaces(" log , ,mesh", None, &["log Pod", "log-canary Pod", "mesh Pod, in vain"])]
#[case::a_namespace("", Some("log"), &["log Namespace", "log-canary Namespace"])]
#[case::both("log-canary", Some("log"), &["log Namespace", "log-canary Pod"])]
#[case::a_namespace_in_vain("", Some("mesh,wrong"), &[])]
#[case::an_unknown_value_allows_nothing("wrong", None, &["wrong Pod, in vain"])]
#[case::a_part_of_a_name("lo,log-agent,LOG", Some("og"), &[])]
fn opt2_a_pod_or_its_namespace_leaves_out_what_allows_it(
    #[case] pod: &str,
    #[case] namespace: Option<&'static str>,
    #[case] expected: &[&str],
) {
    assert_eq!(asked(pod, &shop(namespace), &sets()).unwrap(), expected);
}

#[test]
fn opt3_the_namespace_is_looked_up_only_if_it_can_decide() {
    let mandatory = [set("mesh", &json!({}))];
    assert_eq!(asked("mesh", &FakeObjects::new(), &mandatory).unwrap(), ["mesh Pod, in vain"]);
    assert_eq!(asked("log", &FakeObjects::new(), &sets()).unwrap(), ["log Pod", "log-canary Pod"]);
}

#[test]
fn opt3_a_namespace_that_cannot_be_read_refuses_the_pod() {
    let reason = asked("", &FakeObjects::answering(Err(Failure::Timeout)), &sets()).unwrap_err();
    assert_eq!(reason.field, "metadata.annotations[pillion.dev/opt-out]");
    assert_eq!(reason.sidecar_set.as_deref(), Some("log"));
    assert!(reason.problem.starts_with("Namespace \"shop\" could not be read"), "{}", reason.problem);
}

#[rstest]
#[case::of_the_pod("log", "a, log", "", Some(By::Pod))]
#[case::of_the_namespace("log", "", "log", Some(By::Namespace))]
#[case::of_both("log", "log", "log", Some(By::Pod))]
#[case::of_the_base("log-canary", "log", "", Some(By::Pod))]
#[case::others("log", "logs", "mesh", None)]
#[case::not_allowed("mesh", "mesh", "mesh", None)]
#[case::an_unknown_value("wrong", "wrong", "", None)]
fn opt5_a_set_alone_is_judged_as_among_others(
    #[case] name: &str,
    #[case] of_pod: &str,
    #[case] of_namespace: &str,
    #[case] expected: Option<By>,
) {
    let sets = sets();
    let set = sets.iter().find(|set| set.name() == name).unwrap();
    assert_eq!(left_out_by(set, of_pod, of_namespace), expected);
}
