//! The contents of the sections of a bundle.
//!
//! | section | contents |
//! | --- | --- |
//! | `ANCH` | the anchors ([`super::anchors`]), ascending, [`ANCHOR`] bytes each |
//! | `ROWS` | [`ROW`] bytes for each set, and once more for the end of the last one: the start of its head in `SETS`, the compressed length of the head, and the length of the head |
//! | `DICT` | the length of the dictionary, and the compressed dictionary |
//! | `SETS` | for each set, by name: the compressed head, the length of the body, its checksum, the compressed body |
//! | `hash` | optional: for each set the digests of its hashes ([`pillion_sidecarset::hash`]) and their checksum |
//!
//! Heads are compressed with the dictionary. Bodies are compressed with the dictionary followed by their own head,
//! because a body repeats much of it. Compression is LZ4 without a frame. A checksum is the lower half of XXH64 with
//! the seed 0.
//!
//! Digests cannot be compressed, but computing them takes longer than any other operation on a set.

use pillion_sidecarset::hash::{self, DIGESTS};
use xxhash_rust::xxh64::xxh64;

use super::BundleError;
use super::sections::{EARLY, Section, Sections, Tag, number, stored};

pub(crate) const ANCHORS: Tag = *b"ANCH";
pub const ROWS: Tag = *b"ROWS";
pub(crate) const DICTIONARY: Tag = *b"DICT";
pub const SETS: Tag = *b"SETS";
pub(crate) const HASHES: Tag = *b"hash";

/// Bytes of an anchor: its hash, and the index of the set.
pub(crate) const ANCHOR: usize = 8;
/// Bytes of a row.
pub(crate) const ROW: usize = 12;
/// Bytes before the compressed dictionary: its length.
const DICTIONARY_HEADER: usize = 4;
/// Bytes before a compressed body: its length and its checksum.
const BODY_HEADER: usize = 8;
/// Bytes of the digests of a set, and of their checksum.
const HASH_ROW: usize = DIGESTS + 4;
/// The most bytes that a bundle may decompress to, in addition to one for each byte of its text.
///
/// A crafted text of one megabyte decompresses to 190 MB. The SidecarSets of a bundle that fits into a ConfigMap are at
/// most four times as long as its text, unless they are all alike.
const OPENED_MAX: usize = 2 * 1024 * 1024;

/// The number of SidecarSets that a bundle of any length may have.
const SETS_FREE: usize = 1_000;
/// The minimum length of the text for each SidecarSet if there are more than [`SETS_FREE`]. Reading even a tiny set
/// takes time; typical sets have 400 bytes (E18).
const SET_LENGTH: usize = 96;

/// The number of bytes that may still be decompressed during one reading.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), BundleError> {
        self.0 = self.0.checked_sub(bytes).ok_or(BundleError::TooLong)?;
        Ok(())
    }
}

/// The parts of a bundle.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The Base64 of all sections.
    text: &'a [u8],
    /// The number of sets.
    pub count: usize,
    anchors: Section<'a>,
    rows: Section<'a>,
    dictionary: Section<'a>,
    sets: Section<'a>,
    hashes: Option<Section<'a>>,
}

impl<'a> Parts<'a> {
    /// Finds the sections.
    pub fn read(text: &'a [u8]) -> Result<Self, BundleError> {
        let mut sections = Sections::read(text)?;
        let rows = sections.required(ROWS)?;
        let count = (rows.len() / ROW).checked_sub(1).ok_or(EARLY)?;
        if count > SETS_FREE && count > text.len() / SET_LENGTH {
            return Err(BundleError::Damaged("it has more SidecarSets than its length allows"));
        }
        let parts = Self {
            text,
            count,
            anchors: sections.required(ANCHORS)?,
            rows,
            dictionary: sections.required(DICTIONARY)?,
            sets: sections.required(SETS)?,
            hashes: sections.optional(HASHES),
        };
        sections.pass_over()?;
        Ok(parts)
    }

    /// Returns the room for one reading.
    pub const fn room(&self) -> Room {
        Room(OPENED_MAX + self.text.len())
    }

