#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod back;
mod clashes;
mod settings;
mod shards;
mod trust;

use pillion_bundle::config_map::TEXT_MAX;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::origin::Origin;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000);

fn stored(at: &ConfigMapName, config_maps: &[Arc<Value>]) -> Vec<SidecarSet> {
    super::stored(at, config_maps, &Memo::default())
}

/// A cluster in memory, in which plans are carried out.
struct World {
    at: ConfigMapName,
    sets: Vec<Arc<Value>>,
    revisions: Vec<ControllerRevision>,
    config_maps: Vec<Arc<Value>>,
    settings: Settings,
    with_settings: bool,
    now: Timestamp,
    max: usize,
    writes: u32,
    memo: Memo,
}

impl World {
    fn new(sets: impl IntoIterator<Item = Value>) -> Self {
        Self {
            at: ConfigMapName { namespace: "pillion".to_owned(), name: "sets".to_owned() },
            sets: sets.into_iter().map(Arc::new).collect(),
            revisions: Vec::new(),
            config_maps: Vec::new(),
            settings: Settings { patch_pod_metadata_whitelist: Some(json!({"rules": []})), ..Settings::default() },
            with_settings: false,
            now: NOW,
            max: TEXT_MAX,
            writes: 0,
            memo: Memo::default(),
        }
    }

    /// Makes the plan. What is remembered never changes it.
    fn plan(&self) -> Plan {
        let plan = self.plan_with(&self.memo);
        assert_eq!(plan, self.plan_with(&Memo::default()));
        plan
    }

    fn plan_with(&self, memo: &Memo) -> Plan {
        plan(BundleInput {
            at: &self.at,
            sidecar_sets: &self.sets,
            revisions: &self.revisions,
            config_maps: &self.config_maps,
            whitelist: None,
            settings: &self.settings,
            with_settings: self.with_settings,
            now: self.now,
            max: self.max,
            memo,
        })
    }

    /// Carries out a step as the API server does.
    fn carry_out(&mut self, step: &Step) {
        self.writes += 1;
        let version = self.writes.to_string();
        let (name, new) = match step {
            Step::Create(object) | Step::Apply(object) => {
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(format!("uid of {}", json::text(&object, &["metadata", "name"])));
                (json::text(&object, &["metadata", "name"]).to_owned(), Some(object))
            }
            Step::Patch { object, patch, .. } => {
                let mut found = Value::clone(self.config_map(&object.name).unwrap());
                merge(&mut found, patch);
                (object.name.clone(), Some(found))
            }
            Step::Delete { object, .. } => (object.name.clone(), None),
            Step::JsonPatch { .. } | Step::Evict { .. } | Step::RequestToken { .. } => panic!("{step:?}"),
        };
        self.config_maps.retain(|map| json::text(map, &["metadata", "name"]) != name);
        if let Some(mut object) = new {
            object["metadata"]["resourceVersion"] = json!(version);
            self.config_maps.push(Arc::new(object));
        }
    }

    /// Plans and carries out until nothing is left to do.
    fn settle(&mut self) -> Plan {
        for _ in 0..5 {
            let plan = self.plan();
            assert_eq!(plan.obstacle, None);
            if plan.steps.is_empty() {
                return plan;
            }
            for step in &plan.steps {
                self.carry_out(step);
            }
        }
        panic!("{:?}", self.plan().steps);
    }

    fn config_map(&self, name: &str) -> Option<&Arc<Value>> {
        self.config_maps.iter().find(|map| json::text(map, &["metadata", "name"]) == name)
    }

    /// Returns the image of each set in the bundle, sorted by set name.
    fn images(&self) -> Vec<String> {
        let image = |set: &SidecarSet| json::text(&set.containers()[0], &["image"]).to_owned();
        stored(&self.at, &self.config_maps).iter().map(image).collect()
    }

    fn put(&mut self, set: Value) {
        self.take(json::text(&set, &["metadata", "name"]));
        self.sets.push(Arc::new(set));
    }

    fn take(&mut self, name: &str) {
        self.sets.retain(|set| json::text(set, &["metadata", "name"]) != name);
    }
}

