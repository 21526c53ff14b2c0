//! Changes of JSON documents that keep them JSON.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::pool::{Pool, Spot};

/// The maximum length of a repeated list or text, in bytes.
const REPEATED_MAX: usize = 1 << 18;

/// A change at one place of a document.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    place: Spot,
    kind: ChangeKind,
}

/// The change of a place.
#[derive(Clone, Copy, Debug)]
enum ChangeKind {
    /// Replace the value by an extreme one.
    Extreme(Spot),
    /// Replace the value by one that occurs elsewhere under the same key.
    Like(Spot),
    /// Replace the value by any value of the corpus.
    Other(Spot),
    /// Convert the value to another type.
    Retype(Spot),
    /// Remove the value.
    Delete,
    /// Repeat the entry of a list, or the text, this many more times; copy a member under another key.
    Repeat(usize, Spot),
    /// Swap the value with another one of the document.
    Swap(Spot),
    /// Rename the member to a key of the vocabulary.
    Rename(Spot),
    /// Add a member to the object that such objects have elsewhere, or an entry to the list.
    Insert(Spot, Spot),
    /// Add a member with any key and a matching value of the corpus to the object, or an entry to the list.
    Foreign(Spot, Spot),
    /// Join the beginning of the text, or of the number's literal, with the end of another one.
    Cross(Spot, Spot),
}

/// Generates up to `most` changes, mostly few: after many changes, the module tends to refuse at the first one and to
/// ignore the others.
pub fn changes(most: usize) -> impl Strategy<Value = Vec<Change>> {
    prop_oneof![4 => vec(change(), 1), 3 => vec(change(), 2..=3), 1 => vec(change(), 1..=most)]
}

/// Generates a change of any kind.
fn change() -> impl Strategy<Value = Change> {
    let spot = Spot::any;
    let kind = prop_oneof![
        4 => spot().prop_map(ChangeKind::Extreme),
        10 => spot().prop_map(ChangeKind::Like),
        1 => spot().prop_map(ChangeKind::Other),
        2 => spot().prop_map(ChangeKind::Retype),
        3 => Just(ChangeKind::Delete),
        1 => (1..3_000_usize, spot()).prop_map(|(times, key)| ChangeKind::Repeat(times, key)),
        2 => (1..3_usize, spot()).prop_map(|(times, key)| ChangeKind::Repeat(times, key)),
        2 => spot().prop_map(ChangeKind::Swap),
        2 => spot().prop_map(ChangeKind::Rename),
        6 => (spot(), spot()).prop_map(|(key, value)| ChangeKind::Insert(key, value)),
        1 => (spot(), spot()).prop_map(|(key, value)| ChangeKind::Foreign(key, value)),
        2 => (spot(), spot()).prop_map(|(value, cut)| ChangeKind::Cross(value, cut)),
    ];
    (Spot::any(), kind).prop_map(|(place, kind)| Change { place, kind })
}

impl Change {
    /// Changes a document. Its outermost value remains an object with the same keys.
    pub fn apply(self, document: &mut Value, pool: &Pool) {
        let pointers = pointers(document);
        let Some(pointer) = self.place.pick(&pointers) else { return };
        let key = key_of(pointer);
        match self.kind {
            ChangeKind::Extreme(which) => set(document, pointer, which.pick(&pool.extremes)),
            ChangeKind::Like(which) => set(document, pointer, which.pick(pool.like(&key))),
            ChangeKind::Other(which) => set(document, pointer, which.pick(&pool.values)),
            ChangeKind::Retype(which) => update(document, pointer, |value| retyped(value, which)),
            ChangeKind::Delete => delete(document, pointer),
            ChangeKind::Repeat(times, key) => repeat(document, pointer, times, key.pick(&pool.keys)),
            ChangeKind::Swap(other) => {
                if let Some(other) = other.pick(&pointers) {
                    swap(document, pointer, other);
                }
            }
            ChangeKind::Rename(key) => rename(document, pointer, key.pick(&pool.keys)),
            ChangeKind::Insert(field, value) => {
                let field = field.pick(pool.fields(&key));
                update(document, pointer, |container| insert(container, field.unwrap_or(&key), value, pool));
            }
            ChangeKind::Foreign(field, value) => {
                let field = field.pick(&pool.keys);
                update(document, pointer, |container| insert(container, field.unwrap_or(&key), value, pool));
            }
            ChangeKind::Cross(value, cut) => {
                update(document, pointer, |text| cross(text, value.pick(pool.like(&key)), cut));
            }
        }
    }
}

