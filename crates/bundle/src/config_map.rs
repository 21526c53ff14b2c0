//! A bundle in ConfigMaps (SET-1), which a controller writes and the policy reads.
//!
//! ```text
//! metadata.annotations["pillion.dev/bundle-time"]   the time at which the bundle was last up to date, RFC 3339
//! data.bundle                                       the text of a bundle
//! ```
//!
//! If one ConfigMap is too small for all SidecarSets, it is the index of `n` shards:
//!
//! ```text
//! data.shards        n, in decimal digits
//! data.generation    the same text in the index and in every shard
//! data.bundle        the SidecarSets that may match in every namespace
//! ```
//!
//! SidecarSets that name their namespaces (`kubernetes.io/metadata.name`, MATCH-4) are in the shards of these
//! namespaces: ConfigMaps of the same form, named `<name>-<shard>`. [`shard_of`] computes the shard of a namespace. So
//! a Pod needs at most two ConfigMaps. A shard with another generation than the index belongs to an unfinished update.
//! A shard with the generation of the index is as current as the index, so only the time of the index counts and is
//! renewed.

mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::anchors::Anchor;
use super::{Bundle, BundleError};
use crate::source::{BundleSource, ConfigMapName};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Failure, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;

pub use write::{TEXT_MAX, TooLong, write};

/// Annotation of the ConfigMap, or of the index if there are shards: the time at which it was last up to date, RFC
/// 3339.
pub const TIME: &str = "pillion.dev/bundle-time";
/// The key of the bundle in the data.
pub const BUNDLE: &str = "bundle";
/// The key of the number of shards in the data.
pub const SHARDS: &str = "shards";
/// The key of the generation in the data.
pub const GENERATION: &str = "generation";
/// The most shards of a bundle.
pub(crate) const SHARDS_MAX: u32 = 4096;

const SECOND: u64 = 1_000_000_000;

/// The reason why the SidecarSets of a ConfigMap are unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The ConfigMap could not be read.
    Unread(Failure),
    /// The ConfigMap does not exist.
    Missing,
    /// The data of the ConfigMap has no `bundle`.
    Empty,
    /// The ConfigMap has no time, or one that cannot be parsed.
    Undated,
    /// The time of the ConfigMap is too far in the past.
    Old,
    /// The time of the ConfigMap is too far in the future.
    Early,
    /// The bundle has a format that this version does not read.
    Format,
    /// The bundle or the number of shards is damaged.
    Damaged,
    /// The SidecarSets together are too long.
    TooLong,
    /// The ConfigMap is a shard of another generation than the index.
    HalfWritten,
}

impl Fault {
    /// Returns the message, to be appended to the name of the ConfigMap.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unread(Failure::Forbidden) => "may not be read",
            Self::Unread(Failure::Timeout) => "could not be read in time",
            Self::Unread(Failure::Unavailable) => "could not be read",
            Self::Missing => "does not exist",
            Self::Empty => "has no data.bundle",
            Self::Undated => "has no time in its annotation pillion.dev/bundle-time",
            Self::Old => "is older than bundleMaxAge",
            Self::Early => "has a time further ahead than bundleMaxAge",
            Self::Format => "has a bundle of another format",
            Self::Damaged => "is damaged",
            Self::TooLong => "holds SidecarSets that are too long together",
            Self::HalfWritten => "is of another generation than its index",
        }
    }

    /// Returns the remedy, apart from giving up the bundle.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Unread(Failure::Forbidden) => {
                "the policy server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 ConfigMap and hostCapabilities kubernetes/get_resource"
            }
            Self::Unread(_) | Self::HalfWritten => "try again",
            Self::Format => "use a policy and a controller of one version",
            Self::TooLong => "shorten or remove SidecarSets",
            Self::Missing | Self::Empty | Self::Undated | Self::Old | Self::Early | Self::Damaged => {
                "check that Pillion's controller is running"
            }
        }
    }
}

impl From<BundleError> for Fault {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Format(_) | BundleError::Section(_) => Self::Format,
            BundleError::TooLong | BundleError::TooDense => Self::TooLong,
            BundleError::NotABundle | BundleError::Damaged(_) => Self::Damaged,
        }
    }
}

/// A ConfigMap whose SidecarSets are unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The name of the ConfigMap.
    pub name: String,
    /// The reason.
    pub fault: Fault,
}

impl Unavailable {
    /// Returns the message, such as `ConfigMap "<namespace>/<name>" does not exist`; `at` is the index.
    pub fn says(&self, at: &ConfigMapName) -> String {
        ["ConfigMap \"", &at.namespace, "/", &self.name, "\" ", self.fault.as_str()].concat()
    }
}

