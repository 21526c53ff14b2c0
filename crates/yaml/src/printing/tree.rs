//! JSON whose objects keep an order. `serde_json` sorts the keys of a map, unlike hand-written manifests.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use crate::pointer::token;

/// A value whose entries are in printing order.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Null, a boolean, a number or a text.
    Scalar(Value),
    /// A list.
    List(Vec<Tree>),
    /// An object.
    Map(Vec<(String, Tree)>),
}

/// Keys that come first, in this order. Other keys follow by name.
const FIRST: [&str; 7] = ["apiVersion", "kind", "metadata", "name", "generateName", "namespace", "image"];
/// Keys that come last.
const LAST: [&str; 1] = ["status"];

impl Tree {
    /// Orders a value conventionally: the identifying keys first, the others by name.
    pub fn conventional(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::conventional).collect()),
            Value::Object(entries) => {
                let mut entries: Vec<_> =
                    entries.iter().map(|(key, value)| (key.clone(), Self::conventional(value))).collect();
                entries.sort_by(|(one, _), (other, _)| by_convention(one, other));
                Self::Map(entries)
            }
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// Orders a value as its text does. `place` returns the byte at which the key at a JSON pointer stands.
    pub fn placed(value: &Value, place: impl Fn(&str) -> Option<usize>) -> Self {
        Self::below(value, &place, &mut String::new())
    }

    fn below(value: &Value, place: &impl Fn(&str) -> Option<usize>, pointer: &mut String) -> Self {
        let length = pointer.len();
        let mut below = |key: &str, value: &Value| {
            pointer.push('/');
            pointer.push_str(&token(key));
            // In a List, the items may inherit `apiVersion` and `kind`, which then have no place in the text and come
            // first.
            let absent = if FIRST.iter().take(2).any(|first| *first == key) { 0 } else { usize::MAX };
            let start = place(pointer).unwrap_or(absent);
            let tree = Self::below(value, place, pointer);
            pointer.truncate(length);
            (start, tree)
        };
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(index, item)| below(&index.to_string(), item).1);
                Self::List(items.collect())
            }
            Value::Object(entries) => {
                let mut placed: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| {
                        let (place, tree) = below(key, value);
                        (place, key.clone(), tree)
                    })
                    .collect();
                placed.sort_by_key(|(place, _, _)| *place);
                Self::Map(placed.into_iter().map(|(_, key, tree)| (key, tree)).collect())
            }
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// Returns `value` in the order of this tree. Parts that this tree lacks follow in the conventional order. Items of
    /// lists correspond if they are equal or have the same name.
    #[must_use]
    pub fn order(&self, value: &Value) -> Self {
        match (self, value) {
            (Self::Map(old), Value::Object(new)) => {
                let kept =
                    old.iter().filter_map(|(key, tree)| new.get(key).map(|value| (key.clone(), tree.order(value))));
                let mut entries: Vec<_> = kept.collect();
                let known: BTreeSet<&str> = old.iter().map(|(key, _)| key.as_str()).collect();
                let mut added: Vec<_> = new
                    .iter()
                    .filter(|(key, _)| !known.contains(key.as_str()))
                    .map(|(key, value)| (key.clone(), Self::conventional(value)))
                    .collect();
                added.sort_by(|(one, _), (other, _)| by_convention(one, other));
                entries.extend(added);
                Self::Map(entries)
            }
            (Self::List(old), Value::Array(new)) => Self::List(
                new.iter()
                    .enumerate()
                    // Most items keep their index, so try that one first.
                    .map(|(index, item)| {
                        match old.get(index).into_iter().chain(old).find(|tree| tree.is_same_item(item)) {
                            Some(tree) => tree.order(item),
                            None => Self::conventional(item),
                        }
                    })
                    .collect(),
            ),
            (_, value) => Self::conventional(value),
        }
    }

    fn is_same_item(&self, item: &Value) -> bool {
        match (self, item) {
            (Self::Scalar(value), item) => value == item,
            (Self::Map(entries), Value::Object(item)) => match item.get("name") {
                Some(Value::String(name)) => entries
                    .iter()
                    .any(|(key, tree)| key == "name" && matches!(tree, Self::Scalar(value) if value == name)),
                _ => {
                    entries.len() == item.len()
                        && entries.iter().all(|(key, tree)| item.get(key).is_some_and(|value| tree.is(value)))
                }
            },
            (Self::List(_), item) => self.is(item),
            (Self::Map(_), _) => false,
        }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, tree)| tree),
            Self::Scalar(_) | Self::List(_) => None,
        }
    }

    /// Whether the tree equals the value, regardless of order.
    pub fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Scalar(scalar), value) => scalar == value,
            (Self::List(trees), Value::Array(items)) => {
                trees.len() == items.len() && trees.iter().zip(items).all(|(tree, item)| tree.is(item))
            }
            (Self::Map(entries), Value::Object(object)) => {
                entries.len() == object.len()
                    && entries.iter().all(|(key, tree)| object.get(key).is_some_and(|value| tree.is(value)))
            }
            _ => false,
        }
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(serializer),
            Self::List(items) => items.serialize(serializer),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

fn by_convention(one: &str, other: &str) -> Ordering {
    let rank = |key: &str| match FIRST.iter().position(|first| *first == key) {
        Some(place) => place,
        None if LAST.contains(&key) => usize::MAX,
        None => FIRST.len(),
    };
    rank(one).cmp(&rank(other)).then_with(|| one.cmp(other))
}
