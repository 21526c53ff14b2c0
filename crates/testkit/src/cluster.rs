//! A cluster in memory.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pillion_host::{Cluster, ClusterError, ResourceRequest};
use pillion_kubernetes::json;
use serde_json::Value;

/// apiVersion, kind, namespace (`""` for cluster-wide kinds), name.
type Key = (String, String, String, String);

/// Answers look-ups from the objects of a test, and records the look-ups.
#[derive(Debug, Default)]
pub struct FakeCluster {
    answers: BTreeMap<Key, Result<Vec<u8>, ClusterError>>,
    asked: Mutex<Vec<ResourceRequest>>,
}

impl FakeCluster {
    /// Creates a cluster with these objects.
    pub fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut cluster = Self::default();
        for object in objects {
            let answer = Ok(serde_json::to_vec(&object).expect("a value serialises"));
            cluster.answers.insert(key_of(&object), answer);
        }
        cluster
    }

    /// Sets the answer to the look-up of `object`, identified by apiVersion, kind, namespace and name.
    #[must_use]
    pub fn answering(mut self, object: &Value, answer: Result<Vec<u8>, ClusterError>) -> Self {
        self.answers.insert(key_of(object), answer);
        self
    }

    /// Returns the look-ups so far, in order, as `apiVersion/kind namespace/name`.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        let shown = |request: &ResourceRequest| {
            let namespace = request.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            format!("{}/{} {namespace}{}", request.api_version, request.kind, request.name)
        };
        asked.iter().map(shown).collect()
    }
}

impl Cluster for FakeCluster {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.asked.lock().push(resource.clone());
        let key = (
            resource.api_version.clone(),
            resource.kind.clone(),
            resource.namespace.clone().unwrap_or_default(),
            resource.name.clone(),
        );
        self.answers.get(&key).cloned().unwrap_or(Err(ClusterError::NotFound))
    }
}

fn key_of(object: &Value) -> Key {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    (text(&["apiVersion"]), text(&["kind"]), text(&["metadata", "namespace"]), text(&["metadata", "name"]))
}
