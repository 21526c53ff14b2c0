//! The bundle while an earlier revision is in force (ROLL-62).

use pillion_sidecarset::hash::revision_data;

use super::*;
use crate::failure::{Cause, FAILED, Failed};

fn hash_of(image: &str) -> String {
    admitted(image).hash().to_owned()
}

fn admitted(image: &str) -> SidecarSet {
    prepared(&SidecarSet::from_decoded(set("a", image)))
}

/// Returns the revision `a-<number>` of the set `a` with this image; `back` is the revision in force instead of it.
fn stored(number: i64, image: &str, back: Option<&str>) -> ControllerRevision {
    let mut object = revision(&format!("a-{number}"), number, image).as_value().clone();
    object["metadata"]["annotations"] = json!({names::HASH: hash_of(image)});
    let data = revision_data(admitted(image).spec(&[]).unwrap());
    object["data"] = serde_json::from_str(&data).unwrap();
    if let Some(back) = back {
        let failed = Failed {
            at: "2026-01-01T00:00:00Z".to_owned(),
            reason: Cause::ProgressDeadlineExceeded,
            message: "no progress".to_owned(),
            sidecar_set_digest: String::new(),
            hash: hash_of(image),
            back: Some(back.to_owned()),
        };
        object["metadata"]["annotations"][FAILED] = failed.text().into();
    }
    ControllerRevision::decode(object).unwrap()
}

fn asking(image: &str) -> Value {
    edited(set("a", image), "/metadata/annotations", json!({"pillion.dev/rollback": "true"}))
}

#[test]
fn idc9_nothing_goes_back_to_a_version_with_a_token_under_an_account() {
    let mut world = World::new([with_account(asking("a:2"))]);
    world.settings.gates.service_account_injection = true;
    world.revisions = vec![with_token(1), stored(2, "a:2", None)];
    world.settle();
    world.revisions[1] = stored(2, "a:2", Some("a-1"));
    let plan = world.settle();
    let (place, why, message) = said(&plan, "a");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains("spec.volumes[0].projected"), "{message}");
    assert_eq!(world.images(), ["a:2"]);
}

#[test]
fn roll62_new_pods_get_the_revision_that_is_in_force() {
    let mut world = World::new([asking("a:2")]);
    world.revisions = vec![stored(1, "a:1", None), stored(2, "a:2", None)];
    world.settle();
    assert_eq!(world.images(), ["a:2"]);

    world.revisions[1] = stored(2, "a:2", Some("a-1"));
    let plan = world.settle();
    assert_eq!(world.images(), ["a:1"]);
    let (place, why, message) = said(&plan, "a");
    assert_eq!((place, why), (BundlePlace::Kept, Why::RolledBack));
    assert!(message.contains("revision \"a-2\" failed") && message.contains("\"a-1\" is in force"), "{message}");
    assert_eq!(plan.verdicts[0].hash, hash_of("a:1"));
    let in_bundle = super::stored(&world.at, &world.config_maps).remove(0);
    assert_eq!(in_bundle.hash(), hash_of("a:1"));
    assert_eq!(json::text(in_bundle.as_value(), &["status", "latestRevision"]), "a-1");
    assert_eq!(world.plan().steps, [], "it is written once");

    // A new hash ends it, and so does switching it off.
    world.put(asking("a:3"));
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::In);
    assert_eq!(world.images(), ["a:3"]);
    world.put(asking("a:2"));
    world.settle();
    assert_eq!(world.images(), ["a:1"]);
    world.put(set("a", "a:2"));
    world.settle();
    assert_eq!(world.images(), ["a:2"]);
}

#[test]
fn roll62_the_setting_asks_for_it_as_well() {
    let mut world = World::new([set("a", "a:2")]);
    world.revisions = vec![stored(1, "a:1", None), stored(2, "a:2", Some("a-1"))];
    world.settings.rollouts.rollback = true;
    world.settle();
    assert_eq!(world.images(), ["a:1"]);
}

#[test]
fn roll62_an_edit_that_leaves_the_hash_is_in_the_bundle() {
    let mut world = World::new([asking("a:2")]);
    world.revisions = vec![stored(1, "a:1", None), stored(2, "a:2", Some("a-1"))];
    world.settle();
    world.put(edited(asking("a:2"), "/spec/selector/matchLabels/tier", json!("web")));
    world.settle();
    let in_bundle = super::stored(&world.at, &world.config_maps).remove(0);
    assert_eq!(in_bundle.spec(&["selector", "matchLabels", "tier"]), Some(&json!("web")));
    assert_eq!(world.images(), ["a:1"]);
}

#[test]
fn roll62_a_revision_that_cannot_be_read_leaves_the_version_before() {
    let mut world = World::new([asking("a:2")]);
    world.revisions = vec![stored(1, "a:1", None), stored(2, "a:2", None)];
    world.settle();
    let mut broken = stored(1, "a:1", None).as_value().clone();
    broken["data"] = json!({"spec": {"containers": "none"}});
    world.revisions = vec![ControllerRevision::from_decoded(broken), stored(2, "a:2", Some("a-1"))];
    let plan = world.settle();
    assert_eq!((said(&plan, "a").0, said(&plan, "a").1), (BundlePlace::Kept, Why::Invalid));
    assert_eq!(world.images(), ["a:2"]);
}

#[test]
fn roll62_diff30_a_draw_does_not_choose_the_revision_that_has_failed() {
    let partial = json!({"revision": {"policy": "Partial"}});
    let mut world = World::new([edited(asking("a:3"), "/spec/injectionStrategy", partial)]);
    world.revisions = vec![stored(1, "a:1", None), stored(2, "a:2", None), stored(3, "a:3", Some("a-2"))];
    world.settle();
    let in_bundle = super::stored(&world.at, &world.config_maps).remove(0);
    assert_eq!(in_bundle.hash(), hash_of("a:2"));
    assert_eq!(in_bundle.revision().map(|revision| revision.name().to_owned()).as_deref(), Some("a-1"));
}

#[test]
fn roll62_the_data_of_the_revision_in_force_is_wanted() {
    let bare = |revision: ControllerRevision| {
        let mut object = revision.as_value().clone();
        object.as_object_mut().unwrap().remove("data");
        ControllerRevision::decode(object).unwrap()
    };
    let heads = [bare(stored(1, "a:1", None)), bare(stored(2, "a:2", Some("a-1")))];
    let wanted = |set: Value| wanted_revisions(&[Arc::new(set)], &heads, &Settings::default());
    assert_eq!(wanted(asking("a:2")), ["a-1"]);
    assert_eq!(wanted(set("a", "a:2")), [""; 0]);
}
