//! Parsing with a limit on the memory of the parsed values.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use thiserror::Error;

use crate::Object;

/// The number of values that any text may hold, and the length that a text needs for each further value.
///
/// A value takes up to 360 bytes of memory, however short its text is. Objects written by people have at least 15 bytes
/// of text per value, and at least 47 bytes per object.
const VALUES: Allowance = Allowance { free: 16 * 1024, bytes_each: 9 };
/// The same limit for objects that are not empty, which take most of that memory.
const OBJECTS: Allowance = Allowance { free: 2 * 1024, bytes_each: 36 };

/// The number of members that are inserted into an object one by one. Further members are sorted together. Most texts
/// have them in some order, and then sorting compares each member with one other instead of twenty.
const FEW: usize = 64;

/// The key with which `serde_json` passes the literal of a number that is not a 64-bit integer.
pub(crate) const NUMBER: &str = "$serde_json::private::Number";

/// A limit that depends on the length of a text.
struct Allowance {
    free: usize,
    bytes_each: usize,
}

impl Allowance {
    const fn for_length(&self, bytes: usize) -> usize {
        self.free + bytes / self.bytes_each
    }
}

/// The reason and the position at which parsing failed: the text is not JSON, or has more values than its length
/// allows.
#[derive(Debug, Error)]
#[error("{source}")]
pub struct ParseError {
    source: serde_json::Error,
    is_too_dense: bool,
}

impl ParseError {
    /// Whether the text has more values than its length allows. It may still be valid JSON.
    pub const fn is_too_dense(&self) -> bool {
        self.is_too_dense
    }
}

/// Parses one value. Only white space may follow it.
///
/// Numbers keep their literal. The only change is in exponents: they get a small `e`, and a sign if they have none. If
/// a key appears several times, its last value wins.
///
/// # Errors
/// The text is not JSON (RFC 8259) or not UTF-8, has half of a surrogate pair, nests lists and objects more than 127
/// deep, has more values than 16,384 plus one for each 9 bytes, or has more objects that are not empty than 2,048 plus
/// one for each 36 bytes.
pub fn parse(text: &[u8]) -> Result<Value, ParseError> {
    let budget = Budget::for_text(text);
    from_text(text, budget.seed(), &budget)
}

/// Deserializes one value with a seed that spends this budget.
pub(crate) fn from_text<'a, S>(text: &'a [u8], seed: S, budget: &Budget) -> Result<S::Value, ParseError>
where
    S: DeserializeSeed<'a>,
{
    // One check of all bytes is enough: given bytes, `serde_json` would check each string separately.
    let value = str::from_utf8(text).map_err(serde_json::Error::custom).and_then(|text| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let value = seed.deserialize(&mut deserializer)?;
        deserializer.end().map(|()| value)
    });
    value.map_err(|source| ParseError { source, is_too_dense: budget.is_spent.get() })
}

/// The number of values that may still be created from a text.
#[derive(Debug)]
pub struct Budget {
    values: Cell<usize>,
    /// The number of objects that are not empty.
    objects: Cell<usize>,
    is_spent: Cell<bool>,
}

impl Budget {
    /// Returns the budget of a text.
    pub const fn for_text(text: &[u8]) -> Self {
        Self::for_length(text.len())
    }

    /// Returns the budget of a text of this length.
    pub const fn for_length(bytes: usize) -> Self {
        let (values, objects) = (Cell::new(VALUES.for_length(bytes)), Cell::new(OBJECTS.for_length(bytes)));
        Self { values, objects, is_spent: Cell::new(false) }
    }

    /// Returns a seed that deserializes one value within the budget.
    pub(crate) const fn seed(&self) -> Seed<'_> {
        Seed(self)
    }

    /// Counts a value.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn spend_on_value<E: serde::de::Error>(&self) -> Result<(), E> {
        self.spend(&self.values)
    }

    /// Counts the members of an object that is not empty.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn spend_on_members<E: serde::de::Error>(&self) -> Result<(), E> {
        self.spend(&self.objects)
    }

    fn spend<E: serde::de::Error>(&self, what: &Cell<usize>) -> Result<(), E> {
        let left = what.get().checked_sub(1).ok_or_else(|| {
            self.is_spent.set(true);
            E::custom("too many small values")
        })?;
        what.set(left);
        Ok(())
    }
}

