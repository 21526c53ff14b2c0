use rstest::rstest;
use serde_json::json;

use super::*;
use crate::restored::restored;

fn set(image: &str, annotations: &Value) -> SidecarSet {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "logs", "uid": "u", "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": image}],
            "volumes": [{"name": "now"}],
        },
    });
    set["metadata"]["annotations"][names::HASH] = json!(format!("hash of {image}"));
    SidecarSet::from_decoded(set)
}

fn record(hash: &str, back: Option<&str>) -> Failed {
    Failed {
        at: "2026-01-01T00:00:00Z".to_owned(),
        reason: Cause::ContainersFail,
        message: "containers fail".to_owned(),
        sidecar_set_digest: "digest".to_owned(),
        hash: hash.to_owned(),
        back: back.map(str::to_owned),
    }
}

/// Returns the revision `logs-<number>` with this image. `failed` is its record.
fn revision(number: i64, image: &str, failed: Option<Failed>) -> ControllerRevision {
    let mut annotations = json!({names::HASH: format!("hash of {image}")});
    if let Some(failed) = failed {
        annotations[FAILED] = failed.text().into();
    }
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "metadata": {
            "name": format!("logs-{number}"), "namespace": "kruise-system", "annotations": annotations,
            "labels": {names::SIDECAR_SET_NAME_LABEL: "logs"},
            "ownerReferences": [{"controller": true, "uid": "u", "kind": "SidecarSet", "name": "logs", "apiVersion": "a"}],
        },
        "data": {"spec": {"$patch": "replace", "containers": [{"name": "agent", "image": image}], "volumes": null}},
    });
    ControllerRevision::decode(object).unwrap()
}

fn rollback() -> Upgrades {
    Upgrades { rollback: true, ..Upgrades::default() }
}

#[rstest]
#[case::the_spec("/spec/paused", json!(true), false)]
#[case::our_annotation("/metadata/annotations/pillion.dev~1try", json!("again"), false)]
#[case::the_client_restarts_pods("/metadata/annotations/pillion.dev~1restarted-at", json!("now"), true)]
#[case::an_annotation_of_others("/metadata/annotations/note", json!("x"), true)]
#[case::the_status("/status", json!({"matchedPods": 3}), true)]
#[case::a_label("/metadata/labels", json!({"a": "b"}), true)]
fn roll61_an_edit_of_spec_or_of_our_annotations_starts_it_again(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] counts: bool,
) {
    let before = set("agent:v2", &json!({}));
    let failed = Failed { sidecar_set_digest: digest(&before), ..record("h", None) };
    let mut object = before.clone().into_value();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    assert!(failed.counts(&before));
    assert_eq!(failed.counts(&SidecarSet::from_decoded(object)), counts);
}

#[rstest]
#[case::there_is_none("", None)]
#[case::text("yes", None)]
#[case::another_reason(r#"{"at":"t","reason":"Bored","message":"m","of":"d","hash":"h"}"#, None)]
#[case::without_a_way_back(
    r#"{"at":"2026-01-01T00:00:00Z","reason":"ContainersFail","message":"containers fail","of":"digest","hash":"h"}"#,
    Some(record("h", None))
)]
fn roll61_a_record_is_read_as_it_was_written(#[case] text: &str, #[case] expected: Option<Failed>) {
    let mut object = revision(1, "agent:v1", None).as_value().clone();
    object["metadata"]["annotations"][FAILED] = json!(text);
    assert_eq!(Failed::from_revision(&ControllerRevision::from_decoded(object)), expected);
    if let Some(expected) = expected {
        assert_eq!(expected.text(), text);
    }
}

