//! The ConfigMaps of a bundle: reads their contents and plans the writes that change them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pillion_bundle::config_map::{self, BUNDLE, EMPTY, PREVIOUS, SHARDS, TIME, checksum_in, kept_shards};
use pillion_bundle::source::ConfigMapName;
use pillion_bundle::{Bundle, FAMILY, Memo};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

use super::{BundleInput, Obstacle};
use crate::Step;

/// The labels that identify the ConfigMaps of a bundle.
const LABELS: [(&str, &str); 3] = [
    ("app.kubernetes.io/component", "bundle"),
    ("app.kubernetes.io/managed-by", "pillion"),
    ("app.kubernetes.io/part-of", "pillion"),
];
/// The keys in `data` that belong to the bundle. Other keys are left alone.
const KEYS: [&str; 3] = [BUNDLE, SHARDS, PREVIOUS];

/// Whether a ConfigMap in the namespace of a bundle has the name of its index or of a shard. A plan must observe these
/// ConfigMaps.
pub fn belongs(index: &str, name: &str) -> bool {
    name == index || checksum_in(name, index).is_some()
}

fn name(config_map: &Value) -> &str {
    json::text(config_map, &["metadata", "name"])
}

fn has_labels(config_map: &Value) -> bool {
    LABELS.iter().all(|(key, value)| json::text(config_map, &["metadata", "labels", key]) == *value)
}

/// Whether it is a ConfigMap of a bundle. One made by hand with `pillion bundle` counts, too.
fn is_ours(config_map: &Value) -> bool {
    has_labels(config_map) || json::text(config_map, &["data", BUNDLE]).starts_with(FAMILY)
}

fn ours<'a>(at: &'a ConfigMapName, config_maps: &'a [Arc<Value>]) -> impl Iterator<Item = &'a Arc<Value>> {
    config_maps.iter().filter(move |config_map| belongs(&at.name, name(config_map)) && is_ours(config_map))
}

/// Returns the index, if it exists.
fn index<'a>(at: &'a ConfigMapName, config_maps: &'a [Arc<Value>]) -> Option<&'a Arc<Value>> {
    ours(at, config_maps).find(|config_map| name(config_map) == at.name)
}

/// Returns the sets that are in the bundle now, by name. Unreadable ConfigMaps contribute none, nor do shards that the
/// index does not name.
pub(super) fn sets(at: &ConfigMapName, config_maps: &[Arc<Value>], memo: &Memo) -> BTreeMap<String, SidecarSet> {
    first_of_each(current(at, config_maps).into_iter(), memo)
}

/// Returns the ConfigMaps of the bundle that readers see now: the index, and the shards that it names. None if there is no
/// index.
pub fn current<'a>(at: &'a ConfigMapName, config_maps: &'a [Arc<Value>]) -> Vec<&'a Arc<Value>> {
    let Some(index) = index(at, config_maps) else { return Vec::new() };
    let named: BTreeSet<&str> = config_map::shards(index).unwrap_or_default().into_iter().collect();
    let is_named = |(checksum, _): &(&str, &Arc<Value>)| named.contains(checksum);
    let named = shards(at, config_maps).filter(is_named).map(|(_, shard)| shard);
    [index].into_iter().chain(named).collect()
}

/// Returns the versions of sets that a new bundle keeps if later ones are invalid: those in the bundle now. If the index
/// is lost, they are those in the shards that are left, which no reader finds, each in its newest version.
pub(super) fn earlier(at: &ConfigMapName, config_maps: &[Arc<Value>], memo: &Memo) -> BTreeMap<String, SidecarSet> {
    if !index(at, config_maps).is_none_or(|index| is_lost(index)) {
        return sets(at, config_maps, memo);
    }
    let mut left: Vec<&Arc<Value>> = shards(at, config_maps).map(|(_, shard)| shard).collect();
    left.sort_by(|one, other| age(other).cmp(&age(one)));
    first_of_each(left.into_iter(), memo)
}

