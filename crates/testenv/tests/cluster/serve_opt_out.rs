//! SidecarSets that Pods and namespaces leave out, through `pillion serve` and its watch of Namespaces (OPT-1 to OPT-4).

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};

use crate::support::{Installation, SOON, create, dry_run, names, pod};

const OPT_OUT_OF: &str = "pillion.dev/opt-out-of";

/// `profiler`, which may be left out, with an identity, and `scan`, which may not.
fn settings() -> Value {
    let set = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "containers": [{"name": name, "image": "agent:1", "podInjectPolicy": "AfterAppContainer"}],
            },
        })
    };
    let mut profiler = set("profiler", json!({"pillion.dev/opt-out": "Allowed"}));
    profiler["spec"]["serviceAccountName"] = "profiler".into();
    json!({
        "sidecarSets": [profiler, set("scan", json!({}))],
        "featureGates": {"SidecarSetServiceAccountInjection": true},
    })
}

fn web(annotations: &Value) -> Pod {
    let metadata = json!({"name": "web", "labels": {"app": "web"}, "annotations": annotations});
    serde_json::from_value(pod(&json!({"metadata": metadata}))).unwrap()
}

#[tokio::test]
async fn opt2_pods_and_namespaces_leave_out_what_allows_it() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    Installation::start(&cluster, &settings(), &[], &[]).await;
    let client = cluster.admin().await.unwrap();
    let name = cluster.namespace("opt-out").await.unwrap();
    create(&Api::<ServiceAccount>::namespaced(client.clone(), &name), &json!({"metadata": {"name": "profiler"}}))
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &name);
    let created = async |pod: &Pod| {
        let created = pods.create(&dry_run(), pod).await;
        created.map(|created| names(&serde_json::to_value(created).unwrap(), "/spec/containers"))
    };
    let containers = async |pod: &Pod| created(pod).await.unwrap();
    assert_eq!(containers(&web(&json!({}))).await, ["app", "profiler", "scan"]);
    assert_eq!(containers(&web(&json!({OPT_OUT_OF: "profiler,scan"}))).await, ["app", "scan"]);
    let mut stored = web(&json!({OPT_OUT_OF: "profiler"}));
    stored.metadata.name = Some("stored".to_owned());
    let stored = pods.create(&PostParams::default(), &stored).await.unwrap();
    assert_ne!(stored.spec.unwrap().service_account_name.as_deref(), Some("profiler"));
    let told = |event: &Value| {
        let annotations = event["annotations"].as_object();
        annotations.is_some_and(|all| {
            all.iter().any(|(key, value)| key.ends_with("/opted-out-sidecarsets") && value == "profiler")
        })
    };
    until("the audit event", SOON, async || cluster.audit_log().iter().any(told).then_some(())).await.unwrap();

    // The server follows the annotation of the Namespace.
    let namespaces: Api<Namespace> = Api::all(client);
    let annotate = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {OPT_OUT_OF: value}}}));
        namespaces.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    };
    annotate("profiler, scan".into()).await;
    // The twin refuses a Pod if the server saw the change between the two webhooks.
    let without = async || (created(&web(&json!({}))).await.ok()? == ["app", "scan"]).then_some(());
    until("the Pods going without it", SOON, without).await.unwrap();
    annotate(Value::Null).await;
    let with = async || (created(&web(&json!({}))).await.ok()?.len() == 3).then_some(());
    until("the Pods getting it again", SOON, with).await.unwrap();
}
