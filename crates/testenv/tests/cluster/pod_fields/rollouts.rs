//! Rollouts to Pods with the fields that Kubernetes got since 1.33: only what the SidecarSet changes changes.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use pillion_testenv::{Cluster, free_port, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::newer::{assert_kept, container, create, fields_of};
use super::options;
use crate::rollout::{NEW, OLD, RolloutNamespace, prepare_with};
use crate::support::controllers::Controllers;
use crate::support::{SOON, is_ready, minor, program};

/// Returns a cluster in which every field is on, with the controller.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_init(async || {
            let cluster = prepare_with(options().nodes(1), |_| {}).await;
            let flags = ["--controllers", "sidecarset-rollout"];
            let controllers = Controllers::install(&cluster, &program(), &json!({}), &flags).await;
            controllers.start("one", free_port().unwrap()).await;
            cluster
        })
        .await
}

/// Returns the sidecar with this image and this much cpu.
fn agent(image: &str, cpu: &str) -> Value {
    let mut agent = container(minor(), "agent");
    json_patch::merge(
        &mut agent,
        &json!({"image": image, "resources": {"limits": {"cpu": cpu}, "requests": {"cpu": "1m"}}}),
    );
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn field2_a_rollout_keeps_every_field_of_app_and_sidecar() {
    let place = RolloutNamespace::in_cluster(cluster().await).await;
    let (_, volumes, pod_spec) = fields_of(minor());
    let mut set = place.set("agent", &json!({"containers": [agent(OLD, "1")], "volumes": volumes}));
    set["metadata"]["annotations"] = json!({"pillion.dev/upgrade-policy": "Resize"});
    place.fill(&[set.clone()], 0, |_, _| {}).await;
    let mut app = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": place.name, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1", "containers": [container(minor(), "main")], "volumes": volumes},
    });
    json_patch::merge(&mut app["spec"], &pod_spec);
    let injected = place.injected(&[set], &[app]).remove(0);
    create(&place.client, &place.name, &injected).await;
    // The types of the client library lack the newest fields.
    let pods: Api<DynamicObject> =
        Api::namespaced_with(place.client.clone(), &place.name, &ApiResource::erase::<Pod>(&()));
    let read = async || serde_json::to_value(pods.get("web").await.unwrap()).unwrap();
    let run = async || Some(read().await).filter(is_ready);
    let before = until("the Pod being ready", SOON, run).await.unwrap();
    place.ended("agent", "Complete").await;

    place.change("agent", &json!({"containers": [agent(NEW, "2")]})).await;
    place.ended("agent", "Complete").await;

    let after = read().await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "the Pod runs on");
    let mut expected = before["spec"].clone();
    let sidecar = expected["containers"].as_array_mut().unwrap().iter_mut().find(|one| one["name"] == "agent").unwrap();
    sidecar["image"] = NEW.into();
    sidecar["resources"]["limits"]["cpu"] = "2".into();
    assert_eq!(after["spec"], expected);
    assert_kept(&json!([agent(NEW, "2")]), &after["spec"]["containers"], "spec.containers");
}
