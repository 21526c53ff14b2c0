//! A `SidecarSet`: decoded, in its v1beta1 form, still JSON.

pub mod compiled;
pub mod convert;
pub mod decode;
pub mod defaults;
pub mod prepare;
pub mod weight;

use std::sync::Arc;

use pillion_kubernetes::json;
use serde_json::Value;

use crate::controller_revision::ControllerRevision;
use crate::names;

/// Where a set has its stored version with it: no field of a `SidecarSet`, and taken out of whatever users write.
const REVISION: &str = "controllerRevision";

/// A `SidecarSet` in its v1beta1 form: type-checked against [`crate::schema`], JSON nulls removed, fields that
/// nobody knows still there.
///
/// Made by `decode` from a manifest of either version; whether it is *valid* is another question
/// ([`crate::validation`]). Copies share the object until one is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarSet(Arc<Value>);

impl SidecarSet {
    /// Wraps an object that the caller has decoded and converted.
    pub fn from_decoded(object: Value) -> Self {
        Self(Arc::new(object))
    }

    /// The same set with the stored version that its `injectionStrategy.revision` asks for, as whoever compiles it into a
    /// bundle found it ([`crate::revision::find`]). Of that, only what goes into a Pod is kept.
    #[must_use]
    pub fn with_revision(mut self, revision: &ControllerRevision) -> Self {
        if let Some(object) = self.as_value_mut().as_object_mut() {
            object.insert(REVISION.to_owned(), revision.essence());
        }
        self
    }

    /// The stored version that `injectionStrategy.revision` asks for, where the set came out of a bundle that has it.
    pub fn revision(&self) -> Option<ControllerRevision> {
        json::at(&self.0, &[REVISION]).cloned().map(ControllerRevision::from_decoded)
    }

    /// The whole object.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// The whole object, to edit.
    pub fn as_value_mut(&mut self) -> &mut Value {
        Arc::make_mut(&mut self.0)
    }

    /// The whole object.
    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.0)
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        json::text(&self.0, &["metadata", "name"])
    }

    /// An annotation; `""` where it is absent.
    pub fn annotation(&self, key: &str) -> &str {
        json::text(&self.0, &["metadata", "annotations", key])
    }

    /// A label; `None` where it is absent.
    pub fn label(&self, key: &str) -> Option<&str> {
        json::at(&self.0, &["metadata", "labels", key])?.as_str()
    }

    /// A field of `spec`.
    pub fn spec(&self, path: &[&str]) -> Option<&Value> {
        json::at(json::at(&self.0, &["spec"])?, path)
    }

    /// `spec.containers`.
    pub fn containers(&self) -> &[Value] {
        json::items(&self.0, &["spec", "containers"])
    }

    /// `spec.initContainers`.
    pub fn init_containers(&self) -> &[Value] {
        json::items(&self.0, &["spec", "initContainers"])
    }

    /// `spec.volumes`.
    pub fn volumes(&self) -> &[Value] {
        json::items(&self.0, &["spec", "volumes"])
    }

    /// The stored hash of the containers (H-1); `""` where the set was never admitted.
    pub fn hash(&self) -> &str {
        self.annotation(names::HASH)
    }

    /// The base's name, where this set is a canary (section 1.6).
    pub fn canary_of(&self) -> Option<&str> {
        let base = self.annotation(names::BASE);
        (self.annotation(names::CANARY) == "true" && !base.is_empty()).then_some(base)
    }
}
