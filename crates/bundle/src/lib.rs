//! SidecarSets compiled into one text (product.md, `settings.bundle` and `bundleRef`).
//!
//! A policy server clones and writes the settings for every request, whatever the policy needs of them; a text costs it
//! little, and a short one next to nothing. So a bundle is one text that is never read whole: an index says which sets
//! can match a Pod ([`Bundle::sets_for`]), each set has a short head with what matching needs, and a body that is
//! opened only where the set matches. Both are compressed with a dictionary that all share.
//!
//! ```text
//! pillion-bundle-3:<checksum>:<base64url>
//! ```
//!
//! [`sections`] describes how the bytes are arranged, [`layout`] what is in them. A section that a reader does not know and
//! can do without is passed over, so most changes need no new format. [`Bundle::read`] has an arm for each format that is
//! read: a new format is a new arm, and bundles of the formats before it stay readable.
//!
//! If a set asks for a stored version of itself (`injectionStrategy.revision`), the command or the controller that makes the
//! bundle finds that version and puts it beside the set: the policy need not ask the cluster then.
//!
//! The checksum is over the rest and is verified if there is time ([`Bundle::verify`]); each body has one of its own,
//! which is verified whenever it is opened. The same sets give the same text.
#![forbid(unsafe_code)]

mod anchors;
mod base64;
pub mod config_map;
mod layout;
mod sections;
pub mod source;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;
use thiserror::Error;

use self::layout::{Parts, Room};
use self::sections::EARLY;
use pillion_kubernetes::json::{self, Object};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use pillion_sidecarset::sidecar_set::prepare::{stamp, stamp_with};
use pillion_sidecarset::sidecar_set::weight;
use pillion_sidecarset::validation::conflicts::Reach;

pub use write::write;

/// The format of bundles that is written and read. Formats 1 and 2 were never released.
pub const FORMAT: u32 = 3;
/// What every bundle of this format starts with.
pub const PREFIX: &str = "pillion-bundle-3:";
/// What bundles of every format start with.
pub const FAMILY: &str = "pillion-bundle-";

/// Why a bundle cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BundleError {
    /// It is something else.
    #[error("is no bundle: it does not start with \"{PREFIX}\"; make one with `pillion bundle`")]
    NotABundle,
    /// It was made by an older or a newer Pillion.
    #[error(
        "has the format {0}, and this policy reads format {FORMAT}; make it anew with `pillion bundle`, or update the policy if that is older"
    )]
    Format(u32),
    /// It was made by a newer Pillion, and says something that may not be passed over.
    #[error("has a section \"{0}\", which this policy does not know; update the policy")]
    Section(String),
    /// More comes out of it than its length allows.
    #[error(
        "holds SidecarSets that are too long together; make a bundle of fewer SidecarSets, or use bundleRef, whose shards hold those of some namespaces each"
    )]
    TooLong,
    /// Its SidecarSets have more containers and volumes than their length allows.
    #[error("has {}", weight::TOO_DENSE)]
    TooDense,
    /// Something in it is not what was written.
    #[error("is damaged ({0}); make it anew with `pillion bundle`")]
    Damaged(&'static str),
}

/// A bundle, of which only the first bytes were read.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'a> {
    checksum: &'a [u8],
    parts: Parts<'a>,
}

impl<'a> Bundle<'a> {
    /// Reads the beginning of a bundle.
    ///
    /// # Errors
    /// [`BundleError`], as far as the beginning tells.
    pub fn read(text: &'a [u8]) -> Result<Self, BundleError> {
        let (format, rest) = text.strip_prefix(FAMILY.as_bytes()).and_then(split).ok_or(BundleError::NotABundle)?;
        match format {
            b"3" => {
                let (checksum, data) = split(rest).ok_or(EARLY)?;
                Ok(Self { checksum, parts: Parts::read(data)? })
            }
            other => {
                let format = str::from_utf8(other).ok().and_then(|format| format.parse().ok());
                Err(format.map_or(BundleError::NotABundle, BundleError::Format))
            }
        }
    }

    /// How many sets it holds.
    pub fn len(&self) -> usize {
        self.parts.count
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`Bundle::sets`], after every byte was checked.
    ///
    /// # Errors
    /// [`BundleError::Damaged`].
    pub fn verify(&self) -> Result<Vec<SidecarSet>, BundleError> {
        if layout::checksum_of(self.parts.data()).as_bytes() != self.checksum {
            return Err(BundleError::Damaged("the checksum is another"));
        }
        self.sets()
    }

