//! Makes one place of a document longer.

use std::fmt;

use pillion_bench::corpus::random::Random;
use serde_json::{Map, Number, Value};

use super::place::{DocumentPlace, Part};

/// The order of the new entries of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each is greater than the one before.
    Ascending,
    /// Each is less than the one before.
    Descending,
    /// All are the same. Members of a map cannot be: their keys are unique.
    Equal,
    /// Pseudorandom.
    Random,
}

/// The members in which new entries differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// The name, or the member that serves as one.
    Name,
    /// All texts and numbers.
    All,
}

/// The way in which a place grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrowthKind {
    /// By copies of the entry at this index.
    Entries(Order, Differs, usize),
    /// By the shortest entries: `{}` among objects, `""` among texts.
    Bare,
    /// By repetitions of this text.
    Repeated(String),
    /// By copies of the first member of the JSON object in the text, as annotations have it.
    Members,
}

/// A place and the way in which it grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The place.
    pub place: DocumentPlace,
    /// The way.
    pub kind: GrowthKind,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, kind } = self;
        match kind {
            GrowthKind::Entries(order, differs, index) => write!(f, "{place} {order:?} {differs:?} of {index}"),
            GrowthKind::Bare => write!(f, "{place} bare"),
            GrowthKind::Members => write!(f, "{place} by members"),
            GrowthKind::Repeated(text) => write!(f, "{place} of {:?}", text.chars().take(24).collect::<String>()),
        }
    }
}

/// Texts whose repetition has a meaning for a parser of names, paths, numbers, JSON, expressions or patterns.
const REPEATED: [&str; 12] = ["a", "1", "a.", "a/", "a,", "[", "{\"a\":", "(a|", "a*", "1+", "-", "\u{e9}"];
/// The number in the longest new entry of a list.
const LONGEST: u64 = 999_999;
/// The members that identify entries of lists.
const NAMES: [&str; 9] =
    ["name", "key", "mountPath", "devicePath", "path", "ip", "orderedKey", "manager", "sourceContainerName"];

impl Growth {
    /// Returns the ways in which a place of the document grows: all templates and texts if `thorough`, otherwise those
    /// that differ most.
    pub fn all(document: &Value, place: &DocumentPlace, thorough: bool) -> Vec<Self> {
        let value = document.pointer(&place.pointer).unwrap_or(&Value::Null);
        let growth = |kind| Self { place: place.clone(), kind };
        let orders = [Order::Ascending, Order::Descending, Order::Equal, Order::Random];
        match (place.part, value) {
            (Part::List, Value::Array(items)) => {
                let last = items.len().saturating_sub(1);
                let mut all = vec![growth(GrowthKind::Bare)];
                for index in if thorough { 0..items.len().max(1) } else { 0..1 } {
                    all.extend(orders.map(|order| growth(GrowthKind::Entries(order, Differs::All, index))));
                    if thorough && items.get(index).and_then(name_of).is_some() {
                        all.extend(orders.map(|order| growth(GrowthKind::Entries(order, Differs::Name, index))));
                    }
                }
                if !thorough && items.first().and_then(name_of).is_some() {
                    all.push(growth(GrowthKind::Entries(Order::Descending, Differs::Name, last)));
                }
                all
            }
            (Part::Map, _) if thorough => [Order::Ascending, Order::Descending, Order::Random]
                .map(|order| growth(GrowthKind::Entries(order, Differs::All, 0)))
                .into(),
            (Part::Map, _) => vec![growth(GrowthKind::Entries(Order::Descending, Differs::All, 0))],
            (Part::Text, Value::String(own)) => {
                let mut all = vec![growth(GrowthKind::Repeated(if own.is_empty() { "a" } else { own }.to_owned()))];
                all.extend(members_of(own).map(|_| growth(GrowthKind::Members)));
                if thorough {
                    all.extend(REPEATED.map(|text| growth(GrowthKind::Repeated(text.to_owned()))));
                }
                all
            }
            _ => vec![growth(GrowthKind::Repeated("1".to_owned()))],
        }
    }

