//! A SidecarSet as a stored revision has it.

use pillion_kubernetes::json;
use pillion_sidecarset::hash::hashes;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::stamp_with;
use serde_json::Value;

use crate::history::Revision;

/// The fields of `spec` that a revision holds (REV-2).
const FIELDS: [&str; 5] = ["containers", "imagePullSecrets", "initContainers", "patchPodMetadata", "volumes"];

/// Returns a SidecarSet with the fields and the hashes of a stored revision (REV-9). All other fields stay as they are.
/// Returns `None` if the data of the revision cannot be read.
pub fn restored(set: &SidecarSet, revision: &Revision) -> Option<SidecarSet> {
    let data = json::parse(revision.data.as_bytes()).ok()?;
    let stored = json::object(&data, &["spec"])?;
    let mut set = set.clone();
    let spec = set.as_value_mut().as_object_mut().and_then(|object| json::object_mut(object, "spec"))?;
    for field in FIELDS {
        match stored.get(field).filter(|value| !value.is_null()) {
            Some(value) => spec.insert(field.to_owned(), value.clone()),
            None => spec.remove(field),
        };
    }
    let mut hashes = hashes(set.spec(&[]).unwrap_or(&Value::Null));
    // Another release may have computed the hashes that Pods record.
    for (key, hash) in [(names::HASH, &mut hashes.hash), (names::HASH_WITHOUT_IMAGE, &mut hashes.without_image)] {
        match revision.head.annotation(key) {
            "" => {}
            stored => stored.clone_into(hash),
        }
    }
    stamp_with(set.as_value_mut(), hashes);
    Some(set)
}

#[cfg(test)]
mod tests {
    use pillion_sidecarset::controller_revision::ControllerRevision;
    use serde_json::json;

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

    fn revision(annotations: &Value, data: &Value) -> Revision {
        Revision::of(&ControllerRevision::from_decoded(json!({
            "metadata": {"name": "s-1", "annotations": annotations}, "data": data, "revision": 1,
        })))
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
        assert_eq!(computed.hash(), hashes(before.spec(&[]).unwrap()).hash);
    }

    #[test]
    fn a_revision_without_a_spec_restores_nothing() {
        assert_eq!(restored(&set(), &revision(&json!({}), &json!({}))), None);
    }
}