fn merge(object: &mut Value, patch: &Value) {
    let (Some(fields), true) = (patch.as_object(), object.is_object() || patch.is_object()) else {
        *object = patch.clone();
        return;
    };
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

fn set(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": name, "uid": format!("uid of {name}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "containers": [{"name": name, "image": image}],
            "updateStrategy": {"type": "NotUpdate"}
        }
    })
}

fn edited(mut set: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match set.pointer_mut(parent).unwrap() {
        Value::Array(items) => {
            let index = key.parse::<usize>().unwrap().min(items.len());
            items.splice(index..(index + 1).min(items.len()), [value]);
        }
        object => object[key.replace("~1", "/")] = value,
    }
    set
}

fn bound(name: &str, namespace: &str) -> Value {
    let labels = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    edited(set(name, name), "/spec/namespaceSelector", labels)
}

fn said<'a>(plan: &'a Plan, name: &str) -> (BundlePlace, Why, &'a str) {
    let verdict = plan.verdicts.iter().find(|verdict| verdict.name == name).unwrap();
    (verdict.place, verdict.why, &verdict.message)
}

#[test]
fn what_is_missing_is_made_empty_and_filled_then() {
    let mut world = World::new([set("a", "a:1")]);
    let plan = world.plan();
    let [Step::Create(seed)] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
    assert_eq!(seed.get("data"), None);
    world.carry_out(&plan.steps[0]);
    let plan = world.plan();
    let [Step::Apply(applied)] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
    assert_eq!(json::text(applied, &["metadata", "uid"]), "uid of sets");
    assert_eq!(json::text(applied, &["metadata", "annotations", config_map::TIME]), NOW.to_string());
    assert_eq!(world.settle().look_again, Timestamp(NOW.0 + 120));
    assert_eq!(world.images(), ["a:1"]);
}

#[rstest]
#[case::fresh(119, "10m", 0)]
#[case::two_minutes_old(120, "10m", 1)]
#[case::two_minutes_ahead(-120, "10m", 1)]
#[case::soon_too_old(10, "30s", 1)]
#[case::not_yet(9, "30s", 0)]
fn the_time_is_renewed_before_it_is_too_old(#[case] after: i64, #[case] age: &str, #[case] steps: usize) {
    let mut world = World::new([set("a", "a:1")]);
    world.settings.bundle_source.max_age = pillion_kubernetes::duration::Duration::parse(age).unwrap();
    world.settle();
    world.now = Timestamp(NOW.0 + after);
    let plan = world.plan();
    assert_eq!(plan.steps.len(), steps, "{:?}", plan.steps);
    for step in &plan.steps {
        let Step::Patch { patch, resource_version: Some(_), .. } = step else { panic!("{step:?}") };
        assert_eq!(patch, &json!({"metadata": {"annotations": {config_map::TIME: world.now.to_string()}}}));
    }
}

#[rstest]
#[case::counts("/status", json!({"matchedPods": 3}))]
#[case::version("/metadata/resourceVersion", json!("7"))]
#[case::owners("/metadata/ownerReferences", json!([]))]
#[case::manifest("/metadata/annotations", json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"}))]
#[case::being_deleted("/metadata/deletionTimestamp", json!("2026-01-02T00:00:00Z"))]
#[case::smuggled_revision("/controllerRevision", json!({"metadata": {"name": "x"}}))]
fn what_is_not_injected_does_not_change_the_bundle(#[case] pointer: &str, #[case] value: Value) {
    let mut world = World::new([set("a", "a:1")]);
    world.settle();
    world.put(edited(set("a", "a:1"), pointer, value));
    assert_eq!(world.plan().steps, []);
}

#[test]
fn a_set_that_is_not_valid_stays_what_it_was() {
    let mut world = World::new([set("a", "a:1"), set("b", "b:1")]);
    world.settle();
    world.put(set("a", ""));
    world.put(edited(set("b", "b:2"), "/spec/containers", json!({})));
    world.put(set("c", "c:1"));
    world.put(set("d", ""));
    let plan = world.settle();
    assert_eq!(world.images(), ["a:1", "b:1", "c:1"]);
    let (place, why, message) = said(&plan, "a");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains("the version before this one: spec.containers[0].image"), "{message}");
    assert!(said(&plan, "b").2.contains("spec.containers"));
    assert_eq!(said(&plan, "c").0, BundlePlace::In);
    assert_eq!(said(&plan, "d").0, BundlePlace::Out);
    // The set is replaced by another object of its name.
    world.put(edited(set("a", ""), "/metadata/uid", json!("another")));
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::Out);
    assert_eq!(world.images(), ["b:1", "c:1"]);
}

