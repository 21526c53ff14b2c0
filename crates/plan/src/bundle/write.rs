//! The ConfigMaps of a bundle: reads their contents and plans the writes that change them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_bundle::config_map::{self, BUNDLE, GENERATION, SHARDS, TIME, shard_name};
use pillion_bundle::source::ConfigMapName;
use pillion_bundle::{Bundle, FAMILY};
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
const KEYS: [&str; 3] = [BUNDLE, GENERATION, SHARDS];

/// Whether a ConfigMap in the namespace of a bundle has the name of its index or of a shard. A plan must observe these
/// ConfigMaps.
pub fn belongs(index: &str, name: &str) -> bool {
    name == index || shard(index, name).is_some()
}

/// Returns the number of a shard from the name of its ConfigMap.
fn shard(index: &str, name: &str) -> Option<u32> {
    let number: u32 = name.strip_prefix(index)?.strip_prefix('-')?.parse().ok()?;
    // Only the canonical spelling of the number counts.
    (shard_name(index, number) == name).then_some(number)
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

/// Returns the sets that are in the bundle now, by name. Unreadable ConfigMaps contribute none. If a set is in several
/// ConfigMaps, the index wins: shards may be half written or stale.
pub(super) fn sets(at: &ConfigMapName, config_maps: &[Arc<Value>]) -> BTreeMap<String, SidecarSet> {
    let mut found = BTreeMap::new();
    let (index, shards): (Vec<_>, Vec<_>) = ours(at, config_maps).partition(|config_map| name(config_map) == at.name);
    for config_map in index.into_iter().chain(shards) {
        let text = config_map::text_of(config_map).unwrap_or_default();
        for set in Bundle::read(text).and_then(|bundle| bundle.verify()).unwrap_or_default() {
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
                    steps.push(patch(seen, config_map, json!({"metadata": {"annotations": {TIME: time.to_string()}}})));
                }
            }
            continue;
        }
        steps.push(Step::Apply(applied(wanted, config_map)));
        if let Some(patch) = left_over(wanted, config_map) {
            let (uid, _) = identity(config_map);
            let object = reference(seen, name(config_map));
            // The `Apply` before has changed the resource version.
            steps.push(Step::Patch { object, uid, resource_version: None, patch });
        }
    }
    let count = wanted.len().saturating_sub(1);
    for config_map in ours(seen.at, seen.config_maps) {
        let is_stale = shard(&seen.at.name, name(config_map)).is_some_and(|shard| shard as usize >= count);
        if is_stale && has_labels(config_map) {
            let (uid, resource_version) = identity(config_map);
            steps.push(Step::Delete {
                object: reference(seen, name(config_map)),
                uid,
                resource_version: Some(resource_version),
            });
        }
    }
    Ok((steps, time))
}

/// Returns the bundle's values in a ConfigMap.
fn says(config_map: &Value) -> impl Iterator<Item = &str> {
    KEYS.iter().map(|key| json::text(config_map, &["data", key]))
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

fn applied(wanted: &Value, config_map: &Value) -> Value {
    let mut object = wanted.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), labels());
        metadata.insert("uid".to_owned(), identity(config_map).0.into());
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
