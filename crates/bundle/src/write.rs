//! Writes bundles.

use std::collections::BTreeMap;

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::selector::{Op, Selector};
use pillion_sidecarset::hash::{self, DIGESTS, Hashes};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Scope};
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::PREFIX;
use super::anchors::Anchor;
use super::layout::{self, Document, checksum_of};
use super::sections::{self, Tag, stored};

/// The maximum lengths of the dictionary that are tried, in bytes. The best one depends on the sets: a longer
/// dictionary makes the sets shorter, but opening a set requires decompressing the whole dictionary first.
const DICTIONARIES: [usize; 5] = [0, 4 * 1024, 8 * 1024, 16 * 1024, LONGEST];
const LONGEST: usize = 32 * 1024;
/// The number of decompressed bytes of a dictionary that cost a request as much as one byte of the bundle, which a host
/// clones, serializes and passes on (docs/benchmarks.md).
const DICTIONARY_WEIGHT: usize = 2;
/// The most sets for which the bundle contains digests. Digests add 86 characters for each set to every request, a
/// fifth of the bundle. In return, a request need not compute them for the sets that match. Which costs less depends on
/// the ratio of sets to matching sets (docs/design.md).
const DIGESTS_MAX: usize = 128;
/// The most values of a label, or names of namespaces, that are used as anchors of a set.
const VALUES_MAX: usize = 16;

/// Returns the bundle of some sets: the same text for the same sets in any order. The names of the sets must be unique.
pub fn write(sets: &[SidecarSet]) -> String {
    write_rows(&sets.iter().map(Row::new).collect::<Vec<_>>())
}

/// Like [`write()`], for sets of which not all are in memory at the same time.
pub fn write_each(sets: impl Iterator<Item = SidecarSet>) -> String {
    write_rows(&sets.map(|set| Row::new(&set)).collect::<Vec<_>>())
}

/// What a bundle has of a set.
pub(crate) struct Row {
    /// The fields that matching needs.
    head: SidecarSet,
    head_text: String,
    body: String,
    digests: [u8; DIGESTS],
    /// The SHA-256 of body and digests, which only rows of equal sets share.
    pub(crate) key: String,
}

impl Row {
    pub(crate) fn new(set: &SidecarSet) -> Self {
        let set = prepared(set);
        let digests = hash::digests(set.spec(&[]).unwrap_or(&Value::Null));
        let head = SidecarSet::from_decoded(head(&set));
        let body = body(&set, &digests);
        let key = hash::sha256(&[body.as_bytes(), &digests].concat());
        Self { head_text: head.as_value().to_string(), head, body, digests, key }
    }
}

/// Returns the bundle of the sets with these rows, as [`write()`] does.
pub(crate) fn write_rows<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    write_with_dictionary(rows, &DICTIONARIES)
}

/// Returns about the length of the bundle of the sets with these rows, in a fraction of the time that [`write_rows`]
/// takes.
pub(crate) fn length_of_rows<'a>(rows: impl IntoIterator<Item = &'a Row>) -> usize {
    write_with_dictionary(rows, &[LONGEST]).len()
}

/// Returns the bundle of the sets with these rows, with the best of these dictionaries.
fn write_with_dictionary<'a>(rows: impl IntoIterator<Item = &'a Row>, lengths: &[usize]) -> String {
    let mut rows: Vec<&Row> = rows.into_iter().collect();
    rows.sort_by(|one, other| one.head.name().cmp(other.head.name()));
    let documents = lengths.iter().map(|max| Documents::new(&rows, dictionary(&rows, *max)));
    let Some(documents) = documents.min_by_key(Documents::cost) else {
        return String::new();
    };
    let anchors = anchors(rows.iter().map(|row| &row.head));
    let anchors = anchors.into_iter().flat_map(|(hash, set)| [hash.to_le_bytes(), stored(set)]);
    let mut parts = vec![
        (layout::ANCHORS, anchors.flatten().collect()),
        (layout::ROWS, documents.rows.into_iter().flat_map(stored).collect()),
        (layout::DICTIONARY, documents.dictionary),
        (layout::SETS, documents.bytes),
    ];
    if rows.len() <= DIGESTS_MAX {
        parts.push((layout::HASHES, rows.iter().flat_map(|row| layout::hash_row(&row.digests)).collect()));
    }
    text_of(&parts)
}

/// Returns the bundle with these sections.
pub(super) fn text_of(parts: &[(Tag, Vec<u8>)]) -> String {
    let data = sections::write(parts);
    format!("{PREFIX}{}:{data}", checksum_of(data.as_bytes()))
}

/// Heads and bodies, compressed with a dictionary.
struct Documents {
    /// The compressed dictionary.
    dictionary: Vec<u8>,
    dictionary_length: usize,
    rows: Vec<usize>,
    /// The compressed heads and bodies.
    bytes: Vec<u8>,
}