/// Returns JSON pointers (RFC 6901) to all values except the outermost one.
pub fn pointers(document: &Value) -> Vec<String> {
    fn walk(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
        let mut add = |token: &str, value: &Value| {
            let pointer = format!("{pointer}/{token}");
            walk(value, &pointer, pointers);
            pointers.push(pointer);
        };
        match value {
            Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| add(&index.to_string(), item)),
            Value::Object(members) => {
                members.iter().for_each(|(key, member)| add(&key.replace('~', "~0").replace('/', "~1"), member));
            }
            _ => {}
        }
    }
    let mut pointers = Vec::new();
    walk(document, "", &mut pointers);
    pointers
}

/// Returns the key of a value. An entry of a list has the key of the list.
fn key_of(pointer: &str) -> String {
    let token = pointer.rsplit('/').find(|token| token.parse::<usize>().is_err()).unwrap_or_default();
    unescaped(token)
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn update(document: &mut Value, pointer: &str, change: impl FnOnce(&mut Value)) {
    if let Some(value) = document.pointer_mut(pointer) {
        change(value);
    }
}

fn set(document: &mut Value, pointer: &str, value: Option<&Value>) {
    if let Some(value) = value {
        update(document, pointer, |old| *old = value.clone());
    }
}

/// Returns the object or list that contains the value at `pointer`, and the value's key or index in it. `None` for
/// members of the document itself, which belong to the harness.
fn container<'a>(document: &'a mut Value, pointer: &str) -> Option<(&'a mut Value, String)> {
    let (outer, token) = pointer.rsplit_once('/').filter(|(outer, _)| !outer.is_empty())?;
    Some((document.pointer_mut(outer)?, unescaped(token)))
}

