//! Changes of JSON documents that keep them JSON.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::pool::{Pool, Spot};

/// The most bytes that a list or a text is repeated to.
const REPEATED_MAX: usize = 1 << 18;

/// A change at some place of a document.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    place: Spot,
    how: How,
}

/// The change that is made at a place.
#[derive(Clone, Copy, Debug)]
enum How {
    /// The value becomes an extreme one.
    Extreme(Spot),
    /// The value becomes one that stands elsewhere under the same key.
    Like(Spot),
    /// The value becomes any other one of the corpus.
    Other(Spot),
    /// The value becomes the same in another type.
    Retype(Spot),
    /// The value goes.
    Delete,
    /// The entry of a list, or the text, comes so many times more; a member comes once more under another key.
    Repeat(usize, Spot),
    /// The value and another one of the document change places.
    Swap(Spot),
    /// The member has a key of the vocabulary.
    Rename(Spot),
    /// The object gets a member that such objects have elsewhere; a list gets an entry.
    Insert(Spot, Spot),
    /// The object or the list gets a member with any key and a value of the corpus.
    Foreign(Spot, Spot),
    /// The text, or the number's literal, has a part of another one.
    Cross(Spot, Spot),
}

/// Up to `most` changes. Mostly they are few: of many, one is refused at once, and the others are not looked at.
pub fn changes(most: usize) -> impl Strategy<Value = Vec<Change>> {
    prop_oneof![4 => vec(change(), 1), 3 => vec(change(), 2..=3), 1 => vec(change(), 1..=most)]
}

/// A change of any kind.
fn change() -> impl Strategy<Value = Change> {
    let spot = Spot::any;
    let how = prop_oneof![
        4 => spot().prop_map(How::Extreme),
        10 => spot().prop_map(How::Like),
        1 => spot().prop_map(How::Other),
        2 => spot().prop_map(How::Retype),
        3 => Just(How::Delete),
        1 => (1..3_000_usize, spot()).prop_map(|(times, key)| How::Repeat(times, key)),
        2 => (1..3_usize, spot()).prop_map(|(times, key)| How::Repeat(times, key)),
        2 => spot().prop_map(How::Swap),
        2 => spot().prop_map(How::Rename),
        6 => (spot(), spot()).prop_map(|(key, value)| How::Insert(key, value)),
        1 => (spot(), spot()).prop_map(|(key, value)| How::Foreign(key, value)),
        2 => (spot(), spot()).prop_map(|(value, cut)| How::Cross(value, cut)),
    ];
    (Spot::any(), how).prop_map(|(place, how)| Change { place, how })
}

impl Change {
    /// Changes a document. Its outermost value stays an object with the same keys.
    pub fn apply(self, document: &mut Value, pool: &Pool) {
        let pointers = pointers(document);
        let Some(pointer) = self.place.of(&pointers) else { return };
        let key = key_of(pointer);
        match self.how {
            How::Extreme(which) => set(document, pointer, which.of(&pool.extremes)),
            How::Like(which) => set(document, pointer, which.of(pool.like(&key))),
            How::Other(which) => set(document, pointer, which.of(&pool.values)),
            How::Retype(which) => update(document, pointer, |value| retyped(value, which)),
            How::Delete => delete(document, pointer),
            How::Repeat(times, key) => repeat(document, pointer, times, key.of(&pool.keys)),
            How::Swap(other) => {
                if let Some(other) = other.of(&pointers) {
                    swap(document, pointer, other);
                }
            }
            How::Rename(key) => rename(document, pointer, key.of(&pool.keys)),
            How::Insert(field, value) => {
                let field = field.of(pool.fields(&key));
                update(document, pointer, |container| insert(container, field.unwrap_or(&key), value, pool));
            }
            How::Foreign(field, value) => {
                let field = field.of(&pool.keys);
                update(document, pointer, |container| insert(container, field.unwrap_or(&key), value, pool));
            }
            How::Cross(value, cut) => update(document, pointer, |text| cross(text, value.of(pool.like(&key)), cut)),
        }
    }
}

/// JSON pointers (RFC 6901) to every value but the outermost one.
pub fn pointers(document: &Value) -> Vec<String> {
    fn walk(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
        let mut add = |token: &str, value: &Value| {
            let pointer = [pointer, "/", token].concat();
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

/// The key under which a value stands; for an entry of a list, the key of the list.
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

/// The object or list that holds the value at `pointer`, and the value's key or index in it. `None` for a member of the
/// document itself: those are the harness's own.
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
        // If the other one was a part of the first, it is not there any more.
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
    let Some(value) = value.of(pool.like(key)).cloned() else { return };
    match container {
        Value::Object(members) => drop(members.insert(key.to_owned(), value)),
        Value::Array(items) => items.push(value),
        other => *other = Map::from_iter([(key.to_owned(), value)]).into(),
    }
}

/// The same in another type: a number as a text, a value in a list, the entries of a list alone.
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
                0 => which.of(&items).cloned().unwrap_or_default(),
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

/// The beginning of a text and the end of another one; of numbers the literals.
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

    fn changed(pointer: &str, how: How) -> Value {
        let mut document = json!({"request": {"a": "x", "b/c": [1, 2]}});
        let pool = Pool::new(&[document.clone(), json!({"request": {"a": "y"}})]);
        let pointers = pointers(&document);
        let index = pointers.iter().position(|other| other == pointer).unwrap();
        let share = u32::try_from(((index as u64) << 32).div_ceil(pointers.len() as u64)).unwrap();
        Change { place: Spot(share), how }.apply(&mut document, &pool);
        document["request"].take()
    }

    #[test]
    fn each_change_does_what_it_says() {
        assert_eq!(changed("/request/a", How::Like(Spot(u32::MAX))), json!({"a": "y", "b/c": [1, 2]}));
        assert_eq!(changed("/request/a", How::Delete), json!({"b/c": [1, 2]}));
        assert_eq!(changed("/request/a", How::Repeat(2, FIRST)), json!({"a": "xxx", "b/c": [1, 2]}));
        assert_eq!(changed("/request/a", How::Cross(Spot(u32::MAX), FIRST)), json!({"a": "y", "b/c": [1, 2]}));
        assert_eq!(changed("/request/b~1c", How::Rename(FIRST)), json!({"a": [1, 2]}));
        assert_eq!(changed("/request/b~1c/1", How::Delete), json!({"a": "x", "b/c": [1]}));
        assert_eq!(changed("/request/b~1c/0", How::Repeat(2, FIRST)), json!({"a": "x", "b/c": [1, 2, 1, 1]}));
        assert_eq!(changed("/request/b~1c/0", How::Retype(FIRST)), json!({"a": "x", "b/c": ["1", 2]}));
        assert_eq!(changed("/request/b~1c", How::Insert(FIRST, FIRST)), json!({"a": "x", "b/c": [1, 2, 1]}));
        assert_eq!(changed("/request/b~1c", How::Foreign(FIRST, FIRST)), json!({"a": "x", "b/c": [1, 2, "x"]}));
        assert_eq!(changed("/request", How::Insert(FIRST, Spot(u32::MAX))), json!({"a": "y", "b/c": [1, 2]}));
        assert_eq!(changed("/request", How::Delete), json!({"a": "x", "b/c": [1, 2]}));
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
