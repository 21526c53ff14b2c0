#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::cell::RefCell;

use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::hash;
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

fn at() -> ConfigMapName {
    ConfigMapName { namespace: "pillion".to_owned(), name: "sets".to_owned() }
}

fn source() -> BundleSource {
    BundleSource { config_map: Some(at()), ..BundleSource::default() }
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
    let found = BundleReader::new(&source(), cluster, NOW).unwrap().sets(namespace, choose);
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

/// Returns the name of the ConfigMap of a namespace's shard.
fn shard_name_of(namespace: &str, config_maps: &[Value]) -> String {
    let checksums = shards(config_maps.last().unwrap()).unwrap();
    shard_name("sets", checksums[shard_of(namespace, checksums.len())])
}

#[test]
fn shards_are_read_for_their_namespaces() {
    let cluster = Cluster { config_maps: sharded(), ..Cluster::default() };
    let of_shop = shard_name_of("shop", &cluster.config_maps);
    assert_eq!(names(&cluster, Some("shop")).unwrap(), ["both", "everywhere", "shop"]);
    assert_eq!(cluster.asked.take(), ["sets".to_owned(), of_shop]);
    assert_eq!(names(&cluster, Some("web")).unwrap(), ["both", "everywhere", "web"]);
    cluster.asked.take();
    assert_eq!(names(&cluster, None).unwrap(), ["everywhere"]);
    assert_eq!(cluster.asked.take(), ["sets"]);
}

#[test]
fn a_shard_without_sidecar_sets_is_neither_written_nor_read() {
    let sets = [set("everywhere", &[]), set("shop", &["shop"])];
    let config_maps = write(&at(), &sets, NOW, bundle_length(&sets) - 1).unwrap();
    let checksums = shards(config_maps.last().unwrap()).unwrap();
    let empty: Vec<usize> = (0..checksums.len()).filter(|shard| checksums[*shard] == EMPTY).collect();
    assert_eq!((config_maps.len(), empty.is_empty()), (checksums.len() - empty.len() + 1, false));
    let namespace =
        (0..100).map(|number| format!("n{number}")).find(|name| empty.contains(&shard_of(name, checksums.len())));
    let cluster = Cluster { config_maps: config_maps.clone(), ..Cluster::default() };
    assert_eq!(names(&cluster, namespace.as_deref()).unwrap(), ["everywhere"]);
    assert_eq!(cluster.asked.take(), ["sets"]);
}

#[test]
fn shards_that_hold_the_same_are_one_config_map() {
    let everywhere: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = everywhere.iter().map(String::as_str).collect();
    let mut sets: Vec<SidecarSet> = ["a", "b"].map(|name| set(name, &names)).into();
    sets.push(set("everywhere", &[]));
    let config_maps = write(&at(), &sets, NOW, bundle_length(&sets) - 1).unwrap();
    let checksums = shards(config_maps.last().unwrap()).unwrap();
    assert_eq!((checksums[0], config_maps.len()), (checksums[1], 2));
}

/// Returns sets that are bound to one of many namespaces each, and some for every namespace.
fn many(bound: usize, unbound: usize) -> Vec<SidecarSet> {
    let long: String =
        (0..600_u32).map(|number| char::from(b'a' + u8::try_from(number * 7919 % 26).unwrap())).collect();
    let with_args = |name: String, namespaces: &[&str]| {
        let mut value = set(&name, namespaces).into_value();
        value["spec"]["containers"][0]["args"] = json!([hash::sha256(name.as_bytes()), hash::sha256(long.as_bytes())]);
        SidecarSet::from_decoded(value)
    };
    let of = |number: usize| with_args(format!("s{number:04}"), &[&format!("n{}", number % 50)]);
    (0..bound).map(of).chain((0..unbound).map(|number| with_args(format!("u{number:04}"), &[]))).collect()
}

#[rstest]
#[case::a_bundle_that_is_short_anyway(100, 0, false)]
#[case::much_that_most_namespaces_do_not_need(1000, 10, true)]
#[case::most_of_it_for_every_namespace(100, 900, false)]
#[case::all_for_every_namespace(0, 1000, false)]
fn shards_are_made_where_they_spare_pods_much(#[case] bound: usize, #[case] unbound: usize, #[case] has_shards: bool) {
    let sets = many(bound, unbound);
    let config_maps = write(&at(), &sets, NOW, TEXT_MAX).unwrap();
    assert_eq!(config_maps.len() > 1, has_shards);
    let lengths = || config_maps.iter().map(|map| json::text(map, &["data", "bundle"]).len());
    if has_shards {
        assert!(lengths().max().unwrap() < 40 * 1024, "{:?}", lengths().collect::<Vec<_>>());
    }
}

/// Controllers in other languages must compute the same values.
#[rstest]
#[case("default", 2, 0)]
#[case("default", 64, 44)]
#[case("kube-system", 64, 60)]
fn the_shard_of_a_namespace_never_changes(#[case] namespace: &str, #[case] count: usize, #[case] shard: usize) {
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
#[case::no_checksums("/data/shards", json!("two shards"), Fault::Damaged)]
#[case::a_path("/data/shards", json!("../../../../../secrets/a/b/c/def"), Fault::Damaged)]
#[case::half_a_checksum("/data/shards", json!("0123456789abcdef"), Fault::Damaged)]
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
        assert_eq!(
            names(&FakeObjects::answering(Err(failure)), None),
            Err(("sets".to_owned(), Fault::Unread(failure)))
        );
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
    let name = shard_name_of("shop", &sharded());
    let faulty = |edit: fn(&mut Value), fault: Fault| {
        let mut config_maps = sharded();
        let is_it = |map: &&mut Value| json::text(map, &["metadata", "name"]) == name;
        edit(config_maps.iter_mut().find(is_it).unwrap());
        let cluster = Cluster { config_maps, ..Cluster::default() };
        assert_eq!(names(&cluster, Some("shop")), Err((name.clone(), fault)));
        assert_eq!(names(&cluster, None).unwrap(), ["everywhere"]);
    };
    faulty(|shard| shard["metadata"]["name"] = json!("other"), Fault::Missing);
    faulty(|shard| shard["data"]["bundle"] = Value::Null, Fault::Empty);
    faulty(|shard| shard["data"]["bundle"] = json!("x"), Fault::Damaged);
}

/// A source with a cache, which has other ConfigMaps than the cluster.
struct Cached {
    cache: Cluster,
    cluster: Cluster,
}

impl Lookup for Cached {
    fn get(&self, object: &ObjectRef) -> Answer {
        self.cluster.get(object)
    }

    fn get_cached(&self, object: &ObjectRef) -> Answer {
        self.cache.get(object)
    }
}

#[rstest]
#[case::fresh(sharded(), 0)]
#[case::an_index_whose_shards_are_gone(sharded().split_off(sharded().len() - 1), 2)]
#[case::an_index_that_is_too_old(edited(sharded(), TIME_AT, json!("2027-01-15T07:49:59Z")).config_maps, 2)]
#[case::nothing(Vec::new(), 2)]
fn set1_what_a_cache_has_is_read_again_if_it_cannot_be_used(#[case] cached: Vec<Value>, #[case] live: usize) {
    let of = |config_maps| Cluster { config_maps, ..Cluster::default() };
    let source = Cached { cache: of(cached), cluster: of(sharded()) };
    let labels = json!({"app": "a"});
    let read = |is_cached| {
        let settings = BundleSource { is_cached, ..self::source() };
        let choose: Choice<'_> = &|bundle| bundle.sets_for("shop", labels.as_object());
        let found = BundleReader::new(&settings, &source, NOW).unwrap().sets(Some("shop"), choose).unwrap();
        (found.len(), source.cache.asked.take().len(), source.cluster.asked.take().len())
    };
    let (found, cached, asked) = read(true);
    assert_eq!((found, asked), (3, live));
    assert!(cached > 0);
    assert_eq!(read(false), (3, 0, 2));
}

#[test]
fn an_api_server_that_does_not_answer_is_asked_once() {
    struct Down;
    impl Lookup for Down {
        fn get(&self, _: &ObjectRef) -> Answer {
            panic!("asked again")
        }

        fn get_cached(&self, _: &ObjectRef) -> Answer {
            Err(Failure::Timeout)
        }
    }
    let source = BundleSource { is_cached: true, ..source() };
    let found = BundleReader::new(&source, &Down, NOW).unwrap().sets(None, &|bundle| bundle.sets());
    assert_eq!(found.unwrap_err().fault, Fault::Unread(Failure::Timeout));
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
            .filter(|set| pillion_sidecarset::sidecar_set::compiled::CompiledSet::new(set).is_candidate(namespace))
            .map(|set| set.name().to_owned())
            .collect();
        prop_assert_eq!(names(&parted, Some(namespace)).unwrap(), expected);
        prop_assert!(parted.asked.borrow().len() <= 4, "two look-ups a Pod");
    }
}
