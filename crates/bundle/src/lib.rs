//! SidecarSets compiled into one text (SET-1).
//!
//! A policy server clones and serializes the settings for every request, even the parts that the policy does not need.
//! A text costs little, and a short text even less. So a bundle is one compressed text that is never read as a whole:
//!
//! * An index tells which sets can match a Pod ([`Bundle::sets_for`]).
//! * Each set has a short head, which contains the fields for matching, and a body, which is opened only if the set
//!   matches. Heads and bodies are compressed with a shared dictionary.
//!
//! ```text
//! pillion-bundle-3:<checksum>:<base64url>
//! ```
//!
//! [`sections`] describes the arrangement of the bytes, [`layout`] their contents. Readers skip optional sections that
//! they do not know, so most changes need no new format. A new format is a new arm in [`Bundle::read`]; bundles of
//! older formats stay readable.
//!
//! If a set requests a stored version of itself (`injectionStrategy.revision`), the command or the controller that
//! makes the bundle stores that version with the set, so that the policy need not ask the cluster for it.
//!
//! The checksum covers the rest of the text and is verified on demand ([`Bundle::verify`]). Each body has its own
//! checksum, which is always verified when the body is opened. The same sets give the same text.
//!
//! # Examples
//! ```
//! use pillion_bundle::{Bundle, write};
//! use pillion_sidecarset::sidecar_set::SidecarSet;
//! use serde_json::json;
//!
//! # fn main() -> Result<(), pillion_bundle::BundleError> {
//! let set = |name: &str, app: &str| {
//!     SidecarSet::from_decoded(json!({
//!         "apiVersion": "apps.kruise.io/v1beta1",
//!         "kind": "SidecarSet",
//!         "metadata": {"name": name},
//!         "spec": {
//!             "selector": {"matchLabels": {"app": app}},
//!             "containers": [{"name": name, "image": "registry.example.com/agent:1"}],
//!         },
//!     }))
//! };
//! let text = write(&[set("mesh", "shop"), set("log-agent", "web")]);
//!
//! let bundle = Bundle::read(text.as_bytes())?;
//! let names = |sets: Vec<SidecarSet>| sets.iter().map(|set| set.name().to_owned()).collect::<Vec<_>>();
//! assert_eq!(names(bundle.verify()?), ["log-agent", "mesh"]); // sorted by name
//!
//! let labels = json!({"app": "shop"}); // of a Pod in the namespace "prod"
//! assert_eq!(names(bundle.sets_for("prod", labels.as_object())?), ["mesh"]);
//! # Ok(())
//! # }
//! ```
//!
//! It never decides which SidecarSets are in a bundle (`pillion_plan` does), and asks no cluster. Start with
//! [`write()`] and [`Bundle::read`]; [`config_map`] has the form that controllers keep.
#![forbid(unsafe_code)]

mod anchors;
mod base64;
pub mod catalog;
pub mod config_map;
mod layout;
mod memo;
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
use pillion_sidecarset::hash::{DIGESTS, Hashes};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use pillion_sidecarset::sidecar_set::prepare::{stamp, stamp_with};
use pillion_sidecarset::sidecar_set::weight::{self, Total};
use pillion_sidecarset::validation::conflicts::Reach;

pub use memo::Memo;
pub use write::{write, write_each};

/// The format of the bundles that this version writes and reads. Formats 1 and 2 were never released.
pub const FORMAT: u32 = 3;
/// The prefix of every bundle of this format.
pub const PREFIX: &str = "pillion-bundle-3:";
/// The prefix of bundles of every format.
pub const FAMILY: &str = "pillion-bundle-";

