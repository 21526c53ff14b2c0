//! JSON, with the place of each part: numbers stay as they are written.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::depth::Depth;
use crate::node::{Id, Kind, Nodes};
use crate::problem::Problem;
use crate::scalar::Scalar;

/// Returns the byte ranges of the values in a stream of JSON values, or `None` for any other text.
pub(super) fn values(text: &str) -> Option<Vec<Range<usize>>> {
    let start = |from: usize| text.get(from..).map(|rest| text.len() - rest.trim_start().len());
    let mut next = start(0)?;
    text.get(next..)?.starts_with('{').then_some(())?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut ranges = Vec::new();
    while let Some(value) = values.next() {
        value.ok()?;
        ranges.push(next..values.byte_offset());
        next = start(values.byte_offset())?;
    }
    Some(ranges)
}

/// Returns the nodes of a JSON value, or `None` if the text is no JSON.
///
/// # Errors
/// If values are nested too deeply.
pub(super) fn nodes(text: &str) -> Option<Result<(Nodes, Id), Problem>> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let mut reader = Reader { text, nodes: Nodes::default(), depth: Depth::default() };
    Some(reader.node(raw).map(|root| (reader.nodes, root)))
}

struct Reader<'a> {
    text: &'a str,
    nodes: Nodes,
    depth: Depth,
}

impl<'a> Reader<'a> {
    fn node(&mut self, raw: &'a RawValue) -> Result<Id, Problem> {
        let range = self.range(raw);
        let kind = match content(raw).map_err(|error| Problem::new(error.to_string(), range.clone()))? {
            Content::Entries(entries) => {
                self.depth.enter(&range)?;
                let entries = self.entries(entries)?;
                self.depth.leave();
                Kind::Map { entries, is_flow: true }
            }
            Content::Items(items) => {
                self.depth.enter(&range)?;
                let items = self.items(items)?;
                self.depth.leave();
                Kind::List { items, is_flow: true }
            }
            Content::Scalar(value) => Kind::Scalar { value, merges: false, lines: None },
        };
        Ok(self.nodes.add(kind, range))
    }

    // Loops, not iterators: each level of nesting takes less of the stack.
    fn entries(&mut self, entries: Vec<(&'a RawValue, &'a RawValue)>) -> Result<Vec<(Id, Id)>, Problem> {
        let mut read = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            read.push((self.node(key)?, self.node(value)?));
        }
        Ok(read)
    }

    fn items(&mut self, items: Vec<&'a RawValue>) -> Result<Vec<Id>, Problem> {
        let mut read = Vec::with_capacity(items.len());
        for item in items {
            read.push(self.node(item)?);
        }
        Ok(read)
    }

    /// Returns the bytes of a value, which is a part of the text.
    fn range(&self, raw: &RawValue) -> Range<usize> {
        let start = (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + raw.get().len()
    }
}

/// A value, whose parts are still texts.
enum Content<'a> {
    Entries(Vec<(&'a RawValue, &'a RawValue)>),
    Items(Vec<&'a RawValue>),
    Scalar(Scalar),
}

/// Reads one level of a value. What this needs of the stack is free again before the next level is read.
fn content(raw: &RawValue) -> Result<Content<'_>, serde_json::Error> {
    let text = raw.get();
    if text.starts_with('{') {
        return serde_json::from_str(text).map(|Entries(entries)| Content::Entries(entries));
    }
    if text.starts_with('[') {
        return serde_json::from_str(text).map(Content::Items);
    }
    let scalar = match serde_json::from_str(text)? {
        Value::Bool(value) => Scalar::Bool(value),
        Value::Number(number) => Scalar::Exact(number),
        Value::String(text) => Scalar::Text(text),
        // No other value begins so.
        Value::Null | Value::Array(_) | Value::Object(_) => Scalar::Null,
    };
    Ok(Content::Scalar(scalar))
}

/// The entries of an object, repeated keys included.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = access.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}
