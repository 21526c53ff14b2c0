//! What overrides do to the `SidecarSet`s of a Pod.

use pillion_kubernetes::lookup::Failure;
use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::pod::Pod;
use rstest::rstest;
use serde_json::json;

use super::*;

const AGENT: &str = "overrides.pillion.dev/agent";
const MESH: &str = "overrides.pillion.dev/mesh";

/// Returns a cluster with one Namespace, `shop`, which has these annotations.
fn shop(annotations: &Value) -> FakeObjects {
    FakeObjects::new()
        .with("Namespace shop", Ok(Some(json!({"metadata": {"name": "shop", "annotations": annotations}}))))
}

fn set(container: &str, rules: Option<Value>, spec: &Value) -> SidecarSet {
    let annotations = rules.map_or(json!({}), |rules| json!({OVERRIDES: rules.to_string()}));
    let mut spec = spec.clone();
    spec["containers"] = json!([{"name": container, "image": "i:1", "resources": {"limits": {"memory": "64Mi"}}}]);
    SidecarSet::from_decoded(
        json!({"metadata": {"name": format!("{container}-set"), "annotations": annotations}, "spec": spec}),
    )
}

fn memory(limit: &str) -> String {
    json!({"resources": {"limits": {"memory": limit}}}).to_string()
}

/// Rules for the memory of a container, with further fields.
fn rules(container: &str, more: &Value) -> Value {
    let mut rules = json!({"containers": {container: {"memory": {"max": "1Gi"}}}});
    rules.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rules
}

/// The memory of each sidecar, and what came of the overrides.
type Applied = (Vec<String>, Result<Overrides, Vec<Reason>>);

fn applied(mut sets: Vec<SidecarSet>, annotations: &Value, lookup: &dyn Lookup) -> Applied {
    let object =
        json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [{"name": "app"}]}});
    let pod = Pod::decode(&object).unwrap();
    let overrides = apply(&mut sets, Query { pod, namespace: "shop", uid: "u" }, lookup);
    let memory = |set: &SidecarSet| json::text(&set.containers()[0], &["resources", "limits", "memory"]).to_owned();
    (sets.iter().map(memory).collect(), overrides)
}

#[test]
fn ovr8_a_pod_changes_the_sidecars_that_allow_it_and_no_others() {
    let sets = || {
        vec![set("agent", Some(rules("agent", &json!({"from": ["Pod"]}))), &json!({})), set("mesh", None, &json!({}))]
    };
    let asked = json!({AGENT: memory("512Mi"), MESH: memory("512Mi"), "overrides.pillion.dev/app": "{}"});
    let (limits, overrides) = applied(sets(), &asked, &FakeObjects::new());
    assert_eq!(limits, ["512Mi", "64Mi"]);
    assert_eq!(
        overrides.unwrap().warnings(),
        [
            "SidecarSet \"mesh-set\": annotation overrides.pillion.dev/mesh of the Pod has no effect, the SidecarSet \
             allows no overrides",
            "the annotation overrides.pillion.dev/app has no effect: no SidecarSet gives the Pod a container \"app\"; \
             correct the name, or remove the annotation",
        ]
    );
    let (limits, overrides) = applied(sets(), &json!({}), &FakeObjects::new());
    assert_eq!((limits, overrides), (vec!["64Mi".to_owned(); 2], Ok(Overrides::default())));
}

#[test]
fn ovr6_a_pod_out_of_bounds_is_refused() {
    let set = set("agent", Some(rules("agent", &json!({}))), &json!({}));
    let (_, overrides) = applied(vec![set], &json!({AGENT: memory("2Gi")}), &shop(&json!({})));
    let told: Vec<String> = overrides.unwrap_err().iter().map(Reason::to_string).collect();
    assert_eq!(
        told,
        ["SidecarSet \"agent-set\": metadata.annotations[overrides.pillion.dev/agent]: of the Pod: \
          resources.limits.memory is 2Gi, the SidecarSet allows up to 1Gi; ask the author of the SidecarSet for \
          pillion.dev/overrides, or change the annotation"]
    );
}

#[test]
fn ovr6_a_pod_out_of_bounds_gets_the_bound_if_the_author_says_so() {
    let set = set("agent", Some(rules("agent", &json!({"outOfBounds": "Clamp"}))), &json!({}));
    let (limits, overrides) = applied(vec![set], &json!({AGENT: memory("2Gi")}), &shop(&json!({})));
    assert_eq!(limits, ["1Gi"]);
    assert_eq!(
        overrides.unwrap().warnings(),
        [
            "SidecarSet \"agent-set\": annotation overrides.pillion.dev/agent of the Pod: resources.limits.memory is 2Gi, \
          the SidecarSet allows up to 1Gi; it is 1Gi"
        ]
    );
}

#[rstest]
#[case::both(json!({}), &["96Mi"])]
#[case::pods_alone(json!({"from": ["Pod"]}), &["64Mi"])]
fn ovr4_a_namespace_changes_the_sidecars_of_its_pods(#[case] more: Value, #[case] expected: &[&str]) {
    let set = set("agent", Some(rules("agent", &more)), &json!({}));
    let (limits, overrides) = applied(vec![set], &json!({}), &shop(&json!({AGENT: memory("96Mi"), MESH: "no JSON"})));
    assert_eq!(limits, expected);
    assert_eq!(overrides.unwrap().warnings(), Vec::<String>::new());
}

#[test]
fn ovr4_without_an_answer_about_the_namespace_the_pod_is_refused() {
    let set = set("agent", Some(rules("agent", &json!({}))), &json!({}));
    let (_, overrides) = applied(vec![set], &json!({}), &FakeObjects::answering(Err(Failure::Timeout)));
    let reasons = overrides.unwrap_err();
    assert_eq!((reasons[0].code, reasons[0].sidecar_set.as_deref()), (Code::Unavailable, Some("agent-set")));
}

#[test]
fn ovr9_what_a_sidecar_set_writes_into_the_pod_asks_for_nothing() {
    let istio = json!({"from": ["Pod"], "containers": {"agent": {"memory": {"max": "1Gi"}, "istioAnnotations": true}}});
    let asked = json!({"sidecar.istio.io/proxyMemoryLimit": "512Mi"});
    let (limits, _) = applied(vec![set("agent", Some(istio.clone()), &json!({}))], &asked, &FakeObjects::new());
    assert_eq!(limits, ["512Mi"]);
    let writes = json!({"patchPodMetadata": [{"patchPolicy": "Overwrite", "annotations": asked}]});
    let sets = vec![set("agent", Some(istio), &json!({})), set("mesh", None, &writes)];
    assert_eq!(applied(sets, &asked, &FakeObjects::new()).0, ["64Mi", "64Mi"]);
}

#[test]
fn a_set_whose_rules_cannot_be_read_allows_nothing() {
    let mut set = set("agent", Some(rules("agent", &json!({}))), &json!({}));
    set.as_value_mut()["metadata"]["annotations"][OVERRIDES] = json!("memory: 1Gi");
    let (limits, overrides) = applied(vec![set], &json!({AGENT: memory("96Mi")}), &FakeObjects::new());
    assert_eq!(limits, ["64Mi"]);
    assert_eq!(overrides.unwrap().warnings().len(), 1);
}
