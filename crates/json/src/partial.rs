//! Objects of which only some members are parsed at first.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Budget, NUMBER, Object, ParseError, parse_within};

/// The part of a value that is parsed.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The whole value.
    Whole,
    /// Of an object the members with these names, and of each of them a part.
    Members(&'static [(&'static str, Self)]),
}

/// An object whose head is parsed, while the other members are texts.
#[derive(Clone, Debug, Default)]
pub struct Partial<'a> {
    /// The object with the members that are parsed.
    pub head: Value,
    rest: Vec<Unread<'a>>,
}

/// A member that is not parsed: the name of the member that it is in (empty if it is one of the object itself), its own
/// name, and its text.
type Unread<'a> = (&'static str, String, &'a RawValue);

impl Partial<'_> {
    /// Returns the length of the texts.
    pub fn unread(&self) -> usize {
        self.rest.iter().map(|(_, _, text)| text.get().len()).sum()
    }

    /// Parses the rest within a budget, and returns the whole object.
    ///
    /// # Errors
    /// As [`parse`](crate::parse()).
    pub fn complete(self, budget: &Budget) -> Result<Value, ParseError> {
        let mut whole = self.head;
        for (parent, name, text) in self.rest {
            let parent = if parent.is_empty() { Some(&mut whole) } else { whole.get_mut(parent) };
            if let Some(parent) = parent.and_then(Value::as_object_mut) {
                parent.insert(name, parse_within(budget, text.get())?);
            }
        }
        Ok(whole)
    }
}

/// Deserializes a list of objects within a budget, of each only this part. The texts of the other members may be any
/// JSON.
///
/// Refuses more than [`parse`](crate::parse()) does: the member of a part that is not an object or that appears twice,
/// null included. Whoever gets an error has to parse the list.
#[derive(Clone, Copy, Debug)]
pub struct Partials<'b>(pub &'b Budget, pub Part);

impl<'de> DeserializeSeed<'de> for Partials<'_> {
    type Value = Vec<Partial<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Partials<'_> {
    type Value = Vec<Partial<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let mut rest = Vec::new();
            let head = HeadSeed { budget: self.0, part: self.1, name: "", rest: &mut rest };
            let Some(head) = list.next_element_seed(head)? else { return Ok(items) };
            items.push(Partial { head, rest });
        }
    }
}

/// Deserializes the head of an object, or of the member with this name of one.
struct HeadSeed<'s, 'de> {
    budget: &'s Budget,
    part: Part,
    name: &'static str,
    rest: &'s mut Vec<Unread<'de>>,
}

impl<'de> DeserializeSeed<'de> for HeadSeed<'_, 'de> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.part {
            Part::Whole => self.budget.seed().deserialize(deserializer),
            Part::Members(members) => deserializer.deserialize_map(Members { seed: self, members }),
        }
    }
}

struct Members<'s, 'de> {
    seed: HeadSeed<'s, 'de>,
    members: &'static [(&'static str, Part)],
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let HeadSeed { budget, name: parent, rest, .. } = self.seed;
        budget.spend_on_value()?;
        budget.spend_on_members()?;
        let mut object = Object::new();
        while let Some(key) = map.next_key::<String>()? {
            let is_sound = if let Some((name, part)) = self.members.iter().find(|(name, _)| *name == key) {
                let seed = HeadSeed { budget, part: *part, name, rest };
                object.insert(key, map.next_value_seed(seed)?).is_none()
            } else {
                budget.spend_on_value()?;
                let is_sound = key != NUMBER;
                rest.push((parent, key, map.next_value()?));
                is_sound
            };
            if !is_sound {
                return Err(A::Error::custom("is no part"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::parse;

    const PART: Part =
        Part::Members(&[("name", Part::Whole), ("spec", Part::Members(&[("a", Part::Whole), ("b", Part::Whole)]))]);

    fn partials<'a>(text: &'a str, budget: &Budget) -> Result<Vec<Partial<'a>>, serde_json::Error> {
        Partials(budget, PART).deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    #[rstest]
    #[case::nothing_else(r#"{"name": {"x": [1, null]}, "spec": {"a": 1.5}}"#, json!({"name": {"x": [1, null]}, "spec": {"a": 1.50}}))]
    #[case::other_members(r#"{"x": {"name": 1}, "name": null, "spec": {"c": [{}], "b": []}}"#, json!({"name": null, "spec": {"b": []}}))]
    #[case::only_others(r#"{"x": 1}"#, json!({}))]
    #[case::an_empty_object("{}", json!({}))]
    #[case::others_that_appear_twice(r#"{"x": 1, "x": 2, "spec": {"c": 1, "d": 1, "c": 1e2}}"#, json!({"spec": {}}))]
    #[case::escaped_names(r#"{"n\u0061me": 1, "\u0078": 2}"#, json!({"name": 1}))]
    fn the_head_is_parsed_and_the_whole_is_what_parse_reads(#[case] text: &str, #[case] head: Value) {
        let list = format!("[{text}, {text}]");
        let budget = Budget::of(list.as_bytes());
        for partial in partials(&list, &budget).unwrap() {
            assert_eq!(partial.head, head);
            assert_eq!(partial.complete(&budget).unwrap(), parse(text.as_bytes()).unwrap());
        }
    }

    #[rstest]
    #[case::null("null")]
    #[case::no_list("{}")]
    #[case::no_object("[{}, null]")]
    #[case::a_member_that_is_no_object(r#"[{"spec": []}]"#)]
    #[case::a_member_that_is_null(r#"[{"spec": null}]"#)]
    #[case::a_name_of_the_head_that_appears_twice(r#"[{"name": 1, "name": 2}]"#)]
    #[case::an_object_of_the_head_that_appears_twice(r#"[{"spec": {"c": 1}, "spec": {}}]"#)]
    #[case::no_json_in_the_rest(r#"[{"x": [}]"#)]
    #[case::the_librarys_own_key(r#"[{"$serde_json::private::Number": "1"}]"#)]
    fn what_has_no_such_part_is_an_error(#[case] text: &str) {
        assert!(partials(text, &Budget::of(text.as_bytes())).is_err());
    }

    #[test]
    fn heads_and_members_are_counted_and_texts_are_not() {
        let dense = format!("[{}]", vec!["0"; 20_000].join(","));
        let text = format!("[{{\"x\":{dense}}}]");
        let mut read = partials(&text, &Budget::of_bytes(0)).unwrap();
        assert_eq!(read[0].unread(), dense.len());
        assert!(read.remove(0).complete(&Budget::of_bytes(0)).unwrap_err().is_too_dense());
        assert!(partials(&format!("[{{\"name\":{dense}}}]"), &Budget::of_bytes(0)).is_err());
        let members = |count| format!("[{{{}}}]", vec![r#""":0"#; count].join(","));
        assert!(partials(&members(16 * 1024 - 1), &Budget::of_bytes(0)).is_ok());
        assert!(partials(&members(16 * 1024), &Budget::of_bytes(0)).is_err());
    }
}