fn delete(document: &mut Value, pointer: &str) {
    match container(document, pointer) {
        Some((Value::Object(members), key)) => drop(members.remove(&key)),
        Some((Value::Array(items), index)) => {
            if let Some(index) = index.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

fn repeat(document: &mut Value, pointer: &str, times: usize, key: Option<&String>) {
    let Some(value) = document.pointer(pointer).cloned() else { return };
    let times = times.min(REPEATED_MAX / value.to_string().len().max(1));
    if let Value::String(text) = value {
        return set(document, pointer, Some(&text.repeat(times + 1).into()));
    }
    match (container(document, pointer), key) {
        (Some((Value::Array(items), _)), _) => items.extend(std::iter::repeat_n(value, times)),
        (Some((Value::Object(members), _)), Some(key)) => drop(members.insert(key.clone(), value)),
        _ => {}
    }
}

fn swap(document: &mut Value, one: &str, other: &str) {
    let values = (document.pointer(one).cloned(), document.pointer(other).cloned());
    if let (Some(first), Some(second)) = values {
        set(document, one, Some(&second));
        // If the second value was a part of the first, it no longer exists.
        set(document, other, Some(&first));
    }
}

fn rename(document: &mut Value, pointer: &str, key: Option<&String>) {
    if let (Some((Value::Object(members), old)), Some(key)) = (container(document, pointer), key)
        && let Some(value) = members.remove(&old)
    {
        members.insert(key.clone(), value);
    }
}

fn insert(container: &mut Value, key: &str, value: Spot, pool: &Pool) {
    let Some(value) = value.pick(pool.like(key)).cloned() else { return };
    match container {
        Value::Object(members) => drop(members.insert(key.to_owned(), value)),
        Value::Array(items) => items.push(value),
        other => *other = Map::from_iter([(key.to_owned(), value)]).into(),
    }
}

/// Converts a value to another type: a number to a text, a value to a list, a list to one of its entries, and so on.
fn retyped(value: &mut Value, which: Spot) {
    let old = value.take();
    *value = match old {
        Value::Null => [Value::Bool(false), "".into(), 0.into()].get(which.index(3)).cloned().unwrap_or_default(),
        Value::Bool(flag) => {
            [flag.to_string().into(), i32::from(flag).into()].get(which.index(2)).cloned().unwrap_or_default()
        }
        Value::Number(number) => number.to_string().into(),
        Value::String(text) => serde_json::from_str(&text).unwrap_or_else(|_| vec![text].into()),
        Value::Array(items) => {
            let keyed = items.iter().enumerate().map(|(index, item)| (index.to_string(), item.clone()));
            match which.index(2) {
                0 => which.pick(&items).cloned().unwrap_or_default(),
                _ => keyed.collect::<Map<_, _>>().into(),
            }
        }
        Value::Object(members) => match which.index(3) {
            0 => Value::Object(members).to_string().into(),
            1 => members.into_iter().map(|(_, member)| member).collect(),
            _ => vec![Value::Object(members)].into(),
        },
    };
}

/// Joins the beginning of a text with the end of another one. Numbers count as their literals.
fn cross(value: &mut Value, other: Option<&Value>, cut: Spot) {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let Some((one, other)) = text(value).zip(other.and_then(text)) else { return };
    let head: String = one.chars().take(cut.index(one.chars().count() + 1)).collect();
    let tail: String = other.chars().skip(cut.index(other.chars().count() + 1)).collect();
    let joined = head + &tail;
    *value = match value {
        Value::Number(_) => serde_json::from_str(&joined).unwrap_or_else(|_| joined.into()),
        _ => joined.into(),
    };
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    use serde_json::json;

    use super::*;

    const FIRST: Spot = Spot(0);

    fn changed(pointer: &str, kind: ChangeKind) -> Value {
        let mut document = json!({"request": {"a": "x", "b/c": [1, 2]}});
        let pool = Pool::new(&[document.clone(), json!({"request": {"a": "y"}})]);
        let pointers = pointers(&document);
        let index = pointers.iter().position(|other| other == pointer).unwrap();
        let share = u32::try_from(((index as u64) << 32).div_ceil(pointers.len() as u64)).unwrap();
        Change { place: Spot(share), kind }.apply(&mut document, &pool);
        document["request"].take()
    }

    #[test]
    fn each_change_does_what_it_says() {
        assert_eq!(changed("/request/a", ChangeKind::Like(Spot(u32::MAX))), json!({"a": "y", "b/c": [1, 2]}));
        assert_eq!(changed("/request/a", ChangeKind::Delete), json!({"b/c": [1, 2]}));
        assert_eq!(changed("/request/a", ChangeKind::Repeat(2, FIRST)), json!({"a": "xxx", "b/c": [1, 2]}));
        assert_eq!(changed("/request/a", ChangeKind::Cross(Spot(u32::MAX), FIRST)), json!({"a": "y", "b/c": [1, 2]}));
        assert_eq!(changed("/request/b~1c", ChangeKind::Rename(FIRST)), json!({"a": [1, 2]}));
        assert_eq!(changed("/request/b~1c/1", ChangeKind::Delete), json!({"a": "x", "b/c": [1]}));
        assert_eq!(changed("/request/b~1c/0", ChangeKind::Repeat(2, FIRST)), json!({"a": "x", "b/c": [1, 2, 1, 1]}));
        assert_eq!(changed("/request/b~1c/0", ChangeKind::Retype(FIRST)), json!({"a": "x", "b/c": ["1", 2]}));
        assert_eq!(changed("/request/b~1c", ChangeKind::Insert(FIRST, FIRST)), json!({"a": "x", "b/c": [1, 2, 1]}));
        assert_eq!(changed("/request/b~1c", ChangeKind::Foreign(FIRST, FIRST)), json!({"a": "x", "b/c": [1, 2, "x"]}));
        assert_eq!(changed("/request", ChangeKind::Insert(FIRST, Spot(u32::MAX))), json!({"a": "y", "b/c": [1, 2]}));
        assert_eq!(changed("/request", ChangeKind::Delete), json!({"a": "x", "b/c": [1, 2]}));
    }

    #[test]
    fn changes_keep_the_outermost_keys() {
        let start = json!({"request": {"a": ["x", {"b": 1}]}, "settings": {"c": null}});
        let pool = Pool::new([&start]);
        let mut runner = TestRunner::deterministic();
        let strategy = changes(8);
        for _ in 0..500 {
            let mut document = start.clone();
            let changes = strategy.new_tree(&mut runner).unwrap().current();
            for change in &changes {
                change.apply(&mut document, &pool);
            }
            let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["request", "settings"]);
        }
    }
}
