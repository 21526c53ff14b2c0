//! Warnings about sidecars that stop an autoscaler, or that a quota refuses.

use rstest::rstest;
use serde_json::{Value, json};

use super::support::{Run, check, folder, json_set};

const LIMITED: &str = r#"{"limits": {"cpu": "1"}}"#;

/// Returns a Deployment whose Pods get the SidecarSets of these tests.
fn workload() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web", "logs": "collect"}},
            "spec": {"containers": [
                {"name": "web", "image": "web:1", "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"},
                }},
            ]},
        }},
    })
}

fn scaler(version: &str, spec: &Value) -> Value {
    let mut scaler = json!({
        "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5},
    });
    json_patch::merge(&mut scaler, &json!({"spec": spec}));
    scaler
}

fn utilization(resource: &str) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    scaler("v2", &json!({"metrics": [{"type": "Resource", "resource": {"name": resource, "target": target}}]}))
}

fn quota(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}, "spec": spec})
}

fn agent(resources: &str) -> Value {
    let resources: Value = serde_json::from_str(resources).unwrap();
    json_set("a", &json!({"containers": [{"name": "a", "image": "agent:1", "resources": resources}]}))
}

/// Returns the answer of `check` about these objects.
fn checked(objects: &[&Value], args: &[&str]) -> Run {
    let texts: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let here = folder(&[("all.yaml", &texts.join("\n---\n"))]);
    check(here.path(), &[&["all.yaml"], args].concat(), "")
}

/// Returns rule, path and message of each finding.
fn warned(objects: &[&Value]) -> Vec<String> {
    let answer = checked(objects, &["-o", "json"]);
    assert_eq!(answer.code, 0, "{}", answer.out);
    let found: Vec<Value> = serde_json::from_str(&answer.out).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let line = |finding| format!("{} {}: {}", text(finding, "rule"), text(finding, "path"), text(finding, "message"));
    found.iter().map(line).collect()
}

fn stops(resource: &str) -> String {
    format!(
        "missing-request spec.containers[0].resources: HorizontalPodAutoscaler \"shop/web\" stops scaling Deployment \
         shop/web: its target is a percentage of the {resource} requests, and container \"a\" has none"
    )
}

#[rstest]
#[case::cpu(&utilization("cpu"), "{}", &["cpu"])]
#[case::memory(&utilization("memory"), r#"{"requests": {"cpu": "1"}}"#, &["memory"])]
#[case::version_1(&scaler("v1", &json!({"targetCPUUtilizationPercentage": 60})), "{}", &["cpu"])]
#[case::without_metrics(&scaler("v2", &json!({})), "{}", &["cpu"])]
#[case::a_request(&utilization("cpu"), r#"{"requests": {"cpu": "1"}}"#, &[])]
#[case::a_limit_is_the_request(&utilization("cpu"), LIMITED, &[])]
#[case::a_metric_of_pods(&scaler("v2", &json!({"metrics": [{"type": "Pods", "pods": {}}]})), "{}", &[])]
#[case::a_metric_of_one_container(
    &scaler("v2", &json!({"metrics": [{"type": "ContainerResource", "containerResource": {"name": "cpu"}}]})), "{}", &[]
)]
#[case::an_absolute_target(
    &scaler("v2", &json!({"metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}}
    ]})),
    "{}",
    &[]
)]
#[case::another_workload(&scaler("v2", &json!({"scaleTargetRef": {"name": "api"}})), "{}", &[])]
#[case::another_kind(&scaler("v2", &json!({"scaleTargetRef": {"kind": "StatefulSet"}})), "{}", &[])]
fn a_container_without_the_request_of_an_autoscaler_is_reported(
    #[case] scaler: &Value,
    #[case] resources: &str,
    #[case] expected: &[&str],
) {
    let expected: Vec<String> = expected.iter().map(|resource| stops(resource)).collect();
    assert_eq!(warned(&[&agent(resources), &workload(), scaler]), expected);
}

#[rstest]
#[case::native(json!({"restartPolicy": "Always"}), 1)]
#[case::native_that_computes_it(
    json!({"restartPolicy": "Always", "resourcesPolicy": {
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": {"requests": {"cpu": "cpu"}},
    }}),
    0
)]
#[case::one_shot(json!({}), 0)]
fn an_init_container_needs_a_request_if_it_stays(#[case] fields: Value, #[case] count: usize) {
    let mut container = json!({"name": "a", "image": "agent:1"});
    json_patch::merge(&mut container, &fields);
    let set = json_set(
        "a",
        &json!({
            "containers": [], "initContainers": [container], "updateStrategy": {"type": "NotUpdate"},
        }),
    );
    let found = warned(&[&set, &workload(), &utilization("cpu")]);
    assert_eq!(found.len(), count, "{found:?}");
    assert!(
        found.iter().all(|line| line.starts_with("missing-request spec.initContainers[0].resources: ")),
        "{found:?}"
    );
}

