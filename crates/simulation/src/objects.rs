//! Turns manifests into objects as an API server would return them.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use serde_json::{Value, json};

/// On every Namespace: its name. The API server sets this label.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A kind that controllers read or write.
pub(super) struct Kind {
    /// Its API versions.
    pub(super) api_versions: &'static [&'static str],
    pub(super) name: &'static str,
    pub(super) is_namespaced: bool,
}

const fn namespaced(api_versions: &'static [&'static str], name: &'static str) -> Kind {
    Kind { api_versions, name, is_namespaced: true }
}

/// The kinds that controllers read or write.
pub(super) const KINDS: &[Kind] = &[
    Kind { api_versions: &["v1"], name: "Namespace", is_namespaced: false },
    Kind { api_versions: &["v1"], name: "Node", is_namespaced: false },
    namespaced(&["v1"], "Pod"),
    namespaced(&["v1"], "ServiceAccount"),
    namespaced(&["v1"], "Secret"),
    namespaced(&["v1"], "ConfigMap"),
    namespaced(&["apps/v1"], "Deployment"),
    namespaced(&["apps/v1"], "StatefulSet"),
    namespaced(&["apps/v1"], "DaemonSet"),
    namespaced(&["apps/v1"], "ReplicaSet"),
    namespaced(&["apps/v1"], "ControllerRevision"),
    namespaced(&["batch/v1"], "Job"),
    namespaced(&["batch/v1"], "CronJob"),
    namespaced(&["rbac.authorization.k8s.io/v1"], "Role"),
    namespaced(&["rbac.authorization.k8s.io/v1"], "RoleBinding"),
    Kind { api_versions: &["rbac.authorization.k8s.io/v1"], name: "ClusterRole", is_namespaced: false },
    Kind { api_versions: &["rbac.authorization.k8s.io/v1"], name: "ClusterRoleBinding", is_namespaced: false },
    namespaced(&["coordination.k8s.io/v1"], "Lease"),
    namespaced(&["events.k8s.io/v1"], "Event"),
    Kind {
        api_versions: &["apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"],
        name: "SidecarSet",
        is_namespaced: false,
    },
    namespaced(&["apps.kruise.io/v1alpha1"], "CloneSet"),
];

impl Kind {
    /// Returns the group.
    pub(super) fn group(&self) -> &'static str {
        self.api_versions.first().map_or("", |version| group(version))
    }

    /// Returns the kind of a resource, such as `pods`.
    pub(super) fn of_resource(group: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.group() == group && resource(kind.name) == plural)
    }
}

/// Manifests, and assumptions about the cluster.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// Whole objects. Kinds that no controller reads are left out. If two objects have the same name, the later one
    /// counts.
    pub manifests: Vec<Value>,
    /// The namespace of objects that name none.
    pub namespace: String,
    /// The labels of Namespaces that are in no manifest.
    pub namespace_labels: BTreeMap<String, String>,
    /// The ServiceAccounts that are assumed to exist in every namespace: `default`, which nearly every cluster creates,
    /// and those that are taken to exist.
    pub accounts: BTreeSet<String>,
}

/// An object, and the key under which an API server finds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) key: Key,
    pub(super) value: Value,
    /// Whether the object is only assumed and in no manifest. If the cluster has an object of this name, that one
    /// counts.
    pub(super) is_implied: bool,
}

/// Group, resource, namespace and name. The namespace is empty for cluster-scoped kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Returns the resource of a kind. The plurals of all these kinds are regular.
pub(super) fn resource(kind: &str) -> String {
    format!("{}s", kind.to_ascii_lowercase())
}

/// Returns the group of an `apiVersion`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl Situation {
    /// Returns the objects, sorted by key.
    pub(super) fn objects(&self) -> Vec<Object> {
        let mut all = BTreeMap::new();
        let mut add = |value: Value, is_implied: bool| {
            let Some(object) = self.object(value, is_implied) else { return };
            // An object from a manifest takes precedence over an assumed one.
            if !is_implied || !all.contains_key(&object.key) {
                all.insert(object.key.clone(), object);
            }
        };
        for manifest in &self.manifests {
            add(manifest.clone(), false);
        }
        let namespaces = self.namespaces();
        for namespace in &namespaces {
            let labels = &self.namespace_labels;
            add(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}),
                true,
            );
            for account in &self.accounts {
                let metadata = json!({"name": account, "namespace": namespace});
                add(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}), true);
            }
        }
        all.into_values().collect()
    }

    /// Returns all namespaces that occur in the manifests.
    fn namespaces(&self) -> BTreeSet<String> {
        let of = |manifest: &Value| {
            let Kind { name: kind, is_namespaced, .. } = *known(manifest)?;
            let text = |key| json::text(manifest, &["metadata", key]).to_owned();
            match (kind, is_namespaced) {
                ("Namespace", _) => Some(text("name")),
                (_, false) => None,
                (_, true) => Some(text("namespace")).filter(|name| !name.is_empty()).or(Some(self.namespace.clone())),
            }
        };
        self.manifests.iter().filter_map(of).collect()
    }

    /// Completes an object as an API server would; `None` for kinds that no controller reads.
    pub(super) fn object(&self, mut value: Value, is_implied: bool) -> Option<Object> {
        let found = known(&value)?;
        let (group, kind, is_namespaced) = (found.group(), found.name, found.is_namespaced);
        let text = |path: &[&str]| json::text(&value, path).to_owned();
        let name = match text(&["metadata", "name"]) {
            // One object stands for all that would get this name prefix.
            name if name.is_empty() => text(&["metadata", "generateName"]),
            name => name,
        };
        let namespace = match text(&["metadata", "namespace"]) {
            _ if !is_namespaced => String::new(),
            namespace if namespace.is_empty() => self.namespace.clone(),
            namespace => namespace,
        };
        let key = Key { group: group.to_owned(), resource: resource(kind), namespace, name };
        let metadata = json::object_mut(value.as_object_mut()?, "metadata")?;
        metadata.insert("name".to_owned(), key.name.as_str().into());
        if is_namespaced {
            metadata.insert("namespace".to_owned(), key.namespace.as_str().into());
        }
        if kind == "Namespace" {
            let labels = json::object_mut(metadata, "labels")?;
            labels.insert(NAMESPACE_NAME_LABEL.to_owned(), key.name.as_str().into());
        }
        // The same manifest always gets the same UID.
        complete(metadata, "uid", &format!("{}/{}/{}", key.resource, key.namespace, key.name));
        complete(metadata, "resourceVersion", VERSION);
        if kind == "Namespace" && json::text(&value, &["status", "phase"]).is_empty() {
            let status = json::object_mut(value.as_object_mut()?, "status")?;
            status.insert("phase".to_owned(), "Active".into());
        }
        Some(Object { key, value, is_implied })
    }
}

/// Whether a simulation shows the objects of this manifest's kind.
pub fn is_shown(manifest: &Value) -> bool {
    known(manifest).is_some()
}

/// The resource version of an object whose manifest has none; that of client-go's fake clients.
const VERSION: &str = "999";

/// Sets a key if it has no value.
fn complete(object: &mut json::Object, key: &str, value: &str) {
    if object.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() {
        object.insert(key.to_owned(), value.into());
    }
}

/// Returns the kind of an object; `None` if no controller reads it.
fn known(value: &Value) -> Option<&'static Kind> {
    let (group, kind) = (group(json::text(value, &["apiVersion"])), json::text(value, &["kind"]));
    KINDS.iter().find(|known| (known.group(), known.name) == (group, kind))
}