    /// Makes the place longer by this many bytes of JSON, and by at least one entry. A place that the document lacks is
    /// ignored.
    pub fn apply(&self, document: &mut Value, bytes: usize) {
        let Some(value) = document.pointer_mut(&self.place.pointer) else { return };
        match (&self.kind, value) {
            (GrowthKind::Bare, Value::Array(items)) => {
                let bare = items.first().map_or(Value::Null, bare);
                let count = count(bytes, &bare);
                items.extend(std::iter::repeat_n(bare, count));
            }
            (GrowthKind::Entries(order, differs, index), Value::Array(items)) => {
                let template = items.get(*index).cloned().unwrap_or_else(|| Value::from("a"));
                let count = count(bytes, &varied(&template, LONGEST, *differs));
                items.extend(order.numbers(count).map(|number| varied(&template, number, *differs)));
            }
            (GrowthKind::Entries(order, differs, _), Value::Object(members)) => {
                let (key, value) = members
                    .iter()
                    .next()
                    .map_or_else(|| ("a".to_owned(), "a".into()), |(key, value)| (key.clone(), value.clone()));
                let longest =
                    Value::Object(Map::from_iter([(suffixed(&key, LONGEST), varied(&value, LONGEST, *differs))]));
                for number in order.numbers(count(bytes, &longest)) {
                    members.insert(suffixed(&key, number), varied(&value, number, *differs));
                }
            }
            (GrowthKind::Members, Value::String(text)) => {
                if let Some((mut members, (key, value))) = members_of(text) {
                    // The text escapes the quotation marks of the object in it.
                    let braces = 4;
                    let longest = Map::from_iter([(suffixed(&key, LONGEST), all_varied(&value, LONGEST))]);
                    let longest = Value::from(Value::Object(longest).to_string()).to_string().len() - braces + 1;
                    for number in 0..(bytes / longest).max(1) as u64 {
                        members.insert(suffixed(&key, number), all_varied(&value, number));
                    }
                    *text = Value::Object(members).to_string();
                }
            }
            (GrowthKind::Repeated(text), value) => repeat(value, self.place.part, text, bytes),
            (GrowthKind::Bare | GrowthKind::Entries(..) | GrowthKind::Members, _) => {}
        }
    }
}

/// Returns how many copies of an entry fit into this many bytes of JSON, at least one.
fn count(bytes: usize, entry: &Value) -> usize {
    let comma = 1;
    (bytes / (entry.to_string().len() + comma)).max(1)
}

impl Order {
    fn numbers(self, count: usize) -> Box<dyn Iterator<Item = u64>> {
        let last = count as u64;
        let mut random = Random::new(last);
        match self {
            Self::Ascending => Box::new(0..last),
            Self::Descending => Box::new((0..last).rev()),
            Self::Equal => Box::new(std::iter::repeat_n(0, count)),
            Self::Random => Box::new((0..last).map(move |_| random.number() % 1_000_000)),
        }
    }
}

/// Returns the member that identifies an entry.
fn name_of(entry: &Value) -> Option<&'static str> {
    NAMES.into_iter().find(|name| entry.get(name).is_some_and(Value::is_string))
}

/// Returns the object in a text and its first member, if it has any.
fn members_of(text: &str) -> Option<(Map<String, Value>, (String, Value))> {
    let members: Map<String, Value> = serde_json::from_str(text).ok()?;
    let first = members.iter().next().map(|(key, value)| (key.clone(), value.clone()))?;
    Some((members, first))
}

fn varied(entry: &Value, number: u64, differs: Differs) -> Value {
    match (differs, entry, name_of(entry)) {
        (Differs::Name, Value::Object(members), Some(name)) => {
            let mut members = members.clone();
            if let Some(value) = members.get_mut(name) {
                *value = all_varied(value, number);
            }
            Value::Object(members)
        }
        _ => all_varied(entry, number),
    }
}