/// Whether an index says nothing, as one that was just created in place of a deleted one, or names no shards that can be
/// read.
fn is_lost(index: &Value) -> bool {
    let says_nothing = says(index).all(str::is_empty);
    says_nothing || config_map::shards(index).is_err()
}

/// Returns when a ConfigMap was created, and what orders those of one second. A shard is never written again.
fn age(shard: &Value) -> (&str, usize, &str) {
    let text = |key| json::text(shard, &["metadata", key]);
    let version = text("resourceVersion");
    (text("creationTimestamp"), version.len(), version)
}

/// Returns the shards of a bundle, former ones included, by their checksums.
fn shards<'a>(at: &'a ConfigMapName, config_maps: &'a [Arc<Value>]) -> impl Iterator<Item = (&'a str, &'a Arc<Value>)> {
    ours(at, config_maps).filter_map(|shard| Some((checksum_in(name(shard), &at.name)?, shard)))
}

/// Returns the sets in these ConfigMaps, by name: of several of one name, the first.
fn first_of_each<'a>(config_maps: impl Iterator<Item = &'a Arc<Value>>, memo: &Memo) -> BTreeMap<String, SidecarSet> {
    let mut found = BTreeMap::new();
    for config_map in config_maps {
        let text = config_map::text_of(config_map).unwrap_or_default();
        for set in Bundle::read(text).and_then(|bundle| memo.sets(&bundle)).unwrap_or_default() {
            found.entry(set.name().to_owned()).or_insert(set);
        }
    }
    found
}

/// Returns the total length of a bundle's texts, in bytes.
pub(super) fn length(config_maps: &[Value]) -> usize {
    config_maps.iter().map(|config_map| json::text(config_map, &["data", BUNDLE]).len()).sum()
}

/// Returns the steps that turn the ConfigMaps into the wanted ones, the index last, and the resulting time of the
/// bundle.
///
/// Missing ConfigMaps are created first, and empty, so that the controller never takes over one that another author
/// created at the same time. The next plan observes them and fills them. `interval` is the maximum age of the bundle's
/// time, in seconds.
pub(super) fn steps(
    wanted: &[Value],
    seen: BundleInput<'_>,
    interval: i64,
) -> Result<(Vec<Step>, Timestamp), Obstacle> {
    let mut steps = Vec::new();
    let mut there = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        match seen.config_maps.iter().find(|config_map| name(config_map) == name(wanted)) {
            None => steps.push(Step::Create(seed(seen, name(wanted)))),
            Some(config_map) if is_ours(config_map) => there.push((wanted, config_map)),
            Some(_) => {
                let (namespace, name) = (seen.at.namespace.clone(), name(wanted).to_owned());
                return Err(Obstacle::Foreign { namespace, name });
            }
        }
    }
    if !steps.is_empty() {
        return Ok((steps, seen.now));
    }
    let mut time = seen.now;
    for (wanted, config_map) in there {
        if has_labels(config_map) && says(wanted).zip(says(config_map)).all(|(wanted, found)| wanted == found) {
            if name(wanted) == seen.at.name {
                time = time_of(config_map);
                if seen.now.0.abs_diff(time.0) >= interval.unsigned_abs() {
                    time = seen.now;
                    steps.push(patch(seen, config_map, renewal(config_map, time)));
                }
            }
            continue;
        }
        let wanted = applied(wanted, config_map);
        let patch = left_over(&wanted, config_map);
        steps.push(Step::Apply(wanted));
        if let Some(patch) = patch {
            let (uid, _) = identity(config_map);
            let object = reference(seen, name(config_map));
            // The `Apply` before has changed the resource version.
            steps.push(Step::Patch { object, uid, resource_version: None, patch });
        }
    }
    let index_stays = steps.is_empty();
    steps.extend(deletions(wanted, seen, index_stays));
    Ok((steps, time))
}

