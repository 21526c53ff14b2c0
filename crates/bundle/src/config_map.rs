//! A bundle in ConfigMaps (SET-1), which a controller writes and the policy reads.
//!
//! ```text
//! metadata.annotations["pillion.dev/bundle-time"]   the time at which the bundle was last up to date, RFC 3339
//! data.bundle                                       the text of a bundle
//! ```
//!
//! If there are many SidecarSets, the ConfigMap is the index of `n` shards:
//!
//! ```text
//! data.shards        n checksums, separated by spaces: that of the bundle in each shard; 32 zeros for an empty shard
//! data.bundle        the SidecarSets that may match in every namespace
//! data.previous      the checksums of shards that the index before named, for readers that still have that index
//! ```
//!
//! SidecarSets that name their namespaces (`kubernetes.io/metadata.name`, MATCH-4) are in the shards of these
//! namespaces: ConfigMaps named `<name>-<checksum>`, with only `data.bundle`. [`shard_of`] computes the shard of a
//! namespace. So a Pod needs at most two ConfigMaps. The content of a shard never changes, since its name is that of its
//! content. So a change of the index replaces all of them at once, and only the time of the index counts.

mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use super::anchors::Anchor;
use super::{Bundle, BundleError};
use crate::layout::CHECKSUM_LENGTH;
use crate::source::{BundleSource, ConfigMapName};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;

pub use write::{TEXT_MAX, TooLong, write, write_with};

/// Annotation of the ConfigMap, or of the index if there are shards: the time at which it was last up to date, RFC
/// 3339.
pub const TIME: &str = "pillion.dev/bundle-time";
/// The key of the bundle in the data.
pub const BUNDLE: &str = "bundle";
/// The key of the checksums of the shards in the data.
pub const SHARDS: &str = "shards";
/// The key of the checksums of former shards in the data.
pub const PREVIOUS: &str = "previous";
/// Stands for the checksum of a shard without SidecarSets, which has no ConfigMap.
pub const EMPTY: &str = "00000000000000000000000000000000";

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
    /// The bundle or the list of shards is damaged.
    Damaged,
    /// The SidecarSets together are too long.
    TooLong,
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
        }
    }

    /// Returns the remedy, apart from giving up the bundle.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Unread(Failure::Forbidden) => {
                "the policy server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 ConfigMap and hostCapabilities kubernetes/get_resource"
            }
            Self::Unread(_) => "try again",
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
            BundleError::TooLong | BundleError::TooDense | BundleError::TooLongExpressions => Self::TooLong,
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
        format!("ConfigMap \"{}/{}\" {}", at.namespace, self.name, self.fault.as_str())
    }
}

/// Selects SidecarSets of a bundle.
pub type Choice<'a> = &'a dyn Fn(Bundle<'_>) -> Result<Vec<SidecarSet>, BundleError>;

/// Reads one object, as [`Lookup`] does.
type Get<'a> = &'a dyn Fn(&ObjectRef) -> Answer;

/// Reads the SidecarSets of the ConfigMaps of `bundleRef`.
#[derive(Clone, Copy)]
pub struct BundleReader<'a> {
    /// The ConfigMap, the index if there are shards.
    pub at: &'a ConfigMapName,
    /// The other settings of the bundle.
    pub source: &'a BundleSource,
    /// The cluster.
    pub lookup: &'a dyn Lookup,
    /// The current time.
    pub now: Timestamp,
}

impl<'a> BundleReader<'a> {
    /// Returns a reader; `None` if the settings name no ConfigMap.
    pub fn new(source: &'a BundleSource, lookup: &'a dyn Lookup, now: Timestamp) -> Option<Self> {
        source.config_map.as_ref().map(|at| Self { at, source, lookup, now })
    }

    /// Returns the SidecarSets for a namespace. Without a namespace, returns those that may match in every namespace,
    /// which are all of them if there are no shards.
    ///
    /// Reads at most two ConfigMaps: the index, and if that has shards, the shard of the namespace. With
    /// [`BundleSource::is_cached`], reads them again, past the cache, if what the cache has cannot be used: it may be
    /// old.
    ///
    /// # Errors
    /// The first ConfigMap that is [`Unavailable`].
    pub fn sets(&self, namespace: Option<&str>, choose: Choice<'_>) -> Result<Vec<SidecarSet>, Unavailable> {
        if self.source.is_cached {
            match self.sets_by(&|object| self.lookup.get_cached(object), namespace, choose) {
                Err(Unavailable { fault, .. }) if !matches!(fault, Fault::Unread(_)) => {}
                found => return found,
            }
        }
        self.sets_by(&|object| self.lookup.get(object), namespace, choose)
    }

