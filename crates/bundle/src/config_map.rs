//! A bundle in ConfigMaps (product.md, `settings.bundleRef`): what a controller writes and the policy reads.
//!
//! ```text
//! metadata.annotations["pillion.dev/bundle-time"]   when it was last known to be right, RFC 3339
//! data.bundle                                       the text of a bundle
//! ```
//!
//! Where one ConfigMap is too small for all SidecarSets, it is the index of `n` shards:
//!
//! ```text
//! data.shards        n, in decimal digits
//! data.generation    the same text in the index and in every shard
//! data.bundle        the SidecarSets that are looked for in every namespace
//! ```
//!
//! Those that name their namespaces (`kubernetes.io/metadata.name`, P-4) are in the shards of these namespaces:
//! ConfigMaps of the same form, named `<name>-<shard>`, with [`shard_of`] the namespace. So any Pod needs two at most. A
//! shard with another generation is part of an update that is not done yet; one with the generation of its index is as
//! right as that is, so only the time of the index counts and is renewed.

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

/// On the ConfigMap, of several on the index: when it was last known to be right. RFC 3339.
pub const TIME: &str = "pillion.dev/bundle-time";
/// The key of the bundle in the data.
pub const BUNDLE: &str = "bundle";
/// The key of the number of shards in the data.
pub const SHARDS: &str = "shards";
/// The key of the generation in the data.
pub const GENERATION: &str = "generation";
/// The most shards there can be.
pub const SHARDS_MAX: u32 = 4096;

const SECOND: u64 = 1_000_000_000;

/// Why the SidecarSets of a ConfigMap cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// It could not be read.
    Unread(Failure),
    /// It is not there.
    Missing,
    /// Its data has no `bundle`.
    Empty,
    /// It has no time, or none that can be read.
    Undated,
    /// Its time is too long ago.
    Old,
    /// Its time is too far ahead.
    Early,
    /// Its bundle has a format that this version does not read.
    Format,
    /// Its bundle, or its number of shards, is not what was written.
    Damaged,
    /// Its SidecarSets are too long together.
    TooLong,
    /// It is a shard of another generation than the index.
    HalfWritten,
}

impl Fault {
    /// What is wrong, after the name of the ConfigMap.
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

    /// What to do about it, but for waiving the bundle.
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

/// A ConfigMap whose SidecarSets cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Which.
    pub name: String,
    /// Why.
    pub fault: Fault,
}

impl Unavailable {
    /// `ConfigMap "<namespace>/<name>" does not exist`; `at` is the index.
    pub fn says(&self, at: &ConfigMapName) -> String {
        ["ConfigMap \"", &at.namespace, "/", &self.name, "\" ", self.fault.as_str()].concat()
    }
}

/// Which of the SidecarSets of a bundle are wanted.
pub type Choice<'a> = &'a dyn Fn(Bundle<'_>) -> Result<Vec<SidecarSet>, BundleError>;

/// The SidecarSets that are kept for a namespace; without one, those that are looked for in every namespace, which are
/// all of them where there are no shards.
///
/// Two look-ups at most: the ConfigMap, and where it has shards that of the namespace.
///
/// # Errors
/// [`Unavailable`]: the first that is wrong.
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

/// A ConfigMap and the sets in it.
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

/// The sets of one ConfigMap; `index` is its index, where it is a shard.
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
        // What belongs to an index that is right is right itself.
        Some(index) if generation(index) != generation(config_map) => return Err(Fault::HalfWritten),
        Some(_) => {}
    }
    Ok(choose(Bundle::read(text)?)?)
}

/// The text of the bundle in a ConfigMap. Whoever makes a ConfigMap of a file by hand has a line feed at its end.
///
/// # Errors
/// [`Fault::Empty`].
pub fn text_of(config_map: &Value) -> Result<&[u8], Fault> {
    let text = json::text(config_map, &["data", BUNDLE]).as_bytes().trim_ascii_end();
    if text.is_empty() { Err(Fault::Empty) } else { Ok(text) }
}

/// Checks how far the time of a ConfigMap is from the clock's, to the second.
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

/// How many shards there are beside a ConfigMap.
///
/// # Errors
/// [`Fault::Damaged`]: no number from 1 to [`SHARDS_MAX`].
pub fn shards(config_map: &Value) -> Result<u32, Fault> {
    let Some(text) = json::at(config_map, &["data", SHARDS]).and_then(Value::as_str) else { return Ok(0) };
    let count = text.parse().unwrap_or_default();
    if (1..=SHARDS_MAX).contains(&count) { Ok(count) } else { Err(Fault::Damaged) }
}

/// The shard of a namespace: FNV-1a (32 bits) of the bytes of `namespace`, 0xff, its name, 0xff, 0xff, modulo `count`,
/// which is not 0.
pub fn shard_of(namespace: &str, count: u32) -> u32 {
    Anchor::Namespace(namespace).hash().checked_rem(count).unwrap_or_default()
}

/// The name of a shard's ConfigMap.
pub fn shard_name(index: &str, shard: u32) -> String {
    [index, "-", &shard.to_string()].concat()
}

/// All sets that are kept, whatever the namespace, for tools: as many look-ups as there are shards, and one. A set that is
/// in several shards is there once.
///
/// # Errors
/// [`Unavailable`]: the first that is wrong.
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
