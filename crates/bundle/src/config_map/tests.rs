#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::cell::RefCell;

use pillion_kubernetes::lookup::Answer;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::source::OnUnavailable;

const NOW: Timestamp = Timestamp(1_800_000_000);

/// A cluster with only these ConfigMaps.
#[derive(Default)]
struct Cluster {
    config_maps: Vec<Value>,
    asked: RefCell<Vec<String>>,
}

impl Lookup for Cluster {
    fn get(&self, object: &ObjectRef) -> Answer {
        assert_eq!(
            (object.api_version, object.kind, object.namespace.as_deref()),
            ("v1", "ConfigMap", Some("pillion"))
        );
        self.asked.borrow_mut().push(object.name.clone());
        let is_it = |found: &&Value| json::text(found, &["metadata", "name"]) == object.name;
        Ok(self.config_maps.iter().find(is_it).cloned())
    }
}

struct Failing(Failure);

impl Lookup for Failing {
    fn get(&self, _: &ObjectRef) -> Answer {
        Err(self.0)
    }
}

fn at() -> ConfigMapName {
    ConfigMapName { namespace: "pillion".to_owned(), name: "sets".to_owned() }
}

fn set(name: &str, namespaces: &[&str]) -> SidecarSet {
    let key = "kubernetes.io/metadata.name";
    let selector = json!({"matchExpressions": [{"key": key, "operator": "In", "values": namespaces}]});
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "containers": [{"name": name, "image": "i:1"}]}
    });
    if !namespaces.is_empty() {
        set["spec"]["namespaceSelector"] = selector;
    }
    SidecarSet::from_decoded(set)
}

fn some() -> Vec<SidecarSet> {
    vec![set("everywhere", &[]), set("shop", &["shop"]), set("web", &["web"]), set("both", &["shop", "web"])]
}

/// Returns the ConfigMaps of [`some`], with shards.
fn sharded() -> Vec<Value> {
    let longest = bundle_length(&some()) - 1;
    write(&at(), &some(), NOW, longest).unwrap()
}

fn bundle_length(sets: &[SidecarSet]) -> usize {
    crate::write(sets).len()
}

fn names(cluster: &dyn Lookup, namespace: Option<&str>) -> Result<Vec<String>, (String, Fault)> {
    let labels = json!({"app": "a"});
    let choose: Choice<'_> = &|bundle| match namespace {
        Some(namespace) => bundle.sets_for(namespace, labels.as_object()),
        None => bundle.sets(),
    };
    let found = sets(&at(), &BundleSource::default(), namespace, (cluster, NOW), choose);
    let mut found: Vec<String> = found
        .map_err(|unavailable| (unavailable.name, unavailable.fault))?
        .iter()
        .map(|set| set.name().to_owned())
        .collect();
    found.sort();
    Ok(found)
}

#[test]
fn one_config_map_is_read_once() {
    let config_maps = write(&at(), &some(), NOW, TEXT_MAX).unwrap();
    assert_eq!(config_maps.len(), 1);
    assert_eq!(
        json::text(&config_maps[0], &["metadata", "annotations", "pillion.dev/bundle-time"]),
        "2027-01-15T08:00:00Z"
    );
    let cluster = Cluster { config_maps, ..Cluster::default() };
    assert_eq!(names(&cluster, Some("shop")).unwrap(), ["both", "everywhere", "shop"]);
    assert_eq!(*cluster.asked.borrow(), ["sets"]);
    assert_eq!(names(&cluster, None).unwrap().len(), 4);
}

#[test]
fn shards_are_read_for_their_namespaces() {
    let cluster = Cluster { config_maps: sharded(), ..Cluster::default() };
    let index = cluster.config_maps.last().unwrap();
    let count = shards(index).unwrap();
    assert_eq!(cluster.config_maps.len(), count as usize + 1);
    assert_eq!(names(&cluster, Some("shop")).unwrap(), ["both", "everywhere", "shop"]);
    assert_eq!(*cluster.asked.borrow(), ["sets".to_owned(), format!("sets-{}", shard_of("shop", count))]);
    assert_eq!(names(&cluster, Some("web")).unwrap(), ["both", "everywhere", "web"]);
    cluster.asked.borrow_mut().clear();
    assert_eq!(names(&cluster, None).unwrap(), ["everywhere"]);
    assert_eq!(*cluster.asked.borrow(), ["sets"]);
}

