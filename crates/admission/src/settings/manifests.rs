//! `sidecarSets` and `controllerRevisions`: lists of whole objects, each of which is decoded separately.

use std::collections::BTreeSet;

use pillion_kubernetes::field::{Cause, FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode as decode_sidecar_set;
use pillion_sidecarset::sidecar_set::origin::Origin;
use serde_json::Value;

use super::{ManifestName, naming};

/// A list of manifests in the settings.
#[derive(Clone, Copy)]
pub(super) struct ManifestList {
    /// The name of the setting.
    pub key: &'static str,
    /// The kind of the manifests.
    pub kind: &'static str,
}

/// `sidecarSets`.
pub(super) const SIDECAR_SETS: ManifestList = ManifestList { key: super::SIDECAR_SETS, kind: "SidecarSet" };
/// `controllerRevisions`.
pub(super) const CONTROLLER_REVISIONS: ManifestList =
    ManifestList { key: "controllerRevisions", kind: "ControllerRevision" };

/// Takes the items out of a list of the settings and leaves an empty list. serde would rebuild each manifest.
pub(super) fn take(settings: &mut Value, list: ManifestList) -> Vec<Value> {
    settings.get_mut(list.key).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
}

/// Decodes the manifest of a SidecarSet. It is one of the settings (TRUST-1), unless it says that it is of the cluster:
/// previews put the SidecarSets of a cluster into settings.
pub(super) fn sidecar_set(manifest: Value) -> Result<SidecarSet, Vec<FieldError>> {
    let origin = Origin::written_in(&manifest).unwrap_or(Origin::Settings);
    Ok(decode_sidecar_set(manifest)?.into_sidecar_set().with_origin(origin))
}

/// Decodes the manifests of a list. Their names must be unique.
pub(super) fn decode<T>(
    manifests: Vec<Value>,
    list: ManifestList,
    errors: &mut Vec<FieldError>,
    decode: impl Fn(Value) -> Result<T, Vec<FieldError>>,
) -> Vec<T> {
    let ManifestList { key, kind } = list;
    let path = FieldPath::new(key);
    let mut names = BTreeSet::new();
    let mut decoded = Vec::with_capacity(manifests.len());
    for (index, manifest) in manifests.into_iter().enumerate() {
        if errors.is_full() {
            break;
        }
        let at = path.index(index);
        let name = json::text(&manifest, &["metadata", "name"]).to_owned();
        match decode(manifest) {
            Ok(manifest) => decoded.push(manifest),
            Err(wrong) => {
                let owner = ManifestName { kind, name: &name };
                errors.extend(wrong.into_iter().map(|error| naming(error, &at, &owner)));
            }
        }
        // Validation reports a missing name, but two missing names are a duplicate.
        if names.contains(&name) {
            errors.add(|| {
                let path = at.child("metadata.name");
                FieldError::new(path, Cause::Duplicate, "names are unique; remove one").showing(&name)
            });
        }
        names.insert(name);
    }
    decoded
}
