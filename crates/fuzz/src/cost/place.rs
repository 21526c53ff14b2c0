//! Finds every list, map, text and number of a document.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// The parts of a place that can grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The entries of a list.
    List,
    /// The members of an object.
    Map,
    /// The name of an object's first member.
    Key,
    /// A text.
    Text,
    /// The digits of a number.
    Number,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentPlace {
    /// A JSON pointer (RFC 6901).
    pub pointer: String,
    /// The part that can grow.
    pub part: Part,
}

impl DocumentPlace {
    /// Whether the author of a request writes it. Objects that can be looked up have other authors.
    pub fn is_input(&self) -> bool {
        !self.pointer.starts_with("/objects")
    }
}

impl fmt::Display for DocumentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.pointer, self.part)
    }
}

/// Returns all places of a document, in its order. The outermost object and its members belong to the harness and do
/// not grow.
pub fn places(document: &Value) -> Vec<DocumentPlace> {
    let mut places = Vec::new();
    for (key, value) in document.as_object().into_iter().flatten() {
        let grows = key != "objects" || value.is_object();
        walk(value, &format!("/{key}"), grows, &mut places);
    }
    places
}

/// Returns the places of a document, but only the first of those with the same name and an equal value: of three equal
/// probes, the places of the first.
pub fn distinct(document: &Value) -> Vec<DocumentPlace> {
    let mut seen = BTreeSet::new();
    let mut places = places(document);
    places.retain(|place| {
        let name = place.pointer.rsplit('/').find(|key| key.parse::<usize>().is_err()).unwrap_or_default();
        let value = document.pointer(&place.pointer).unwrap_or(&Value::Null);
        seen.insert((place.part, name.to_owned(), value.to_string()))
    });
    places
}

fn walk(value: &Value, pointer: &str, grows: bool, places: &mut Vec<DocumentPlace>) {
    let mut add = |part| {
        if grows {
            places.push(DocumentPlace { pointer: pointer.to_owned(), part });
        }
    };
    match value {
        Value::Array(items) => {
            add(Part::List);
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{pointer}/{index}"), true, places);
            }
        }
        Value::Object(members) => {
            add(Part::Map);
            if !members.is_empty() {
                add(Part::Key);
            }
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                walk(member, &format!("{pointer}/{key}"), true, places);
            }
        }
        Value::String(_) => add(Part::Text),
        Value::Number(_) => add(Part::Number),
        Value::Bool(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_parts_count_once() {
        let probe = json!({"port": 1});
        let document = json!({"request": {"one": {"probe": probe}, "two": {"probe": probe, "other": probe}}});
        let found: Vec<String> = distinct(&document).into_iter().map(|place| place.to_string()).collect();
        assert!(found.contains(&"/request/one/probe/port (Number)".to_owned()), "{found:?}");
        assert!(!found.contains(&"/request/two/probe (Map)".to_owned()), "{found:?}");
        assert!(found.contains(&"/request/two/other (Map)".to_owned()), "{found:?}");
    }

    #[test]
    fn each_list_map_text_and_number_is_a_place() {
        let document = json!({"request": {"a/b": ["x", {"c": 1}], "d": true}, "objects": [{}]});
        let found: Vec<String> = places(&document).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "/objects/0 (Map)",
                "/request (Map)",
                "/request (Key)",
                "/request/a~1b (List)",
                "/request/a~1b/0 (Text)",
                "/request/a~1b/1 (Map)",
                "/request/a~1b/1 (Key)",
                "/request/a~1b/1/c (Number)",
            ]
        );
    }
}