/// Controllers in other languages must compute the same values.
#[rstest]
#[case("default", 2, 0)]
#[case("default", 64, 44)]
#[case("kube-system", 64, 60)]
fn the_shard_of_a_namespace_never_changes(#[case] namespace: &str, #[case] count: u32, #[case] shard: u32) {
    assert_eq!(shard_of(namespace, count), shard);
}

/// Returns the ConfigMaps after one edit of the index.
fn edited(mut config_maps: Vec<Value>, pointer: &str, value: Value) -> Cluster {
    let index = config_maps.last_mut().unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = index.pointer_mut(parent).unwrap();
    parent[key.replace("~1", "/")] = value;
    Cluster { config_maps, ..Cluster::default() }
}

const TIME_AT: &str = "/metadata/annotations/pillion.dev~1bundle-time";

#[rstest]
#[case::no_data("/data", Value::Null, Fault::Empty)]
#[case::no_bundle("/data/bundle", Value::Null, Fault::Empty)]
#[case::an_empty_text("/data/bundle", json!(" \n"), Fault::Empty)]
#[case::no_text("/data/bundle", json!({}), Fault::Empty)]
#[case::another_text("/data/bundle", json!("sets"), Fault::Damaged)]
#[case::half_a_bundle("/data/bundle", json!("pillion-bundle-3:0:AAAA"), Fault::Damaged)]
#[case::another_format("/data/bundle", json!("pillion-bundle-9:x:y"), Fault::Format)]
#[case::no_annotations("/metadata/annotations", Value::Null, Fault::Undated)]
#[case::no_time(TIME_AT, Value::Null, Fault::Undated)]
#[case::another_word(TIME_AT, json!("yesterday"), Fault::Undated)]
#[case::old(TIME_AT, json!("2027-01-15T07:49:59Z"), Fault::Old)]
#[case::ahead(TIME_AT, json!("2027-01-15T08:10:01Z"), Fault::Early)]
#[case::endless_shards("/data/shards", json!("5000"), Fault::Damaged)]
#[case::no_number("/data/shards", json!("two"), Fault::Damaged)]
#[case::no_shards("/data/shards", json!("0"), Fault::Damaged)]
fn e17_an_index_that_cannot_be_used_says_why(#[case] pointer: &str, #[case] value: Value, #[case] fault: Fault) {
    let cluster = edited(write(&at(), &some(), NOW, TEXT_MAX).unwrap(), pointer, value);
    assert_eq!(names(&cluster, Some("shop")), Err(("sets".to_owned(), fault)));
}

#[rstest]
#[case::the_oldest("2027-01-15T07:50:00Z")]
#[case::the_newest("2027-01-15T08:10:00Z")]
#[case::another_zone("2027-01-15T10:00:00+02:00")]
fn a_bundle_may_be_as_old_as_its_greatest_age(#[case] time: &str) {
    let cluster = edited(write(&at(), &some(), NOW, TEXT_MAX).unwrap(), TIME_AT, json!(time));
    assert_eq!(names(&cluster, Some("web")).unwrap().len(), 3);
}

#[test]
fn a_bundle_with_a_line_feed_at_its_end_is_read() {
    let mut config_maps = write(&at(), &some(), NOW, TEXT_MAX).unwrap();
    let text = format!("{}\n", json::text(&config_maps[0], &["data", "bundle"]));
    config_maps[0]["data"]["bundle"] = json!(text);
    assert_eq!(names(&Cluster { config_maps, ..Cluster::default() }, Some("web")).unwrap().len(), 3);
}

#[test]
fn a_config_map_that_cannot_be_read_says_why() {
    assert_eq!(names(&Cluster::default(), Some("shop")), Err(("sets".to_owned(), Fault::Missing)));
    for failure in [Failure::Forbidden, Failure::Timeout, Failure::Unavailable] {
        assert_eq!(names(&Failing(failure), None), Err(("sets".to_owned(), Fault::Unread(failure))));
    }
}

