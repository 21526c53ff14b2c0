//! patchPodMetadata: annotations that `SidecarSet`s add to a Pod (INJ-10 to INJ-12).

use std::collections::{BTreeMap, BTreeSet};

use pillion_json::go as go_json;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::origin::Origin;
use serde_json::Value;

use super::merge_patch::{self, MergeError};

/// How a patch treats an existing value of the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Keeps the existing value.
    Retain,
    /// Replaces the existing value.
    Overwrite,
    /// Merges into the existing value.
    MergePatchJson,
}

/// One write to one annotation.
#[derive(Clone, Copy, Debug)]
struct Write<'a> {
    set: &'a str,
    origin: Origin,
    entry: usize,
    policy: Policy,
    text: &'a str,
}

/// The value of an annotation between two writes.
#[derive(Clone, Debug)]
enum Current<'a> {
    /// The Pod has no such annotation.
    Absent,
    /// The text of the Pod or of a SidecarSet, unchanged.
    Text(&'a str),
    /// The result of a merge. It is formatted once, after the last write: a thousand SidecarSets can write to one long
    /// annotation (E18).
    Merged(Value),
}

impl<'a> From<Option<&'a str>> for Current<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Absent, Self::Text)
    }
}

impl Current<'_> {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text.to_owned()),
            Self::Merged(document) => Some(go_json::to_string_sorted(&document)),
        }
    }
}

impl<'a> Write<'a> {
    fn apply(&self, current: Current<'a>) -> Result<Current<'a>, MergeError> {
        match (self.policy, current) {
            (Policy::Retain, current @ (Current::Text(_) | Current::Merged(_))) => Ok(current),
            (Policy::MergePatchJson, Current::Merged(document)) => {
                merge_patch::merge(document, self.text).map(Current::Merged)
            }
            (Policy::MergePatchJson, Current::Text(text)) if !text.is_empty() => {
                merge_patch::merge(merge_patch::document(text)?, self.text).map(Current::Merged)
            }
            _ => Ok(Current::Text(self.text)),
        }
    }

    fn reason(&self, key: &str, error: MergeError) -> Reason {
        let list = FieldPath::new("spec");
        let entry = list.item("patchPodMetadata", self.entry);
        let remedy = match error {
            MergeError::Document => "make the Pod's annotation a JSON object or remove it",
            MergeError::Patch => "make the SidecarSet's value a JSON object",
        };
        let problem = ["cannot be merged into the Pod's annotation: ", error.as_str()].concat();
        Reason::new(Code::Invalid, entry.child("annotations").key(key), problem, remedy).about(self.set)
    }
}

/// Returns the annotations of a Pod after the patches of `sets`, in their order, or `None` if nothing changes. Also
/// returns a reason for every impossible merge, by `SidecarSet` and annotation.
pub fn patch(annotations: Option<&Object>, sets: &[SidecarSet]) -> (Option<Object>, Vec<Reason>) {
    let mut writes: BTreeMap<&str, Vec<Write<'_>>> = BTreeMap::new();
    for set in sets {
        collect(set, &mut writes);
    }
    apply(annotations, writes)
}

fn apply(annotations: Option<&Object>, writes: BTreeMap<&str, Vec<Write<'_>>>) -> (Option<Object>, Vec<Reason>) {
    let mut patched: Option<Object> = None;
    let mut reasons = Vec::new();
    for (key, mut writes) in writes {
        settings_last(&mut writes);
        let current = annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str);
        match fold(&writes, current) {
            Ok(text) if text.as_deref() == current => {}
            Ok(text) => {
                let patched = patched.get_or_insert_with(|| annotations.cloned().unwrap_or_default());
                patched.insert(key.to_owned(), Value::String(text.unwrap_or_default()));
            }
            Err((write, error)) => reasons.push(write.reason(key, error)),
        }
    }
    (patched, reasons)
}

/// TRUST-8: puts the writes to one annotation into an order in which a set of the cluster cannot undo one of the settings:
/// first what the settings write if nothing is there, then all of the cluster, then what the settings write in any case.
/// The order stays as it is if all sets have one origin.
fn settings_last(writes: &mut [Write<'_>]) {
    let is_of_settings = |write: &Write<'_>| write.origin == Origin::Settings;
    if writes.iter().any(is_of_settings) && !writes.iter().all(is_of_settings) {
        writes.sort_by_key(|write| match (write.origin, write.policy) {
            (Origin::Settings, Policy::Retain) => 0,
            (Origin::Cluster, _) => 1,
            (Origin::Settings, _) => 2,
        });
    }
}

/// Returns the annotations that the patches of a `SidecarSet` write.
pub fn keys(set: &SidecarSet) -> BTreeSet<&str> {
    let mut writes = BTreeMap::new();
    collect(set, &mut writes);
    writes.into_keys().collect()
}

/// Does the same as [`patch`] for a running Pod whose sidecars are upgraded. `Retain` adds nothing to it (DIFF-23).
pub fn patch_running(annotations: &Object, set: &SidecarSet) -> (Option<Object>, Vec<Reason>) {
    let mut writes = BTreeMap::new();
    collect(set, &mut writes);
    for writes in writes.values_mut() {
        writes.retain(|write: &Write<'_>| write.policy != Policy::Retain);
    }
    apply(Some(annotations), writes)
}

fn collect<'a>(set: &'a SidecarSet, writes: &mut BTreeMap<&'a str, Vec<Write<'a>>>) {
    for (entry, patch) in json::items(set.as_value(), &["spec", "patchPodMetadata"]).iter().enumerate() {
        let policy = match json::text(patch, &["patchPolicy"]) {
            "" | "Retain" => Policy::Retain,
            "Overwrite" => Policy::Overwrite,
            "MergePatchJson" => Policy::MergePatchJson,
            // Validation refuses such a SidecarSet; ignore the entry in a stored one (INJ-10).
            _ => continue,
        };
        for (key, text) in json::string_map(patch, &["annotations"]) {
            writes.entry(key).or_default().push(Write { set: set.name(), origin: set.origin(), entry, policy, text });
        }
    }
}

/// Applies the writes to `current`.
///
/// If the annotation is absent, the first merge stores the `SidecarSet`'s text unchanged (INJ-10), so merging again
/// would change it or fail. A value stays if it equals the result of the writes on an absent or an empty annotation: it
/// has been written before.
fn fold<'a>(writes: &[Write<'a>], current: Option<&'a str>) -> Result<Option<String>, (Write<'a>, MergeError)> {
    let apply = |start: Option<&'a str>| {
        let value = writes
            .iter()
            .try_fold(Current::from(start), |value, write| write.apply(value).map_err(|error| (*write, error)));
        value.map(Current::into_text)
    };
    let merges = writes.iter().any(|write| write.policy == Policy::MergePatchJson);
    let is_fresh = |start| apply(start).is_ok_and(|fresh| fresh.as_deref() == current);
    if merges && current.is_some() && (is_fresh(None) || is_fresh(Some(""))) {
        return Ok(current.map(str::to_owned));
    }
    apply(current)
}