    /// Returns all sets, for every namespace; meant for tools, because it reads the index and every shard. A set that is
    /// in several shards is returned once.
    ///
    /// # Errors
    /// The first ConfigMap that is [`Unavailable`].
    pub fn every_set(&self) -> Result<Vec<SidecarSet>, Unavailable> {
        let choose: Choice<'_> = &|bundle| bundle.sets();
        let get: Get<'_> = &|object| self.lookup.get(object);
        let (index, mut sets) = self.read(self.at.name.clone(), get, choose)?;
        let shards = shards(&index).map_err(|fault| self.index_is(fault))?;
        for checksum in shards.into_iter().filter(|checksum| *checksum != EMPTY).collect::<BTreeSet<_>>() {
            for set in self.read(shard_name(&self.at.name, checksum), get, choose)?.1 {
                if !sets.iter().any(|known| known.name() == set.name()) {
                    sets.push(set);
                }
            }
        }
        Ok(sets)
    }

    fn sets_by(
        &self,
        get: Get<'_>,
        namespace: Option<&str>,
        choose: Choice<'_>,
    ) -> Result<Vec<SidecarSet>, Unavailable> {
        let (index, mut sets) = self.read(self.at.name.clone(), get, choose)?;
        let shard = namespace.map_or(Ok(None), |namespace| shard_for(namespace, &index));
        if let Some(checksum) = shard.map_err(|fault| self.index_is(fault))? {
            sets.append(&mut self.read(shard_name(&self.at.name, checksum), get, choose)?.1);
        }
        Ok(sets)
    }

    /// Reads a ConfigMap. Returns it with its sets. Only the time of the index counts: its shards are as current as the
    /// index.
    fn read(&self, name: String, get: Get<'_>, choose: Choice<'_>) -> Result<(Value, Vec<SidecarSet>), Unavailable> {
        let namespace = Some(self.at.namespace.clone());
        let object = ObjectRef { api_version: "v1", kind: "ConfigMap", namespace, name };
        let read = || {
            let found = get(&object).map_err(Fault::Unread)?.ok_or(Fault::Missing)?;
            let text = text_of(&found)?;
            if object.name == self.at.name {
                check_time(&found, self.source, self.now)?;
            }
            let sets = choose(Bundle::read(text)?)?;
            Ok((found, sets))
        };
        read().map_err(|fault| Unavailable { name: object.name.clone(), fault })
    }

    fn index_is(&self, fault: Fault) -> Unavailable {
        Unavailable { name: self.at.name.clone(), fault }
    }
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

/// Returns the checksums of an index's shards, in order; none if the ConfigMap is not an index.
///
/// # Errors
/// The text is not a list of checksums ([`Fault::Damaged`]).
pub fn shards(config_map: &Value) -> Result<Vec<&str>, Fault> {
    let Some(text) = json::at(config_map, &["data", SHARDS]).and_then(Value::as_str) else { return Ok(Vec::new()) };
    let shards: Vec<&str> = text.split(' ').collect();
    if shards.iter().all(|shard| is_checksum(shard)) { Ok(shards) } else { Err(Fault::Damaged) }
}

/// Returns the checksum of the shard of a namespace; `None` if there are no shards, or if that shard is empty.
///
/// # Errors
/// The text is not a list of checksums ([`Fault::Damaged`]).
fn shard_for<'a>(namespace: &str, index: &'a Value) -> Result<Option<&'a str>, Fault> {
    let text = json::text(index, &["data", SHARDS]);
    if text.is_empty() {
        return Ok(None);
    }
    // Each checksum is as long as the others, and a space follows it, except the last one.
    let length = CHECKSUM_LENGTH + 1;
    let start = shard_of(namespace, (text.len() + 1) / length) * length;
    let checksum = text.get(start..start + CHECKSUM_LENGTH).filter(|text| is_checksum(text)).ok_or(Fault::Damaged)?;
    Ok(Some(checksum).filter(|checksum| *checksum != EMPTY))
}

/// Returns the checksums of the ConfigMaps of shards that readers of this index, or of the one before, may look for.
pub fn kept_shards(index: &Value) -> impl Iterator<Item = &str> {
    let texts = [SHARDS, PREVIOUS].map(|key| json::text(index, &["data", key]));
    texts.into_iter().flat_map(|text| text.split(' ')).filter(|checksum| !checksum.is_empty() && *checksum != EMPTY)
}

/// Returns the shard of a namespace: FNV-1a (32 bits) of the text `namespace`, 0xff, the name of the namespace, 0xff,
/// 0xff, modulo `count`; 0 if there are no shards.
pub fn shard_of(namespace: &str, count: usize) -> usize {
    let hash: usize = Anchor::Namespace(namespace).hash().try_into().unwrap_or_default();
    hash.checked_rem(count).unwrap_or_default()
}

/// Returns the name of a shard's ConfigMap.
pub fn shard_name(index: &str, checksum: &str) -> String {
    format!("{index}-{checksum}")
}

/// Returns the checksum in the name of a shard's ConfigMap.
pub fn checksum_in<'a>(name: &'a str, index: &str) -> Option<&'a str> {
    let checksum = name.strip_prefix(index)?.strip_prefix('-')?;
    is_checksum(checksum).then_some(checksum)
}

fn is_checksum(text: &str) -> bool {
    text.len() == CHECKSUM_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
