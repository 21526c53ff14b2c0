//! Objects of manifests, found as the API server finds them: by apiVersion, kind, namespace and name.

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_sidecarset::names;
use serde_json::{Value, json};

/// apiVersion, kind, namespace (empty if the manifest names none), name.
type Key = (String, String, String, String);

/// The objects of manifests.
#[derive(Debug)]
pub struct Objects {
    objects: BTreeMap<Key, Value>,
    namespace: String,
}

impl Objects {
    /// Returns these objects; the last of several with the same name wins. Objects that name no namespace are in
    /// `namespace`.
    pub fn new(objects: impl IntoIterator<Item = Value>, namespace: &str) -> Self {
        let keyed = objects.into_iter().map(|object| {
            let text = |path: &[&str]| json::text(&object, path).to_owned();
            let key =
                (text(&["apiVersion"]), text(&["kind"]), text(&["metadata", "namespace"]), text(&["metadata", "name"]));
            (key, object)
        });
        Self { objects: keyed.collect(), namespace: namespace.to_owned() }
    }

    /// Returns an object; `namespace` is `None` for kinds without one.
    pub fn get(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Value> {
        let find = |namespace: &str| {
            let key = (api_version.to_owned(), kind.to_owned(), namespace.to_owned(), name.to_owned());
            self.objects.get(&key)
        };
        match namespace {
            None => find(""),
            Some(namespace) if namespace == self.namespace => find(namespace).or_else(|| find("")),
            Some(namespace) => find(namespace),
        }
    }
}

/// Returns a Namespace that is in no manifest, with these labels.
pub fn assumed_namespace(name: &str, labels: &BTreeMap<String, String>) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Adds the label that the API server gives each Namespace: its name.
pub fn label_namespace(namespace: &mut Value, name: &str) {
    let metadata = namespace.as_object_mut().and_then(|object| json::object_mut(object, "metadata"));
    if let Some(labels) = metadata.and_then(|metadata| json::object_mut(metadata, "labels")) {
        labels.insert(names::NAMESPACE_NAME_LABEL.to_owned(), name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(namespace: Option<&str>, note: &str) -> Value {
        let metadata = json!({"name": "a", "namespace": namespace, "labels": {"note": note}});
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    }

    #[test]
    fn objects_are_found_by_kind_namespace_and_name() {
        let (shop, none) = (account(Some("shop"), ""), account(None, ""));
        let objects = Objects::new([shop.clone(), none.clone()], "here");
        assert_eq!(objects.get("v1", "ServiceAccount", Some("shop"), "a"), Some(&shop));
        assert_eq!(objects.get("v1", "ServiceAccount", Some("here"), "a"), Some(&none));
        assert_eq!(objects.get("v1", "ServiceAccount", Some("other"), "a"), None);
        assert_eq!(objects.get("v1", "ConfigMap", Some("shop"), "a"), None);
    }

    #[test]
    fn the_last_object_of_a_name_wins() {
        let objects = Objects::new([account(Some("shop"), "first"), account(Some("shop"), "second")], "here");
        let found = objects.get("v1", "ServiceAccount", Some("shop"), "a").unwrap();
        assert_eq!(json::text(found, &["metadata", "labels", "note"]), "second");
    }

    #[test]
    fn a_namespace_is_labelled_with_its_name() {
        let mut namespace = assumed_namespace("shop", &BTreeMap::from([("team".to_owned(), "a".to_owned())]));
        label_namespace(&mut namespace, "shop");
        assert_eq!(namespace["metadata"]["labels"], json!({"team": "a", "kubernetes.io/metadata.name": "shop"}));
    }
}