    /// Returns the text of all parts.
    pub const fn data(&self) -> &'a [u8] {
        self.text
    }

    /// Returns all anchors, each a hash and the index of a set. Decoding all at once is quicker than decoding the few
    /// that are compared one by one.
    pub(crate) fn anchors(&self) -> Result<Vec<u8>, BundleError> {
        self.anchors.all()
    }

    /// Decompresses the dictionary for heads and bodies.
    pub(crate) fn dictionary(&self, room: &mut Room) -> Result<Vec<u8>, BundleError> {
        let bytes = self.dictionary.all()?;
        let compressed = bytes.get(DICTIONARY_HEADER..).ok_or(EARLY)?;
        decompressed(compressed, number(&bytes, 0)?, &[], room)
    }

    /// Returns the start of a head in `SETS`, its compressed length and its length.
    fn row(&self, index: usize) -> Result<(usize, usize, usize), BundleError> {
        let start = index * ROW;
        let bytes = self.rows.bytes(start, start + ROW)?;
        Ok((number(&bytes, 0)?, number(&bytes, 1)?, number(&bytes, 2)?))
    }

    /// Decompresses the head of the set at `index`.
    pub fn head(&self, index: usize, dictionary: &[u8], room: &mut Room) -> Result<Vec<u8>, BundleError> {
        if index >= self.count {
            return Err(BundleError::Damaged("it names a set that is not there"));
        }
        let (start, compressed, length) = self.row(index)?;
        decompressed(&self.sets.bytes(start, start.saturating_add(compressed))?, length, dictionary, room)
    }

    /// Decompresses and verifies the JSON of the set at `index`. `dictionary` is the dictionary followed by the set's
    /// head.
    pub fn body(&self, index: usize, dictionary: &[u8], room: &mut Room) -> Result<Vec<u8>, BundleError> {
        let (start, compressed, _) = self.row(index)?;
        let (end, ..) = self.row(index + 1)?;
        let bytes = self.sets.bytes(start.saturating_add(compressed), end)?;
        let body = decompressed(bytes.get(BODY_HEADER..).ok_or(EARLY)?, number(&bytes, 0)?, dictionary, room)?;
        verified(&body, &bytes, 1)?;
        Ok(body)
    }

    /// Returns the verified digests of the hashes of the set at `index`, if the bundle has them.
    pub fn digests(&self, index: usize) -> Result<Option<[u8; DIGESTS]>, BundleError> {
        let Some(section) = self.hashes else { return Ok(None) };
        let start = index * HASH_ROW;
        let bytes = section.bytes(start, start + HASH_ROW)?;
        let digests = bytes.first_chunk::<DIGESTS>().ok_or(EARLY)?;
        verified(digests, &bytes, DIGESTS / 4)?;
        Ok(Some(*digests))
    }
}

/// Compares the checksum of `bytes` with the number at `index` of `stored`.
fn verified(bytes: &[u8], stored: &[u8], index: usize) -> Result<(), BundleError> {
    if checksum(bytes) as usize == number(stored, index)? {
        Ok(())
    } else {
        Err(BundleError::Damaged("the checksum of a set is another"))
    }
}

/// The stored form of a set.
#[derive(Debug)]
pub struct Document {
    /// The head, compressed with the dictionary.
    pub head: Vec<u8>,
    /// The length and the checksum of the body, then the body, compressed with the dictionary and the head.
    pub body: Vec<u8>,
}

impl Document {
    /// Compresses a set. Changes the dictionary temporarily, but restores it.
    pub fn new(head: &str, body: &str, dictionary: &mut Vec<u8>) -> Self {
        let length = dictionary.len();
        let compressed = lz4_flex::block::compress_with_dict(head.as_bytes(), dictionary);
        dictionary.extend(head.bytes());
        let header = [stored(body.len()), checksum(body.as_bytes()).to_le_bytes()].concat();
        let body = [header, lz4_flex::block::compress_with_dict(body.as_bytes(), dictionary)].concat();
        dictionary.truncate(length);
        Self { head: compressed, body }
    }
}

/// Returns the stored form of a dictionary.
pub(crate) fn dictionary_section(dictionary: &[u8]) -> Vec<u8> {
    [stored(dictionary.len()).to_vec(), lz4_flex::block::compress(dictionary)].concat()
}

/// Returns the stored form of the digests of a set.
pub(crate) fn hash_row(digests: &[u8; DIGESTS]) -> Vec<u8> {
    [digests.as_slice(), &checksum(digests).to_le_bytes()].concat()
}

fn decompressed(bytes: &[u8], length: usize, dictionary: &[u8], room: &mut Room) -> Result<Vec<u8>, BundleError> {
    room.take(length)?;
    lz4_flex::block::decompress_with_dict(bytes, length, dictionary)
        .map_err(|_| BundleError::Damaged("a set cannot be decompressed"))
}

/// Returns a checksum against accidental damage. It does not protect against forgery.
#[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn checksum(bytes: &[u8]) -> u32 {
    xxh64(bytes, 0) as u32
}

/// The length of the checksum of a whole bundle, in characters.
pub(crate) const CHECKSUM_LENGTH: usize = 32;

/// Returns the checksum of a whole bundle: the first 16 bytes of a SHA-256, in hexadecimal digits.
pub(crate) fn checksum_of(data: &[u8]) -> String {
    let mut hex = hash::sha256(data);
    hex.truncate(CHECKSUM_LENGTH);
    hex
}