/// The reason why a bundle cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BundleError {
    /// The text is not a bundle.
    #[error("is no bundle: it does not start with \"{PREFIX}\"; make one with `pillion bundle`")]
    NotABundle,
    /// The bundle was made by an older or a newer Pillion.
    #[error(
        "has the format {0}, and this policy reads format {FORMAT}; make it anew with `pillion bundle`, or update the policy if that is older"
    )]
    Format(u32),
    /// The bundle was made by a newer Pillion, and has a mandatory section that this version does not know.
    #[error("has a section \"{0}\", which this policy does not know; update the policy")]
    Section(String),
    /// The bundle decompresses to more than its length allows.
    #[error(
        "holds SidecarSets that are too long together; make a bundle of fewer SidecarSets, or use bundleRef, whose shards hold those of some namespaces each"
    )]
    TooLong,
    /// The SidecarSets have more containers and volumes than their length allows.
    #[error("has {}", weight::TOO_DENSE)]
    TooDense,
    /// The expressions of the SidecarSets are too long together.
    #[error("has {}", weight::EXPRESSIONS_TOO_LONG)]
    TooLongExpressions,
    /// The contents changed after the bundle was written.
    #[error("is damaged ({0}); make it anew with `pillion bundle`")]
    Damaged(&'static str),
}

/// A bundle of which only the beginning has been read.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'a> {
    checksum: &'a [u8],
    parts: Parts<'a>,
}

impl<'a> Bundle<'a> {
    /// Reads the beginning of a bundle.
    ///
    /// # Errors
    /// Any [`BundleError`] that the beginning reveals.
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

    /// Returns the number of sets in the bundle.
    pub fn len(&self) -> usize {
        self.parts.count
    }

    /// Whether the bundle has no sets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Verifies the checksum of the whole bundle, then returns [`Bundle::sets`].
    ///
    /// # Errors
    /// The checksum differs ([`BundleError::Damaged`]), or the sets cannot be read.
    pub fn verify(&self) -> Result<Vec<SidecarSet>, BundleError> {
        self.verify_with(ANEW)
    }

    /// Verifies the checksum of the whole bundle, then returns all sets. Decodes those that `known` does not know.
    fn verify_with(&self, known: Known<'_>) -> Result<Vec<SidecarSet>, BundleError> {
        self.verify_checksum()?;
        self.sets_among(0..self.len(), |_| true, known)
    }

    /// Verifies what [`Bundle::verify`] does, and shows each set to `each` instead of returning all of them.
    ///
    /// # Errors
    /// As [`Bundle::verify`].
    pub fn verify_each(&self, mut each: impl FnMut(&SidecarSet)) -> Result<(), BundleError> {
        self.verify_checksum()?;
        let mut room = self.parts.room();
        let mut dictionary = self.parts.dictionary(&mut room)?;
        let (mut last, mut total) = (None::<String>, Total::default());
        for index in 0..self.len() {
            let head = self.parts.head(index, &dictionary, &mut room)?;
            let set = self.body(index, &head, &mut dictionary, &mut room, ANEW)?;
            if last.is_some_and(|last| last.as_str() >= set.name()) {
                return Err(TWICE);
            }
            total.add(&set);
            each(&set);
            last = Some(set.name().to_owned());
        }
        within_limits(total.is_too_dense(), total.has_too_long_expressions())
    }

    fn verify_checksum(&self) -> Result<(), BundleError> {
        if layout::checksum_of(self.parts.data()).as_bytes() == self.checksum {
            Ok(())
        } else {
            Err(BundleError::Damaged("the checksum is another"))
        }
    }

    /// Returns the sets that match a Pod in this namespace with these labels, sorted by name, with defaults and hashes.
    /// Does not evaluate labels of the Namespace. Opens no bodies of other sets.
    ///
    /// # Errors
    /// [`BundleError::Damaged`] and the errors of opening sets.
    pub fn sets_for(&self, namespace: &str, labels: Option<&Object>) -> Result<Vec<SidecarSet>, BundleError> {
        let candidates = anchors::find(&self.parts, namespace, labels)?;
        self.sets_among(candidates, |head| CompiledSet::new(head).may_match(namespace, labels), ANEW)
    }

    /// Returns the sets with which admission compares the `SidecarSet` of a request: those that may select the same
    /// Pods, the one of its name, and its base; each with defaults and hashes. Opens no bodies of other sets.
    ///
    /// # Errors
    /// [`BundleError::Damaged`] and the errors of opening sets.
    pub fn sets_beside(&self, sent: &Value) -> Result<Vec<SidecarSet>, BundleError> {
        let named =
            [json::text(sent, &["metadata", "name"]), json::text(sent, &["metadata", "annotations", names::BASE])];
        let reach = Reach::at_most(sent);
        let is_near = |head: &SidecarSet| {
            named.contains(&head.name()) || reach.may_meet(&Reach::from_sidecar_set(head.as_value()))
        };
        self.sets_among(0..self.len(), is_near, ANEW)
    }

