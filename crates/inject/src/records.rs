//! The records of a Pod about its sidecars: the hash annotations and the injected list (INJ-13, INJ-28).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::nullable;
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::names;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The record of a Pod about one `SidecarSet`. The fields are in the order of INJ-28.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct Record {
    /// The time of injection; absent in the legacy form.
    #[serde(rename = "updateTimestamp", with = "timestamp")]
    pub time: Option<Timestamp>,
    /// The hash of the `SidecarSet`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub hash: String,
    /// The name of the `SidecarSet`.
    #[serde(rename = "sidecarSetName", deserialize_with = "nullable::or_default")]
    pub set: String,
    /// The sidecars: native init containers and containers, ascending; absent in the legacy form.
    #[serde(rename = "sidecarList", deserialize_with = "sidecar_list")]
    pub sidecars: Option<Vec<String>>,
    /// The revision; empty if there is none.
    #[serde(
        rename = "controllerRevision",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "nullable::or_default"
    )]
    pub revision: String,
}

/// The keys of a record.
const KEYS: [&str; 5] = ["updateTimestamp", "hash", "sidecarSetName", "sidecarList", "controllerRevision"];

impl Record {
    /// Whether both records are equal, apart from the time.
    pub fn agrees(&self, other: &Self) -> bool {
        (&self.hash, &self.set, &self.sidecars, &self.revision)
            == (&other.hash, &other.set, &other.sidecars, &other.revision)
    }

    /// Returns the sidecars that the record lists.
    pub fn listed(&self) -> BTreeSet<&str> {
        self.sidecars.iter().flatten().map(String::as_str).collect()
    }

    /// Reads a record. As in Go's decoder, keys match in any case, and an exact match takes precedence.
    fn read(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Self::default());
        }
        let object = value.as_object()?;
        let member = |key: &str| {
            object.get(key).or_else(|| Some(object.iter().find(|(name, _)| name.eq_ignore_ascii_case(key))?.1))
        };
        let members = KEYS.into_iter().filter_map(|key| Some((key, member(key)?)));
        Self::deserialize(MapDeserializer::<_, serde_json::Error>::new(members)).ok()
    }

    /// Reads a record of the legacy form, which contains only the hash.
    fn read_legacy(set: &str, value: &Value) -> Option<Self> {
        let hash = if value.is_null() { "" } else { value.as_str()? };
        Some(Self { hash: hash.to_owned(), set: set.to_owned(), ..Self::default() })
    }
}

/// Converts times from and to text; null and `""` mean no time.
mod timestamp {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use pillion_kubernetes::time::Timestamp;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        text.filter(|text| !text.is_empty())
            .map(|text| Timestamp::parse(&text).ok_or_else(|| D::Error::custom("must be a time of RFC 3339")))
            .transpose()
    }

    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(time),
            None => serializer.serialize_none(),
        }
    }
}

/// Reads the sidecars of a record. A null item counts as `""`.
fn sidecar_list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let names: Option<Vec<Option<String>>> = Option::deserialize(deserializer)?;
    Ok(names.map(|names| names.into_iter().map(Option::unwrap_or_default).collect()))
}

/// The most entries in an annotation with records. A Pod gets at most 250 SidecarSets, and each pair of containers needs
/// one entry; reading an entry takes thousands of instructions (E18).
const ENTRIES_MAX: usize = 1_000;

/// Returns a reason if the JSON in annotation `key` has more entries than injection reads.
fn too_many(key: &str, value: &Value) -> Option<Reason> {
    let entries = value.as_object().map_or(0, Object::len);
    let problem = format!("has {entries} entries; at most {ENTRIES_MAX} are read");
    (entries > ENTRIES_MAX).then(|| unreadable(key, problem))
}

fn unreadable(key: &str, problem: String) -> Reason {
    let remedy = "remove the annotation from the Pod or its template; it is written at injection";
    Reason::new(Code::Invalid, FieldPath::new("metadata.annotations").key(key), problem, remedy)
}

/// The value of one of the two hash annotations: records by the name of the `SidecarSet`, ascending. Most Pods have one or
/// two, and rollouts keep those of every Pod: a list takes a tenth of the memory of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Records(Vec<(String, Record)>);

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(set, record)| (set, record)))
    }
}

