//! Several places of a sample that grow at once, by shares of the room that an input has.

use std::fmt;

use serde_json::Value;

use super::Input;
use super::grow::Growth;
use super::judge::LENGTH;
use super::place;
use super::survey::Sample;

/// The finest share of the room: one part of so many.
const PARTS: usize = 256;
/// The bytes that an input has room for in all. What is left of a mebibyte is for entries that are longer than their
/// template.
const ROOM: u64 = LENGTH - (LENGTH >> 4);

/// A place that grows, and how much of the room that is left it gets.
#[derive(Clone, Debug)]
pub struct Share {
    growth: Growth,
    /// Doublings of the finest share, up to 8: all that is left.
    level: u32,
}

impl Share {
    /// A way to grow, and how often the finest share is doubled: 0 to 8.
    pub const fn new(growth: Growth, level: u32) -> Self {
        Self { growth, level }
    }
}

/// A sample in which several places grow, one after the other. An entry that has grown is copied whole by an outer list
/// that grows later.
#[derive(Clone)]
pub struct Mix<'a> {
    /// The sample.
    pub sample: &'a Sample,
    /// The places, and how much each grows.
    pub shares: Vec<Share>,
}

impl Mix<'_> {
    /// The input, which is not longer than a mebibyte.
    pub fn input(&self) -> Input {
        let mut document = self.sample.input.document().clone();
        for Share { growth, level } in &self.shares {
            let room = ROOM.saturating_sub(length(&document));
            let bytes = (usize::try_from(room).unwrap_or_default() / PARTS) << (*level).min(8);
            let mut grown = document.clone();
            growth.apply(&mut grown, bytes);
            // One more entry can be too much: it holds all that has grown in the first.
            if length(&grown) < LENGTH {
                document = grown;
            }
        }
        self.sample.input.of(document)
    }
}

impl fmt::Debug for Mix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.sample.input.name())?;
        self.shares.iter().try_for_each(|Share { growth, level }| write!(f, " {growth} at level {level};"))
    }
}

/// Every way in which a place of the sample grows. Objects that can be looked up do not: others than the author of the
/// request write them.
pub fn growths(sample: &Sample) -> Vec<Growth> {
    let document = sample.input.document();
    let places = place::places(document).into_iter().filter(|place| !place.pointer.starts_with("/objects"));
    places.flat_map(|place| Growth::all(document, &place, true)).collect()
}

fn length(document: &Value) -> u64 {
    document.to_string().len() as u64
}
