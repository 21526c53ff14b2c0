//! Where what is in a bundle.
//!
//! All numbers are 32 bits, little-endian. First the header: the number of sets, the number of anchors, the length of the
//! dictionary. Then the anchors ([`super::anchors`]), [`ANCHOR`] bytes each; then a row of [`ROW`] bytes for each set;
//! then the dictionary; then the compressed heads and bodies, whose places the rows say.

use super::{BundleError, base64};
use crate::hash;

/// Bytes of the header.
pub const HEADER: usize = 12;
/// Bytes of an anchor: the hash of what a Pod must have, and the set.
pub const ANCHOR: usize = 8;
/// Bytes of a row: where the head starts, where the body starts, where it ends, the lengths of both before they were
/// compressed, and the checksum of the body.
pub const ROW: usize = 24;
/// The longest head or body: what a damaged length may ask for.
const DOCUMENT_MAX: usize = 4 * 1024 * 1024;

const EARLY: BundleError = BundleError::Damaged("it ends early");

/// A bundle, by its parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    text: &'a str,
    /// How many sets there are.
    pub sets: usize,
    /// How many anchors there are.
    pub anchors: usize,
    dictionary: usize,
}

impl<'a> Parts<'a> {
    /// Reads the header.
    pub fn read(text: &'a str) -> Result<Self, BundleError> {
        let header = base64::decode(text, 0, HEADER).ok_or(EARLY)?;
        let (sets, anchors, dictionary) = (number(&header, 0)?, number(&header, 1)?, number(&header, 2)?);
        let parts = Self { text, sets, anchors, dictionary };
        // So that nothing below is asked for more than there is.
        let fixed = sets
            .checked_mul(ROW)
            .zip(anchors.checked_mul(ANCHOR))
            .and_then(|(rows, anchors)| rows.checked_add(anchors)?.checked_add(dictionary)?.checked_add(HEADER));
        if fixed.is_none_or(|fixed| fixed > base64::decoded_len(text)) {
            return Err(EARLY);
        }
        Ok(parts)
    }

    /// The text of all parts.
    pub const fn data(&self) -> &'a str {
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

    /// The dictionary that heads and bodies are compressed with.
    pub fn dictionary(&self) -> Result<Vec<u8>, BundleError> {
        let start = self.rows() + self.sets * ROW;
        base64::decode(self.text, start, start + self.dictionary).ok_or(EARLY)
    }

    fn row(&self, index: usize) -> Result<Row, BundleError> {
        if index >= self.sets {
            return Err(BundleError::Damaged("it names a set that is not there"));
        }
        let start = self.rows() + index * ROW;
        let bytes = base64::decode(self.text, start, start + ROW).ok_or(EARLY)?;
        Ok(Row {
            head: number(&bytes, 0)?,
            body: number(&bytes, 1)?,
            end: number(&bytes, 2)?,
            head_length: number(&bytes, 3)?,
            body_length: number(&bytes, 4)?,
            checksum: number(&bytes, 5)?,
        })
    }

    /// The head of the set at `index`.
    pub fn head(&self, index: usize, dictionary: &[u8]) -> Result<Vec<u8>, BundleError> {
        let row = self.row(index)?;
        self.document(row.head, row.body, row.head_length, dictionary)
    }

    /// The body of the set at `index`, verified.
    pub fn body(&self, index: usize, dictionary: &[u8]) -> Result<Vec<u8>, BundleError> {
        let row = self.row(index)?;
        let body = self.document(row.body, row.end, row.body_length, dictionary)?;
        if crc32(&body) as usize != row.checksum {
            return Err(BundleError::Damaged("the checksum of a set is another"));
        }
        Ok(body)
    }

    fn document(&self, start: usize, end: usize, length: usize, dictionary: &[u8]) -> Result<Vec<u8>, BundleError> {
        if length > DOCUMENT_MAX {
            return Err(BundleError::Damaged("a set is too long"));
        }
        let start_of_all = self.rows() + self.sets * ROW + self.dictionary;
        let (start, end) = (start_of_all.saturating_add(start), start_of_all.saturating_add(end));
        let compressed = base64::decode(self.text, start, end).ok_or(EARLY)?;
        lz4_flex::block::decompress_with_dict(&compressed, length, dictionary)
            .map_err(|_| BundleError::Damaged("a set cannot be decompressed"))
    }
}

struct Row {
    head: usize,
    body: usize,
    end: usize,
    head_length: usize,
    body_length: usize,
    checksum: usize,
}

/// The number at `index` of some bytes.
fn number(bytes: &[u8], index: usize) -> Result<usize, BundleError> {
    let bytes = bytes.get(index * 4..index * 4 + 4).and_then(|bytes| bytes.try_into().ok()).ok_or(EARLY)?;
    usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| EARLY)
}

/// The checksum of a whole bundle: the first 16 bytes of a SHA-256, in hexadecimal digits.
pub fn checksum_of(data: &str) -> String {
    let mut hex = hash::sha256(data);
    hex.truncate(32);
    hex
}

/// The checksum of Ethernet and gzip (RFC 1952), four bits at a time.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}
