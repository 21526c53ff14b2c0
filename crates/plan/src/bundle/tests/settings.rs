//! SidecarSets of the settings in the bundle (SET-1, TRUST-10).

use super::*;

/// The policies of a policy server have no `sidecarSets`, because it copies their settings for each request.
#[test]
fn set1_sidecar_sets_of_the_settings_join_the_bundle_if_they_are_asked_to() {
    let stored_version = json!({"revision": {"customVersion": "v1"}});
    let own = edited(set("a", "own"), "/spec/injectionStrategy", stored_version);
    let own = edited(own, "/metadata/managedFields", json!([{"manager": "kubectl"}]));
    let mut world = World::new([set("a", "cluster"), set("b", "b:1")]);
    world.settings.sidecar_sets = vec![of_settings(own)];
    world.settings.controller_revisions = vec![revision("a-1", 1, "own:1")];
    world.settle();
    assert_eq!(world.images(), ["b:1"]);

    world.with_settings = true;
    assert_eq!(said(&world.settle(), "a").1, Why::InSettings);
    assert_eq!(world.images(), ["own", "b:1"]);
    let kept = stored(&world.at, &world.config_maps);
    assert_eq!(kept[0].revision().unwrap().name(), "a-1");
    assert!(kept[0].as_value()["metadata"].get("managedFields").is_none());
    // TRUST-1: the policy cannot know otherwise which of them was written where.
    assert_eq!(kept.iter().map(SidecarSet::origin).collect::<Vec<_>>(), [Origin::Settings, Origin::Cluster]);

    // Later, only the SidecarSet of the cluster is there.
    world.settings.sidecar_sets.clear();
    world.settle();
    assert_eq!(world.images(), ["cluster", "b:1"]);
}

#[test]
fn trust10_sidecar_sets_of_the_settings_get_their_room() {
    let young = edited(set("0-young", "young"), "/metadata/creationTimestamp", json!("2026-01-02T00:00:00Z"));
    let mut world = World::new([young, set("b", "b:1")]);
    // A set of the settings also has its origin in the bundle.
    (world.with_settings, world.max) = (true, world.settle().length + 30);
    world.settings.sidecar_sets = vec![of_settings(set("a", "own"))];
    let plan = world.plan();
    let (place, why, message) = said(&plan, "0-young");
    assert_eq!((place, why), (BundlePlace::Out, Why::TooLong));
    assert!(message.contains("the SidecarSets of the policy's settings come first"), "{message}");
    let plan = world.settle();
    assert_eq!(world.images(), ["own", "b:1"]);
    assert_eq!(said(&plan, "0-young").1, Why::TooLong, "it does not come back");
}

#[test]
fn sidecar_sets_of_the_settings_that_do_not_fit_alone_leave_the_bundle_as_it_is() {
    let mut world = World::new([set("b", "b:1")]);
    (world.with_settings, world.max) = (true, world.settle().length);
    world.settings.sidecar_sets =
        vec![of_settings(set("a", &"own".repeat(400))), of_settings(set("c", &"o-w-n".repeat(400)))];
    assert!(matches!(world.plan().obstacle, Some(Obstacle::TooLong(_))));
    assert_eq!(world.images(), ["b:1"]);
}
