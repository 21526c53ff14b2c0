//! Several places of a sample that grow at once, by shares of the room in the input.

use std::fmt;

use serde_json::Value;

use super::Input;
use super::grow::Growth;
use super::judge::LENGTH;
use super::place;
use super::survey::Sample;

/// The number of parts of the room, and so the finest share.
const PARTS: usize = 256;
/// The maximum length of an input in bytes. The rest of a mebibyte is a reserve for entries that are longer than their
/// template.
const ROOM: u64 = LENGTH - (LENGTH >> 4);

/// A place that grows, and its share of the remaining room.
#[derive(Clone, Debug)]
pub struct Share {
    growth: Growth,
    /// Doublings of the finest share, up to 8, which is all of the remaining room.
    level: u32,
}

impl Share {
    /// Combines a way to grow with a number of doublings of the finest share, 0 to 8.
    pub const fn new(growth: Growth, level: u32) -> Self {
        Self { growth, level }
    }
}

/// A sample in which several places grow, one after the other. A list that grows later copies whole entries, including
/// what has grown inside them.
#[derive(Clone)]
pub struct Mix<'a> {
    /// The sample.
    pub sample: &'a Sample,
    /// The places and their shares.
    pub shares: Vec<Share>,
}

impl Mix<'_> {
    /// Returns the input, which is shorter than a mebibyte.
    pub fn input(&self) -> Input {
        let mut document = self.sample.input.document().clone();
        for Share { growth, level } in &self.shares {
            let room = ROOM.saturating_sub(length(&document));
            let bytes = (usize::try_from(room).unwrap_or_default() / PARTS) << (*level).min(8);
            let mut grown = document.clone();
            growth.apply(&mut grown, bytes);
            // A single further entry can be too long, because it copies what has grown in the first one.
            if length(&grown) < LENGTH {
                document = grown;
            }
        }
        self.sample.input.with_document(document)
    }
}

impl fmt::Debug for Mix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.sample.input.name())?;
        self.shares.iter().try_for_each(|Share { growth, level }| write!(f, " {growth} at level {level};"))
    }
}

/// Returns every way in which a place of the sample grows, except for objects that can be looked up: the author of the
/// request does not write those.
pub fn growths(sample: &Sample) -> Vec<Growth> {
    let document = sample.input.document();
    let places = place::places(document).into_iter().filter(|place| !place.pointer.starts_with("/objects"));
    places.flat_map(|place| Growth::all(document, &place, true)).collect()
}

fn length(document: &Value) -> u64 {
    document.to_string().len() as u64
}
