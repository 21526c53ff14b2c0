//! A cluster made of manifests, with a real one behind them if the user asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_cluster::{Kind, Reader, Trouble};
use pillion_documents::objects::{self, Objects};
use pillion_host::{Cluster, ClusterError, ResourceRequest};
use pillion_kubernetes::json;
use serde_json::Value;

/// Answers look-ups from manifests, and from the cluster behind them if there is one. Assumes that every Namespace
/// exists: the API server creates no Pod in a missing one.
pub struct Manifests {
    objects: Objects,
    behind: Option<Arc<Reader>>,
    namespace_labels: BTreeMap<String, String>,
    assumed: Mutex<BTreeSet<String>>,
    reported: Mutex<BTreeSet<String>>,
}

impl Manifests {
    /// Returns a cluster with these objects; the last of several with the same name wins.
    ///
    /// Objects that name no namespace are in `namespace`. Namespaces that are not among the objects have the labels
    /// `namespace_labels`.
    pub fn new(
        objects: impl IntoIterator<Item = Value>,
        namespace: &str,
        namespace_labels: BTreeMap<String, String>,
    ) -> Self {
        Self {
            objects: Objects::new(objects, namespace),
            behind: None,
            namespace_labels,
            assumed: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Sets the cluster that is asked for objects that are in no manifest.
    #[must_use]
    pub fn before(self, behind: Option<Arc<Reader>>) -> Self {
        Self { behind, ..self }
    }

    /// Returns an object of the manifests, or of the cluster behind them. A failure to read it counts as a missing
    /// object; [`Self::check`] reports it.
    pub fn object(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.find(api_version, kind, namespace, name).ok().flatten()
    }

    /// Returns the first failure to read the cluster: answers that were made without it may be wrong.
    ///
    /// # Errors
    /// That failure.
    pub fn check(&self) -> Result<(), Trouble> {
        self.behind.as_ref().map_or(Ok(()), |behind| behind.check())
    }

    /// Returns the sources that lack an object, for messages: `Namespace "a" is in no manifest`.
    pub fn missing_in(&self) -> &'static str {
        if self.behind.is_some() { "neither in a manifest nor in the cluster" } else { "in no manifest" }
    }

    fn find(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Trouble> {
        match (self.objects.get(api_version, kind, namespace, name).cloned(), &self.behind) {
            (None, Some(behind)) => behind.get(Kind(api_version, kind), namespace, name),
            (given, _) => Ok(given),
        }
    }

    /// Returns the Namespaces that were looked up and do not exist, each only once.
    pub fn assumed(&self) -> Vec<String> {
        let assumed = std::mem::take(&mut *self.assumed.lock());
        let mut reported = self.reported.lock();
        assumed.into_iter().filter(|name| reported.insert(name.clone())).collect()
    }

    /// Returns the labels of a Namespace. If they `decide` something and it does not exist, it counts as looked up.
    pub fn namespace_labels(&self, name: &str, decide: bool) -> Option<json::Object> {
        let object = self.namespace(name, decide);
        json::object(&object, &["metadata", "labels"]).cloned()
    }

    /// Returns a Namespace with the label that the API server adds: its name.
    fn namespace(&self, name: &str, is_asked_for: bool) -> Value {
        let mut object = self.object("v1", "Namespace", None, name).unwrap_or_else(|| {
            if is_asked_for {
                self.assumed.lock().insert(name.to_owned());
            }
            objects::assumed_namespace(name, &self.namespace_labels)
        });
        objects::label_namespace(&mut object, name);
        object
    }
}

impl Cluster for Manifests {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        let ResourceRequest { api_version, kind, name, namespace, .. } = resource;
        let found = match (api_version.as_str(), kind.as_str()) {
            ("v1", "Namespace") => Some(self.namespace(name, true)),
            _ => self
                .find(api_version, kind, namespace.as_deref(), name)
                .map_err(|trouble| ClusterError::Failed(trouble.to_string()))?,
        };
        let found = found.ok_or(ClusterError::NotFound)?;
        serde_json::to_vec(&found).map_err(|error| ClusterError::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use pillion_sidecarset::names;
    use serde_json::json;

    use super::*;

    fn get(cluster: &Manifests, kind: &str, namespace: Option<&str>, name: &str) -> Result<Value, ClusterError> {
        let resource = ResourceRequest {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            disable_cache: true,
            field_masks: None,
        };
        cluster.get(&resource).map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn objects_are_found_by_kind_namespace_and_name() {
        let account = |namespace: Option<&str>| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": namespace}});
        let cluster = Manifests::new([account(Some("shop")), account(None)], "here", BTreeMap::new());
        assert_eq!(get(&cluster, "ServiceAccount", Some("shop"), "a").unwrap(), account(Some("shop")));
        assert_eq!(get(&cluster, "ServiceAccount", Some("here"), "a").unwrap(), account(None));
        assert_eq!(get(&cluster, "ServiceAccount", Some("other"), "a"), Err(ClusterError::NotFound));
        assert_eq!(get(&cluster, "ConfigMap", Some("shop"), "a"), Err(ClusterError::NotFound));
    }

    #[test]
    fn namespaces_are_labelled_with_their_name_and_assumed_where_no_manifest_has_them() {
        let known =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}});
        let labels = BTreeMap::from([("team".to_owned(), "b".to_owned())]);
        let cluster = Manifests::new([known], "default", labels);
        let label = |name: &str, key: &str| {
            let found = get(&cluster, "Namespace", None, name).unwrap();
            json::text(&found, &["metadata", "labels", key]).to_owned()
        };
        assert_eq!((label("shop", "team"), label("shop", names::NAMESPACE_NAME_LABEL)), ("a".into(), "shop".into()));
        assert_eq!(cluster.assumed(), [] as [&str; 0]);
        assert_eq!((label("new", "team"), label("new", names::NAMESPACE_NAME_LABEL)), ("b".into(), "new".into()));
        assert_eq!(cluster.assumed(), ["new"]);
        label("new", "team");
        assert_eq!(cluster.assumed(), [] as [&str; 0], "reported once");
    }
}
