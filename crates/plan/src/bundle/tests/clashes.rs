//! SidecarSets of which a Pod would get two containers of one name.

use super::*;

fn with_init_container(name: &str, init_container: &str) -> Value {
    edited(set(name, name), "/spec/initContainers", json!([{"name": init_container, "image": "init:1"}]))
}

/// Returns a world whose bundle an earlier version wrote, which took all SidecarSets.
fn written_by_an_earlier_version(sets: impl IntoIterator<Item = Value>) -> World {
    let sets: Vec<Value> = sets.into_iter().collect();
    let alone = |object: &Value| {
        let mut world = World::new([object.clone()]);
        world.settle();
        stored(&world.at, &world.config_maps)
    };
    let taken: Vec<SidecarSet> = sets.iter().flat_map(alone).collect();
    let mut world = World::new(sets);
    let config_maps = config_map::write(&world.at, &taken, NOW, TEXT_MAX).unwrap();
    for object in config_maps {
        world.carry_out(&Step::Apply(object));
    }
    world
}

#[test]
fn val52_of_two_new_sets_that_clash_the_older_one_is_taken() {
    let mut world = World::new([set("agent", "agent:1"), with_init_container("setup", "agent")]);
    let plan = world.settle();
    assert_eq!(said(&plan, "agent"), (BundlePlace::In, Why::Current, "Pods are injected with this version"));
    let (place, why, message) = said(&plan, "setup");
    assert_eq!((place, why), (BundlePlace::Out, Why::Invalid));
    assert_eq!(
        message,
        "Pods are not injected with it: spec.initContainers[0].name: Invalid value: \"agent\": SidecarSet \"agent\" has a \
         container of this name for the same Pods; rename the init container or change a selector"
    );
}

#[test]
fn val52_sets_that_are_in_the_bundle_stay_there_and_say_what_pods_meet() {
    let mut world = written_by_an_earlier_version([
        set("agent", "agent:1"),
        with_init_container("setup", "agent"),
        set("other", "other:1"),
    ]);
    let plan = world.settle();
    assert_eq!(world.images(), ["agent:1", "other:1", "setup"]);
    for (name, rival) in [("agent", "setup"), ("setup", "agent")] {
        let (place, why, message) = said(&plan, name);
        assert_eq!((place, why), (BundlePlace::In, Why::Current));
        assert_eq!(
            message,
            format!(
                "Pods are injected with this version; Pods that SidecarSet \"{rival}\" matches, too, are refused: both have a \
                 container \"agent\"; rename one of them or change a selector"
            )
        );
    }
    assert_eq!(said(&plan, "other").2, "Pods are injected with this version");

    // An edit that leaves the clash is refused, like one that brings it.
    world.put(set("agent", "agent:2"));
    let plan = world.settle();
    let (place, why, message) = said(&plan, "agent");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains("SidecarSet \"setup\" has an init container of this name"), "{message}");
    assert_eq!(world.images(), ["agent:1", "other:1", "setup"]);
    world.put(with_init_container("setup", "renamed"));
    assert_eq!(said(&world.settle(), "agent").2, "Pods are injected with this version");
    assert_eq!(world.images(), ["agent:2", "other:1", "setup"]);
}