impl Records {
    /// Reads annotation `key`. Also accepts the legacy form, a map from name to hash.
    ///
    /// # Errors
    /// The value has neither form (INJ-13), or more than [`ENTRIES_MAX`] records.
    pub fn read(annotations: Option<&Object>, key: &str) -> Result<Self, Reason> {
        let text = annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let cannot_be_read =
            || unreadable(key, "cannot be read: it must be a JSON object of records by SidecarSet".to_owned());
        let value: Value = json::parse(text.as_bytes()).map_err(|_| cannot_be_read())?;
        match too_many(key, &value) {
            Some(reason) => Err(reason),
            None => Self::decode(&value).ok_or_else(cannot_be_read),
        }
    }

    /// Reads the value of an annotation, in either form; `None` if it has neither. An empty value is no record.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        json::parse(text.as_bytes()).ok().as_ref().and_then(Self::decode)
    }

    fn decode(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Self::default());
        }
        let object = value.as_object()?;
        let read_by = |read: fn(&str, &Value) -> Option<Record>| {
            let records = object.iter().map(|(key, value)| Some((key.clone(), read(key, value)?)));
            let records = records.collect::<Option<BTreeMap<_, _>>>()?;
            Some(Self(records.into_iter().collect()))
        };
        read_by(|_, value| Record::read(value)).or_else(|| read_by(Record::read_legacy))
    }

    /// Returns the record of a `SidecarSet`.
    pub fn get(&self, set: &str) -> Option<&Record> {
        let position = self.position(set).ok()?;
        self.0.get(position).map(|(_, record)| record)
    }

    /// Returns where the record of a `SidecarSet` is, or where it would be.
    fn position(&self, set: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(set))
    }

    /// Replaces the record of the same `SidecarSet`, unless the two differ only in time: then the older time stays.
    /// Returns whether anything changed.
    pub fn put(&mut self, record: Record) -> bool {
        let is_new = !self.get(&record.set).is_some_and(|before| before.time.is_some() && before.agrees(&record));
        if is_new {
            self.replace(record);
        }
        is_new
    }

    /// Replaces the record of the same `SidecarSet`.
    pub fn replace(&mut self, record: Record) {
        match self.position(&record.set) {
            Ok(position) => {
                if let Some((_, known)) = self.0.get_mut(position) {
                    *known = record;
                }
            }
            Err(position) => self.0.insert(position, (record.set.clone(), record)),
        }
    }

    /// Whether the records have the legacy form: there are some, and none says more than a hash.
    pub fn is_legacy(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(_, record)| record.time.is_none() && record.sidecars.is_none())
    }

    /// Gives this time to records that have none.
    pub fn complete(&mut self, time: Timestamp) {
        for (_, record) in &mut self.0 {
            record.time.get_or_insert(time);
        }
    }

    /// Returns the annotation's text: `SidecarSet`s ascending, fields in the order of INJ-28, with the escapes of Go
    /// (HASH-6).
    pub fn to_text(&self) -> String {
        // Serializing texts and maps of texts cannot fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        // These characters only occur in strings.
        let escaped = |character: char| matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        if !text.contains(escaped) {
            return text;
        }
        text.chars().fold(String::with_capacity(text.len()), |mut out, character| {
            if escaped(character) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            } else {
                out.push(character);
            }
            out
        })
    }
}

/// Returns the injected list with `sets` added: ascending, joined by commas.
pub(crate) fn injected_list<'a>(annotations: Option<&'a Object>, sets: impl Iterator<Item = &'a str>) -> String {
    let before = annotations
        .and_then(|annotations| annotations.get(names::INJECTED_LIST))
        .and_then(Value::as_str)
        .filter(|list| !list.is_empty());
    let names: BTreeSet<_> = before.into_iter().flat_map(|list| list.split(',')).chain(sets).collect();
    Vec::from_iter(names).join(",")
}

