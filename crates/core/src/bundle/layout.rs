//! Where what is in a bundle.
//!
//! All numbers have 32 bits, little-endian. First the header: the number of sets, the number of anchors, the compressed
//! length of the dictionary and its length. Then the anchors ([`super::anchors`]), [`ANCHOR`] bytes each; then a row of [`ROW`] bytes for each set, and
//! one more, which says where the last body ends; then the compressed dictionary; then, set by set, the compressed head, the length
//! and the checksum of the body, and the compressed body.
//!
//! Heads are compressed with the dictionary, bodies with the dictionary and their own head before them: a body says much
//! of it again.

use pillion_codec::base64;
use pillion_codec::crc32::crc32;

use super::BundleError;
use crate::hash;

/// Bytes of the header.
pub const HEADER: usize = 16;
/// Bytes of an anchor: the hash of what a Pod must have, and the set.
pub const ANCHOR: usize = 8;
/// Bytes of a row: where the head starts, its compressed length and its length.
pub const ROW: usize = 12;
/// Bytes before a compressed body: its length and its checksum.
const BODY_HEADER: usize = 8;
/// The longest head or body: what a damaged length may ask for.
const DOCUMENT_MAX: usize = 4 * 1024 * 1024;

const EARLY: BundleError = BundleError::Damaged("it ends early");

/// A bundle, by its parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    text: &'a [u8],
    /// How many sets there are.
    pub sets: usize,
    /// How many anchors there are.
    pub anchors: usize,
    /// Its compressed length, and its length.
    dictionary: (usize, usize),
}

impl<'a> Parts<'a> {
    /// Reads the header.
    pub fn read(text: &'a [u8]) -> Result<Self, BundleError> {
        let header = base64::decode(text, 0, HEADER).ok_or(EARLY)?;
        let (sets, anchors, compressed) = (number(&header, 0)?, number(&header, 1)?, number(&header, 2)?);
        let parts = Self { text, sets, anchors, dictionary: (compressed, number(&header, 3)?) };
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

    /// The text of all parts.
    pub const fn data(&self) -> &'a [u8] {
        self.text
    }

    /// The anchor at `index`: a hash, and a set.
    pub fn anchor(&self, index: usize) -> Result<(u32, usize), BundleError> {
        let start = HEADER + index * ANCHOR;
        let bytes = base64::decode(self.text, start, start + ANCHOR).ok_or(EARLY)?;
        let hash = u32::try_from(number(&bytes, 0)?).map_err(|_| EARLY)?;
        Ok((hash, number(&bytes, 1)?))
    }

    const fn rows(&self) -> usize {
        HEADER + self.anchors * ANCHOR
    }

    const fn dictionary_start(&self) -> usize {
        self.rows() + (self.sets + 1) * ROW
    }

    /// The dictionary that heads and bodies are compressed with.
    pub fn dictionary(&self) -> Result<Vec<u8>, BundleError> {
        let (compressed, length) = self.dictionary;
        let start = self.dictionary_start();
        decompressed(&base64::decode(self.text, start, start + compressed).ok_or(EARLY)?, length, &[])
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
    pub fn head(&self, index: usize, dictionary: &[u8]) -> Result<Vec<u8>, BundleError> {
        if index >= self.sets {
            return Err(BundleError::Damaged("it names a set that is not there"));
        }
        let (start, compressed, length) = self.row(index)?;
        decompressed(&self.documents(start, start.saturating_add(compressed))?, length, dictionary)
    }

    /// The body of the set at `index`, verified. `dictionary` is the dictionary, and the set's head behind it.
    pub fn body(&self, index: usize, dictionary: &[u8]) -> Result<Vec<u8>, BundleError> {
        let (start, compressed, _) = self.row(index)?;
        let (end, ..) = self.row(index + 1)?;
        let bytes = self.documents(start.saturating_add(compressed), end)?;
        let (length, checksum) = (number(&bytes, 0)?, number(&bytes, 1)?);
        let body = decompressed(bytes.get(BODY_HEADER..).ok_or(EARLY)?, length, dictionary)?;
        if crc32(&body) as usize != checksum {
            return Err(BundleError::Damaged("the checksum of a set is another"));
        }
        Ok(body)
    }
}

fn decompressed(bytes: &[u8], length: usize, dictionary: &[u8]) -> Result<Vec<u8>, BundleError> {
    if length > DOCUMENT_MAX {
        return Err(BundleError::Damaged("a set is too long"));
    }
    lz4_flex::block::decompress_with_dict(bytes, length, dictionary)
        .map_err(|_| BundleError::Damaged("a set cannot be decompressed"))
}

/// The number at `index` of some bytes.
fn number(bytes: &[u8], index: usize) -> Result<usize, BundleError> {
    let bytes = bytes.get(index * 4..index * 4 + 4).and_then(|bytes| bytes.try_into().ok()).ok_or(EARLY)?;
    usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| EARLY)
}

/// The checksum of a whole bundle: the first 16 bytes of a SHA-256, in hexadecimal digits.
pub fn checksum_of(data: &[u8]) -> String {
    let mut hex = hash::sha256(data);
    hex.truncate(32);
    hex
}