/// Selects SidecarSets of a bundle.
pub type Choice<'a> = &'a dyn Fn(Bundle<'_>) -> Result<Vec<SidecarSet>, BundleError>;

/// Returns the SidecarSets for a namespace. Without a namespace, returns those that may match in every namespace, which
/// are all of them if there are no shards.
///
/// Reads at most two ConfigMaps: `at`, and if that has shards, the shard of the namespace.
///
/// # Errors
/// The first ConfigMap that is [`Unavailable`].
pub fn sets(
    at: &ConfigMapName,
    source: &BundleSource,
    namespace: Option<&str>,
    (lookup, now): (&dyn Lookup, Timestamp),
    choose: Choice<'_>,
) -> Result<Vec<SidecarSet>, Unavailable> {
    let (index, mut sets) = read(at, at.name.clone(), lookup, &|found| open(found, None, source, now, choose))?;
    let count = shards(&index).map_err(|fault| Unavailable { name: at.name.clone(), fault })?;
    if let Some(namespace) = namespace.filter(|_| count > 0) {
        let name = shard_name(&at.name, shard_of(namespace, count));
        sets.append(&mut read(at, name, lookup, &|found| open(found, Some(&index), source, now, choose))?.1);
    }
    Ok(sets)
}

/// Reads a ConfigMap. Returns it with its sets.
fn read(
    at: &ConfigMapName,
    name: String,
    lookup: &dyn Lookup,
    open: &dyn Fn(&Value) -> Result<Vec<SidecarSet>, Fault>,
) -> Result<(Value, Vec<SidecarSet>), Unavailable> {
    let object = ObjectRef { api_version: "v1", kind: "ConfigMap", namespace: Some(at.namespace.clone()), name };
    let read = || {
        let found = lookup.get(&object).map_err(Fault::Unread)?.ok_or(Fault::Missing)?;
        let sets = open(&found)?;
        Ok((found, sets))
    };
    read().map_err(|fault| Unavailable { name: object.name, fault })
}

/// Returns the sets of one ConfigMap; `index` is its index if it is a shard.
fn open(
    config_map: &Value,
    index: Option<&Value>,
    source: &BundleSource,
    now: Timestamp,
    choose: Choice<'_>,
) -> Result<Vec<SidecarSet>, Fault> {
    let text = text_of(config_map)?;
    let generation = |config_map| json::text(config_map, &["data", GENERATION]);
    match index {
        None => check_time(config_map, source, now)?,
        // A shard of the same generation is as current as its index.
        Some(index) if generation(index) != generation(config_map) => return Err(Fault::HalfWritten),
        Some(_) => {}
    }
    Ok(choose(Bundle::read(text)?)?)
}

/// Returns the text of the bundle in a ConfigMap, without the line feed at the end that a ConfigMap made from a file
/// has.
///
/// # Errors
/// The ConfigMap has no bundle ([`Fault::Empty`]).
pub fn text_of(config_map: &Value) -> Result<&[u8], Fault> {
    let text = json::text(config_map, &["data", BUNDLE]).as_bytes().trim_ascii_end();
    if text.is_empty() { Err(Fault::Empty) } else { Ok(text) }
}

/// Checks that the time of a ConfigMap is close enough to the clock, to the second.
///
/// # Errors
/// [`Fault::Undated`], [`Fault::Old`], [`Fault::Early`].
pub fn check_time(config_map: &Value, source: &BundleSource, now: Timestamp) -> Result<(), Fault> {
    let text = json::text(config_map, &["metadata", "annotations", TIME]);
    let time = Timestamp::parse(text).ok_or(Fault::Undated)?;
    if now.0.abs_diff(time.0) <= source.max_age.0.unsigned_abs() / SECOND {
        return Ok(());
    }
    Err(if time < now { Fault::Old } else { Fault::Early })
}

/// Returns the number of shards of an index; 0 if the ConfigMap is not an index.
///
/// # Errors
/// The text is not a number from 1 to [`SHARDS_MAX`] ([`Fault::Damaged`]).
pub fn shards(config_map: &Value) -> Result<u32, Fault> {
    let Some(text) = json::at(config_map, &["data", SHARDS]).and_then(Value::as_str) else { return Ok(0) };
    let count = text.parse().unwrap_or_default();
    if (1..=SHARDS_MAX).contains(&count) { Ok(count) } else { Err(Fault::Damaged) }
}

/// Returns the shard of a namespace: FNV-1a (32 bits) of the text `namespace`, 0xff, the name of the namespace, 0xff,
/// 0xff, modulo `count`, which must not be 0.
pub fn shard_of(namespace: &str, count: u32) -> u32 {
    Anchor::Namespace(namespace).hash().checked_rem(count).unwrap_or_default()
}

/// Returns the name of a shard's ConfigMap.
pub fn shard_name(index: &str, shard: u32) -> String {
    [index, "-", &shard.to_string()].concat()
}

/// Returns all sets, for every namespace; meant for tools, because it reads the index and every shard. A set that is in
/// several shards is returned once.
///
/// # Errors
/// The first ConfigMap that is [`Unavailable`].
pub fn every_set(
    at: &ConfigMapName,
    source: &BundleSource,
    (lookup, now): (&dyn Lookup, Timestamp),
) -> Result<Vec<SidecarSet>, Unavailable> {
    let read = |name: String, index: Option<&Value>| {
        read(at, name, lookup, &|found| open(found, index, source, now, &|bundle| bundle.sets()))
    };
    let (index, mut sets) = read(at.name.clone(), None)?;
    let count = shards(&index).map_err(|fault| Unavailable { name: at.name.clone(), fault })?;
    for shard in 0..count {
        for set in read(shard_name(&at.name, shard), Some(&index))?.1 {
            if !sets.iter().any(|known| known.name() == set.name()) {
                sets.push(set);
            }
        }
    }
    Ok(sets)
}