/// The update rules hold here too, when SidecarSets were written without their admission.
#[rstest]
#[case::a_container_more("/spec/containers/1", json!({"name": "more", "image": "more:1"}), "cannot add or rename containers")]
#[case::a_container_renamed("/spec/containers/0/name", json!("other"), "cannot add or rename containers")]
#[case::another_upgrade_type(
    "/spec/containers/0/upgradeStrategy",
    json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}),
    "is immutable; it was ColdUpgrade"
)]
fn val30_what_an_update_may_not_change_stays_what_it_was(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] wrong: &str,
) {
    let mut world = World::new([set("a", "a:1")]);
    world.settle();
    let new = edited(set("a", "a:2"), pointer, value);
    world.put(new.clone());
    let plan = world.settle();
    let (place, why, message) = said(&plan, "a");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains(wrong), "{message}");
    assert_eq!(world.images(), ["a:1"]);
    // After deletion and recreation it is another object.
    world.put(edited(new, "/metadata/uid", json!("another")));
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::In);
    assert_eq!(world.images(), ["a:2"]);
}

#[test]
fn of_two_in_each_others_way_the_one_that_is_there_stays_then_the_older() {
    let rival = |name: &str, created: &str| {
        let set = edited(set(name, name), "/spec/containers/0/name", json!("agent"));
        edited(set, "/metadata/creationTimestamp", json!(created))
    };
    let (younger, older) = (rival("a", "2026-01-02T00:00:00Z"), rival("b", "2026-01-01T00:00:00Z"));
    let mut world = World::new([younger.clone(), older.clone()]);
    assert!(said(&world.settle(), "a").2.contains("SidecarSet \"b\""));
    assert_eq!(world.images(), ["b"]);
    let mut world = World::new([younger]);
    world.settle();
    world.put(older);
    world.settle();
    assert_eq!(world.images(), ["a"]);
    world.take("a");
    world.settle();
    assert_eq!(world.images(), ["b"]);
}

/// Returns a set with an account, which mounts the folder `conf`.
fn with_conf(set: Value) -> Value {
    let mounts = json!([{"name": "conf", "mountPath": "/conf"}]);
    let set = edited(set, "/spec/containers/0/volumeMounts", mounts);
    edited(set, "/spec/volumes", json!([{"name": "conf", "emptyDir": {}}]))
}

fn with_account(set: Value) -> Value {
    edited(set, "/spec/serviceAccountName", json!("agent"))
}

#[test]
fn idc11_of_two_that_share_a_volume_the_one_that_is_there_stays() {
    let naming = |set: Value, partner: &str| edited(set, "/spec/serviceAccountPartners", json!([partner]));
    let owner = with_account(with_conf(set("a", "a:1")));
    let mut world = World::new([owner.clone(), set("b", "b:1")]);
    world.settings.gates.service_account_injection = true;
    world.settle();
    world.put(with_conf(set("b", "b:2")));
    let plan = world.settle();
    let (place, why, message) = said(&plan, "b");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains("SidecarSet \"a\" uses the volume \"conf\""), "{message}");
    assert_eq!(world.images(), ["a:1", "b:1"]);
    world.put(naming(owner, "b"));
    world.put(naming(with_conf(set("b", "b:2")), "a"));
    assert_eq!(said(&world.settle(), "b").0, BundlePlace::In);
    assert_eq!(world.images(), ["a:1", "b:2"]);
}