/// Returns the active container of each hot-upgrade pair. A value that is not a JSON object counts as empty (INJ-13).
///
/// # Errors
/// The value has more than [`ENTRIES_MAX`] pairs.
pub(crate) fn working_hot_upgrade(annotations: Option<&Object>) -> Result<BTreeMap<String, String>, Reason> {
    let key = names::WORKING_HOT_UPGRADE;
    let text = annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str);
    let value: Value = text.and_then(|text| json::parse(text.as_bytes()).ok()).unwrap_or_default();
    if let Some(reason) = too_many(key, &value) {
        return Err(reason);
    }
    let halves = value.as_object().into_iter().flatten();
    Ok(halves.map(|(name, half)| (name.clone(), half.as_str().unwrap_or_default().to_owned())).collect())
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
    fn inj28_records_are_written_in_declared_order() {
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
    #[case::nulls(
        r#"{"s":{"updateTimestamp":null,"hash":null,"sidecarList":[null,"a"],"controllerRevision":null,"more":1}}"#,
        r#"{"s":{"updateTimestamp":null,"hash":"","sidecarSetName":"","sidecarList":["","a"]}}"#
    )]
    #[case::an_exact_key_comes_first(
        r#"{"s":{"HASH":"other","hash":"h","sidecarSetName":"s"}}"#,
        r#"{"s":{"updateTimestamp":null,"hash":"h","sidecarSetName":"s","sidecarList":null}}"#
    )]
    #[case::escapes(
        r#"{"<>&":{"hash":"\u2028\u2029\u0001\u0008\n\"é"}}"#,
        r#"{"\u003c\u003e\u0026":{"updateTimestamp":null,"hash":"\u2028\u2029\u0001\b\n\"é","sidecarSetName":"","sidecarList":null}}"#
    )]
    fn inj13_every_form_is_read(#[case] text: &str, #[case] written: &str) {
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
    #[case(r#"{"s":{"updateTimestamp":5}}"#)]
    #[case(r#"{"s":{"sidecarList":["a",5]}}"#)]
    #[case(r#"{"s":["2026-01-02T03:04:05Z","h","s",[],""]}"#)]
    fn inj13_anything_else_is_refused(#[case] text: &str) {
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
    fn inj28_injected_list_joins_what_was_there() {
        let before = annotations(names::INJECTED_LIST, "z,a");
        assert_eq!(injected_list(Some(&before), ["m", "a"].into_iter()), "a,m,z");
        assert_eq!(injected_list(None, ["b", "a"].into_iter()), "a,b");
    }

    #[rstest]
    #[case(r#"{"a":"a-1"}"#, &[("a", "a-1")])]
    #[case(r#"{"a":1}"#, &[("a", "")])]
    #[case("[]", &[])]
    #[case("broken", &[])]
    fn inj13_working_map_is_read_leniently(#[case] text: &str, #[case] expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(name, half)| ((*name).to_owned(), (*half).to_owned())).collect();
        assert_eq!(working_hot_upgrade(Some(&annotations(names::WORKING_HOT_UPGRADE, text))), Ok(expected));
    }

    #[rstest]
    #[case::as_many_as_allowed(ENTRIES_MAX, true)]
    #[case::one_more(ENTRIES_MAX + 1, false)]
    fn e18_an_annotation_has_a_limited_number_of_entries(#[case] entries: usize, #[case] is_read: bool) {
        let text = |value: Value| {
            let entries = (0..entries).map(|entry| (entry.to_string(), value.clone()));
            Value::Object(entries.collect()).to_string()
        };
        assert_eq!(read(&text(json!({}))).is_ok(), is_read);
        assert_eq!(read(&text(json!("hash"))).is_ok(), is_read);
        let working = working_hot_upgrade(Some(&annotations(names::WORKING_HOT_UPGRADE, &text(json!("a")))));
        let told = working.map_err(|reason| reason.to_string());
        let problem = "metadata.annotations[kruise.io/sidecarset-working-hotupgrade-container]: has 1001 entries; at \
                       most 1000 are read; remove the annotation from the Pod or its template; it is written at \
                       injection";
        assert_eq!(told.is_ok(), is_read);
        assert!(told.is_ok() || told == Err(problem.to_owned()), "{told:?}");
    }
}
