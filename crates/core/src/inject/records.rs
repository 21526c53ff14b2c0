//! What a Pod says about the sidecars in it: the hash annotations and the injected list (M-13, M-28).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::field::Place;
use crate::go_json;
use crate::json::{self, Object};
use crate::names;
use crate::outcome::{Code, Reason};
use crate::time::Timestamp;

/// What a Pod says about one `SidecarSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was injected; absent in the legacy form.
    pub time: Option<Timestamp>,
    /// The hash of the `SidecarSet`.
    pub hash: String,
    /// Its name.
    pub set: String,
    /// The sidecars: native init containers and containers, ascending; absent in the legacy form.
    pub sidecars: Option<Vec<String>>,
    /// The revision; empty where there is none.
    pub revision: String,
}

impl Record {
    /// Whether both say the same, whenever they said it.
    pub fn agrees(&self, other: &Self) -> bool {
        (&self.hash, &self.set, &self.sidecars, &self.revision)
            == (&other.hash, &other.set, &other.sidecars, &other.revision)
    }

    /// The sidecars that the record lists.
    pub fn listed(&self) -> BTreeSet<&str> {
        self.sidecars.iter().flatten().map(String::as_str).collect()
    }

    fn write(&self, out: &mut String) {
        out.push_str("{\"updateTimestamp\":");
        match self.time {
            Some(time) => go_json::write_string(out, &time.to_string()),
            None => out.push_str("null"),
        }
        out.push_str(",\"hash\":");
        go_json::write_string(out, &self.hash);
        out.push_str(",\"sidecarSetName\":");
        go_json::write_string(out, &self.set);
        out.push_str(",\"sidecarList\":");
        match &self.sidecars {
            None => out.push_str("null"),
            Some(sidecars) => {
                out.push('[');
                for (index, sidecar) in sidecars.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    go_json::write_string(out, sidecar);
                }
                out.push(']');
            }
        }
        if !self.revision.is_empty() {
            out.push_str(",\"controllerRevision\":");
            go_json::write_string(out, &self.revision);
        }
        out.push('}');
    }
}

/// One of the two hash annotations: records by the name of the `SidecarSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(BTreeMap<String, Record>);

impl Records {
    /// Reads annotation `key`. The legacy form, a map from name to hash, is understood.
    ///
    /// # Errors
    /// A value that is neither form (M-13).
    pub fn read(annotations: Option<&Object>, key: &str) -> Result<Self, Reason> {
        let text = annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            return Ok(Self::default());
        }
        json::parse(text.as_bytes()).ok().as_ref().and_then(Self::decode).ok_or_else(|| {
            let problem = "cannot be read: it must be a JSON object of records by SidecarSet".to_owned();
            let remedy = "remove the annotation from the Pod or its template; it is written at injection";
            super::reason(None, &Place::new("metadata.annotations").key(key), problem, remedy, Code::Invalid)
        })
    }

    fn decode(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Self::default());
        }
        let object = value.as_object()?;
        Self::decode_by(object, decode_record).or_else(|| Self::decode_by(object, decode_legacy))
    }

    fn decode_by(object: &Object, decode: fn(&str, &Value) -> Option<Record>) -> Option<Self> {
        let mut records = BTreeMap::new();
        for (key, value) in object {
            records.insert(key.clone(), decode(key, value)?);
        }
        Some(Self(records))
    }

    /// The record of a `SidecarSet`.
    pub fn get(&self, set: &str) -> Option<&Record> {
        self.0.get(set)
    }

    /// Puts a record in the place of what is there about the same `SidecarSet`; one that says what was said before
    /// keeps the older time. Whether anything changed.
    pub fn put(&mut self, record: Record) -> bool {
        let is_new = !self.0.get(&record.set).is_some_and(|before| before.time.is_some() && before.agrees(&record));
        if is_new {
            self.0.insert(record.set.clone(), record);
        }
        is_new
    }

    /// The annotation's text: `SidecarSet`s ascending, fields in the order of M-28.
    pub fn to_text(&self) -> String {
        let mut out = String::from("{");
        for (index, (key, record)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            go_json::write_string(&mut out, key);
            out.push(':');
            record.write(&mut out);
        }
        out.push('}');
        out
    }
}

/// A record of the older form: the hash alone.
fn decode_legacy(set: &str, value: &Value) -> Option<Record> {
    let hash = if value.is_null() { "" } else { value.as_str()? };
    Some(Record { hash: hash.to_owned(), set: set.to_owned(), ..Record::default() })
}

fn decode_record(_: &str, value: &Value) -> Option<Record> {
    if value.is_null() {
        return Some(Record::default());
    }
    let object = value.as_object()?;
    // Go's decoder takes keys in any case, an exact one first.
    let member = |key: &str| {
        object
            .get(key)
            .or_else(|| object.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value))
    };
    let text = |key: &str| match member(key) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    let time = match member("updateTimestamp") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => Some(Timestamp::parse(text)?),
        Some(_) => return None,
    };
    let sidecars = match member("sidecarList") {
        None | Some(Value::Null) => None,
        Some(Value::Array(list)) => {
            let mut names = Vec::new();
            for name in list {
                names.push(if name.is_null() { String::new() } else { name.as_str()?.to_owned() });
            }
            Some(names)
        }
        Some(_) => return None,
    };
    Some(Record {
        time,
        hash: text("hash")?,
        set: text("sidecarSetName")?,
        sidecars,
        revision: text("controllerRevision")?,
    })
}

