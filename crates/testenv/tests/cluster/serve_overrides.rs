//! Pods and namespaces that override parts of their sidecars, through `pillion serve` and its watch of Namespaces
//! (OVR-1 to OVR-9).

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams};
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};

use crate::support::{Installation, SOON, create, dry_run, pod};

const AGENT: &str = "overrides.pillion.dev/agent";

/// `agent-set`, whose rules are these, with an identity.
fn set(rules: &Value) -> Value {
    let container = json!({
        "name": "agent", "image": "agent:1", "podInjectPolicy": "AfterAppContainer",
        "resources": {"limits": {"memory": "128Mi"}, "requests": {"memory": "64Mi"}},
        "env": [{"name": "LEVEL", "value": "info"}],
    });
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "agent-set", "annotations": {"pillion.dev/overrides": rules.to_string()}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "serviceAccountName": "agent", "containers": [container],
        },
    })
}

fn web(annotations: &Value) -> Pod {
    let metadata = json!({"name": "web", "labels": {"app": "web"}, "annotations": annotations});
    serde_json::from_value(pod(&json!({"metadata": metadata}))).unwrap()
}

/// Returns the memory, the level and the image of the sidecar.
fn shown(pod: &Pod) -> [String; 3] {
    let pod = json!(pod);
    let agent = pod["spec"]["containers"].as_array().unwrap().iter().find(|one| one["name"] == "agent").unwrap();
    let level = agent["env"].as_array().unwrap().iter().find(|one| one["name"] == "LEVEL").unwrap();
    [&agent["resources"]["limits"]["memory"], &level["value"], &agent["image"]]
        .map(|it| it.as_str().unwrap().to_owned())
}

#[tokio::test]
async fn ovr4_ovr6_pods_and_namespaces_override_what_the_author_allows() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let rules = json!({"containers": {"agent": {
        "memory": {"max": "1Gi"}, "env": {"LEVEL": "debug|info"}, "imageTags": ["2"], "istioAnnotations": true,
    }}});
    let settings = json!({
        "sidecarSets": [set(&rules)], "featureGates": {"SidecarSetServiceAccountInjection": true},
    });
    Installation::start(&cluster, &settings, &[], &[]).await;
    let client = cluster.admin().await.unwrap();
    let name = cluster.namespace("overrides").await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &name);
    create(&accounts, &json!({"metadata": {"name": "agent"}})).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &name);
    let created = async |annotations: Value| pods.create(&dry_run(), &web(&annotations)).await;
    let sidecar = async |annotations: Value| shown(&created(annotations).await.unwrap());

    assert_eq!(sidecar(json!({})).await, ["128Mi", "info", "agent:1"]);
    let asked = r#"{"resources":{"limits":{"memory":"512Mi"}},"env":{"LEVEL":"debug"},"imageTag":"2"}"#;
    assert_eq!(sidecar(json!({AGENT: asked})).await, ["512Mi", "debug", "agent:2"]);
    let less = r#"{"resources":{"limits":{"memory":"32Mi"}}}"#;
    assert_eq!(sidecar(json!({AGENT: less})).await, ["32Mi", "info", "agent:1"], "the request follows");
    assert_eq!(sidecar(json!({"sidecar.istio.io/proxyMemoryLimit": "96Mi"})).await, ["96Mi", "info", "agent:1"]);
    let told = |event: &Value| {
        let annotations = event["annotations"].as_object();
        annotations.is_some_and(|all| {
            all.iter()
                .any(|(key, value)| key.ends_with("/overridden-sidecars") && *value == "agent-set/agent:env[LEVEL]")
        })
    };
    sidecar(json!({AGENT: r#"{"env":{"LEVEL":"debug"}}"#})).await;
    until("the audit event", SOON, async || cluster.audit_log().iter().any(told).then_some(())).await.unwrap();

    for (asked, problem) in [
        (
            r#"{"resources":{"limits":{"memory":"2Gi"}}}"#,
            "resources.limits.memory is 2Gi, the SidecarSet allows up to 1Gi",
        ),
        (
            r#"{"resources":{"limits":{"memory":"32Mi"},"requests":{"memory":"33Mi"}}}"#,
            "resources.requests.memory is 33Mi, above the limit 32Mi",
        ),
        (r#"{"env":{"LEVEL":"trace"}}"#, "not of the allowed form debug|info"),
        (r#"{"command":["sh"]}"#, "unknown field `command`"),
        ("memory: 1Gi", "is no JSON"),
    ] {
        let error = created(json!({AGENT: asked})).await.unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("agent"), "{error}");
    }

    // The server follows the annotation of the Namespace.
    let namespaces: Api<Namespace> = Api::all(client);
    let annotate = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {AGENT: value}}}));
        namespaces.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    };
    annotate(r#"{"env":{"LEVEL":"debug"}}"#.into()).await;
    // The twin refuses a Pod if the server saw the change between the two webhooks.
    let follows = async || (shown(&created(json!({})).await.ok()?) == ["128Mi", "debug", "agent:1"]).then_some(());
    until("the override of the Namespace", SOON, follows).await.unwrap();
    assert_eq!(sidecar(json!({AGENT: r#"{"env":{"LEVEL":"info"}}"#})).await, ["128Mi", "info", "agent:1"]);
    annotate(Value::Null).await;
    let without = async || (shown(&created(json!({})).await.ok()?) == ["128Mi", "info", "agent:1"]).then_some(());
    until("the Namespace overriding nothing", SOON, without).await.unwrap();
}
