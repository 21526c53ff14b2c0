//! The material that moves from one document of a corpus to another: keys, values and extreme values.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The maximum length of a pooled value, in bytes of JSON.
const VALUE_MAX: usize = 8 << 10;
/// The depth of the deepest value. Deeper ones would overflow the stack of the harness. Brackets in the bytes of a
/// payload nest deeper.
const DEPTH: usize = 200;

/// Numbers and texts that are the longest, shortest, largest or oddest of their kind.
const EXTREMES: &str = include_str!("../corpus/extremes.json");

/// A position in a sequence of unknown length, as a share of the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot(pub u32);

impl Spot {
    /// Generates any position.
    pub fn any() -> impl Strategy<Value = Self> + Clone {
        any::<u32>().prop_map(Self)
    }

    /// Returns the index in a sequence of this length: below `length`, or 0.
    pub fn index(self, length: usize) -> usize {
        usize::try_from((u128::from(self.0) * (length as u128)) >> 32).unwrap_or_default()
    }

    /// Returns the item at this position.
    pub fn pick<T>(self, items: &[T]) -> Option<&T> {
        items.get(self.index(items.len()))
    }
}

/// The parts of all documents.
#[derive(Debug, Default)]
pub struct Pool {
    /// All keys.
    pub keys: Vec<String>,
    /// All values up to the maximum length, each once.
    pub values: Vec<Value>,
    /// Extreme values.
    pub extremes: Vec<Value>,
    like: BTreeMap<String, Vec<Value>>,
    fields: BTreeMap<String, Vec<String>>,
}

impl Pool {
    /// Collects the parts of these documents.
    pub fn new<'a>(documents: impl IntoIterator<Item = &'a Value>) -> Self {
        let (mut values, mut like) = (BTreeMap::new(), BTreeMap::new());
        for document in documents {
            collect("", document, &mut values, &mut like);
        }
        let once = |values: BTreeMap<String, Value>| values.into_values().collect::<Vec<_>>();
        let fields = fields(&like);
        let like: BTreeMap<String, Vec<Value>> = like.into_iter().map(|(key, values)| (key, once(values))).collect();
        let keys: BTreeSet<&String> = like.keys().filter(|key| !key.is_empty()).collect();
        Self { keys: keys.into_iter().cloned().collect(), values: once(values), extremes: extremes(), like, fields }
    }

    /// Returns the values that occur under this key.
    pub fn like(&self, key: &str) -> &[Value] {
        self.like.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the keys of the objects that occur under this key.
    pub fn fields(&self, key: &str) -> &[String] {
        self.fields.get(key).map_or(&[], Vec::as_slice)
    }
}

/// Collects values by their text. The entries of a list count as values of the list's key.
fn collect(
    key: &str,
    value: &Value,
    values: &mut BTreeMap<String, Value>,
    like: &mut BTreeMap<String, BTreeMap<String, Value>>,
) {
    let text = value.to_string();
    if text.len() <= VALUE_MAX {
        like.entry(key.to_owned()).or_default().insert(text.clone(), value.clone());
        values.insert(text, value.clone());
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(key, item, values, like)),
        Value::Object(members) => members.iter().for_each(|(key, member)| collect(key, member, values, like)),
        _ => {}
    }
}

/// Returns the keys of the objects among the values under each key.
fn fields(like: &BTreeMap<String, BTreeMap<String, Value>>) -> BTreeMap<String, Vec<String>> {
    let keys = |values: &BTreeMap<String, Value>| {
        let keys: BTreeSet<&String> = values.values().filter_map(Value::as_object).flat_map(Map::keys).collect();
        keys.into_iter().cloned().collect()
    };
    like.iter().map(|(key, values)| (key.clone(), keys(values))).collect()
}

/// Returns the extreme values: those of the file, and longer or deeper lists, objects and texts than fit there.
fn extremes() -> Vec<Value> {
    let deep = |wrap: fn(Value) -> Value| (0..DEPTH).fold(Value::Null, |inner, _| wrap(inner));
    let members = |count: usize| (0..count).map(|index| (format!("k{index}"), json!("v"))).collect::<Map<_, _>>();
    let scalars: Vec<Value> = serde_json::from_str(EXTREMES).unwrap_or_default();
    let long =
        [("a", 253), ("a", 254), ("a", 64), ("é", 200), ("a.", 127), ("a", 70_000), ("\u{1}", 5_000), ("(", 3_000)];
    scalars
        .into_iter()
        .chain(long.into_iter().map(|(text, times)| text.repeat(times).into()))
        .chain([
            json!(null),
            json!(true),
            json!(false),
            json!([]),
            json!({}),
            json!([null]),
            json!([[]]),
            json!({"": ""}),
        ])
        .chain([deep(|inner| json!([inner])), deep(|inner| json!({"a": inner}))])
        .chain([json!(vec![0; 5_000]), json!(vec![json!({}); 2_000]), json!(vec!["a"; 2_000]), members(2_000).into()])
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 3, 0)]
    #[case(u32::MAX, 3, 2)]
    #[case(u32::MAX / 2, 3, 1)]
    #[case(u32::MAX, 0, 0)]
    fn a_spot_is_a_share_of_the_length(#[case] share: u32, #[case] length: usize, #[case] index: usize) {
        assert_eq!(Spot(share).index(length), index);
    }

    #[test]
    fn a_pool_has_each_key_and_value_once() {
        let pool = Pool::new(&[json!({"a": ["x", "y"]}), json!({"b": {"a": "x"}})]);
        assert_eq!(pool.keys, ["a", "b"]);
        assert_eq!(pool.like("a"), [json!("x"), json!("y"), json!(["x", "y"])]);
        assert_eq!(pool.values.iter().filter(|value| **value == "x").count(), 1);
        assert!(pool.like("c").is_empty());
        assert_eq!(pool.fields("b"), ["a"]);
    }

    #[test]
    fn every_extreme_is_json() {
        let extremes = Pool::new([]).extremes;
        assert!(extremes.iter().filter(|value| value.is_number()).count() > 15, "the file can be read");
        assert!(extremes.iter().all(|value| value.to_string().len() < 100_000));
    }
}
