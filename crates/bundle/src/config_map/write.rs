//! Writes the ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Scope};
use serde_json::{Value, json};
use thiserror::Error;

use super::{BUNDLE, EMPTY, SHARDS, TIME, shard_name, shard_of};
use crate::source::ConfigMapName;
use crate::write::Row;
use crate::{Bundle, Memo, PREFIX};

/// The longest bundle in one ConfigMap, in bytes: the API server accepts 1 MiB of data, keys included.
pub const TEXT_MAX: usize = 1_000_000;
/// The length of a shard, in bytes, from which more shards are made. A policy server takes 4 to 5 µs of CPU to read 1 KB
/// of a ConfigMap.
const SHARD_LENGTH: usize = 32 * 1024;
/// The fewest bytes of which shards spare each Pod. A Pod that needs a shard needs a second lookup, which costs a policy
/// server about as much as these bytes.
const WORTHWHILE: usize = 96 * 1024;
/// The most shards of a bundle: their checksums are a part of the index.
const SHARDS_MAX: usize = 1024;
/// The most shards that are made to be short.
const SHORT_SHARDS_MAX: usize = 64;

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
/// until all shards are there. There is only one ConfigMap, without shards, if a bundle of at most `max` bytes
/// ([`TEXT_MAX`]) contains all sets, and shards would not make it much shorter for a Pod. Every bundle in them can be
/// read ([`Bundle::sets`]). The names of the sets must be unique. The same sets, in any order, give the same ConfigMaps,
/// apart from the time.
///
/// # Errors
/// The sets do not fit ([`TooLong`]).
pub fn write(at: &ConfigMapName, sets: &[SidecarSet], time: Timestamp, max: usize) -> Result<Vec<Value>, TooLong> {
    write_with(&Memo::default(), at, sets, time, max)
}

/// Like [`write`]. Every written bundle is opened to check it. `memo` has what need not be compiled or decoded again,
/// and gets the rest.
///
/// # Errors
/// As [`write`].
pub fn write_with(
    memo: &Memo,
    at: &ConfigMapName,
    sets: &[SidecarSet],
    time: Timestamp,
    max: usize,
) -> Result<Vec<Value>, TooLong> {
    let is_readable = |text: &str| is_readable(text, max, memo);
    let scopes: Vec<Option<Vec<&str>>> = sets.iter().map(namespaces_of).collect();
    let rows: Vec<Row> = sets.iter().map(Row::new).collect();
    let all: Vec<&Row> = rows.iter().collect();
    // Shards are for sets that name their namespaces.
    let wanted = if scopes.iter().all(Option::is_none) { None } else { short_shards(&scopes, memo.length(&all)) };
    if wanted.is_none() {
        let whole = memo.text(&all);
        if is_readable(&whole) {
            return Ok(vec![config_map(at, &at.name, Some(time), &json!({BUNDLE: whole}))]);
        }
    }
    let mut count = wanted.unwrap_or(2);
    loop {
        let parts = Parts::new(memo, &rows, &scopes, count);
        let everywhere_fits = is_readable(&parts.index);
        let fit = everywhere_fits && parts.shards.iter().flatten().all(|text| is_readable(text));
        if fit {
            return Ok(parts.config_maps(at, time));
        }
        if !everywhere_fits || count >= SHARDS_MAX {
            let lengths = parts.shards.iter().flatten().chain([&parts.index]).map(String::len);
            return Err(TooLong { length: lengths.max().unwrap_or_default(), max });
        }
        count *= 2;
    }
}

/// Returns the namespaces in whose shards a set is; `None` if it is in the index.
fn namespaces_of(set: &SidecarSet) -> Option<Vec<&str>> {
    match CompiledSet::new(set).scope {
        Scope::Namespaces(names) if !names.is_empty() => Some(names),
        _ => None,
    }
}

/// Returns the number of shards that spares Pods the most of a bundle of about this length; `None` if shards are not
/// [`WORTHWHILE`]. Takes the sets to be equally long.
fn short_shards(scopes: &[Option<Vec<&str>>], length: usize) -> Option<usize> {
    let each = length.checked_div(scopes.len())?;
    let index = each * scopes.iter().filter(|scope| scope.is_none()).count();
    let longest = |count: usize| {
        let mut lengths = vec![0; count];
        for namespaces in scopes.iter().flatten() {
            for shard in namespaces.iter().map(|name| shard_of(name, count)).collect::<BTreeSet<_>>() {
                if let Some(length) = lengths.get_mut(shard) {
                    *length += each;
                }
            }
        }
        lengths.into_iter().max().unwrap_or_default()
    };
    let mut counts =
        std::iter::successors(Some(2), |count| Some(count * 2)).take_while(|count| *count <= SHORT_SHARDS_MAX);
    let count = counts.find(|count| longest(*count) <= SHARD_LENGTH).unwrap_or(SHORT_SHARDS_MAX);
    (index + longest(count) + WORTHWHILE <= length).then_some(count)
}

/// Whether a bundle has at most `max` bytes and stays within the limits of its readers.
fn is_readable(text: &str, max: usize, memo: &Memo) -> bool {
    text.len() <= max && Bundle::read(text.as_bytes()).is_ok_and(|bundle| memo.sets(&bundle).is_ok())
}

/// The texts of the bundles of an index and its shards.
struct Parts {
    index: String,
    /// In their order; `None` for a shard without SidecarSets.
    shards: Vec<Option<String>>,
}

impl Parts {
    fn new(memo: &Memo, rows: &[Row], scopes: &[Option<Vec<&str>>], count: usize) -> Self {
        let mut index = Vec::new();
        let mut shards = vec![Vec::new(); count];
        for (row, scope) in rows.iter().zip(scopes) {
            let Some(namespaces) = scope else {
                index.push(row);
                continue;
            };
            for number in namespaces.iter().map(|name| shard_of(name, count)).collect::<BTreeSet<_>>() {
                if let Some(shard) = shards.get_mut(number) {
                    shard.push(row);
                }
            }
        }
        let text = |rows: Vec<&Row>| (!rows.is_empty()).then(|| memo.text(&rows));
        Self { index: memo.text(&index), shards: shards.into_iter().map(text).collect() }
    }

    fn config_maps(self, at: &ConfigMapName, time: Timestamp) -> Vec<Value> {
        let mut by_checksum = BTreeMap::new();
        let checksums: Vec<String> = self
            .shards
            .into_iter()
            .map(|text| {
                let Some(text) = text else { return EMPTY.to_owned() };
                let checksum = stated_checksum(&text).to_owned();
                by_checksum.insert(checksum.clone(), text);
                checksum
            })
            .collect();
        let shard = |(checksum, text): (String, String)| {
            config_map(at, &shard_name(&at.name, &checksum), None, &json!({BUNDLE: text}))
        };
        let index = config_map(at, &at.name, Some(time), &json!({BUNDLE: self.index, SHARDS: checksums.join(" ")}));
        by_checksum.into_iter().map(shard).chain([index]).collect()
    }
}

/// Returns the checksum that the text of a bundle states.
fn stated_checksum(bundle: &str) -> &str {
    bundle.strip_prefix(PREFIX).and_then(|rest| rest.split(':').next()).unwrap_or_default()
}

/// Builds a ConfigMap. Only an index has a time.
fn config_map(at: &ConfigMapName, name: &str, time: Option<Timestamp>, data: &Value) -> Value {
    let mut metadata = json!({"name": name, "namespace": at.namespace});
    if let (Some(time), Some(metadata)) = (time, metadata.as_object_mut()) {
        metadata.insert("annotations".to_owned(), json!({TIME: time.to_string()}));
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}
