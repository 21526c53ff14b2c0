//! Settings: what the module says of them, and of what is left where it stops.

use pillion_core::controller_revision::ControllerRevision;
use pillion_core::field::{FieldError, FieldPath};
use pillion_core::json;
use pillion_core::names;
use pillion_core::settings::Settings;
use pillion_core::sidecar_set::decode::{Decoded, decode};
use serde_json::{Map, Value};

use super::subject::{Spot, Subject};
use crate::report::Finding;

/// Settings that have been looked at.
#[derive(Debug)]
pub struct Judged<'a> {
    /// Where they stand.
    pub spot: Spot<'a>,
    /// The settings; those that cannot be decoded, without what is wrong in them.
    pub settings: Settings,
    /// Where their `SidecarSet`s stand.
    pub items: Vec<Spot<'a>>,
    /// Their `SidecarSet`s, those whose types are right.
    pub subjects: Vec<Subject<'a>>,
    /// The errors that `validate_settings` answers. Where something cannot be decoded, the module stops there; here
    /// everything else is validated as well.
    pub findings: Vec<Finding>,
}

/// Decodes and validates settings.
pub fn judge(spot: Spot<'_>) -> Judged<'_> {
    let items = json::items(spot.raw, &["sidecarSets"]);
    let (settings, places, errors) = match Settings::decode(spot.raw.clone()) {
        Ok(settings) => (settings, (0..items.len()).collect(), Vec::new()),
        Err(errors) => {
            let (settings, places) = salvage(spot.raw);
            (settings, places, errors)
        }
    };
    let undecodable: Vec<&str> =
        (0..items.len()).filter(|index| !places.contains(index)).filter_map(|index| name(items, index)).collect();
    let every: Vec<usize> = (0..items.len()).collect();
    let mut findings: Vec<Finding> = errors.iter().map(|error| finding(&spot, error, &every)).collect();
    let invalid = settings.validate();
    // A base that cannot be decoded is reported as that, not as one that is missing.
    let base = FieldPath::new("metadata").child("annotations").key(names::BASE);
    let is_caused = |error: &FieldError| {
        super::item_of(&error.path).is_some_and(|(_, path)| path == base)
            && error.value.as_deref().is_some_and(|base| undecodable.contains(&base))
    };
    findings.extend(invalid.iter().filter(|error| !is_caused(error)).map(|error| finding(&spot, error, &places)));
    let items: Vec<Spot<'_>> = items.iter().enumerate().map(|(index, raw)| spot.item(index, raw)).collect();
    let subjects = items.iter().cloned().filter_map(Subject::of).collect();
    Judged { spot, settings, items, subjects, findings }
}

fn name(items: &[Value], index: usize) -> Option<&str> {
    items.get(index).map(|item| json::text(item, &["metadata", "name"]))
}

/// An error of the settings, below `sidecarSets` as one of that `SidecarSet`. `places` says where the decoded ones
/// stand in the list.
fn finding(spot: &Spot<'_>, error: &FieldError, places: &[usize]) -> Finding {
    let items = json::items(spot.raw, &["sidecarSets"]);
    let item = super::item_of(&error.path).and_then(|(index, rest)| {
        let index = *places.get(index)?;
        Some((spot.item(index, items.get(index)?), rest))
    });
    match item {
        Some((item, path)) => item.error(&FieldError { path, ..error.clone() }),
        None => spot.error(error),
    }
}

/// What of settings can be decoded, and which of the `SidecarSet`s.
fn salvage(raw: &Value) -> (Settings, Vec<usize>) {
    let lists = ["sidecarSets", "controllerRevisions"];
    let alone =
        |key: &str, value: &Value| Settings::decode(Value::Object(Map::from_iter([(key.to_owned(), value.clone())])));
    let object = raw.as_object().into_iter().flatten();
    let sound: Map<String, Value> = object
        .filter(|(key, value)| !lists.contains(&key.as_str()) && alone(key, value).is_ok())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut settings = Settings::decode(Value::Object(sound)).unwrap_or_default();
    let mut places = Vec::new();
    for (index, manifest) in json::items(raw, &["sidecarSets"]).iter().enumerate() {
        if let Ok(set) = decode(manifest.clone()).map(Decoded::into_sidecar_set) {
            settings.sidecar_sets.push(set);
            places.push(index);
        }
    }
    let revisions = json::items(raw, &["controllerRevisions"]).iter().cloned();
    settings.controller_revisions =
        revisions.filter_map(|revision| ControllerRevision::decode(revision).ok()).collect();
    (settings, places)
}
