//! Where objects are, and how they are stored.

use std::sync::Arc;

use super::objects::{Key, group};

/// The JSON text of an object. A cluster with many objects takes a fraction of the memory that their values would take.
pub(super) type Text = Arc<str>;

/// The objects of a resource, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
}

impl Place {
    /// Returns the objects of a resource of this version, in one namespace or in all.
    pub(super) fn new(api_version: &str, resource: String, namespace: Option<String>) -> Self {
        Self { group: group(api_version).to_owned(), resource, namespace }
    }

    /// Whether an object is one of them.
    pub(super) fn has(&self, key: &Key) -> bool {
        key.group == self.group
            && key.resource == self.resource
            && self.namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace)
    }

    /// Returns the key before that of the first object.
    pub(super) fn start(&self) -> Key {
        let namespace = self.namespace.clone().unwrap_or_default();
        Key { group: self.group.clone(), resource: self.resource.clone(), namespace, name: String::new() }
    }
}