/// `check` does not warn if the autoscaler stops without the sidecar, too, or if the Pod gives the sidecar its request.
#[rstest]
#[case::the_application_has_none("/spec/template/spec/containers/0/resources", json!({}))]
#[case::the_pod_has_one("/spec/template/spec/resources", json!({"requests": {"cpu": "2"}}))]
#[case::not_selected("/spec/template/metadata/labels", json!({"app": "web"}))]
fn a_workload_without_the_problem_is_passed_over(#[case] place: &str, #[case] value: Value) {
    let mut workload = workload();
    let (parent, key) = place.rsplit_once('/').unwrap();
    workload.pointer_mut(parent).unwrap()[key] = value;
    assert_eq!(warned(&[&agent("{}"), &workload, &utilization("cpu")]), [""; 0]);
}

#[rstest]
#[case::of_the_namespace("shop", "defaultRequest", 0)]
#[case::a_default_limit("shop", "default", 0)]
#[case::of_another_namespace("other", "defaultRequest", 1)]
fn a_limit_range_gives_the_request(#[case] namespace: &str, #[case] field: &str, #[case] count: usize) {
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": namespace},
        "spec": {"limits": [{"type": "Container", (field): {"cpu": "100m"}}]},
    });
    let found = warned(&[&agent("{}"), &workload(), &utilization("cpu"), &range]);
    assert_eq!(found.len(), count, "{found:?}");
}

#[rstest]
#[case::both(json!({"hard": {"limits.cpu": "10", "requests.cpu": "10"}}), "{}", Some("requests.cpu, limits.cpu"))]
#[case::the_short_name(json!({"hard": {"memory": "10Gi"}}), "{}", Some("memory"))]
#[case::a_limit(json!({"hard": {"limits.cpu": "10", "requests.cpu": "10"}}), LIMITED, None)]
#[case::pods(json!({"hard": {"pods": "10"}}), "{}", None)]
#[case::some_pods(json!({"hard": {"requests.cpu": "10"}, "scopes": ["BestEffort"]}), "{}", None)]
fn a_container_that_a_quota_refuses_is_reported(
    #[case] spec: Value,
    #[case] resources: &str,
    #[case] missing: Option<&str>,
) {
    let expected = missing.map(|missing| {
        format!(
            "resource-quota spec.containers[0].resources: ResourceQuota \"shop/q\" refuses the Pods of Deployment \
             shop/web: container \"a\" has no {missing}"
        )
    });
    assert_eq!(warned(&[&agent(resources), &workload(), &quota(&spec)]), Vec::from_iter(expected));
}

#[test]
fn what_the_application_lacks_too_does_not_count_for_a_quota() {
    let mut workload = workload();
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let found =
        warned(&[&agent("{}"), &workload, &quota(&json!({"hard": {"limits.cpu": "10", "requests.cpu": "10"}}))]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("container \"a\" has no requests.cpu"), "{found:?}");
}

/// Returns a SidecarSet with one volume, and these patches of Pods.
fn with_volume(source: &Value, annotations: &Value) -> Value {
    let mut volume = json!({"name": "spool"});
    json_patch::merge(&mut volume, source);
    let mut set = json_set(
        "a",
        &json!({
            "containers": [
                {"name": "a", "image": "agent:1", "volumeMounts": [{"name": "spool", "mountPath": "/spool"}]},
            ],
            "volumes": [volume],
        }),
    );
    if annotations != &json!({}) {
        set["spec"]["patchPodMetadata"] = json!([{"patchPolicy": "Retain", "annotations": annotations}]);
    }
    set
}

/// Returns the findings about a SidecarSet of settings, whose annotations need no whitelist.
fn drained(set: &Value, others: &[&Value]) -> Vec<String> {
    warned(&[&[&json!({"sidecarSets": [set]})], others].concat())
}

const DIRECTORY: &str = r#"{"emptyDir": {}}"#;
const SAFE: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const KEPT: &str = "local-volume sidecarSets[0].spec.volumes[0]: the cluster autoscaler keeps the node of a Pod that has \
                    this volume: it counts as data of the node";