    /// The sets that may match, ascending by index, which is by name. No other set matches; one of these may still not.
    fn candidates(&self, namespace: &str, labels: Option<&Object>) -> Result<Vec<usize>, BundleError> {
        anchors::find(&self.parts, namespace, labels)
    }

    /// The sets that match a Pod of this namespace with these labels, as far as can be told without the Namespace's own
    /// labels, by name; each whole, defaulted and hashed. No body of another set is opened.
    ///
    /// # Errors
    /// [`BundleError::Damaged`].
    pub fn sets_for(&self, namespace: &str, labels: Option<&Object>) -> Result<Vec<SidecarSet>, BundleError> {
        let mut sets = Vec::new();
        let candidates = self.candidates(namespace, labels)?;
        if candidates.is_empty() {
            return Ok(sets);
        }
        let mut room = self.parts.room();
        let mut dictionary = self.parts.dictionary(&mut room)?;
        for index in candidates {
            let bytes = self.parts.head(index, &dictionary, &mut room)?;
            let head = document(&bytes)?;
            let compiled = CompiledSet::of_manifest(&head);
            // A selector that nobody understands is for admission to complain about.
            let is_others = compiled.selector.as_ref().is_ok_and(|selector| !selector.selects(labels));
            if !is_others && compiled.is_candidate(namespace) && !compiled.paused {
                sets.push(self.body(index, &bytes, &mut dictionary, &mut room)?);
            }
        }
        checked(sets)
    }

    /// The sets that admission compares a `SidecarSet` with, as it was sent: those that may select a Pod that it selects, the
    /// one of its name, and its base; each whole, defaulted and hashed. No body of another set is opened.
    ///
    /// # Errors
    /// [`BundleError::Damaged`].
    pub fn sets_beside(&self, sent: &Value) -> Result<Vec<SidecarSet>, BundleError> {
        let named =
            [json::text(sent, &["metadata", "name"]), json::text(sent, &["metadata", "annotations", names::BASE])];
        let reach = Reach::at_most(sent);
        self.sets_where(&|head| named.contains(&head.name()) || reach.may_meet(&Reach::of(head.as_value())))
    }

    /// All sets by name, each whole, defaulted and hashed.
    ///
    /// # Errors
    /// [`BundleError::Damaged`].
    pub fn sets(&self) -> Result<Vec<SidecarSet>, BundleError> {
        self.sets_where(&|_| true)
    }

    /// The sets of whose heads this is true.
    fn sets_where(&self, is_wanted: &dyn Fn(&SidecarSet) -> bool) -> Result<Vec<SidecarSet>, BundleError> {
        let mut room = self.parts.room();
        let mut dictionary = self.parts.dictionary(&mut room)?;
        let mut sets = Vec::new();
        for index in 0..self.len() {
            let head = self.parts.head(index, &dictionary, &mut room)?;
            if is_wanted(&document(&head)?) {
                sets.push(self.body(index, &head, &mut dictionary, &mut room)?);
            }
        }
        checked(sets)
    }

    /// A set that was stored without its hashes gets them here.
    fn body(
        &self,
        index: usize,
        head: &[u8],
        dictionary: &mut Vec<u8>,
        room: &mut Room,
    ) -> Result<SidecarSet, BundleError> {
        let length = dictionary.len();
        dictionary.extend_from_slice(head);
        let body = self.parts.body(index, dictionary, room);
        dictionary.truncate(length);
        let mut set = document(&body?)?;
        if set.hash().is_empty() {
            match self.parts.hashes(index)? {
                Some(hashes) => stamp_with(set.as_value_mut(), hashes),
                None => stamp(set.as_value_mut()),
            };
        }
        Ok(set)
    }
}

/// What stands before the next colon, and after it.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b':')?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// The sets, unless a name stands there twice, or they have more containers and volumes than their length allows.
fn checked(sets: Vec<SidecarSet>) -> Result<Vec<SidecarSet>, BundleError> {
    // Bundles are written by name. What sets of one name get together grows with the square of their number (E18).
    if sets.array_windows().any(|[one, next]| one.name() >= next.name()) {
        return Err(BundleError::Damaged("a SidecarSet is there twice, or not in its place"));
    }
    if weight::is_too_dense(&sets) { Err(BundleError::TooDense) } else { Ok(sets) }
}

fn document(bytes: &[u8]) -> Result<SidecarSet, BundleError> {
    json::parse(bytes).map(SidecarSet::from_decoded).map_err(|_| BundleError::Damaged("a set cannot be read"))
}