/// The injected list after `sets` were added: ascending, joined by commas.
pub fn injected_list<'a>(annotations: Option<&'a Object>, sets: impl Iterator<Item = &'a str>) -> String {
    let before = annotations
        .and_then(|annotations| annotations.get(names::INJECTED_LIST))
        .and_then(Value::as_str)
        .filter(|list| !list.is_empty());
    let mut names = BTreeSet::new();
    for name in before.into_iter().flat_map(|list| list.split(',')) {
        names.insert(name);
    }
    for set in sets {
        names.insert(set);
    }
    Vec::from_iter(names).join(",")
}

/// Which half of each hot-upgrade pair works. A value that is no JSON object counts as empty (M-13).
pub fn working_hot_upgrade(annotations: Option<&Object>) -> BTreeMap<String, String> {
    let text = annotations.and_then(|annotations| annotations.get(names::WORKING_HOT_UPGRADE)).and_then(Value::as_str);
    let value: Option<Value> = text.and_then(|text| json::parse(text.as_bytes()).ok());
    let mut halves = BTreeMap::new();
    for (name, half) in value.as_ref().and_then(Value::as_object).into_iter().flatten() {
        halves.insert(name.clone(), half.as_str().unwrap_or_default().to_owned());
    }
    halves
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn annotations(key: &str, value: &str) -> Object {
        json!({ key: value }).as_object().unwrap().clone()
    }

    fn read(text: &str) -> Result<Records, Reason> {
        Records::read(Some(&annotations(names::HASH, text)), names::HASH)
    }

    fn record() -> Record {
        Record {
            time: Some(Timestamp(1_767_323_045)),
            hash: "h".to_owned(),
            set: "s1".to_owned(),
            sidecars: Some(vec!["a".to_owned(), "b".to_owned()]),
            revision: "s1-r".to_owned(),
        }
    }

    #[test]
    fn m28_records_are_written_in_declared_order() {
        let mut records = Records::default();
        records.put(record());
        records.put(Record { set: "s0".to_owned(), sidecars: Some(vec![]), revision: String::new(), ..record() });
        let text = records.to_text();
        assert_eq!(
            text,
            r#"{"s0":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"h","sidecarSetName":"s0","sidecarList":[]},"s1":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"h","sidecarSetName":"s1","sidecarList":["a","b"],"controllerRevision":"s1-r"}}"#
        );
        assert_eq!(read(&text).unwrap(), records);
    }

    #[rstest]
    #[case::empty("", "{}")]
    #[case::null("null", "{}")]
    #[case::legacy(
        r#"{"s":"h"}"#,
        r#"{"s":{"updateTimestamp":null,"hash":"h","sidecarSetName":"s","sidecarList":null}}"#
    )]
    #[case::null_record(
        r#"{"s":null}"#,
        r#"{"s":{"updateTimestamp":null,"hash":"","sidecarSetName":"","sidecarList":null}}"#
    )]
    #[case::keys_in_any_case(
        r#"{"s":{"Hash":"h","SIDECARLIST":["a"]}}"#,
        r#"{"s":{"updateTimestamp":null,"hash":"h","sidecarSetName":"","sidecarList":["a"]}}"#
    )]
    #[case::offset_time(
        r#"{"s":{"updateTimestamp":"2026-01-02T03:04:05+01:00","hash":"<h>"}}"#,
        r#"{"s":{"updateTimestamp":"2026-01-02T02:04:05Z","hash":"\u003ch\u003e","sidecarSetName":"","sidecarList":null}}"#
    )]
    fn m13_every_form_is_read(#[case] text: &str, #[case] written: &str) {
        assert_eq!(read(text).unwrap().to_text(), written);
    }

    #[rstest]
    #[case("not json")]
    #[case("[]")]
    #[case("5")]
    #[case(r#"{"s":5}"#)]
    #[case(r#"{"s":"h","t":{}}"#)]
    #[case(r#"{"s":{"hash":5}}"#)]
    #[case(r#"{"s":{"updateTimestamp":"yesterday"}}"#)]
    fn m13_anything_else_is_refused(#[case] text: &str) {
        let reason = read(text).unwrap_err();
        assert_eq!(reason.code, Code::Invalid);
        assert_eq!(reason.field.as_str(), "metadata.annotations[kruise.io/sidecarset-hash]");
    }

    #[test]
    fn a_record_that_says_the_same_keeps_its_time() {
        let mut records = Records::default();
        records.put(record());
        let before = records.clone();
        records.put(Record { time: Some(Timestamp(2_000_000_000)), ..record() });
        assert_eq!(records, before);
        records.put(Record { time: Some(Timestamp(2_000_000_000)), hash: "other".to_owned(), ..record() });
        assert_ne!(records, before);
    }

    #[test]
    fn m28_injected_list_joins_what_was_there() {
        let before = annotations(names::INJECTED_LIST, "z,a");
        assert_eq!(injected_list(Some(&before), ["m", "a"].into_iter()), "a,m,z");
        assert_eq!(injected_list(None, ["b", "a"].into_iter()), "a,b");
    }

    #[rstest]
    #[case(r#"{"a":"a-1"}"#, &[("a", "a-1")])]
    #[case(r#"{"a":1}"#, &[("a", "")])]
    #[case("[]", &[])]
    #[case("broken", &[])]
    fn m13_working_map_is_read_leniently(#[case] text: &str, #[case] expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(name, half)| ((*name).to_owned(), (*half).to_owned())).collect();
        assert_eq!(working_hot_upgrade(Some(&annotations(names::WORKING_HOT_UPGRADE, text))), expected);
    }
}
