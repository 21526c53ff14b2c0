//! What an update must leave as it is.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::dynamic;

/// What there is, by kind and name.
pub type World = BTreeMap<String, Value>;

/// Returns the running Pods of a namespace, the identities that Pillion keeps for them, and the SidecarSets with their
/// stored versions, without what may change at any time.
pub async fn world(client: &Client, namespace: &str) -> World {
    let mut world = World::new();
    let kept =
        |object: Value| json!({"uid": object["metadata"]["uid"], "data": object["data"], "rules": object["rules"]});
    let pod = |pod: Value| {
        let restarts: Vec<&Value> = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| &one["restartCount"])
            .collect();
        json!({
            "uid": pod["metadata"]["uid"], "annotations": pod["metadata"]["annotations"], "spec": pod["spec"],
            "restarts": restarts,
        })
    };
    add::<Pod>(&mut world, client, namespace, pod).await;
    add::<Secret>(&mut world, client, namespace, kept).await;
    add::<ServiceAccount>(&mut world, client, namespace, kept).await;
    add::<Role>(&mut world, client, namespace, kept).await;
    add::<RoleBinding>(&mut world, client, namespace, kept).await;
    add::<ControllerRevision>(&mut world, client, "pillion-system", kept).await;
    let sets = dynamic(client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    for set in sets.list(&ListParams::default()).await.unwrap() {
        let name = set.metadata.name.clone().unwrap();
        let value = json!({
            "generation": set.metadata.generation, "annotations": set.metadata.annotations,
            "latestRevision": set.data["status"]["latestRevision"],
        });
        world.insert(format!("SidecarSet {name}"), value);
    }
    world
}

async fn add<K>(world: &mut World, client: &Client, namespace: &str, part: impl Fn(Value) -> Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let all: Api<K> = Api::namespaced(client.clone(), namespace);
    for object in all.list(&ListParams::default()).await.unwrap() {
        let ObjectMeta { name, .. } = object.meta();
        let key = format!("{} {}", K::kind(&()), name.as_deref().unwrap());
        world.insert(key, part(serde_json::to_value(&object).unwrap()));
    }
}

/// Asserts that everything is as it was. There may be more.
pub fn assert_same(before: &World, after: &World, what: &str) {
    for (key, value) in before {
        assert_eq!(after.get(key), Some(value), "{what}: {key} has changed");
    }
}

/// The end of the annotations of a Pod whose images have changed.
const UPDATE: &str = "/sidecarset-inplace-update-state";

/// Returns the Pods of an app, without what differs between Pods of one Deployment.
pub async fn forms(client: &Client, namespace: &str, app: &str) -> Vec<Value> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
    let form = |pod: Pod| {
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let annotations: BTreeMap<String, Value> = annotations
            .into_iter()
            .filter(|(key, _)| !key.ends_with(UPDATE))
            .map(|(key, text)| (key, without_times(&text)))
            .collect();
        let spec = serde_json::to_value(pod.spec).unwrap().to_string();
        // The name of the volume with the Pod's own token is random.
        let mut parts = spec.split("kube-api-access-");
        let first = parts.next().unwrap_or_default().to_owned();
        let spec: String = std::iter::once(first)
            .chain(parts.map(|part| format!("kube-api-access{}", part.get(5..).unwrap_or_default())))
            .collect();
        json!({"annotations": annotations, "spec": serde_json::from_str::<Value>(&spec).unwrap()})
    };
    list.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(form).collect()
}

/// Returns an annotation without the time at which the Pod got each SidecarSet, and without the revision: earlier commits
/// did not always know it at once.
fn without_times(text: &str) -> Value {
    let Ok(mut record) = serde_json::from_str::<Value>(text) else { return text.into() };
    for entry in record.as_object_mut().into_iter().flatten().filter_map(|(_, entry)| entry.as_object_mut()) {
        entry.retain(|key, _| !["updateTimestamp", "controllerRevision"].contains(&key.as_str()));
    }
    record
}
