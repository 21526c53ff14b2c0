//! A decoded `SidecarSet` in its v1beta1 form, as JSON.

pub mod compiled;
pub mod convert;
pub mod decode;
pub mod defaults;
pub mod origin;
pub mod prepare;
pub mod version;
pub mod weight;

use std::sync::Arc;

use pillion_kubernetes::json;
use serde_json::Value;

use crate::controller_revision::ControllerRevision;
use crate::names;

/// The key of the stored version within a set. It is not a field of a `SidecarSet`, and it is removed from manifests of
/// users.
const REVISION: &str = "controllerRevision";
/// The key of the name of the stored version that a set is. It is removed from manifests of users, too.
const STORED: &str = "storedRevision";
/// The key of the number of init containers before those that are written as containers (NAT-2). It is removed from
/// manifests of users, too.
const NATIVE_FROM: &str = "nativeFrom";

/// A `SidecarSet` in its v1beta1 form (API-2): type-checked against [`crate::tables`], without JSON nulls, with unknown
/// fields.
///
/// `decode` creates it from a manifest of either version. It need not be *valid*: see [`crate::validation`]. Copies
/// share the object until one of them is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarSet(Arc<Value>);

impl SidecarSet {
    /// Wraps an object that is already decoded and converted.
    pub fn from_decoded(object: Value) -> Self {
        Self(Arc::new(object))
    }

    /// Returns the same set with the stored version that its `injectionStrategy.revision` requests, as found by the
    /// compiler of a bundle ([`crate::requested_revision::find`]). Keeps only the parts of the version that affect a
    /// Pod.
    #[must_use]
    pub fn with_revision(mut self, revision: &ControllerRevision) -> Self {
        if let Some(object) = self.as_value_mut().as_object_mut() {
            object.insert(REVISION.to_owned(), revision.essence());
        }
        self
    }

    /// Returns the stored version that `injectionStrategy.revision` requests, if the set comes from a bundle that
    /// contains it.
    pub fn revision(&self) -> Option<ControllerRevision> {
        json::at(&self.0, &[REVISION]).cloned().map(ControllerRevision::from_decoded)
    }

    /// Removes what only a bundle or the settings may say of a set: its stored versions and its origin.
    #[must_use]
    pub fn without_marks(mut self) -> Self {
        const MARKS: [&str; 4] = [REVISION, STORED, NATIVE_FROM, origin::KEY];
        if MARKS.iter().any(|key| self.0.get(*key).is_some())
            && let Some(object) = self.as_value_mut().as_object_mut()
        {
            object.retain(|key, _| !MARKS.contains(&key.as_str()));
        }
        self
    }

    /// Returns the same set, marked as its stored version of this name, which is injected instead of the latest one
    /// (INJ-6).
    #[must_use]
    pub fn stored_as(mut self, revision: &str) -> Self {
        if let Some(object) = self.as_value_mut().as_object_mut() {
            object.insert(STORED.to_owned(), revision.into());
        }
        self
    }

    /// Returns the name of the stored version that this set is; `None` if it is the latest one.
    pub fn stored(&self) -> Option<&str> {
        json::at(&self.0, &[STORED])?.as_str()
    }

    /// Marks the init containers from this position on: they are written as containers, and become native sidecars.
    #[must_use]
    pub(crate) fn with_natives_from(mut self, position: usize) -> Self {
        if let Some(object) = self.as_value_mut().as_object_mut() {
            object.insert(NATIVE_FROM.to_owned(), position.into());
        }
        self
    }

    /// Returns the position from which on the init containers are written as containers; `None` if none are.
    pub fn native_from(&self) -> Option<usize> {
        json::at(&self.0, &[NATIVE_FROM])?.as_u64()?.try_into().ok()
    }

    /// Returns the whole object.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns the whole object for editing.
    pub fn as_value_mut(&mut self) -> &mut Value {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the whole object.
    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.0)
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        json::text(&self.0, &["metadata", "name"])
    }

    /// Returns an annotation, or `""` if it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        json::text(&self.0, &["metadata", "annotations", key])
    }

    /// Returns a label, or `None` if it is absent.
    pub fn label(&self, key: &str) -> Option<&str> {
        json::at(&self.0, &["metadata", "labels", key])?.as_str()
    }

    /// Returns a field of `spec`.
    pub fn spec(&self, path: &[&str]) -> Option<&Value> {
        json::at(json::at(&self.0, &["spec"])?, path)
    }

    /// Returns `spec.containers`.
    pub fn containers(&self) -> &[Value] {
        json::items(&self.0, &["spec", "containers"])
    }

    /// Returns `spec.initContainers`.
    pub fn init_containers(&self) -> &[Value] {
        json::items(&self.0, &["spec", "initContainers"])
    }

    /// Returns `spec.volumes`.
    pub fn volumes(&self) -> &[Value] {
        json::items(&self.0, &["spec", "volumes"])
    }

    /// Returns the stored hash of the containers (HASH-1); `""` if the set was never admitted.
    pub fn hash(&self) -> &str {
        self.annotation(names::HASH)
    }

    /// Returns the name of the base if this set is a canary (API-13).
    pub fn canary_of(&self) -> Option<&str> {
        let base = self.annotation(names::BASE);
        (self.annotation(names::CANARY) == "true" && !base.is_empty()).then_some(base)
    }
}