/// An older version of Pillion put both into the bundle.
#[test]
fn idc11_sets_that_shared_a_volume_before_stay() {
    let of_bundle = |set: &Value| {
        let mut world = World::new([set.clone()]);
        world.settings.gates.service_account_injection = true;
        world.settle();
        stored(&world.at, &world.config_maps).remove(0)
    };
    let sets = [with_account(with_conf(set("a", "a:1"))), with_conf(set("b", "b:1"))];
    let mut world = World::new(sets.clone());
    world.settings.gates.service_account_injection = true;
    let before = config_map::write(&world.at, &sets.each_ref().map(of_bundle), NOW, TEXT_MAX).unwrap();
    world.config_maps = before.into_iter().map(Arc::new).collect();
    let places = |plan: &Plan| [said(plan, "a").0, said(plan, "b").0];
    assert_eq!(places(&world.plan()), [BundlePlace::In, BundlePlace::In]);
    world.put(with_conf(set("b", "b:2")));
    assert_eq!(places(&world.plan()), [BundlePlace::In, BundlePlace::Kept]);
}

/// Returns a stored version of the set `a` with a token for somebody else.
fn with_token(number: i64) -> ControllerRevision {
    let mut object = revision(&format!("a-{number}"), number, "a:0").as_value().clone();
    let token = json!({"serviceAccountToken": {"audience": "elsewhere", "path": "t"}});
    object["data"]["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [token]}}]);
    ControllerRevision::decode(object).unwrap()
}

#[test]
fn idc9_a_requested_version_with_a_token_gets_no_account() {
    let pinned = edited(set("a", "a:1"), "/spec/injectionStrategy", json!({"revision": {"revisionName": "a-1"}}));
    let mut world = World::new([pinned.clone()]);
    world.settings.gates.service_account_injection = true;
    world.revisions = vec![with_token(1)];
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::In);
    world.put(with_account(pinned.clone()));
    let plan = world.settle();
    let (place, why, message) = said(&plan, "a");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert!(message.contains("ControllerRevision \"a-1\" would run under the ServiceAccount"), "{message}");
    assert_eq!(stored(&world.at, &world.config_maps)[0].spec(&["serviceAccountName"]), None);
    world.revisions = vec![revision("a-1", 1, "a:0")];
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::In);
}

#[test]
fn val3_a_canary_comes_with_its_base_and_stays_without() {
    let annotations = json!({(names::CANARY): "true", (names::BASE): "z"});
    let canary = edited(set("a", "canary"), "/metadata/annotations", annotations);
    let mut world = World::new([canary]);
    assert!(said(&world.settle(), "a").2.contains("base"));
    world.put(set("z", "base"));
    world.settle();
    assert_eq!(world.images(), ["canary", "base"]);
}

#[test]
fn sets_of_the_settings_come_before_those_of_the_cluster() {
    let mut world = World::new([set("a", "a:1"), set("b", "b:1")]);
    world.settle();
    world.settings.sidecar_sets = vec![of_settings(set("a", "own"))];
    assert_eq!(said(&world.settle(), "a").1, Why::InSettings);
    assert_eq!(world.images(), ["b:1"]);
}

fn of_settings(set: Value) -> SidecarSet {
    let set = pillion_sidecarset::sidecar_set::decode::decode(set).unwrap().into_sidecar_set();
    set.with_origin(Origin::Settings)
}

fn revision(name: &str, number: i64, image: &str) -> ControllerRevision {
    ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "metadata": {
            "name": name, "uid": name, "namespace": "kruise-system",
            "labels": {names::SIDECAR_SET_NAME_LABEL: "a", names::CUSTOM_VERSION_LABEL: "v1"}
        },
        "data": {"spec": {"containers": [{"name": "a", "image": image}]}}
    }))
    .unwrap()
}

#[test]
fn rev9_the_newest_of_a_custom_version_goes_with_the_set_and_one_that_is_gone_stays() {
    let asking = edited(set("a", "new"), "/spec/injectionStrategy", json!({"revision": {"customVersion": "v1"}}));
    let mut world = World::new([asking]);
    assert!(said(&world.settle(), "a").2.contains("customVersion \"v1\""));
    let stored = |world: &World| {
        let text = config_map::text_of(world.config_map("sets").unwrap()).unwrap().to_vec();
        let sets = pillion_bundle::Bundle::read(&text).unwrap().sets().unwrap();
        sets[0].revision().unwrap().name().to_owned()
    };
    for (number, name) in [(1, "a-1"), (2, "a-2")] {
        world.revisions.push(revision(name, number, "old"));
        assert_eq!(said(&world.settle(), "a").0, BundlePlace::In);
        assert_eq!(stored(&world), name);
    }
    world.revisions.clear();
    let (place, why, _) = said(&world.settle(), "a");
    assert_eq!((place, why), (BundlePlace::Kept, Why::Invalid));
    assert_eq!(stored(&world), "a-2");
}

