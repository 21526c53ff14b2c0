//! Where what is in a bundle.
//!
//! All numbers have 32 bits, little-endian. First the header: the number of sets, the number of anchors, the compressed
//! length of the dictionary, its length, and how many bytes of digests each body starts with. Then the anchors
//! ([`super::anchors`]), [`ANCHOR`] bytes each; then a row of [`ROW`] bytes for each set, and one more, which says where
//! the last body ends; then the compressed dictionary; then, set by set, the compressed head, the length and the checksum
//! of the body, and the compressed body.
//!
//! Heads are compressed with the dictionary, bodies with the dictionary and their own head before them: a body says much
//! of it again.
//!
//! A body starts with the digests of the set's hashes ([`crate::hash`]), or with none: they cannot be compressed, but to
//! make them takes longer than anything else that is done with a set.

use pillion_codec::base64;
use pillion_codec::checksum::checksum;

use super::BundleError;
use crate::hash::{self, DIGESTS, Hashes};

/// Bytes of the header.
pub const HEADER: usize = 20;
/// Bytes of an anchor: the hash of what a Pod must have, and the set.
pub const ANCHOR: usize = 8;
/// Bytes of a row: where the head starts, its compressed length and its length.
pub const ROW: usize = 12;
/// Bytes before a compressed body: its length and its checksum.
const BODY_HEADER: usize = 8;
/// Bytes that may come out of any bundle, besides one for each byte of its text.
///
/// A crafted text of one megabyte decompresses to 190 MB. The SidecarSets of a bundle that fits into a ConfigMap are four
/// times as long as its text at most, unless they are all alike.
const OPENED_MAX: usize = 2 * 1024 * 1024;

/// SidecarSets that a bundle may have, however short it is, and the length of its text that each needs if there are more.
/// One takes its time however little it says; those that people write have 400 bytes (E18).
const SETS_FREE: usize = 1_000;
const SET_LENGTH: usize = 96;

/// How many more bytes may come out of a bundle during one reading.
#[derive(Debug)]
pub struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), BundleError> {
        self.0 = self.0.checked_sub(bytes).ok_or(BundleError::TooLong)?;
        Ok(())
    }
}

const EARLY: BundleError = BundleError::Damaged("it ends early");

/// A bundle, by its parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    text: &'a [u8],
    /// How many sets there are.
    pub sets: usize,
    /// How many anchors there are.
    anchor_count: usize,
    /// Its compressed length, and its length.
    dictionary: (usize, usize),
    /// Whether bodies start with digests.
    has_digests: bool,
}

/// What a body says.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    /// Where the set begins.
    start: usize,
}

impl Body {
    /// The set's hashes, where the bundle has them.
    pub fn hashes(&self) -> Option<Hashes> {
        self.bytes.get(..self.start)?.try_into().ok().map(Hashes::of_digests)
    }

