//! Writes the ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Scope};
use serde_json::{Value, json};
use thiserror::Error;

use super::{BUNDLE, GENERATION, SHARDS, SHARDS_MAX, TIME, shard_name, shard_of};
use crate::Bundle;
use crate::source::ConfigMapName;

/// The longest bundle in one ConfigMap, in bytes: the API server accepts 1 MiB of data, keys included.
pub const TEXT_MAX: usize = 1_000_000;

/// The error for SidecarSets that do not fit into a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the SidecarSets that are looked for in every namespace, or those of one namespace, compile to {length} bytes, and a \
     ConfigMap holds {max}, or they are too long to be opened together; bind more of them to namespaces, or make them shorter"
)]
pub struct TooLong {
    /// The length of the bundle that does not fit, in bytes.
    pub length: usize,
    /// The maximum length, in bytes.
    pub max: usize,
}

/// Returns the ConfigMaps of some sets, the index last: if they are applied in this order, readers see the old index
/// until all shards are new. There is only one ConfigMap, without shards, if a bundle of at most `max` bytes
/// ([`TEXT_MAX`]) contains all sets. Every bundle in them can be read ([`Bundle::sets`]). The names of the sets must be
/// unique. The same sets, in any order, give the same ConfigMaps, apart from the time.
///
/// # Errors
/// The sets do not fit ([`TooLong`]).
pub fn write(at: &ConfigMapName, sets: &[SidecarSet], time: Timestamp, max: usize) -> Result<Vec<Value>, TooLong> {
    let whole = crate::write(sets);
    if is_readable(&whole, max) {
        return Ok(vec![config_map(at, &at.name, Some(time), &json!({BUNDLE: whole}))]);
    }
    let generation = hash::sha256(whole.as_bytes());
    let mut shards = 1;
    while let Some(next) = (shards <= SHARDS_MAX / 2).then_some(shards * 2) {
        let texts = sharded(sets, next);
        let fit = texts.values().all(|text| is_readable(text, max));
        let everywhere_fits = texts.get(&None).is_none_or(|text| is_readable(text, max));
        if !everywhere_fits || (!fit && next > SHARDS_MAX / 2) {
            return Err(TooLong { length: texts.values().map(String::len).max().unwrap_or_default(), max });
        }
        if fit {
            let map = |shard: Option<u32>| {
                let text = texts.get(&shard).cloned().unwrap_or_default();
                let mut data = json!({BUNDLE: text, GENERATION: generation});
                if let (None, Some(data)) = (shard, data.as_object_mut()) {
                    data.insert(SHARDS.to_owned(), next.to_string().into());
                }
                let name = shard.map_or_else(|| at.name.clone(), |shard| shard_name(&at.name, shard));
                config_map(at, &name, shard.is_none().then_some(time), &data)
            };
            return Ok((0..next).map(Some).chain([None]).map(map).collect());
        }
        shards = next;
    }
    Err(TooLong { length: whole.len(), max })
}

/// Whether a bundle has at most `max` bytes and stays within the limits of its readers.
fn is_readable(text: &str, max: usize) -> bool {
    text.len() <= max && Bundle::read(text.as_bytes()).is_ok_and(|bundle| bundle.sets().is_ok())
}

/// Returns the texts of the bundles by shard; `None` is the index.
fn sharded(sets: &[SidecarSet], count: u32) -> BTreeMap<Option<u32>, String> {
    let mut parts: BTreeMap<Option<u32>, Vec<SidecarSet>> = BTreeMap::new();
    for shard in (0..count).map(Some).chain([None]) {
        parts.entry(shard).or_default();
    }
    for set in sets {
        match &CompiledSet::of_manifest(set).scope {
            Scope::Namespaces(names) if !names.is_empty() => {
                let shards: BTreeSet<u32> = names.iter().map(|name| shard_of(name, count)).collect();
                for shard in &shards {
                    parts.entry(Some(*shard)).or_default().push(set.clone());
                }
            }
            _ => parts.entry(None).or_default().push(set.clone()),
        }
    }
    let mut texts = BTreeMap::new();
    for (shard, sets) in &parts {
        texts.insert(*shard, crate::write(sets));
    }
    texts
}

/// Builds a ConfigMap. Only an index has a time.
fn config_map(at: &ConfigMapName, name: &str, time: Option<Timestamp>, data: &Value) -> Value {
    let mut metadata = json!({"name": name, "namespace": at.namespace});
    if let (Some(time), Some(metadata)) = (time, metadata.as_object_mut()) {
        metadata.insert("annotations".to_owned(), json!({TIME: time.to_string()}));
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}
