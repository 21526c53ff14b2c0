//! Values of which only a part is parsed at first.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::parse::{Literal, NUMBER, from_text};
use crate::{Budget, ParseError};

/// The part of a value that is parsed at once.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The whole value.
    Whole,
    /// Of an object the members with these names, and of each of them a part. The other members stay texts.
    Members(&'static [(&'static str, Self)]),
    /// Of each item of a list this part.
    Items(&'static Self),
    /// The whole value except for one member, which stays a text: the last of these names, in the object at the others.
    Except(&'static [&'static str]),
}

impl Part {
    /// Returns the part of an object's member, of whose object this is the part; `None` if the member stays a text.
    fn of_member(self, name: &str) -> Option<Self> {
        match self {
            Self::Members(parts) => parts.iter().find(|(known, _)| *known == name).map(|(_, part)| *part),
            Self::Except([first, rest @ ..]) if *first == name => (!rest.is_empty()).then_some(Self::Except(rest)),
            Self::Whole | Self::Items(_) | Self::Except(_) => Some(Self::Whole),
        }
    }
}

/// A value of which only a [`Part`] is parsed. A value of another type than its part is parsed whole.
#[derive(Clone, Debug)]
pub enum Partial<'a> {
    /// A value that is parsed.
    Value(Value),
    /// The text of a value, which may be any JSON.
    Text(&'a RawValue),
    /// The members of an object, as they are written. If a name appears several times, its last value counts.
    Members(Vec<(String, Self)>),
    /// A list.
    Items(Vec<Self>),
}

impl<'a> Partial<'a> {
    /// Reads a text within a budget. Only white space may follow the value.
    ///
    /// # Errors
    /// As [`parse`](crate::parse()).
    pub fn read(text: &'a [u8], part: Part, budget: &Budget) -> Result<Self, ParseError> {
        from_text(text, PartSeed { budget, part }, budget)
    }

    /// Returns a member of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Members(members) => members.iter().rfind(|(own, _)| own == name).map(|(_, member)| member),
            _ => None,
        }
    }

    /// Returns a member of an object, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Members(members) => members.iter_mut().rfind(|(own, _)| own == name).map(|(_, member)| member),
            _ => None,
        }
    }

    /// Takes a member out of an object.
    pub fn take(&mut self, name: &str) -> Option<Self> {
        match self {
            Self::Members(members) => members.extract_if(.., |(own, _)| own == name).last().map(|(_, member)| member),
            _ => None,
        }
    }

    /// Returns a copy of what is parsed, without the texts.
    pub fn parsed(&self) -> Option<Value> {
        Some(match self {
            Self::Value(value) => value.clone(),
            Self::Text(_) => return None,
            Self::Members(members) => {
                members.iter().filter_map(|(name, member)| Some((name.clone(), member.parsed()?))).collect()
            }
            Self::Items(items) => items.iter().filter_map(Self::parsed).collect(),
        })
    }

    /// Parses the texts, too, within a budget, and returns the whole value.
    ///
    /// # Errors
    /// As [`parse`](crate::parse()).
    pub fn complete(self, budget: &Budget) -> Result<Value, ParseError> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Text(text) => from_text(text.get().as_bytes(), budget.seed(), budget),
            Self::Members(members) => {
                members.into_iter().map(|(name, member)| Ok((name, member.complete(budget)?))).collect()
            }
            Self::Items(items) => items.into_iter().map(|item| item.complete(budget)).collect(),
        }
    }
}

/// Deserializes a part of a value within a budget.
#[derive(Clone, Copy)]
struct PartSeed<'b> {
    budget: &'b Budget,
    part: Part,
}