    /// The JSON of the set.
    pub fn document(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

impl<'a> Parts<'a> {
    /// Reads the header.
    pub fn read(text: &'a [u8]) -> Result<Self, BundleError> {
        let header = base64::decode(text, 0, HEADER).ok_or(EARLY)?;
        let (sets, anchors, compressed) = (number(&header, 0)?, number(&header, 1)?, number(&header, 2)?);
        let has_digests = match number(&header, 4)? {
            0 => false,
            DIGESTS => true,
            _ => return Err(BundleError::Damaged("it has digests of another length")),
        };
        let parts =
            Self { text, sets, anchor_count: anchors, dictionary: (compressed, number(&header, 3)?), has_digests };
        if sets > SETS_FREE && sets > text.len() / SET_LENGTH {
            return Err(BundleError::Damaged("it has more SidecarSets than its length allows"));
        }
        // So that nothing below is asked for more than there is.
        let fixed = sets
            .checked_mul(ROW)
            .zip(anchors.checked_mul(ANCHOR))
            .and_then(|(rows, anchors)| rows.checked_add(anchors)?.checked_add(compressed)?.checked_add(HEADER));
        if fixed.is_none_or(|fixed| fixed > base64::decoded_len(text)) {
            return Err(EARLY);
        }
        Ok(parts)
    }

    /// The room for one reading.
    pub const fn room(&self) -> Room {
        Room(OPENED_MAX + self.text.len())
    }

    /// The text of all parts.
    pub const fn data(&self) -> &'a [u8] {
        self.text
    }

    /// The anchors: for each a hash, and a set. All at once, which takes less than to read the few that are looked at one
    /// by one.
    pub fn anchors(&self) -> Result<Vec<u8>, BundleError> {
        base64::decode(self.text, HEADER, self.rows()).ok_or(EARLY)
    }

    const fn rows(&self) -> usize {
        HEADER + self.anchor_count * ANCHOR
    }

    const fn dictionary_start(&self) -> usize {
        self.rows() + (self.sets + 1) * ROW
    }

    /// The dictionary that heads and bodies are compressed with.
    pub fn dictionary(&self, room: &mut Room) -> Result<Vec<u8>, BundleError> {
        let (compressed, length) = self.dictionary;
        let start = self.dictionary_start();
        decompressed(&base64::decode(self.text, start, start + compressed).ok_or(EARLY)?, length, &[], room)
    }

    /// Where a head starts among the documents, its compressed length and its length.
    fn row(&self, index: usize) -> Result<(usize, usize, usize), BundleError> {
        let start = self.rows() + index * ROW;
        let bytes = base64::decode(self.text, start, start + ROW).ok_or(EARLY)?;
        Ok((number(&bytes, 0)?, number(&bytes, 1)?, number(&bytes, 2)?))
    }

    fn documents(&self, start: usize, end: usize) -> Result<Vec<u8>, BundleError> {
        let first = self.dictionary_start() + self.dictionary.0;
        base64::decode(self.text, first.saturating_add(start), first.saturating_add(end)).ok_or(EARLY)
    }

    /// The head of the set at `index`.
    pub fn head(&self, index: usize, dictionary: &[u8], room: &mut Room) -> Result<Vec<u8>, BundleError> {
        if index >= self.sets {
            return Err(BundleError::Damaged("it names a set that is not there"));
        }
        let (start, compressed, length) = self.row(index)?;
        decompressed(&self.documents(start, start.saturating_add(compressed))?, length, dictionary, room)
    }

    /// The body of the set at `index`, verified. `dictionary` is the dictionary, and the set's head behind it.
    pub fn body(&self, index: usize, dictionary: &[u8], room: &mut Room) -> Result<Body, BundleError> {
        let (start, compressed, _) = self.row(index)?;
        let (end, ..) = self.row(index + 1)?;
        let bytes = self.documents(start.saturating_add(compressed), end)?;
        let (length, expected) = (number(&bytes, 0)?, number(&bytes, 1)?);
        let bytes = decompressed(bytes.get(BODY_HEADER..).ok_or(EARLY)?, length, dictionary, room)?;
        if checksum(&bytes) as usize != expected {
            return Err(BundleError::Damaged("the checksum of a set is another"));
        }
        Ok(Body { bytes, start: if self.has_digests { DIGESTS } else { 0 } })
    }
}

fn decompressed(bytes: &[u8], length: usize, dictionary: &[u8], room: &mut Room) -> Result<Vec<u8>, BundleError> {
    room.take(length)?;
    lz4_flex::block::decompress_with_dict(bytes, length, dictionary)
        .map_err(|_| BundleError::Damaged("a set cannot be decompressed"))
}

/// The number at `index` of some bytes.
pub fn number(bytes: &[u8], index: usize) -> Result<usize, BundleError> {
    let bytes = bytes.get(index * 4..index * 4 + 4).and_then(|bytes| bytes.try_into().ok()).ok_or(EARLY)?;
    usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| EARLY)
}

/// The checksum of a whole bundle: the first 16 bytes of a SHA-256, in hexadecimal digits.
pub fn checksum_of(data: &[u8]) -> String {
    let mut hex = hash::sha256(data);
    hex.truncate(32);
    hex
}
