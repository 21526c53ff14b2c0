//! Changes of a Pod as JSON Patches that test what they depend on.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::Step;
use serde_json::{Value, json};

use crate::pod::{ContainerPosition, Pod};

/// A change of a Pod: images of containers, and annotations. Nothing else of a Pod ever changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The new images, by place of the container.
    pub(crate) images: BTreeMap<ContainerPosition, String>,
    /// The new values of annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The annotations that are removed.
    pub(crate) removed: BTreeSet<String>,
}

impl Edit {
    /// Returns the change of one annotation.
    pub(crate) fn annotation(key: &str, value: String) -> Self {
        Self { annotations: BTreeMap::from([(key.to_owned(), value)]), ..Self::default() }
    }

    /// Whether the image of a container changes.
    pub fn changes_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// Returns the step that changes the Pod: a JSON Patch that tests all values on which the change depends. If it adds
    /// an annotation, the Pod must not have changed since it was observed, because a JSON Patch cannot test that a field
    /// is absent.
    pub fn step(&self, pod: &Pod) -> Step {
        let mut operations = vec![test("/metadata/uid", pod.metadata.uid.as_str())];
        let known = &pod.metadata.annotations;
        let is_new = |key: &String| !known.contains_key(key);
        if self.annotations.keys().any(is_new) {
            operations.push(test("/metadata/resourceVersion", pod.metadata.resource_version.as_str()));
        }
        for (key, value) in self.annotations.iter().filter(|(key, value)| known.get(key) != Some(value)) {
            let path = format!("/metadata/annotations/{}", escaped(key));
            if let Some(before) = known.get(key) {
                operations.push(test(&path, before));
            }
            operations.push(json!({"op": "add", "path": path, "value": value}));
        }
        for (key, before) in self.removed.iter().filter_map(|key| Some((key, known.get(key)?))) {
            let path = format!("/metadata/annotations/{}", escaped(key));
            operations.push(test(&path, before));
            operations.push(json!({"op": "remove", "path": path}));
        }
        for (place, image) in &self.images {
            let Some(container) = pod.at(*place) else { continue };
            let path = format!("/spec/{}/{}", place.list.key(), place.index);
            operations.push(test(&format!("{path}/name"), container.name.as_str()));
            operations.push(test(&format!("{path}/image"), container.image.as_str()));
            operations.push(json!({"op": "replace", "path": format!("{path}/image"), "value": image}));
        }
        Step::JsonPatch { object: reference(pod), subresource: None, operations }
    }
}

/// Returns the operation that tests a value.
pub(crate) fn test(path: &str, value: &str) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// Escapes a key for a JSON Pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the reference to a Pod.
pub fn reference(pod: &Pod) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "Pod",
        namespace: Some(pod.metadata.namespace.clone()),
        name: pod.metadata.name.clone(),
    }
}