#[test]
fn diff30_the_version_before_the_latest_one_goes_with_the_set() {
    let partial = json!({"revision": {"policy": "Partial"}});
    let asking = |image: &str| edited(set("a", image), "/spec/injectionStrategy", partial.clone());
    let mut world = World::new([asking("new")]);
    assert_eq!(said(&world.settle(), "a").0, BundlePlace::In, "it has no earlier version");
    let stored = |world: &World| {
        let text = config_map::text_of(world.config_map("sets").unwrap()).unwrap().to_vec();
        let sets = pillion_bundle::Bundle::read(&text).unwrap().sets().unwrap();
        sets[0].revision().map(|revision| revision.name().to_owned())
    };
    assert_eq!(stored(&world), None);
    world.revisions = vec![revision("a-1", 1, "first"), revision("a-2", 2, "second")];
    world.settle();
    assert_eq!(stored(&world).as_deref(), Some("a-2"), "the new version is not stored yet");
    let latest = prepared(&SidecarSet::from_decoded(asking("new")));
    let mut newest = revision("a-3", 3, "new").as_value().clone();
    newest["metadata"]["annotations"] = json!({names::HASH: latest.hash()});
    world.revisions.push(ControllerRevision::decode(newest).unwrap());
    world.settle();
    assert_eq!(stored(&world).as_deref(), Some("a-2"), "the new version is stored");
}

#[test]
fn rev9_of_a_stored_version_only_what_is_asked_for_is_read() {
    let bare = |revision: ControllerRevision| {
        let mut object = revision.as_value().clone();
        object.as_object_mut().unwrap().remove("data");
        ControllerRevision::decode(object).unwrap()
    };
    let heads = [bare(revision("a-1", 1, "old")), bare(revision("a-2", 2, "old"))];
    let asking =
        |revision: Value| [Arc::new(edited(set("a", "new"), "/spec/injectionStrategy", json!({"revision": revision})))];
    let wanted = |revision: Value| wanted_revisions(&asking(revision), &heads, &Settings::default());
    assert_eq!(wanted(json!({"customVersion": "v1"})), ["a-2"]);
    assert_eq!(wanted(json!({"revisionName": "a-1"})), ["a-1"]);
    assert_eq!(wanted(json!({"revisionName": "b-1"})), [""; 0]);
    assert_eq!(
        wanted(json!({"policy": "Partial"})),
        ["a-1", "a-2"],
        "the version before the latest one is one of them"
    );
    assert_eq!(wanted(Value::Null), [""; 0]);
}

#[test]
fn what_has_no_room_stays_out_and_everything_else_goes_on() {
    let mut world = World::new([set("a", "a:1"), set("b", "b:1")]);
    world.settle();
    world.max = world.settle().length + 40;
    let long: String =
        (0..400_u32).map(|number| char::from(b'a' + u8::try_from(number * number % 23).unwrap())).collect();
    world.put(edited(set("b", "b:2"), "/spec/containers/0/args", json!([long])));
    world.put(edited(set("c", "c:1"), "/spec/containers/0/args", json!([long])));
    let plan = world.settle();
    assert_eq!(world.images(), ["a:1", "b:1"]);
    assert_eq!((said(&plan, "b").0, said(&plan, "b").1), (BundlePlace::Kept, Why::TooLong));
    assert_eq!((said(&plan, "c").0, said(&plan, "c").1), (BundlePlace::Out, Why::TooLong));
    world.put(set("a", "a:2"));
    world.settle();
    assert_eq!(world.images(), ["a:2", "b:1"]);
    // There is nothing to do if not even the current contents fit.
    world.max = 10;
    assert!(matches!(world.plan().obstacle, Some(Obstacle::TooLong(_))));
}

