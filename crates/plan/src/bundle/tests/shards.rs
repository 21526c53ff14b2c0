//! The shards of a bundle.

use super::*;

#[test]
fn shards_come_before_their_index_and_go_after_it() {
    let mut world = World::new(["a", "b", "c", "d"].map(|name| bound(name, name)));
    world.settle();
    let whole = world.settle().length;
    world.max = whole - 1;
    let seeds = world.plan().steps;
    assert!(seeds.len() > 1 && seeds.iter().all(|step| matches!(step, Step::Create(_))));
    for step in &seeds {
        world.carry_out(step);
    }
    let applied = world.plan().steps;
    let named: Vec<&str> = applied
        .iter()
        .map(|step| {
            let Step::Apply(object) = step else { panic!("{step:?}") };
            json::text(object, &["metadata", "name"])
        })
        .collect();
    assert_eq!((named.len(), *named.last().unwrap()), (seeds.len() + 1, "sets"));
    world.settle();
    assert_eq!(world.images(), ["a", "b", "c", "d"]);

    // Readers may still have the index of before, so its shards stay until the index changes again.
    world.max = TEXT_MAX;
    let steps = world.plan().steps;
    // Another field manager that wrote the surplus keys owns them, too, so the patch removes them by name.
    let [Step::Apply(index), Step::Patch { patch, .. }] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(patch, &json!({"data": {config_map::SHARDS: null}}));
    assert_eq!(json::at(index, &["data", config_map::SHARDS]), None);
    assert_eq!(json::text(index, &["data", config_map::PREVIOUS]).split(' ').count(), seeds.len());
    world.settle();
    assert_eq!((world.images().len(), world.config_maps.len()), (4, seeds.len() + 1));
    world.put(bound("e", "e"));
    world.settle();
    assert_eq!((world.images().len(), world.config_maps.len()), (5, 1));
}

#[test]
fn a_change_replaces_only_the_shards_that_it_concerns() {
    let mut world = World::new(["a", "b", "c", "d"].map(|name| bound(name, name)));
    world.settle();
    world.max = world.settle().length - 1;
    world.settle();
    let index = |world: &World| Arc::clone(world.config_map("sets").unwrap());
    let shards =
        |world: &World| config_map::shards(&index(world)).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    let (before, count) = (shards(&world), world.config_maps.len());
    let mut changed = bound("a", "a");
    changed["spec"]["containers"][0]["image"] = json!("a:2");
    world.put(changed.clone());
    world.settle();
    let after = shards(&world);
    assert_eq!(before.iter().zip(&after).filter(|(before, after)| before != after).count(), 1);
    assert_eq!(world.config_maps.len(), count + 1, "the former shard stays for a while");
    let previous = json::text(&index(&world), &["data", config_map::PREVIOUS]).to_owned();
    assert!(before.contains(&previous) && !after.contains(&previous));

    changed["spec"]["containers"][0]["image"] = json!("a:3");
    world.put(changed);
    world.settle();
    assert_eq!(world.config_maps.len(), count + 1, "the shard before the former one is deleted");
    assert!(world.config_map(&format!("sets-{previous}")).is_none());
    world.now.0 += 600;
    world.settle();
    assert_eq!(world.config_maps.len(), count, "after a while, only the present shards are left");
    assert_eq!(json::at(&index(&world), &["data", config_map::PREVIOUS]), None);
}

/// Somebody deletes the index, or takes everything out of it, while a set is invalid.
#[rstest]
#[case::deleted(None)]
#[case::emptied(Some(json!({})))]
#[case::damaged(Some(json!({config_map::SHARDS: "a b", config_map::BUNDLE: "x"})))]
fn an_earlier_version_is_found_in_the_shards_if_the_index_is_lost(#[case] data: Option<Value>) {
    let mut world = World::new(["a", "b", "c", "d"].map(|name| bound(name, name)));
    world.settle();
    world.max = world.settle().length - 1;
    world.settle();
    // The former shard, which readers may still need, has the version before this one.
    let before = world.config_maps.len();
    world.put(edited(bound("a", "a"), "/spec/containers/0/image", json!("a:2")));
    world.settle();
    assert_eq!(world.config_maps.len(), before + 1);
    world.put(edited(bound("a", "a"), "/spec/containers/0/image", json!("")));
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::Kept);
    assert_eq!(world.images(), ["a:2", "b", "c", "d"]);

    let mut index = Value::clone(world.config_map("sets").unwrap());
    world.config_maps.retain(|map| json::text(map, &["metadata", "name"]) != "sets");
    if let Some(data) = data {
        index["data"] = data;
        world.config_maps.push(Arc::new(index));
    }
    assert_eq!(stored(&world.at, &world.config_maps).len(), 0, "no policy finds the shards");
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::Kept);
    assert_eq!(world.images(), ["a:2", "b", "c", "d"]);
}