/// Returns the steps that delete shards that no reader looks for: neither the wanted index nor the present one names them,
/// nor does the present one name them as former shards, if it stays as it is.
fn deletions(wanted: &[Value], seen: BundleInput<'_>, index_stays: bool) -> Vec<Step> {
    let index = index(seen.at, seen.config_maps);
    let kept: BTreeSet<&str> = match index {
        Some(index) if index_stays => kept_shards(index).collect(),
        Some(index) => config_map::shards(index).unwrap_or_default().into_iter().collect(),
        None => BTreeSet::new(),
    };
    let is_stale = |config_map: &&Arc<Value>| {
        let is_kept = checksum_in(name(config_map), &seen.at.name).is_none_or(|checksum| kept.contains(checksum));
        !is_kept && has_labels(config_map) && !wanted.iter().any(|wanted| name(wanted) == name(config_map))
    };
    let delete = |config_map: &Arc<Value>| {
        let (uid, resource_version) = identity(config_map);
        let object = reference(seen, name(config_map));
        Step::Delete { object, uid, resource_version: Some(resource_version) }
    };
    ours(seen.at, seen.config_maps).filter(is_stale).map(delete).collect()
}

/// Returns the patch that renews the time of an index. By then, no reader has the index before it any more.
fn renewal(index: &Value, time: Timestamp) -> Value {
    let mut patch = json!({"metadata": {"annotations": {TIME: time.to_string()}}});
    if json::at(index, &["data", PREVIOUS]).is_some()
        && let Some(patch) = patch.as_object_mut()
    {
        patch.insert("data".to_owned(), json!({PREVIOUS: null}));
    }
    patch
}

/// Returns what a ConfigMap says about the present SidecarSets.
fn says(config_map: &Value) -> impl Iterator<Item = &str> {
    [BUNDLE, SHARDS].iter().map(|key| json::text(config_map, &["data", key]))
}

/// Returns when the bundle was last confirmed to be current; the epoch if the ConfigMap has no such time.
fn time_of(config_map: &Value) -> Timestamp {
    Timestamp::parse(json::text(config_map, &["metadata", "annotations", TIME])).unwrap_or_default()
}

/// Returns the patch that removes surplus keys of the bundle. `Apply` alone does not remove a key that another author
/// owns, too.
fn left_over(wanted: &Value, config_map: &Value) -> Option<Value> {
    let has = |object: &Value, key: &str| json::at(object, &["data", key]).is_some();
    let left = KEYS.into_iter().filter(|key| has(config_map, key) && !has(wanted, key));
    let data: json::Object = left.map(|key| (key.to_owned(), Value::Null)).collect();
    (!data.is_empty()).then(|| json!({"data": data}))
}

fn labels() -> Value {
    LABELS.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect::<json::Object>().into()
}

fn seed(seen: BundleInput<'_>, name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": seen.at.namespace, "labels": labels()});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// Returns the ConfigMap as it is applied: with its labels, its uid, and the shards that it named until now.
fn applied(wanted: &Value, config_map: &Value) -> Value {
    let mut object = wanted.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), labels());
        metadata.insert("uid".to_owned(), identity(config_map).0.into());
    }
    let named: BTreeSet<&str> = kept_shards(wanted).collect();
    let former = config_map::shards(config_map).unwrap_or_default();
    let former: Vec<&str> =
        former.into_iter().filter(|checksum| *checksum != EMPTY && !named.contains(checksum)).collect();
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut).filter(|_| !former.is_empty()) {
        data.insert(PREVIOUS.to_owned(), former.join(" ").into());
    }
    object
}

fn patch(seen: BundleInput<'_>, config_map: &Value, patch: Value) -> Step {
    let (uid, resource_version) = identity(config_map);
    Step::Patch { object: reference(seen, name(config_map)), uid, resource_version: Some(resource_version), patch }
}

fn identity(config_map: &Value) -> (String, String) {
    let text = |key: &str| json::text(config_map, &["metadata", key]).to_owned();
    (text("uid"), text("resourceVersion"))
}

fn reference(seen: BundleInput<'_>, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1",
        kind: "ConfigMap",
        namespace: Some(seen.at.namespace.clone()),
        name: name.to_owned(),
    }
}