fn all_varied(value: &Value, number: u64) -> Value {
    match value {
        Value::String(text) => suffixed(text, number).into(),
        Value::Number(own) => own.as_u64().map_or_else(|| value.clone(), |own| (own + number).into()),
        Value::Array(items) => items.iter().map(|item| all_varied(item, number)).collect(),
        Value::Object(members) => {
            let varied: Map<_, _> =
                members.iter().map(|(key, member)| (key.clone(), all_varied(member, number))).collect();
            Value::Object(varied)
        }
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

fn suffixed(text: &str, number: u64) -> String {
    format!("{text}-{number:06}")
}

fn bare(entry: &Value) -> Value {
    match entry {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::String(_) => "".into(),
        Value::Number(_) => 0.into(),
        Value::Bool(_) | Value::Null => Value::Null,
    }
}

fn repeat(value: &mut Value, part: Part, text: &str, bytes: usize) {
    // JSON escapes quotation marks and other characters, which makes them longer.
    let quoted = Value::from(text).to_string().len().saturating_sub(2).max(1);
    let long = text.repeat((bytes / quoted).max(1));
    match (part, value) {
        (Part::Text, Value::String(own)) => own.push_str(&long),
        (Part::Number, value) => {
            if let Ok(number) = long.parse::<Number>() {
                *value = Value::Number(number);
            }
        }
        (Part::Key, Value::Object(members)) => {
            if let Some((key, member)) = members.iter().next().map(|(key, member)| (key.clone(), member.clone())) {
                members.remove(&key);
                members.insert(key + &long, member);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn grown(document: &Value, part: Part, pointer: &str, kind: GrowthKind, bytes: usize) -> Value {
        let mut document = document.clone();
        Growth { place: DocumentPlace { pointer: pointer.to_owned(), part }, kind }.apply(&mut document, bytes);
        document
    }

    #[rstest]
    #[case(Order::Ascending, ["a-000000", "a-000001"])]
    #[case(Order::Descending, ["a-000001", "a-000000"])]
    #[case(Order::Equal, ["a-000000", "a-000000"])]
    fn lists_grow_by_copies_of_an_entry(#[case] order: Order, #[case] names: [&str; 2]) {
        let document = json!([{"name": "a", "n": 1, "b": true}]);
        let entry = |name: &str| json!({"name": name, "n": 1, "b": true});
        let bytes = 2 * (entry("a-000000").to_string().len() + 1);
        let found = grown(&document, Part::List, "", GrowthKind::Entries(order, Differs::Name, 0), bytes);
        let [first, second] = names.map(entry);
        assert_eq!(found, json!([entry("a"), first, second]));
    }

    #[test]
    fn maps_keys_texts_and_numbers_grow_too() {
        let all = GrowthKind::Entries(Order::Ascending, Differs::All, 0);
        let two = json!({"k-000000": 1, "k-999999": 1_000_000}).to_string().len();
        assert_eq!(
            grown(&json!({"k": 1}), Part::Map, "", all, two + 10),
            json!({"k": 1, "k-000000": 1, "k-000001": 2})
        );
        let long = || GrowthKind::Repeated("1".to_owned());
        let ones = "1".repeat(80);
        assert_eq!(grown(&json!("a"), Part::Text, "", long(), 80), json!(format!("a{ones}")));
        assert_eq!(grown(&json!({"k": 1}), Part::Key, "", long(), 80), json!({format!("k{ones}"): 1}));
        assert_eq!(grown(&json!(5), Part::Number, "", long(), 80).to_string(), ones);
        assert_eq!(grown(&json!([{"a": 1}]), Part::List, "", GrowthKind::Bare, 6), json!([{"a": 1}, {}, {}]));
    }

    #[test]
    fn texts_with_an_object_grow_by_members() {
        let text = |members: Value| json!(members.to_string());
        let found = grown(&text(json!({"a": {"b": 1}})), Part::Text, "", GrowthKind::Members, 60);
        assert_eq!(found, text(json!({"a": {"b": 1}, "a-000000": {"b": 1}, "a-000001": {"b": 2}})));
        let same = json!("no object");
        assert_eq!(grown(&same, Part::Text, "", GrowthKind::Members, 60), same);
    }

    /// Each place grows by at most the requested number of bytes and at least half of it: entries are counted as if
    /// each had the longest number.
    #[test]
    fn a_place_grows_by_bytes() {
        let document = json!({"request": {"list": [{"name": "a", "n": 1}], "map": {"k": "v"}, "text": "a\"b", "n": 5, "json": "{\"a\": {\"b\": 1}}"}});
        let before = document.to_string().len();
        for place in crate::cost::place::places(&document) {
            for growth in Growth::all(&document, &place, true) {
                let mut grown = document.clone();
                growth.apply(&mut grown, 1_000);
                let more = grown.to_string().len() - before;
                assert!((500..=1_000).contains(&more), "{growth}: {more} bytes");
            }
        }
    }
}