#[rstest]
#[case::a_directory(DIRECTORY, json!({}), true)]
#[case::a_path_of_the_node(r#"{"hostPath": {"path": "/var/log"}}"#, json!({}), true)]
#[case::memory(r#"{"emptyDir": {"medium": "Memory"}}"#, json!({}), false)]
#[case::a_secret(r#"{"secret": {"secretName": "s"}}"#, json!({}), false)]
#[case::declared_safe(DIRECTORY, json!({(SAFE_VOLUMES): "other,spool"}), false)]
#[case::the_autoscaler_keeps_the_space(DIRECTORY, json!({(SAFE_VOLUMES): "other, spool"}), true)]
#[case::another_volume(DIRECTORY, json!({(SAFE_VOLUMES): "other"}), true)]
#[case::all_is_safe(DIRECTORY, json!({(SAFE): "true"}), false)]
#[case::nothing_is_safe(DIRECTORY, json!({(SAFE): "false"}), true)]
fn a_volume_that_keeps_a_node_is_reported(#[case] source: &str, #[case] annotations: Value, #[case] is_kept: bool) {
    let set = with_volume(&serde_json::from_str(source).unwrap(), &annotations);
    let expected = if is_kept { &[KEPT][..] } else { &[] };
    assert_eq!(drained(&set, &[]), expected);
}

#[rstest]
#[case::a_workload("/spec/replicas", json!(2), true)]
#[case::a_daemon_set("/kind", json!("DaemonSet"), false)]
#[case::another_local_volume("/spec/template/spec/volumes", json!([{"name": "v", "emptyDir": {}}]), false)]
#[case::another_volume("/spec/template/spec/volumes", json!([{"name": "v", "configMap": {"name": "c"}}]), true)]
#[case::its_own_annotation("/spec/template/metadata/annotations", json!({(SAFE_VOLUMES): "spool"}), false)]
#[case::never_evicted("/spec/template/metadata/annotations", json!({(SAFE): "false"}), false)]
fn a_volume_counts_by_the_pods_that_get_it(#[case] place: &str, #[case] value: Value, #[case] is_kept: bool) {
    let mut workload = workload();
    let (parent, key) = place.rsplit_once('/').unwrap();
    workload.pointer_mut(parent).unwrap()[key] = value;
    let expected = if is_kept { &[KEPT][..] } else { &[] };
    assert_eq!(drained(&with_volume(&json!({"emptyDir": {}}), &json!({})), &[&workload]), expected);
}

#[rstest]
#[case::none(&[], &["missing-request", "resource-quota", "local-volume"])]
#[case::one(&["--disable", "local-volume"], &["missing-request", "resource-quota"])]
#[case::several(&["--disable", "local-volume,resource-quota", "--disable", "missing-request"], &[])]
fn a_rule_with_an_id_can_be_turned_off(#[case] args: &[&str], #[case] expected: &[&str]) {
    let set = with_volume(&json!({"emptyDir": {}}), &json!({}));
    let quota = quota(&json!({"hard": {"requests.cpu": "10"}}));
    let objects = [&set, &workload(), &utilization("cpu"), &quota];
    for (format, around) in
        [("text", ["warning[", "]: "]), ("github", [" [", "]\n"]), ("sarif", ["\"ruleId\": \"", "\""])]
    {
        let answer = checked(&objects, &[args, &["-o", format, "--warnings-as-errors"]].concat());
        assert_eq!(answer.code, u8::from(!expected.is_empty()), "{}", answer.out);
        for rule in ["missing-request", "resource-quota", "local-volume"] {
            let count = answer.out.matches(&around.join(rule)).count();
            assert_eq!(count, usize::from(expected.contains(&rule)), "{format} {rule}: {}", answer.out);
        }
    }
}

fn policy(name: &str, set: &Value) -> Value {
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": name},
        "spec": {"module": "registry://registry.example.com/pillion:v1", "mutating": true, "rules": [],
                 "settings": {"sidecarSets": [set]}},
    })
}

/// Rendered policies have the same SidecarSets, each in a file or a document of its own.
#[rstest]
#[case::the_same(json!({"emptyDir": {}}), 1)]
#[case::another_of_this_name(json!({"hostPath": {"path": "/var/log"}}), 2)]
fn a_sidecar_set_of_several_policies_is_told_once(#[case] source: Value, #[case] count: usize) {
    let one = with_volume(&json!({"emptyDir": {}}), &json!({}));
    let objects = [policy("pods", &one), policy("guards", &one), policy("other", &with_volume(&source, &json!({})))];
    let found = warned(&objects.iter().collect::<Vec<_>>());
    let told = found.iter().filter(|line| line.starts_with("local-volume ")).count();
    assert_eq!(told, count, "{found:?}");
    assert!(found.iter().any(|line| line.contains("spec.settings.sidecarSets[0].spec.volumes[0]")), "{found:?}");
}