    /// Returns all sets, sorted by name, with defaults and hashes.
    ///
    /// # Errors
    /// [`BundleError::Damaged`] and the errors of opening sets.
    pub fn sets(&self) -> Result<Vec<SidecarSet>, BundleError> {
        self.sets_among(0..self.len(), |_| true, ANEW)
    }

    /// Returns those of the sets at these indices, ascending, whose heads `is_wanted` accepts.
    fn sets_among(
        &self,
        indices: impl IntoIterator<Item = usize>,
        is_wanted: impl Fn(&SidecarSet) -> bool,
        known: Known<'_>,
    ) -> Result<Vec<SidecarSet>, BundleError> {
        let mut sets = Vec::new();
        let mut indices = indices.into_iter().peekable();
        if indices.peek().is_none() {
            return Ok(sets);
        }
        let mut room = self.parts.room();
        let mut dictionary = self.parts.dictionary(&mut room)?;
        for index in indices {
            let head = self.parts.head(index, &dictionary, &mut room)?;
            if is_wanted(&document(&head)?) {
                sets.push(self.body(index, &head, &mut dictionary, &mut room, known)?);
            }
        }
        checked(sets)
    }

    /// Opens the body of a set.
    fn body(
        &self,
        index: usize,
        head: &[u8],
        dictionary: &mut Vec<u8>,
        room: &mut Room,
        known: Known<'_>,
    ) -> Result<SidecarSet, BundleError> {
        let length = dictionary.len();
        dictionary.extend_from_slice(head);
        let body = self.parts.body(index, dictionary, room);
        dictionary.truncate(length);
        let stored = StoredSet { body: body?, digests: self.parts.digests(index)? };
        known(&stored, &|| stored.decode())
    }
}

/// A set as a bundle stores it.
#[derive(Clone, Debug)]
pub(crate) struct StoredSet {
    /// Its JSON.
    body: Vec<u8>,
    /// The digests of its hashes, if the bundle has them.
    digests: Option<[u8; DIGESTS]>,
}

impl StoredSet {
    /// Decodes the set. Adds the hashes if it was stored without them.
    fn decode(&self) -> Result<SidecarSet, BundleError> {
        let mut set = document(&self.body)?;
        if set.hash().is_empty() {
            match &self.digests {
                Some(digests) => stamp_with(set.as_value_mut(), Hashes::of_digests(digests)),
                None => stamp(set.as_value_mut()),
            };
        }
        Ok(set)
    }
}

/// Decodes one set.
type Decode<'a> = &'a dyn Fn() -> Result<SidecarSet, BundleError>;

/// Returns the set that was stored so, and calls [`Decode`] unless it knows that set.
type Known<'a> = &'a dyn Fn(&StoredSet, Decode<'_>) -> Result<SidecarSet, BundleError>;

/// Decodes every set.
const ANEW: Known<'_> = &|_, decode| decode();

/// Splits a text at the next colon.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b':')?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// Returns the sets, unless a name occurs twice or they have more containers and volumes than their length allows.
fn checked(sets: Vec<SidecarSet>) -> Result<Vec<SidecarSet>, BundleError> {
    // Bundles are sorted by name. If sets had equal names, work on them would grow with the square of their number
    // (E18).
    if sets.array_windows().any(|[one, next]| one.name() >= next.name()) {
        return Err(TWICE);
    }
    let too_dense = weight::is_too_dense(&sets);
    within_limits(too_dense, !too_dense && weight::has_too_long_expressions(&sets)).map(|()| sets)
}

const TWICE: BundleError = BundleError::Damaged("a SidecarSet is there twice, or not in its place");

const fn within_limits(is_too_dense: bool, has_too_long_expressions: bool) -> Result<(), BundleError> {
    if is_too_dense {
        Err(BundleError::TooDense)
    } else if has_too_long_expressions {
        Err(BundleError::TooLongExpressions)
    } else {
        Ok(())
    }
}

fn document(bytes: &[u8]) -> Result<SidecarSet, BundleError> {
    json::parse(bytes).map(SidecarSet::from_decoded).map_err(|_| BundleError::Damaged("a set cannot be read"))
}
