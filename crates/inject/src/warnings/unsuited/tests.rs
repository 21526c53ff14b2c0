//! Each warning with a Pod that gets it, and the most similar one that does not.
#![allow(clippy::needless_pass_by_value, reason = "json!(...) reads better without a borrow")]

use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use rstest::rstest;
use serde_json::{Value, json};

use crate::Context;
use crate::tests::set;

/// Returns a SidecarSet `s` with one container `c`, which has these fields.
fn with_container(fields: Value) -> SidecarSet {
    set("s", json!({"containers": [container("c", fields)]}))
}

/// Returns a SidecarSet `s` with one init container `c`, which has these fields.
fn with_init_container(fields: Value) -> SidecarSet {
    set("s", json!({"initContainers": [container("c", fields)]}))
}

fn container(name: &str, fields: Value) -> Value {
    let mut container = json!({"name": name, "image": "i:1"});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    container
}

/// Returns a Pod whose spec has these fields, and a container `app` if they have none.
fn pod(fields: Value) -> Value {
    let mut spec = json!({"containers": [container("app", json!({}))]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": spec})
}

/// Returns the Pod after injection, and the warnings.
fn injected(pod: &Value, sets: &[SidecarSet]) -> (Value, Vec<String>) {
    let context = Context { now: Timestamp(0), sort_by_name: false, hides_tokens: None, other_webhooks: None };
    let mut after = pod.clone();
    let warnings = crate::plan(Pod::decode(pod).unwrap(), sets, context).unwrap().apply(&mut after).warnings;
    assert_ne!(after, *pod);
    (after, warnings)
}

fn warnings(pod: Value, sets: &[SidecarSet]) -> Vec<String> {
    injected(&pod, sets).1
}

#[rstest]
#[case::never(json!({"restartPolicy": "Never"}), Some("the Pod (restartPolicy Never) from completing"))]
#[case::on_failure(json!({"restartPolicy": "OnFailure"}), Some("the Pod (restartPolicy OnFailure) from completing"))]
#[case::always(json!({"restartPolicy": "Always"}), None)]
#[case::absent_which_is_always(json!({}), None)]
#[case::unknown(json!({"restartPolicy": "Sometimes"}), None)]
fn inj31_a_plain_sidecar_keeps_a_pod_from_completing(#[case] spec: Value, #[case] kept: Option<&str>) {
    let remedy =
        "set annotation pillion.dev/native to EndingPods, or make it an init container with restartPolicy Always";
    let text = |kept| format!("SidecarSet s: container \"c\" may keep {kept}; {remedy}");
    let sets = [with_container(json!({}))];
    let (after, found) = injected(&pod(spec), &sets);
    assert_eq!(found, kept.map(text).into_iter().collect::<Vec<_>>());
    // Another call for the Pod, or an update of it, says the same.
    let context = Context { now: Timestamp(9), sort_by_name: false, hides_tokens: None, other_webhooks: None };
    let again = crate::plan(Pod::decode(&after).unwrap(), &sets, context).unwrap();
    assert_eq!(again.apply(&mut after.clone()).warnings, found);
}

#[rstest]
#[case::native(json!({"restartPolicy": "Always"}))]
#[case::one_shot(json!({}))]
fn inj31_an_init_container_lets_a_pod_complete(#[case] fields: Value) {
    assert_eq!(warnings(pod(json!({"restartPolicy": "Never"})), &[with_init_container(fields)]), Vec::<String>::new());
}

#[test]
fn inj31_each_plain_sidecar_in_the_pod_of_a_job_is_told_once() {
    let mut job = pod(json!({"restartPolicy": "Never"}));
    job["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j"}]);
    let sets = ["a", "b"].map(|name| set(name, json!({"containers": [container(name, json!({}))]})));
    let expected = ["a", "b"].map(|name| {
        format!(
            "SidecarSet {name}: container \"{name}\" may keep the Job from finishing; set annotation \
             pillion.dev/native to EndingPods, or make it an init container with restartPolicy Always"
        )
    });
    assert_eq!(warnings(job, &sets), expected);
}

const LEAVE_OUT: &str = "exclude such Pods by a label in the selector, or by the namespaceSelector";

