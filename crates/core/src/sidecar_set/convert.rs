//! Conversion between v1alpha1 and v1beta1. Both are the same but for two fields.

use serde_json::{Value, json};

use super::decode::Version;
use crate::json::{self, Object};
use crate::names;

/// Turns a decoded v1alpha1 object into v1beta1, in place.
///
/// `spec.namespace` becomes a selector and displaces `spec.namespaceSelector`; the custom-version label becomes
/// `spec.customVersion`. A `spec.customVersion` that was there is dropped: v1alpha1 has no such field, and it must
/// not become one by being carried.
pub fn to_v1beta1(object: &mut Value) {
    let Value::Object(object) = object else { return };
    set_version(object, Version::V1Beta1);
    let label = take_label(object);
    let Some(spec) = json::object_mut(object, "spec") else { return };
    spec.remove("customVersion");
    if let Some(version) = label.filter(|version| !is_empty(version)) {
        spec.insert("customVersion".to_owned(), version);
    }
    if let Some(namespace) = spec.remove("namespace").filter(|namespace| !is_empty(namespace)) {
        let selector = json!({"matchLabels": {names::NAMESPACE_NAME_LABEL: namespace}});
        spec.insert("namespaceSelector".to_owned(), selector);
    }
}

/// Turns a decoded v1beta1 object into v1alpha1, in place.
///
/// `spec.namespace` is never made again, and one that was there is dropped: v1beta1 has no such field.
pub fn to_v1alpha1(object: &mut Value) {
    let Value::Object(object) = object else { return };
    set_version(object, Version::V1Alpha1);
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    spec.remove("namespace");
    let Some(version) = spec.remove("customVersion").filter(|version| !is_empty(version)) else { return };
    let labels = json::object_mut(object, "metadata").and_then(|metadata| json::object_mut(metadata, "labels"));
    if let Some(labels) = labels {
        labels.insert(names::CUSTOM_VERSION_LABEL.to_owned(), version);
    }
}

fn set_version(object: &mut Object, version: Version) {
    object.insert("apiVersion".to_owned(), Value::from(version.api_version()));
}

/// Takes the custom-version label away, and `labels` with it where nothing else is in there.
fn take_label(object: &mut Object) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let labels = metadata.get_mut("labels")?.as_object_mut()?;
    let version = labels.remove(names::CUSTOM_VERSION_LABEL)?;
    if labels.is_empty() {
        metadata.remove("labels");
    }
    Some(version)
}

fn is_empty(text: &Value) -> bool {
    text.as_str().is_none_or(str::is_empty)
}
