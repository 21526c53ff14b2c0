//! Making a manifest of the settings what it would be after its admission.

use serde_json::json;

use super::{SidecarSet, defaults};
use crate::hash;
use crate::json;
use crate::names;

/// The `SidecarSet` as its admission would have stored it: defaulted and hashed. One that carries a hash is taken as
/// stored and stays as it is (product.md, Settings).
pub fn prepared(set: &SidecarSet) -> SidecarSet {
    let mut set = set.clone();
    if set.hash().is_empty() {
        defaults::apply_crd(set.as_value_mut());
        defaults::apply(set.as_value_mut());
        stamp(&mut set);
    }
    set
}

/// Writes the two hash annotations (H-1).
fn stamp(set: &mut SidecarSet) {
    let hashes = hash::hashes(set.spec(&[]).unwrap_or(&serde_json::Value::Null));
    if let Some(annotations) = set
        .as_value_mut()
        .as_object_mut()
        .and_then(|object| json::object_mut(object, "metadata"))
        .and_then(|metadata| json::object_mut(metadata, "annotations"))
    {
        annotations.insert(names::HASH.to_owned(), json!(hashes.hash));
        annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), json!(hashes.without_image));
    }
}
