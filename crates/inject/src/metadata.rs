//! patchPodMetadata: annotations that `SidecarSet`s add to a Pod (INJ-10 to INJ-12).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pillion_json::go as go_json;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_sidecarset::reserved::{Reserved, reserved};
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
    /// Whether the annotation has this value.
    fn is(&self, value: &str) -> bool {
        match self {
            Self::Absent => false,
            Self::Text(text) => *text == value,
            Self::Merged(document) => go_json::is_text_of(value, document),
        }
    }

    fn into_text(self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text.to_owned()),
            Self::Merged(document) => Some(go_json::to_string_sorted(&document)),
        }
    }
}

/// The patch of a write, parsed at its first merge.
type Patch = OnceCell<Result<Value, MergeError>>;

impl<'a> Write<'a> {
    fn apply(&self, current: Current<'a>, patch: &Patch) -> Result<Current<'a>, MergeError> {
        let patch = || patch.get_or_init(|| merge_patch::patch(self.text)).as_ref().map_err(|error| *error);
        match (self.policy, current) {
            (Policy::Retain, current @ (Current::Text(_) | Current::Merged(_))) => Ok(current),
            (Policy::MergePatchJson, Current::Merged(document)) => {
                merge_patch::merge(document, patch()?).map(Current::Merged)
            }
            (Policy::MergePatchJson, Current::Text(text)) if !text.is_empty() => {
                merge_patch::merge(merge_patch::document(text)?, patch()?).map(Current::Merged)
            }
            _ => Ok(Current::Text(self.text)),
        }
    }

    /// Returns the reason to refuse a Pod into which a SidecarSet would write a reserved annotation (TCN-8, OVR-9); `None`
    /// if the annotation is none.
    fn of_reserved(&self, key: &str) -> Option<Reason> {
        let Reserved { problem, instead } = reserved(key)?;
        let remedy = format!("remove the annotation from the SidecarSet{instead}");
        Some(Reason::new(Code::Invalid, self.field(key), problem.to_owned(), &remedy).about(self.set))
    }

    /// Returns the path of the annotation in the SidecarSet.
    fn field(&self, key: &str) -> String {
        let list = FieldPath::new("spec");
        list.item("patchPodMetadata", self.entry).child("annotations").key(key).to_string()
    }

    fn reason(&self, key: &str, error: MergeError) -> Reason {
        let remedy = match error {
            MergeError::Document => "make the Pod's annotation a JSON object or remove it",
            MergeError::Patch => "make the SidecarSet's value a JSON object",
        };
        let problem = format!("cannot be merged into the Pod's annotation: {}", error.as_str());
        Reason::new(Code::Invalid, self.field(key), problem, remedy).about(self.set)
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
    let mut reasons = too_long(&writes);
    let all = writes.iter().flat_map(|(key, writes)| writes.iter().map(move |write| (key, write)));
    reasons.extend(all.filter_map(|(key, write)| write.of_reserved(key)));
    if !reasons.is_empty() {
        return (None, reasons);
    }
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

/// The most bytes of keys and values with which the SidecarSets of a Pod patch its annotations: half of what the API
/// server accepts (E18).
const PATCHES_MAX: usize = 128 * 1024;

/// If all patches are too long together, returns a reason for each `SidecarSet` that has any.
fn too_long(writes: &BTreeMap<&str, Vec<Write<'_>>>) -> Vec<Reason> {
    let length = |(key, writes): (&&str, &Vec<Write<'_>>)| -> usize {
        writes.iter().map(|write| key.len() + write.text.len()).sum()
    };
    if writes.iter().map(length).sum::<usize>() <= PATCHES_MAX {
        return Vec::new();
    }
    let sets: BTreeSet<&str> = writes.values().flatten().map(|write| write.set).collect();
    let problem = format!("the annotations that all SidecarSets of the Pod patch have more than {PATCHES_MAX} bytes");
    let remedy = "patch fewer or shorter annotations";
    sets.into_iter().map(|set| Reason::forbidden("spec.patchPodMetadata", problem.clone(), remedy).about(set)).collect()
}

/// Applies the writes to `current`.
///
/// If the annotation is absent, the first merge stores the `SidecarSet`'s text unchanged (INJ-10), so merging again
/// would change it or fail. A value stays if it equals the result of the writes on an absent or an empty annotation: it
/// has been written before.
fn fold<'a>(writes: &[Write<'a>], current: Option<&'a str>) -> Result<Option<String>, (Write<'a>, MergeError)> {
    let patches: Vec<Patch> = writes.iter().map(|_| Patch::new()).collect();
    let apply = |start: Option<&'a str>| {
        writes.iter().zip(&patches).try_fold(Current::from(start), |value, (write, patch)| {
            write.apply(value, patch).map_err(|error| (*write, error))
        })
    };
    let merges = writes.iter().any(|write| write.policy == Policy::MergePatchJson);
    // Only a write that retains a value distinguishes an empty annotation from an absent one.
    let retains = writes.first().is_some_and(|write| write.policy == Policy::Retain);
    if let Some(text) = current.filter(|_| merges) {
        let is_fresh = |start| apply(start).is_ok_and(|fresh| fresh.is(text));
        if is_fresh(None) || (retains && is_fresh(Some(""))) {
            return Ok(Some(text.to_owned()));
        }
    }
    apply(current).map(Current::into_text)
}