impl Documents {
    fn new(sets: &[&Row], mut dictionary: Vec<u8>) -> Self {
        let compressed_dictionary = layout::dictionary_section(&dictionary);
        let (mut rows, mut bytes) = (Vec::new(), Vec::new());
        for set in sets {
            let document = Document::new(&set.head_text, &set.body, &mut dictionary);
            rows.extend([bytes.len(), document.head.len(), set.head_text.len()]);
            bytes.extend(document.head);
            bytes.extend(document.body);
        }
        rows.extend([bytes.len(), 0, 0]);
        Self { dictionary: compressed_dictionary, dictionary_length: dictionary.len(), rows, bytes }
    }

    /// Returns the cost for a request that opens a set, in bytes of a bundle.
    fn cost(&self) -> usize {
        self.bytes.len() + self.dictionary.len() + self.dictionary_length / DICTIONARY_WEIGHT
    }
}

/// Returns the text of a set: without its hashes if opening it restores them from `digests`, otherwise with them.
fn body(set: &SidecarSet, digests: &[u8; DIGESTS]) -> String {
    let Hashes { hash, without_image } = Hashes::of_digests(digests);
    if set.hash() != hash || set.annotation(names::HASH_WITHOUT_IMAGE) != without_image {
        return set.as_value().to_string();
    }
    let mut bare = set.as_value().clone();
    if let Some(metadata) = bare.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(names::HASH);
        annotations.remove(names::HASH_WITHOUT_IMAGE);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    bare.to_string()
}

/// Returns the fields of a set that matching needs.
fn head(set: &SidecarSet) -> Value {
    let mut metadata = Object::new();
    metadata.insert("name".to_owned(), set.name().into());
    let mut annotations = Object::new();
    for key in [names::CANARY, names::BASE] {
        if !set.annotation(key).is_empty() {
            annotations.insert(key.to_owned(), set.annotation(key).into());
        }
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    let mut spec = Object::new();
    for key in ["selector", "namespaceSelector"] {
        if let Some(selector) = set.spec(&[key]) {
            spec.insert(key.to_owned(), selector.clone());
        }
    }
    if json::flag(set.as_value(), &["spec", "injectionStrategy", "paused"]) {
        spec.insert("injectionStrategy".to_owned(), json::object_of([("paused", Value::Bool(true))]));
    }
    json::object_of([("metadata", metadata.into()), ("spec", spec.into())])
}

/// Returns a dictionary of at most `max` bytes: sets from all parts of the list, which resemble the others.
fn dictionary(rows: &[&Row], max: usize) -> Vec<u8> {
    let mut dictionary: Vec<u8> = Vec::new();
    let total: usize = rows.iter().map(|row| row.body.len()).sum();
    let step = (total / max.max(1)).max(1);
    for (index, Row { head_text, body, .. }) in rows.iter().enumerate() {
        let length = head_text.len() + body.len();
        if index % step == 0 && dictionary.len() + length <= max {
            dictionary.extend(head_text.bytes().chain(body.bytes()));
        }
    }
    dictionary
}

/// Returns the anchors of all sets: for each set, those of the condition whose anchors occur least often.
fn anchors<'a>(sets: impl Iterator<Item = &'a SidecarSet>) -> Vec<(u32, usize)> {
    let compiled: Vec<CompiledSet<'_>> = sets.map(CompiledSet::new).collect();
    let choices: Vec<Vec<Vec<Anchor<'_>>>> = compiled.iter().map(choices).collect();
    let mut uses: BTreeMap<Anchor<'_>, usize> = BTreeMap::new();
    for anchor in choices.iter().flatten().flatten() {
        *uses.entry(*anchor).or_default() += 1;
    }
    let crowd = |condition: &Vec<Anchor<'_>>| -> usize {
        condition.iter().map(|anchor| uses.get(anchor).copied().unwrap_or_default()).sum()
    };
    let mut anchors = Vec::new();
    for (set, choices) in choices.iter().enumerate() {
        match choices.iter().min_by_key(|condition| crowd(condition)) {
            Some(condition) => anchors.extend(condition.iter().map(|anchor| (anchor.hash(), set))),
            None => anchors.push((Anchor::Always.hash(), set)),
        }
    }
    anchors.sort_by(Ord::cmp);
    anchors.dedup();
    anchors
}

/// Returns the conditions of a set. Each is a list of anchors of which a matching Pod has one.
fn choices<'a>(set: &CompiledSet<'a>) -> Vec<Vec<Anchor<'a>>> {
    let mut choices = Vec::new();
    if let Scope::Namespaces(names) = &set.scope
        && names.len() <= VALUES_MAX
    {
        choices.push(names.iter().map(|name| Anchor::Namespace(name)).collect());
    }
    let selector: Option<&Selector<'a>> = set.selector.as_ref().ok();
    for requirement in selector.into_iter().flat_map(Selector::requirements) {
        let values: Vec<&'a str> = requirement.values.iter().collect();
        if requirement.op == Op::In && values.len() <= VALUES_MAX {
            choices.push(values.into_iter().map(|value| Anchor::Label(requirement.key, value)).collect());
        }
    }
    choices
}