/// Deserializes a [`Value`] within a [`Budget`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.spend_on_value()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Some(first) = map.next_key::<String>()? else { return Ok(Value::Object(Object::new())) };
        if first == NUMBER {
            return map.next_value().map(|Literal(number)| Value::Number(number));
        }
        self.0.spend_on_members()?;
        let mut object = Object::new();
        object.insert(first, map.next_value_seed(self)?);
        while object.len() < FEW {
            let Some(key) = map.next_key()? else { return Ok(Value::Object(object)) };
            object.insert(key, map.next_value_seed(self)?);
        }
        let mut more = Vec::new();
        while let Some(key) = map.next_key()? {
            more.push((key, map.next_value_seed(self)?));
        }
        object.append(&mut Object::from_iter(more));
        Ok(Value::Object(object))
    }
}

/// The literal of a number, which `serde_json` passes as an owned string. It never passes a string of the text like
/// this, so an object that has [`NUMBER`] as its key is refused instead of being read as a number.
pub(crate) struct Literal(pub(crate) Number);

impl<'de> Deserialize<'de> for Literal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_string(LiteralVisitor)
    }
}

struct LiteralVisitor;

impl Visitor<'_> for LiteralVisitor {
    type Value = Literal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another key than {NUMBER}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Literal, E> {
        Err(E::invalid_type(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_string<E: serde::de::Error>(self, literal: String) -> Result<Literal, E> {
        literal.parse().map(Literal).map_err(E::custom)
    }
}

/// A value whose text has an unknown length. Its budget is that of a text of one megabyte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounded(pub Value);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Budget::for_length(1024 * 1024).seed().deserialize(deserializer).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(item: &str, count: usize, padding: usize) -> String {
        format!("[{}]{}", vec![item; count].join(","), " ".repeat(padding))
    }

    #[test]
    fn short_texts_may_be_dense() {
        assert!(parse(list("0", 10_000, 0).as_bytes()).is_ok());
        assert!(parse(list("{\"\":0}", 2_000, 0).as_bytes()).is_ok());
    }

    #[test]
    fn values_are_counted_against_the_length_of_the_text() {
        let dense = list("0", 100_000, 0);
        let error = parse(dense.as_bytes()).unwrap_err();
        assert!(error.is_too_dense());
        assert!(error.to_string().starts_with("too many small values at line 1 column 7721"), "{error}");
        assert!(parse(list("0", 100_000, 600_000).as_bytes()).is_ok());
    }

    /// If a key appears several times, its last value wins, also among many members.
    #[test]
    fn many_members_are_read_as_few_are() {
        let members = |keys: std::ops::Range<usize>| keys.map(|key| format!("\"{key}\":{key}")).collect::<Vec<_>>();
        let all = [members(0..200), members(50..150), vec!["\"0\":\"last\"".to_owned(), "\"199\":\"last\"".to_owned()]];
        let text = format!("{{{}}}", all.concat().join(","));
        let expected: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), expected);
        assert_eq!((&expected["0"], &expected["199"]), (&"last".into(), &"last".into()));
    }

    #[test]
    fn objects_are_counted_apart() {
        let dense = list("{\"a\":\"bcdefg\"}", 20_000, 0);
        assert!(parse(dense.as_bytes()).unwrap_err().is_too_dense());
        assert!(parse(list("{\"a\":\"bcdefghijklmnopqrstuvwxyz0123\"}", 20_000, 0).as_bytes()).is_ok());
        assert!(!parse(b"[").unwrap_err().is_too_dense());
    }

    #[test]
    fn values_of_unknown_length_are_counted_against_a_megabyte() {
        assert!(serde_json::from_str::<Bounded>(&list("{\"a\":0}", 30_000, 0)).is_ok());
        let error = serde_json::from_str::<Bounded>(&list("{\"a\":0}", 50_000, 0)).unwrap_err();
        assert!(error.to_string().starts_with("too many small values"), "{error}");
    }

    #[test]
    fn an_object_with_the_librarys_own_key_for_numbers_is_refused() {
        for value in ["\"1\"", "\"\\u0031\"", "1", "{}", "null"] {
            assert!(parse(format!("{{\"{NUMBER}\":{value}}}").as_bytes()).is_err(), "{value}");
        }
    }
}
