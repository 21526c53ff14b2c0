//! The byte layout of a bundle.
//!
//! ```text
//! pillion-bundle-3:<checksum>:<base64url of the data>
//!
//! data       count, directory, sections
//! count      the number of sections
//! directory  for each section its tag, four ASCII letters, and its length in bytes
//! sections   one directly after the other, in the order of the directory
//! ```
//!
//! All numbers have 32 bits, little-endian. A tag that begins with a capital letter marks a mandatory section: a reader
//! that does not know it refuses the bundle. Readers skip other sections that they do not know. So bundles can get new
//! contents without a new format; a format is only the layout that is described here.

use std::collections::BTreeMap;

use super::BundleError;
use super::base64;

/// The name of a section.
pub(crate) type Tag = [u8; 4];

/// Bytes of a number.
const NUMBER: usize = 4;
/// Bytes of an entry of the directory.
const ENTRY: usize = 8;
/// The most sections of a bundle. A reader allocates an entry for each.
const SECTIONS_MAX: usize = 64;

pub(super) const EARLY: BundleError = BundleError::Damaged("it ends early");

/// A section: a part of the data.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// The Base64 of all the data.
    text: &'a [u8],
    start: usize,
    length: usize,
}

impl Section<'_> {
    /// Returns the length of the section in bytes.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Returns the bytes from `start` up to `end`. Reads nothing else of the section.
    ///
    /// # Errors
    /// The section does not have these bytes, or its text is not Base64 ([`BundleError::Damaged`]).
    pub fn bytes(&self, start: usize, end: usize) -> Result<Vec<u8>, BundleError> {
        if start > end || end > self.length {
            return Err(EARLY);
        }
        base64::decode(self.text, self.start + start, self.start + end).ok_or(EARLY)
    }

    /// Returns all bytes of the section.
    ///
    /// # Errors
    /// The text is not Base64 ([`BundleError::Damaged`]).
    pub fn all(&self) -> Result<Vec<u8>, BundleError> {
        self.bytes(0, self.length)
    }
}

/// The sections of a bundle that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Sections<'a>(BTreeMap<Tag, Section<'a>>);

impl<'a> Sections<'a> {
    /// Reads the directory.
    ///
    /// # Errors
    /// Sections are longer or shorter than the data, there are too many, or a tag occurs twice
    /// ([`BundleError::Damaged`]).
    pub fn read(text: &'a [u8]) -> Result<Self, BundleError> {
        let data = Section { text, start: 0, length: base64::decoded_len(text) };
        let count = number(&data.bytes(0, NUMBER)?, 0)?;
        if count > SECTIONS_MAX {
            return Err(BundleError::Damaged("it has too many sections"));
        }
        let mut end = NUMBER + count * ENTRY;
        let mut sections = BTreeMap::new();
        for entry in data.bytes(NUMBER, end)?.as_chunks::<ENTRY>().0 {
            let (length, start) = (number(entry, 1)?, end);
            end = start.checked_add(length).filter(|end| *end <= data.length).ok_or(EARLY)?;
            let tag = entry.first_chunk().copied().unwrap_or_default();
            if sections.insert(tag, Section { text, start, length }).is_some() {
                return Err(BundleError::Damaged("it has a section twice"));
            }
        }
        if end < data.length { Err(BundleError::Damaged("it goes on after its end")) } else { Ok(Self(sections)) }
    }

    /// Takes a section that a bundle may have.
    pub fn optional(&mut self, tag: Tag) -> Option<Section<'a>> {
        self.0.remove(&tag)
    }

    /// Takes a section that every bundle has.
    ///
    /// # Errors
    /// The section is missing ([`BundleError::Damaged`]).
    pub fn required(&mut self, tag: Tag) -> Result<Section<'a>, BundleError> {
        self.optional(tag).ok_or(BundleError::Damaged("a section is not there"))
    }

    /// Skips the remaining sections.
    ///
    /// # Errors
    /// One of them is mandatory ([`BundleError::Section`]).
    pub(crate) fn pass_over(self) -> Result<(), BundleError> {
        let unknown = self.0.into_keys().find(|[first, ..]| !first.is_ascii_lowercase());
        unknown.map_or(Ok(()), |tag| Err(BundleError::Section(String::from_utf8_lossy(&tag).into_owned())))
    }
}

/// Returns the Base64 text of some sections.
pub fn write(sections: &[(Tag, Vec<u8>)]) -> String {
    let mut data = stored(sections.len()).to_vec();
    for (tag, bytes) in sections {
        data.extend(tag);
        data.extend(stored(bytes.len()));
    }
    for (_, bytes) in sections {
        data.extend(bytes);
    }
    base64::encode(&data)
}

/// Returns the bytes of a number. All numbers in a bundle fit into 32 bits.
pub fn stored(number: usize) -> [u8; NUMBER] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

/// Returns the number at `index` of some bytes.
///
/// # Errors
/// There are not enough bytes ([`BundleError::Damaged`]).
pub fn number(bytes: &[u8], index: usize) -> Result<usize, BundleError> {
    let bytes = bytes.get(index * NUMBER..).and_then(<[u8]>::first_chunk).ok_or(EARLY)?;
    usize::try_from(u32::from_le_bytes(*bytes)).map_err(|_| EARLY)
}
