//! Preparing a manifest of the settings as admission would.

use pillion_kubernetes::json;
use serde_json::Value;

use super::{SidecarSet, defaults};
use crate::hash::{self, Hashes};
use crate::names;

/// Returns the `SidecarSet` as admission would store it: defaulted and hashed. A set that already has a hash counts as
/// stored and stays unchanged (SET-1).
pub fn prepared(set: &SidecarSet) -> SidecarSet {
    let mut set = set.clone();
    if set.hash().is_empty() {
        defaults::apply_crd(set.as_value_mut());
        defaults::apply(set.as_value_mut());
        stamp(set.as_value_mut());
    }
    set
}

/// Writes the hashes of the containers into the annotations of a decoded `SidecarSet` of either version, replacing
/// existing values (HASH-1, HASH-9). Returns whether this changed anything.
pub fn stamp(object: &mut Value) -> bool {
    let hashes = hash::hashes(json::at(object, &["spec"]).unwrap_or(&Value::Null));
    stamp_with(object, hashes)
}

/// Writes these hashes into the annotations. Returns whether this changed anything.
pub fn stamp_with(object: &mut Value, hashes: Hashes) -> bool {
    let annotations = object
        .as_object_mut()
        .and_then(|object| json::object_mut(object, "metadata"))
        .and_then(|metadata| json::object_mut(metadata, "annotations"));
    let Some(annotations) = annotations else { return false };
    let mut write = |key: &str, hash: String| {
        let hash = Value::String(hash);
        annotations.insert(key.to_owned(), hash.clone()) != Some(hash)
    };
    let is_new = write(names::HASH, hashes.hash);
    write(names::HASH_WITHOUT_IMAGE, hashes.without_image) || is_new
}
