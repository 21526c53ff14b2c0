//! YAML and JSON as a tree that records the place of each part.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Spanned, options};

use super::{Error, Source};

/// A value whose parts have places.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Node>>),
    Object(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl Node {
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(value) => Value::Number(value),
            Self::Text(value) => Value::String(value),
            Self::List(items) => items.into_iter().map(|item| item.value.into_value()).collect(),
            Self::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key.value, value.value.into_value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// A document of a text.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Spanned<Node>,
    /// The part of the text to which the places are relative.
    pub(super) within: Range<usize>,
}

/// Parses the documents of a text like kubectl: with YAML 1.1's octal numbers and booleans, and with merge keys. A
/// repeated key is an error.
///
/// Parses each value of a stream of JSON values separately, and any other text as a whole.
pub(super) fn documents(source: &Source) -> Result<Vec<Document>, Error> {
    let placed = |roots: Vec<Spanned<Node>>, within: Range<usize>| {
        roots.into_iter().map(move |root| Document { root, within: within.clone() })
    };
    let Some(values) = json_values(&source.text) else {
        return Ok(placed(read(&source.name, &source.text)?, 0..source.text.len()).collect());
    };
    let mut documents = Vec::new();
    for range in values {
        let found = read(&source.name, source.text.get(range.clone()).unwrap_or_default());
        let found = found.or_else(|_| read(&source.name, &blanked(&source.text, range.clone())))?;
        documents.extend(placed(found, range));
    }
    Ok(documents)
}

/// Returns a part of a text with everything before it blanked, so that errors name the right line.
fn blanked(text: &str, range: Range<usize>) -> String {
    let before = text.get(..range.start).unwrap_or_default();
    let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
    before.bytes().map(blank).chain(text.get(range).unwrap_or_default().chars()).collect()
}

/// Returns the byte ranges of the values in a stream of several JSON values, or `None` for any other text.
pub fn json_values(text: &str) -> Option<Vec<Range<usize>>> {
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
    (ranges.len() > 1).then_some(ranges)
}

fn read(name: &str, text: &str) -> Result<Vec<Spanned<Node>>, Error> {
    let options = options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        // The default limits are for untrusted input and too low for a dump of a cluster. These only stop mistakes,
        // such as aliases that expand without bound.
        budget: serde_saphyr::budget! {
            max_documents: 1_000_000,
            max_events: 50_000_000,
            max_nodes: 20_000_000,
            max_total_scalar_bytes: 1 << 30,
        },
    };
    let mut documents: Vec<Spanned<Node>> =
        serde_saphyr::from_str_multiple_with_options(text, options).map_err(|error| syntax(name, text, &error))?;
    if let [document] = documents.as_mut_slice() {
        // A YAML parser turns some numbers into floats that JSON keeps as written.
        if text.trim_start().starts_with('{')
            && let Ok(exact) = serde_json::from_str::<Value>(text)
        {
            restore_numbers(&mut document.value, &exact);
        }
    }
    Ok(documents)
}

/// Advice in the library's errors about its own options, which users cannot set.
const OWN_OPTION: &str = ", set DuplicateKeyPolicy in Options if acceptable";
/// The remedy for a repeated `apiVersion` or `kind`: files concatenated without a separator form one document.
const SEPARATOR: &str = "documents in one file are separated by ---";

/// The remedy for a chart.
const RENDER: &str = "render it first: helm template CHART | pillion ...";

/// Returns the first line, from 1, with a Go template action outside quotes. A text with such a line is not YAML.
fn template_line(text: &str) -> Option<usize> {
    let is_quoted = |before: &str| ['"', '\''].iter().any(|mark| before.matches(*mark).count() % 2 == 1);
    let is_action =
        |line: &str| line.split_once("{{").is_some_and(|(before, rest)| rest.contains("}}") && !is_quoted(before));
    text.lines().position(|line| !line.trim_start().starts_with('#') && is_action(line)).map(|index| index + 1)
}

fn syntax(name: &str, text: &str, error: &serde_saphyr::Error) -> Error {
    let location = error.location();
    let mut summary = error.without_snippet().to_string().replace(OWN_OPTION, "");
    if let Some(location) = location {
        summary = summary.replace(&format!(" at line {}, column {}", location.line(), location.column()), "");
    }
    let at = location.map(|location| position(location, text));
    let is_twice = |key: &&str| summary.contains(&format!("duplicate mapping key: {key}"));
    let (said, help) = match template_line(text) {
        Some(line) => (format!("this is a Helm template, no manifest: line {line} has {{{{ ... }}}}"), Some(RENDER)),
        None => (summary.clone(), ["apiVersion", "kind"].iter().any(is_twice).then_some(SEPARATOR)),
    };
    let shown = error.to_string().replace(OWN_OPTION, "");
    // The library counts columns from where it cuts a long line, so replace its position. Not every error has a
    // snippet.
    let snippet = shown.trim_end().split_once("--> <input>:").and_then(|(_, rest)| rest.split_once('\n'));
    let snippet = snippet.map(|(_, snippet)| format!("\n{}", snippet.replace(&summary, &said))).unwrap_or_default();
    let mut problem = match at {
        Some((line, column)) => format!("line {line} column {column}: {said}\n --> {name}:{line}:{column}{snippet}"),
        None => said.clone(),
    };
    let mut summary = said;
    if let Some(help) = help {
        problem = format!("{problem}\n  = help: {help}");
        summary = format!("{summary}; {help}");
    }
    Error::Syntax { source_name: name.to_owned(), problem, summary, at }
}

/// Returns the line and the column of a location in `text`, from 1; the column counts characters. A lone carriage
/// return does not end a line, as in editors.
fn position(location: serde_saphyr::Location, text: &str) -> (usize, usize) {
    let offset = location.span().byte_offset().and_then(|offset| usize::try_from(offset).ok());
    let Some(before) = offset.and_then(|offset| text.get(..offset)) else {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        return (number(location.line()), number(location.column()));
    };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

fn restore_numbers(node: &mut Node, exact: &Value) {
    match (node, exact) {
        (Node::Number(number), Value::Number(exact)) => *number = exact.clone(),
        (Node::List(items), Value::Array(exact)) => {
            for (item, exact) in items.iter_mut().zip(exact) {
                restore_numbers(&mut item.value, exact);
            }
        }
        (Node::Object(entries), Value::Object(exact)) => {
            for (key, value) in entries {
                if let Some(exact) = exact.get(&key.value) {
                    restore_numbers(&mut value.value, exact);
                }
            }
        }
        _ => {}
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Node, E> {
        Number::from_i128(value).map(Node::Number).ok_or_else(|| E::custom("the number is too large"))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Node, E> {
        Number::from_u128(value).map(Node::Number).ok_or_else(|| E::custom("the number is too large"))
    }

    /// Converts a float without a fraction into an integer, as Go does when it converts YAML to JSON.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if value.fract() == 0.0 && value.abs() <= EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "integers up to 2^53 fit")]
            return Ok(Node::Number((value as i64).into()));
        }
        Number::from_f64(value).map(Node::Number).ok_or_else(|| E::custom("JSON has no such number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Object(entries))
    }
}