impl<'de> DeserializeSeed<'de> for PartSeed<'_> {
    type Value = Partial<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if matches!(self.part, Part::Whole) {
            return self.budget.seed().deserialize(deserializer).map(Partial::Value);
        }
        self.budget.spend_on_value()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PartSeed<'_> {
    type Value = Partial<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.budget.seed().expecting(f)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        self.budget.seed().visit_unit().map(Partial::Value)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        self.budget.seed().visit_bool(value).map(Partial::Value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.budget.seed().visit_u64(value).map(Partial::Value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.budget.seed().visit_i64(value).map(Partial::Value)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        self.budget.seed().visit_str(text).map(Partial::Value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Part::Items(part) = self.part else { return self.budget.seed().visit_seq(list).map(Partial::Value) };
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Self { part: *part, ..self })? {
            items.push(item);
        }
        Ok(Partial::Items(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if !matches!(self.part, Part::Members(_) | Part::Except(_)) {
            return self.budget.seed().visit_map(map).map(Partial::Value);
        }
        self.budget.spend_on_members()?;
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.is_empty() && name == NUMBER {
                return map.next_value().map(|Literal(number)| Partial::Value(number.into()));
            }
            let member = if let Some(part) = self.part.of_member(&name) {
                map.next_value_seed(Self { part, ..self })?
            } else {
                self.budget.spend_on_value()?;
                Partial::Text(map.next_value()?)
            };
            members.push((name, member));
        }
        Ok(Partial::Members(members))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::parse;

    const PART: Part = Part::Items(&Part::Members(&[
        ("name", Part::Whole),
        ("spec", Part::Members(&[("a", Part::Whole), ("b", Part::Whole)])),
    ]));

    #[rstest]
    #[case::nothing_else(r#"{"name": {"x": [1, null]}, "spec": {"a": 1.5}}"#, json!({"name": {"x": [1, null]}, "spec": {"a": 1.50}}))]
    #[case::other_members(r#"{"x": {"name": 1}, "name": null, "spec": {"c": [{}], "b": []}}"#, json!({"name": null, "spec": {"b": []}}))]
    #[case::only_others(r#"{"x": 1}"#, json!({}))]
    #[case::an_empty_object("{}", json!({}))]
    #[case::others_that_appear_twice(r#"{"x": 1, "x": 2, "spec": {"c": 1, "d": 1, "c": 1e2}}"#, json!({"spec": {}}))]
    #[case::a_name_that_appears_twice(r#"{"name": 1, "name": 2}"#, json!({"name": 2}))]
    #[case::an_object_that_appears_twice(r#"{"spec": {"c": 1, "a": 1}, "spec": {"b": 2}}"#, json!({"spec": {"b": 2}}))]
    #[case::escaped_names(r#"{"n\u0061me": 1, "\u0078": 2}"#, json!({"name": 1}))]
    #[case::a_list_for_a_member(r#"{"spec": [{"c": 1}]}"#, json!({"spec": [{"c": 1}]}))]
    #[case::null_for_a_member(r#"{"spec": null}"#, json!({"spec": null}))]
    #[case::a_number_for_a_member(r#"{"spec": 1.5}"#, json!({"spec": 1.5}))]
    #[case::a_number_for_an_item("-1", json!(-1))]
    #[case::a_text_for_an_item("\"a\"", json!("a"))]
    #[case::a_list_for_an_item("[true]", json!([true]))]
    fn a_part_is_parsed_and_the_whole_is_what_parse_reads(#[case] item: &str, #[case] parsed: Value) {
        let text = format!("[{item}, {item}]");
        let budget = Budget::for_text(text.as_bytes());
        let partial = Partial::read(text.as_bytes(), PART, &budget).unwrap();
        assert_eq!(partial.parsed(), Some(json!([parsed, parsed])));
        assert_eq!(partial.complete(&budget).unwrap(), parse(text.as_bytes()).unwrap());
    }

    #[test]
    fn an_object_for_a_list_is_parsed_whole() {
        let text = r#"{"spec": {"c": 1}}"#;
        let partial = Partial::read(text.as_bytes(), PART, &Budget::for_length(0)).unwrap();
        assert_eq!(partial.parsed().unwrap(), parse(text.as_bytes()).unwrap());
    }

    #[rstest]
    #[case::the_exception(r#"{"m": {"x": [1], "f": [{"a": 1}]}, "s": [{"m": {"f": 1}}]}"#, json!({"m": {"x": [1]}, "s": [{"m": {"f": 1}}]}))]
    #[case::twice(r#"{"m": {"f": 1}, "m": {"f": 2, "x": 1, "f": 3}}"#, json!({"m": {"x": 1}}))]
    #[case::no_exception(r#"{"m": {"x": 1}, "f": 2}"#, json!({"m": {"x": 1}, "f": 2}))]
    #[case::a_list_in_its_place(r#"{"m": [{"f": 1}]}"#, json!({"m": [{"f": 1}]}))]
    #[case::a_number("15", json!(15))]
    #[case::null("null", Value::Null)]
    fn all_but_one_member_is_parsed_and_the_whole_is_what_parse_reads(#[case] text: &str, #[case] parsed: Value) {
        let budget = Budget::for_text(text.as_bytes());
        let partial = Partial::read(text.as_bytes(), Part::Except(&["m", "f"]), &budget).unwrap();
        assert_eq!(partial.parsed().unwrap(), parsed);
        assert_eq!(partial.complete(&budget).unwrap(), parse(text.as_bytes()).unwrap());
    }

    #[test]
    fn members_are_taken_once() {
        let part = Part::Members(&[("a", Part::Whole)]);
        let mut partial = Partial::read(br#"{"b": {}, "a": 1, "b": 2}"#, part, &Budget::for_length(0)).unwrap();
        assert!(matches!(partial.get_mut("b"), Some(Partial::Text(text)) if text.get() == "2"));
        assert!(matches!(partial.take("a"), Some(Partial::Value(_))));
        assert!(matches!(partial.take("b"), Some(Partial::Text(_))));
        assert!(partial.take("a").is_none() && partial.parsed() == Some(json!({})));
    }

    #[rstest]
    #[case::no_json_in_the_rest(r#"[{"x": [}]"#)]
    #[case::more_than_one_value("[] []")]
    #[case::the_librarys_own_key(r#"[{"$serde_json::private::Number": "1"}]"#)]
    fn what_is_no_json_is_an_error(#[case] text: &str) {
        assert!(Partial::read(text.as_bytes(), PART, &Budget::for_text(text.as_bytes())).is_err());
    }

    #[test]
    fn parsed_values_and_members_are_counted_and_texts_are_not() {
        let dense = format!("[{}]", vec!["0"; 20_000].join(","));
        let read = |text: &str| Partial::read(text.as_bytes(), PART, &Budget::for_length(0)).map(drop);
        let text = format!("[{{\"x\":{dense}}}]");
        let partial = Partial::read(text.as_bytes(), PART, &Budget::for_length(0)).unwrap();
        assert!(partial.complete(&Budget::for_length(0)).unwrap_err().is_too_dense());
        assert!(read(&format!("[{{\"name\":{dense}}}]")).unwrap_err().is_too_dense());
        let members = |count| format!("[{{{}}}]", vec![r#""":0"#; count].join(","));
        assert!(read(&members(16 * 1024 - 2)).is_ok());
        assert!(read(&members(16 * 1024 - 1)).is_err());
    }
}
