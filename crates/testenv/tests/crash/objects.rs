//! The objects of a namespace, without what differs between runs.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use pillion_testenv::until;
use serde_json::{Value, json};

/// The kinds that controllers write: group, version and kind.
const KINDS: [(&str, &str, &str); 5] = [
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Secret"),
    ("", "v1", "ConfigMap"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
];
/// Values that differ between runs, as pointers into an object.
const MASKED: [&str; 14] = [
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/managedFields",
    "/metadata/generation",
    "/metadata/annotations/kubernetes.io~1service-account.uid",
    "/metadata/annotations/pillion.dev~1bundle-time",
    "/metadata/annotations/pillion.dev~1service-account-uid",
    "/metadata/annotations/pillion.dev~1token-checksum",
    "/metadata/annotations/pillion.dev~1token-expires",
    "/metadata/annotations/pillion.dev~1token-expires-at",
    "/metadata/annotations/pillion.dev~1token-renew-after",
    "/data/namespace",
    "/data/token",
];
/// The same for the bundle, whose SidecarSets name the namespace.
const OF_BUNDLE: [&str; 2] = ["/data/bundle", "/data/generation"];

fn api(client: &Client, namespace: &str, (group, version, kind): (&str, &str, &str)) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Returns the API of SidecarSets.
pub fn sidecar_sets(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// Returns the objects of a namespace, and the conditions of the SidecarSets.
pub async fn snapshot(client: &Client, namespace: &str, has_sets: bool) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in KINDS {
        for object in api(client, namespace, kind).list(&ListParams::default()).await.unwrap() {
            let mut object = serde_json::to_value(object).unwrap();
            object["kind"] = kind.2.into();
            all.push(masked(object, namespace));
        }
    }
    if has_sets {
        for set in sidecar_sets(client).list(&ListParams::default()).await.unwrap() {
            let mut conditions = set.data["status"]["conditions"].clone();
            for condition in conditions.as_array_mut().into_iter().flatten() {
                condition["lastTransitionTime"] = "*".into();
            }
            all.push(json!({"kind": "SidecarSet", "name": set.name_any(), "conditions": conditions}));
        }
    }
    all
}

fn masked(mut object: Value, namespace: &str) -> Value {
    for pointer in MASKED.iter().chain(&OF_BUNDLE) {
        if let Some(value) = object.pointer_mut(pointer).filter(|value| !value.is_null()) {
            *value = "*".into();
        }
    }
    serde_json::from_str(&object.to_string().replace(namespace, "NS")).unwrap()
}

/// Deletes everything of a run.
pub async fn clean(client: &Client, namespace: &str, has_sets: bool) {
    if has_sets {
        let sets = sidecar_sets(client);
        for set in sets.list(&ListParams::default()).await.unwrap() {
            sets.delete(&set.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for kind in KINDS {
        let api = api(client, namespace, kind);
        for object in api.list(&ListParams::default()).await.unwrap() {
            // Another client may be faster.
            let _ = api.patch(&object.name_any(), &PatchParams::default(), &free).await;
            let _ = api.delete(&object.name_any(), &DeleteParams::default()).await;
        }
    }
    Api::<Namespace>::all(client.clone()).delete(namespace, &DeleteParams::default()).await.unwrap();
}

/// Takes away what a controller has made.
pub async fn spoil(client: &Client, namespace: &str, scenario: super::scenario::Scenario) {
    use super::scenario::Scenario;
    let (kind, patch) = match scenario {
        Scenario::Merged => (KINDS[3], json!({"rules": []})),
        Scenario::Tokens => (KINDS[1], json!({"data": null})),
        _ => (KINDS[2], json!({"data": {"bundle": ""}})),
    };
    let api = api(client, namespace, kind);
    for object in api.list(&ListParams::default()).await.unwrap() {
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
}

/// Returns the replica that holds the Lease.
pub async fn holder(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let holder = leases.get_opt("crash").await.unwrap()?.spec?.holder_identity?;
    holder.split_once('_').map(|(replica, _)| replica.to_owned())
}

/// Waits until this replica holds the Lease.
pub async fn held_by(client: &Client, replica: &str) {
    let is_it = async || (holder(client).await.as_deref() == Some(replica)).then_some(());
    until("the other replica holding the Lease", Duration::from_mins(1), is_it).await.unwrap();
}
