//! Trees of JSON that borrow their strings.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// The beginning of the keys by which `serde_json` passes a number on to a visitor, as a map with one entry.
const PRIVATE: &str = "$serde_json::private::";

/// The member of objects that stays a text: the longest part of most Pods, which no policy changes.
const KEPT: &str = "managedFields";

/// A JSON value. Strings without escapes are borrowed from the text.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Node<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<Self>),
    Object(Object<'a>),
    Text(Text<'a>),
}

/// The text of a value that is not parsed: that of a member with the key `managedFields`.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a RawValue);

/// Two texts are equal if their values are.
impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.0.get(), other.0.get());
        one == other || matches!((Node::parse(one), Node::parse(other)), (Ok(one), Ok(other)) if one == other)
    }
}

/// The members of an object, by key. Of members with one key, the last counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Node<'a>)>);

impl<'a> Node<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// As for a [`serde_json::Value`], of which this is another form.
    pub fn parse(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Returns the value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| match node {
            Self::Object(object) => object.get(key),
            _ => None,
        })
    }

    /// Returns the string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// Returns the value without borrows.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is_true) => Value::Bool(*is_true),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(text) => Value::String(text.clone().into_owned()),
            Self::Array(elements) => elements.iter().map(Self::to_value).collect(),
            Self::Object(object) => object.iter().map(|(key, value)| (key.to_owned(), value.to_value())).collect(),
            // Only a text that nests too deeply, or has half of a surrogate pair, is no value.
            Self::Text(Text(text)) => serde_json::from_str(text.get()).unwrap_or_default(),
        }
    }
}

impl From<Value> for Node<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is_true) => Self::Bool(is_true),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(elements) => Self::Array(elements.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(Object::from_members(
                members.into_iter().map(|(key, value)| (Cow::Owned(key), Self::from(value))).collect(),
            )),
        }
    }
}

impl<'a> Object<'a> {
    fn from_members(mut members: Vec<(Cow<'a, str>, Node<'a>)>) -> Self {
        if !members.is_sorted_by(|(one, _), (next, _)| one < next) {
            members.sort_by(|(one, _), (next, _)| one.cmp(next));
            members.dedup_by(|later, earlier| {
                let is_again = later.0 == earlier.0;
                if is_again {
                    std::mem::swap(later, earlier);
                }
                is_again
            });
        }
        Self(members)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        let index = self.0.binary_search_by(|(own, _)| own.as_ref().cmp(key)).ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    /// Returns the members, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is_true) => serializer.serialize_bool(*is_true),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(elements) => serializer.collect_seq(elements),
            Self::Object(object) => serializer.collect_map(object.iter()),
            Self::Text(Text(text)) => text.serialize(serializer),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Self::Value, E> {
        Ok(Node::Bool(is_true))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).map_or(Node::Null, Node::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Node::String(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Node::String(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element()? {
            array.push(element);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if members.is_empty() && key.starts_with(PRIVATE) {
                let value = Value::deserialize(MapAccessDeserializer::new(Again { key: Some(key), map }))?;
                return Ok(value.into());
            }
            let value = if key == KEPT { Node::Text(Text(map.next_value()?)) } else { map.next_value()? };
            members.push((key, value));
        }
        Ok(Node::Object(Object::from_members(members)))
    }
}

/// A key, copied only if it has escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(text.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.to_owned().into())
    }
}

/// A map whose first key has been read.
struct Again<'de, A> {
    key: Option<Cow<'de, str>>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Again<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        match self.key.take() {
            Some(key) => seed.deserialize(key.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        self.map.next_value_seed(seed)
    }
}