#[test]
fn what_is_somebody_elses_is_not_touched() {
    let foreign = json!({"metadata": {"name": "sets", "namespace": "pillion", "uid": "u"}, "data": {"x": "y"}});
    let mut world = World::new([set("a", "a:1")]);
    world.config_maps.push(Arc::new(foreign));
    let plan = world.plan();
    assert_eq!(plan.steps, []);
    assert!(plan.obstacle.unwrap().to_string().contains("ConfigMap \"pillion/sets\" is not Pillion's"));
    // A shard that is neither needed nor Pillion's is left alone.
    world.config_maps.clear();
    let shard = "sets-0123456789abcdef0123456789abcdef";
    let shard = json!({"metadata": {"name": shard, "namespace": "pillion", "uid": "u"}, "data": {"x": "y"}});
    world.config_maps.push(Arc::new(shard));
    world.settle();
    assert_eq!(world.config_maps.len(), 2);
}

#[rstest]
#[case("sets", true)]
#[case("sets-0123456789abcdef0123456789abcdef", true)]
#[case("sets-0123456789abcdef0123456789abcdeg", false)]
#[case("sets-0123456789abcdef0123456789abcde", false)]
#[case("sets-", false)]
#[case("sets-0", false)]
#[case("set", false)]
#[case("sets2-0123456789abcdef0123456789abcdef", false)]
fn the_config_maps_of_a_bundle_are_known_by_their_names(#[case] name: &str, #[case] is_one: bool) {
    assert_eq!(belongs("sets", name), is_one);
}

#[test]
fn the_condition_tells_whether_this_version_is_in_the_bundle() {
    let verdict = |place, why: Why| Verdict {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        place,
        why,
        hash: String::new(),
        message: "m".to_owned(),
    };
    let set = json!({"metadata": {"name": "a", "uid": "u"}, "status": {"conditions": []}});
    let written = |place, why| match condition(&set, &verdict(place, why), NOW) {
        Some(Step::JsonPatch { operations, .. }) => {
            let value = &operations.last().unwrap()["value"];
            ["type", "status", "reason"].map(|key| json::text(value, &[key]).to_owned())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(written(BundlePlace::In, Why::Current), ["InBundle", "True", Why::Current.as_str()]);
    assert_eq!(written(BundlePlace::Kept, Why::Invalid), ["InBundle", "False", "Invalid"]);
    assert_eq!(written(BundlePlace::Out, Why::TooLong), ["InBundle", "False", Why::TooLong.as_str()]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Wherever a plan stops, the next planner produces the same ConfigMaps.
    #[test]
    fn a_plan_that_was_stopped_is_completed(
        before in prop::collection::vec(0_u8..4, 0..5), after in prop::collection::vec(0_u8..4, 0..5),
        cut in 0_usize..300, stop in 0_usize..12,
    ) {
        let sets = |namespaces: &[u8]| -> Vec<Value> {
            let names = ["a", "b", "c", "d", "e"].iter().zip(namespaces);
            names.map(|(name, namespace)| bound(name, &namespace.to_string())).collect()
        };
        let mut world = World::new(sets(&before));
        world.settle();
        world.sets = sets(&after).into_iter().map(Arc::new).collect();
        world.max = pillion_bundle::write(&[]).len().max(world.plan().length.saturating_sub(cut));
        let mut straight = World { config_maps: world.config_maps.clone(), ..World::new(sets(&after)) };
        straight.max = world.max;
        if straight.plan().obstacle.is_some() {
            return Ok(());
        }
        straight.settle();
        let mut done = 0;
        'stopped: loop {
            let steps = world.plan().steps;
            if steps.is_empty() {
                break;
            }
            for step in &steps {
                if done == stop {
                    break 'stopped;
                }
                done += 1;
                world.carry_out(step);
            }
        }
        world.settle();
        let data = |world: &World| {
            let of = |map: &Arc<Value>| (json::text(map, &["metadata", "name"]).to_owned(), map["data"].clone());
            let mut all: Vec<_> = world.config_maps.iter().map(of).collect();
            all.sort_by(|one, other| one.0.cmp(&other.0));
            all
        };
        prop_assert_eq!(data(&world), data(&straight));
    }
}