#[rstest]
#[case::the_one_before(&[(1, "v1", false), (2, "v2", false), (3, "v3", false)], Some("logs-2"))]
#[case::not_one_that_has_failed(&[(1, "v1", false), (2, "v2", true), (3, "v3", false)], Some("logs-1"))]
#[case::not_one_with_the_same_hash(&[(1, "v1", false), (2, "v3", false), (3, "v3", false)], Some("logs-1"))]
#[case::not_a_newer_one(&[(3, "v3", false), (4, "v4", false)], None)]
#[case::all_have_failed(&[(1, "v1", true), (2, "v2", true), (3, "v3", false)], None)]
#[case::it_is_not_stored_yet(&[(1, "v1", false), (2, "v2", false)], Some("logs-2"))]
#[case::there_is_none(&[], None)]
fn roll62_the_newest_older_revision_that_has_not_failed_comes_into_force(
    #[case] revisions: &[(i64, &str, bool)],
    #[case] expected: Option<&str>,
) {
    let failed = |has_failed: bool| has_failed.then(|| record("h", None));
    let all: Vec<_> =
        revisions.iter().map(|(number, image, has_failed)| revision(*number, image, failed(*has_failed))).collect();
    let all: Vec<&ControllerRevision> = all.iter().rev().collect();
    let ascending = ascending(&set("v3", &json!({})), all);
    assert_eq!(before("logs-3", "hash of v3", &ascending).map(ControllerRevision::name), expected);
}

#[rstest]
#[case::asked_for(rollback(), "hash of v2", Some("logs-1"), Some("logs-1"))]
#[case::not_asked_for(Upgrades::default(), "hash of v2", Some("logs-1"), None)]
#[case::another_hash(rollback(), "hash of v1", Some("logs-1"), None)]
#[case::no_way_back(rollback(), "hash of v2", None, None)]
#[case::a_revision_that_is_gone(rollback(), "hash of v2", Some("logs-0"), None)]
fn roll62_the_record_names_the_revision_in_force(
    #[case] upgrades: Upgrades,
    #[case] hash: &str,
    #[case] back: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let all = [revision(1, "v1", None), revision(2, "v2", Some(record(hash, back)))];
    let set = set("v2", &json!({}));
    let ascending = ascending(&set, &all);
    let found = Back::find(&set, upgrades, &ascending);
    assert_eq!(found.as_ref().map(|back| back.restored.name()), expected);
    if let Some(back) = found {
        let text = back.text();
        for part in ["\"logs-2\" failed at 2026-01-01T00:00:00Z (ContainersFail", "\"logs-1\" is in force until"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn roll62_only_the_newest_revision_counts() {
    let failed = revision(2, "v2", Some(record("hash of v2", Some("logs-1"))));
    let all = [revision(1, "v1", None), failed, revision(3, "v3", None)];
    let set = set("v2", &json!({}));
    assert_eq!(Back::find(&set, rollback(), &ascending(&set, &all)), None);
}

#[test]
fn roll62_revisions_of_an_earlier_sidecar_set_of_this_name_are_left_out() {
    let mut other = set("v2", &json!({}));
    other.as_value_mut()["metadata"]["uid"] = json!("another");
    assert_eq!(ascending(&other, &[revision(1, "v1", None)]), Vec::<&ControllerRevision>::new());
}

#[test]
fn roll62_rev9_a_restored_version_has_the_stored_fields_and_hashes_and_keeps_the_others() {
    let now = set("agent:v2", &json!({"note": "kept"}));
    let before = restored(&now, &revision(1, "agent:v1", None)).unwrap();
    let object = before.as_value();
    assert_eq!(before.hash(), "hash of agent:v1");
    assert_eq!(before.containers(), [json!({"name": "agent", "image": "agent:v1"})]);
    assert_eq!(object["spec"].get("volumes"), None, "the revision has none");
    assert_eq!(object["spec"]["selector"], now.as_value()["spec"]["selector"]);
    assert_eq!(object["metadata"]["annotations"]["note"], "kept");
    assert_eq!(object["status"]["latestRevision"], "logs-1");
    // Without a stored hash, it is that of the content.
    let hashes = pillion_sidecarset::hash::hashes(&object["spec"]);
    assert_eq!(before.annotation(names::HASH_WITHOUT_IMAGE), hashes.without_image);
    let mut broken = revision(1, "agent:v1", None).as_value().clone();
    broken["data"] = json!({"spec": {"containers": "none"}});
    assert!(restored(&now, &ControllerRevision::from_decoded(broken)).is_err());
}