#[rstest]
#[case::a_container(with_container(json!({"ports": [{"containerPort": 80}]})), true)]
#[case::a_native_sidecar(
    with_init_container(json!({"restartPolicy": "Always", "ports": [{"containerPort": 80}]})), true
)]
#[case::an_init_container_that_ends(with_init_container(json!({"ports": [{"containerPort": 80}]})), false)]
#[case::a_port_of_the_node_in_every_pod(with_container(json!({"ports": [{"containerPort": 80, "hostPort": 80}]})), false)]
#[case::some_of_the_ports(
    with_container(json!({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}]})), true
)]
#[case::no_ports(with_container(json!({"ports": []})), false)]
fn inj31_ports_become_ports_of_the_node(#[case] sidecar: SidecarSet, #[case] is_told: bool) {
    let expected = format!(
        "SidecarSet s: the Pod has hostNetwork, so the ports of container \"c\" become ports of the node, which has room for \
         one such Pod; {LEAVE_OUT}"
    );
    let sets = [sidecar];
    let expected: Vec<String> = is_told.then_some(expected).into_iter().collect();
    assert_eq!(warnings(pod(json!({"hostNetwork": true})), &sets), expected);
    assert_eq!(warnings(pod(json!({"hostNetwork": false})), &sets), Vec::<String>::new());
    assert_eq!(warnings(pod(json!({})), &sets), Vec::<String>::new());
}

#[rstest]
#[case::net_admin(json!({"capabilities": {"add": ["CHOWN", "NET_ADMIN"]}}), Some("has the capability NET_ADMIN"))]
#[case::with_the_kernels_prefix(json!({"capabilities": {"add": ["cap_net_admin"]}}), Some("has the capability NET_ADMIN"))]
#[case::all(json!({"capabilities": {"add": ["ALL"]}}), Some("has the capability ALL"))]
#[case::privileged(json!({"privileged": true}), Some("is privileged"))]
#[case::another_capability(json!({"capabilities": {"add": ["NET_RAW"]}}), None)]
#[case::dropped(json!({"capabilities": {"drop": ["NET_ADMIN"]}}), None)]
fn inj31_administrators_of_the_network_change_that_of_the_node(#[case] context: Value, #[case] power: Option<&str>) {
    let fields = json!({ "securityContext": context });
    for sets in [[with_container(fields.clone())], [with_init_container(fields)]] {
        let text = |power| {
            format!(
                "SidecarSet s: the Pod has hostNetwork, so container \"c\", which {power}, can change the network of the node; \
                 {LEAVE_OUT}"
            )
        };
        let expected: Vec<String> = power.map(text).into_iter().collect();
        assert_eq!(warnings(pod(json!({"hostNetwork": true})), &sets), expected);
        assert_eq!(warnings(pod(json!({})), &sets), Vec::<String>::new());
    }
}

#[rstest]
#[case::by_os(json!({"os": {"name": "windows"}}), true)]
#[case::by_the_node_selector(json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), true)]
#[case::linux(json!({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux"}}), false)]
#[case::any(json!({}), false)]
fn inj31_images_for_linux_do_not_start_in_a_pod_for_windows(#[case] spec: Value, #[case] is_told: bool) {
    // One warning for each SidecarSet, and none for one that is made for Windows.
    let two = set("two", json!({"containers": [container("a", json!({})), container("b", json!({}))]}));
    let options = json!({"securityContext": {"windowsOptions": {}}});
    let windows = set("w", json!({"containers": [container("w", options)]}));
    let expected = format!(
        "SidecarSet two: the Pod is for Windows, where images for Linux do not start; unless the sidecars have images for \
         Windows, {LEAVE_OUT}"
    );
    let (expected, sets) = if is_told { (vec![expected], vec![two, windows]) } else { (Vec::new(), vec![two]) };
    assert_eq!(warnings(pod(spec), &sets), expected);
}

fn policy(expressions: Value) -> Value {
    json!({"resourcesPolicy": {
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": expressions,
    }})
}

fn computed(expressions: Value) -> SidecarSet {
    with_container(policy(expressions))
}

