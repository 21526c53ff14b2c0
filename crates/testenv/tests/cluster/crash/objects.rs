//! The objects of the cluster, without what differs between runs.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// The kinds that controllers write, and workloads: group, version and kind.
const KINDS: [(&str, &str, &str); 8] = [
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Secret"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Pod"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ControllerRevision"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
];
/// Values that differ between runs, as pointers into an object.
const MASKED: [&str; 10] = [
    "/metadata/resourceVersion",
    "/metadata/managedFields",
    "/metadata/generation",
    "/metadata/annotations/pillion.dev~1token-checksum",
    "/data/namespace",
    "/data/token",
    "/data/vault",
    "/data/generation",
    // The SidecarSets have other UIDs. The conditions of the SidecarSets tell what the bundle holds.
    "/data/bundle",
    "/metadata/labels/kubernetes.io~1legacy-token-last-used",
];

fn resource((group, version, kind): (&str, &str, &str)) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the API of a kind in a namespace. Panics if controllers do not write the kind.
pub fn api(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let kind = KINDS.into_iter().find(|(_, _, name)| *name == kind).unwrap();
    Api::namespaced_with(client.clone(), namespace, &resource(kind))
}

/// Returns the API of SidecarSets.
pub fn sidecar_sets(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(("apps.kruise.io", "v1beta1", "SidecarSet")))
}

/// Returns all objects of the cluster, except those in the namespaces of other runs, and the conditions of the
/// SidecarSets.
pub async fn snapshot(client: &Client, namespace: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in KINDS {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
        for object in api.list(&ListParams::default()).await.unwrap() {
            let place = object.namespace().unwrap_or_default();
            if place.starts_with("crash-") && place != namespace {
                continue;
            }
            let mut object = serde_json::to_value(object).unwrap();
            object["kind"] = kind.2.into();
            all.push(masked(object, namespace));
        }
    }
    for set in sidecar_sets(client).list(&ListParams::default()).await.unwrap() {
        let status = &set.data["status"];
        let status = json!({"conditions": status["conditions"], "observedGeneration": status["observedGeneration"], "updatedPods": status["updatedPods"]});
        let of_set = json!({"kind": "SidecarSet", "metadata": {"name": set.name_any()}, "status": status});
        all.push(masked(of_set, namespace));
    }
    all
}

fn masked(mut object: Value, namespace: &str) -> Value {
    for pointer in MASKED {
        if let Some(value) = object.pointer_mut(pointer).filter(|value| !value.is_null()) {
            *value = "*".into();
        }
    }
    mask(&mut object, namespace);
    object
}

/// Masks UIDs and times, and the name of the namespace, in each text.
fn mask(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) => {
            if text.starts_with('{')
                && let Ok(mut inner) = serde_json::from_str::<Value>(text)
            {
                mask(&mut inner, namespace);
                *text = inner.to_string();
            } else if is_uid(text) || is_time(text) {
                "*".clone_into(text);
            } else if text.contains(namespace) {
                *text = text.replace(namespace, "NS");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, namespace)),
        Value::Object(fields) => fields.values_mut().for_each(|field| mask(field, namespace)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_uid(text: &str) -> bool {
    text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.parse::<k8s_openapi::jiff::Timestamp>().is_ok()
}

/// Whether there is an object of this kind and name in the namespace of the run.
pub fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> Option<&'o Value> {
    of_kind(objects, kind).into_iter().find(|object| object["metadata"]["name"] == name)
}

/// Returns the objects of this kind in the namespace of the run.
pub fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    let is_one = |object: &&Value| object["kind"] == kind && object["metadata"]["namespace"] == "NS";
    objects.iter().filter(is_one).collect()
}

/// The objects of a kind in a namespace whose names begin with a text.
pub struct Selection<'s> {
    pub namespace: &'s str,
    pub kind: &'s str,
    pub prefix: &'s str,
}

/// Applies a merge patch to each of these objects.
pub async fn patch(client: &Client, Selection { namespace, kind, prefix }: Selection<'_>, patch: &Value) {
    let api = api(client, namespace, kind);
    for object in api.list(&ListParams::default()).await.unwrap() {
        if object.name_any().starts_with(prefix) {
            let patched = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
            // The controller may have deleted it since.
            assert!(patched.is_ok() || is_missing(&patched), "{patched:?}");
        }
    }
}

fn is_missing<T>(answer: &kube::Result<T>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 404)
}

/// Deletes an object.
pub async fn delete(client: &Client, namespace: &str, kind: &str, name: &str) {
    api(client, namespace, kind).delete(name, &DeleteParams::default()).await.unwrap();
}

/// Deletes everything of a run. kube-controller-manager deletes the objects in the namespace, too.
pub async fn clean(client: &Client, namespace: &str) {
    let sets = sidecar_sets(client);
    for set in sets.list(&ListParams::default()).await.unwrap() {
        sets.delete(&set.name_any(), &DeleteParams::default()).await.unwrap();
    }
    Api::<Namespace>::all(client.clone()).delete(namespace, &DeleteParams::default()).await.unwrap();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for (_, _, kind) in KINDS {
        let api = api(client, namespace, kind);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let freed = api.patch(&object.name_any(), &PatchParams::default(), &free).await;
            assert!(freed.is_ok() || is_missing(&freed), "{freed:?}");
            let deleted = api.delete(&object.name_any(), &DeleteParams::default()).await;
            assert!(deleted.is_ok() || is_missing(&deleted), "{deleted:?}");
        }
    }
}
