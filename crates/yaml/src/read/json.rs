//! JSON, with the place of each part: numbers stay as they are written.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::decode::repeated;
use super::events::too_deep;
use crate::node::{Id, Kind, MAX_DEPTH, Nodes};
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
/// If a key is repeated, or values are nested too deeply.
pub(super) fn nodes(text: &str) -> Option<Result<(Nodes, Id), Problem>> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let mut reader = Reader { text, nodes: Nodes::default(), depth: 0 };
    Some(reader.node(raw).map(|root| (reader.nodes, root)))
}

struct Reader<'a> {
    text: &'a str,
    nodes: Nodes,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn node(&mut self, raw: &'a RawValue) -> Result<Id, Problem> {
        let range = self.range(raw);
        let invalid = |error: serde_json::Error| Problem::new(error.to_string(), range.clone());
        let kind = match raw.get().as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(raw.get()).map_err(invalid)?;
                Kind::Map { entries: self.deeper(&range, |reader| reader.entries(entries))?, is_flow: true }
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(invalid)?;
                let items = self.deeper(&range, |reader| items.into_iter().map(|item| reader.node(item)).collect())?;
                Kind::List { items, is_flow: true }
            }
            _ => Kind::Scalar { value: scalar(raw).map_err(invalid)?, merges: false, lines: None },
        };
        Ok(self.nodes.add(kind, range))
    }

    fn entries(&mut self, entries: Vec<(&'a RawValue, &'a RawValue)>) -> Result<Vec<(Id, Id)>, Problem> {
        let mut known = BTreeSet::new();
        let mut read = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let range = self.range(key);
            let value_of_key = scalar(key).map_err(|error| Problem::new(error.to_string(), range.clone()))?;
            let id = self.nodes.add(Kind::Scalar { value: value_of_key.clone(), merges: false, lines: None }, range);
            if let (Scalar::Text(name), Some(node)) = (value_of_key, self.nodes.get(id))
                && !known.insert(name.clone())
            {
                return Err(repeated(&name, node));
            }
            read.push((id, self.node(value)?));
        }
        Ok(read)
    }

    fn deeper<T>(
        &mut self,
        range: &Range<usize>,
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep(range.clone()));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Returns the bytes of a value, which is a part of the text.
    fn range(&self, raw: &RawValue) -> Range<usize> {
        let start = (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + raw.get().len()
    }
}

fn scalar(raw: &RawValue) -> Result<Scalar, serde_json::Error> {
    Ok(match serde_json::from_str(raw.get())? {
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Bool(value),
        Value::Number(_) => Scalar::Exact(serde_json::from_str::<Number>(raw.get())?),
        Value::String(text) => Scalar::Text(text),
        // The caller asks for neither.
        value @ (Value::Array(_) | Value::Object(_)) => Scalar::Text(value.to_string()),
    })
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
