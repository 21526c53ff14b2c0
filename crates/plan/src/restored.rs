//! A SidecarSet as a stored revision has it (REV-9).

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::{hash, names};

/// The fields of a spec that a ControllerRevision stores (REV-2).
const STORED: [&str; 5] = ["containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes"];

/// Returns the SidecarSet with the contents of a stored revision: the revision's fields (REV-2) and hashes, and all
/// other fields of `set`. `latestRevision` of its status is the revision.
///
/// # Errors
/// The revision cannot be read.
pub fn restored(set: &SidecarSet, revision: &ControllerRevision) -> Result<SidecarSet, Vec<FieldError>> {
    let stored = revision.spec()?;
    let mut hashes = None;
    let mut hash_of = |key: &str, computed: fn(&hash::Hashes) -> &str| match revision.annotation(key) {
        "" => computed(hashes.get_or_insert_with(|| hash::hashes(&stored))).to_owned(),
        text => text.to_owned(),
    };
    let with_image = hash_of(names::HASH, |hashes| &hashes.hash);
    let without_image = hash_of(names::HASH_WITHOUT_IMAGE, |hashes| &hashes.without_image);
    let mut set = set.clone();
    if let Some(object) = set.as_value_mut().as_object_mut() {
        if let Some(spec) = json::object_mut(object, "spec") {
            for field in STORED {
                match json::at(&stored, &[field]) {
                    Some(value) => spec.insert(field.to_owned(), value.clone()),
                    None => spec.remove(field),
                };
            }
        }
        if let Some(status) = json::object_mut(object, "status") {
            status.insert("latestRevision".to_owned(), revision.name().into());
        }
        let metadata = json::object_mut(object, "metadata");
        if let Some(annotations) = metadata.and_then(|metadata| json::object_mut(metadata, "annotations")) {
            annotations.insert(names::HASH.to_owned(), with_image.into());
            annotations.insert(names::HASH_WITHOUT_IMAGE.to_owned(), without_image.into());
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set() -> SidecarSet {
        SidecarSet::from_decoded(json!({
            "metadata": {"name": "s", "labels": {"team": "a"}, "annotations": {names::HASH: "new"}},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "a:2"}],
                "volumes": [{"name": "v"}],
            },
        }))
    }

    fn revision(annotations: &Value, data: &Value) -> ControllerRevision {
        ControllerRevision::from_decoded(json!({
            "metadata": {"name": "s-1", "annotations": annotations}, "data": data, "revision": 1,
        }))
    }

    #[test]
    fn rev9_the_fields_of_a_revision_come_back_and_all_others_stay() {
        let data = json!({"spec": {
            "$patch": "replace", "containers": [{"name": "agent", "image": "a:1"}], "volumes": null,
        }});
        let before = restored(&set(), &revision(&json!({names::HASH: "old"}), &data)).unwrap();
        assert_eq!(
            before.spec(&[]),
            Some(&json!({
                "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "a:1"}],
            }))
        );
        assert_eq!(before.hash(), "old", "the hash that Pods record");
        assert_eq!(before.label("team"), Some("a"));
        let computed = restored(&set(), &revision(&json!({}), &data)).unwrap();
        assert_eq!(computed.hash(), hash::hashes(before.spec(&[]).unwrap()).hash);
    }

    #[test]
    fn a_revision_without_a_spec_restores_nothing() {
        assert_eq!(restored(&set(), &revision(&json!({}), &json!({}))).unwrap_err().len(), 1);
    }
}