#[test]
fn a_damaged_body_is_found_when_its_set_matches() {
    let mut config_maps = write(&at(), &some(), NOW, TEXT_MAX).unwrap();
    let mut text = json::text(&config_maps[0], &["data", "bundle"]).to_owned();
    text.truncate(text.len() - 8);
    config_maps[0]["data"]["bundle"] = json!(text);
    let cluster = Cluster { config_maps, ..Cluster::default() };
    assert_eq!(names(&cluster, Some("web")), Err(("sets".to_owned(), Fault::Damaged)));
}

#[test]
fn a_shard_is_checked_as_the_index_is() {
    let shard_of_shop = |config_maps: &[Value]| shard_of("shop", shards(config_maps.last().unwrap()).unwrap());
    let shard = shard_of_shop(&sharded());
    let name = format!("sets-{shard}");
    let faulty = |edit: fn(&mut Value), fault: Fault| {
        let mut config_maps = sharded();
        edit(&mut config_maps[shard as usize]);
        let cluster = Cluster { config_maps, ..Cluster::default() };
        assert_eq!(names(&cluster, Some("shop")), Err((name.clone(), fault)));
        assert_eq!(names(&cluster, None).unwrap(), ["everywhere"]);
    };
    faulty(|shard| shard["metadata"]["name"] = json!("other"), Fault::Missing);
    faulty(|shard| shard["data"]["generation"] = json!("before"), Fault::HalfWritten);
    faulty(|shard| shard["data"]["generation"] = Value::Null, Fault::HalfWritten);
    faulty(|shard| shard["data"]["bundle"] = json!("x"), Fault::Damaged);
}

/// Renewing the time is one small write, with any number of shards.
#[test]
fn the_time_of_the_index_counts_for_its_shards() {
    let mut config_maps = sharded();
    for shard in config_maps.iter_mut().rev().skip(1) {
        shard["metadata"]["annotations"] = json!({TIME: "2026-01-15T08:00:00Z"});
    }
    let cluster = Cluster { config_maps, ..Cluster::default() };
    assert_eq!(names(&cluster, Some("shop")).unwrap(), ["both", "everywhere", "shop"]);
}

#[test]
fn what_fits_into_no_config_map_is_an_error() {
    assert!(write(&at(), &some(), NOW, bundle_length(&some()[..1]) - 1).is_err(), "cluster-wide sets are in the index");
    let one_namespace: Vec<SidecarSet> = ["a", "b", "c"].map(|name| set(name, &["shop"])).into();
    let error = write(&at(), &one_namespace, NOW, bundle_length(&one_namespace) - 1).unwrap_err();
    assert_eq!(error.length, bundle_length(&one_namespace));
    assert!(error.to_string().contains("bind more of them to namespaces"), "{error}");
}

#[test]
fn what_waives_the_bundle_is_off() {
    let source = BundleSource::default();
    assert_eq!((source.config_map, source.on_unavailable), (None, OnUnavailable::Deny));
    assert_eq!(source.max_age.text(), "10m0s");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn shards_hold_what_one_bundle_holds(
        bound in prop::collection::vec(subsequence(vec!["a", "b", "c", "d"], 0..=3), 0..8),
        namespace in select(vec!["a", "b", "c", "d", "e"]),
        cut in 1_usize..400,
    ) {
        let some: Vec<SidecarSet> =
            bound.iter().enumerate().map(|(index, namespaces)| prepared(&set(&format!("s{index}"), namespaces))).collect();
        let whole = Cluster { config_maps: write(&at(), &some, NOW, TEXT_MAX).unwrap(), ..Cluster::default() };
        let max = bundle_length(&some).saturating_sub(cut);
        let Ok(config_maps) = write(&at(), &some, NOW, max) else { return Ok(()) };
        let longest = config_maps.iter().map(|map| json::text(map, &["data", "bundle"]).len()).max();
        prop_assert!(longest <= Some(max));
        let parted = Cluster { config_maps, ..Cluster::default() };
        prop_assert_eq!(names(&whole, Some(namespace)).unwrap(), names(&parted, Some(namespace)).unwrap());
        let expected: Vec<String> = some
            .iter()
            .filter(|set| pillion_sidecarset::sidecar_set::compiled::CompiledSet::of_manifest(set).is_candidate(namespace))
            .map(|set| set.name().to_owned())
            .collect();
        prop_assert_eq!(names(&parted, Some(namespace)).unwrap(), expected);
        prop_assert_eq!(parted.asked.borrow().len() <= 4, true, "two look-ups a Pod");
    }
}