/// Cases are the Pod's resources, the app's, the expressions, and the words of the warning.
#[rstest]
#[case::only_the_pod_has_them(
    json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}), json!({}),
    json!({"requests": {"cpu": "cpu*50%"}, "limits": {"cpu": "cpu*50%", "memory": "memory*50%"}}),
    Some("limits.cpu, limits.memory, requests.cpu of the Pod, and its containers have none: it computed \
          {\"requests\":{\"cpu\":\"0\"}};")
)]
#[case::nothing_is_computed(
    json!({"limits": {"cpu": "2"}}), json!({}), json!({"limits": {"cpu": "cpu"}}),
    Some("limits.cpu of the Pod, and its containers have none: it computed nothing;")
)]
#[case::the_app_has_requests_only(
    json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), json!({"requests": {"cpu": "200m"}}),
    json!({"requests": {"cpu": "cpu*50%"}, "limits": {"cpu": "cpu*50%"}}),
    Some("limits.cpu of the Pod, and its containers have none: it computed {\"requests\":{\"cpu\":\"100m\"}};")
)]
#[case::the_app_has_them_too(
    json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "200m"}}), json!({"requests": {"cpu": "cpu"}}), None
)]
#[case::the_pod_has_another_resource(json!({"requests": {"memory": "1Gi"}}), json!({}), json!({"requests": {"cpu": "cpu"}}), None)]
#[case::constants(json!({"requests": {"cpu": "1"}}), json!({}), json!({"requests": {"cpu": "100m"}}), None)]
#[case::nobody_has_any(json!({}), json!({}), json!({"requests": {"cpu": "cpu"}}), None)]
fn inj31_expr2_resources_that_only_the_pod_has_are_not_counted(
    #[case] of_pod: Value,
    #[case] of_app: Value,
    #[case] expressions: Value,
    #[case] words: Option<&str>,
) {
    let app = container("app", json!({ "resources": of_app }));
    let text = |words| {
        format!(
            "SidecarSet s: c: resourcesPolicy does not count {words} give its containers resources, or write constants"
        )
    };
    let expected: Vec<String> = words.map(text).into_iter().collect();
    assert_eq!(warnings(pod(json!({"containers": [app], "resources": of_pod})), &[computed(expressions)]), expected);
}

/// The longest names of a container, and a SidecarSet with one as long. The API server cuts a warning after 256 characters.
#[test]
fn inj31_expr2_a_warning_about_resources_keeps_its_remedy_with_long_names() {
    let long = "n".repeat(63);
    let all = json!({"cpu": "100", "memory": "123456789Ki"});
    let expressions =
        json!({"requests": {"cpu": "cpu", "memory": "memory"}, "limits": {"cpu": "cpu", "memory": "memory"}});
    let set = set(&long, json!({"containers": [container(&long, policy(expressions))]}));
    let found = warnings(pod(json!({"resources": {"requests": all, "limits": all}})), &[set]);
    let expected = format!(
        "SidecarSet {long}: {long}: resourcesPolicy ignores limits.cpu (and 3 more) of the Pod; give its containers resources, \
         or write constants"
    );
    assert!(expected.len() <= 256);
    assert_eq!(found, [expected]);
}

/// A container that an earlier call has injected is no target, although the Pod has it.
#[test]
fn inj31_expr1_resources_of_injected_containers_are_not_counted() {
    let sets = [computed(json!({"requests": {"cpu": "cpu"}}))];
    let (after, found) = injected(&pod(json!({"resources": {"requests": {"cpu": "1"}}})), &sets);
    assert_eq!(found.len(), 1, "{found:?}");
    let context = Context { now: Timestamp(0), sort_by_name: false, hides_tokens: None, other_webhooks: None };
    let again = crate::plan(Pod::decode(&after).unwrap(), &sets, context).unwrap();
    assert_eq!(again.apply(&mut after.clone()).warnings, found);
}

/// A native sidecar of the Pod is a target, another init container is none.
#[rstest]
#[case::native(json!({"restartPolicy": "Always"}), false)]
#[case::one_shot(json!({}), true)]
fn inj31_expr1_resources_of_native_sidecars_are_counted(#[case] fields: Value, #[case] is_told: bool) {
    let mut init = container("init", fields);
    init["resources"] = json!({"requests": {"cpu": "100m"}});
    let pod = pod(json!({"initContainers": [init], "resources": {"requests": {"cpu": "1"}}}));
    let found = warnings(pod, &[computed(json!({"requests": {"cpu": "cpu"}}))]);
    assert_eq!(found.len(), usize::from(is_told), "{found:?}");
}
