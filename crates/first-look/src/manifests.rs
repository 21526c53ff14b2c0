//! Look-ups of the rules, answered from manifests.

use std::collections::BTreeMap;

use pillion_documents::objects::{self, Objects};
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use serde_json::Value;

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A cluster that has the objects of manifests, and every Namespace.
#[derive(Debug)]
pub struct Cluster(Objects);

impl Cluster {
    /// Returns a cluster with these objects.
    pub fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        Self(Objects::new(objects, DEFAULT_NAMESPACE))
    }

    /// Returns a ServiceAccount, if a manifest has it.
    pub fn service_account(&self, namespace: &str, name: &str) -> Option<Value> {
        self.0.get("v1", "ServiceAccount", Some(namespace), name).cloned()
    }
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        let found = self.0.get(object.api_version, object.kind, object.namespace.as_deref(), &object.name).cloned();
        if (object.api_version, object.kind) != ("v1", "Namespace") {
            return Ok(found);
        }
        let mut namespace = found.unwrap_or_else(|| objects::assumed_namespace(&object.name, &BTreeMap::new()));
        objects::label_namespace(&mut namespace, &object.name);
        Ok(Some(namespace))
    }
}

/// Answers no question about permissions: only an API server knows them, and the creation of a Pod asks none.
pub struct NoAuthorizer;

impl Authorizer for NoAuthorizer {
    fn allows(&self, _question: &Question) -> Result<bool, String> {
        Err("ask a cluster: manifests do not say who may do what".to_owned())
    }
}
