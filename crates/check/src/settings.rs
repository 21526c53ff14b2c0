//! Checks settings: reports the module's errors, and further errors beyond the point at which the module stops.

use pillion_admission::settings::Settings;
use pillion_bundle::Bundle;
use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode};
use pillion_sidecarset::sidecar_set::origin::Origin;
use serde_json::Value;

use super::salvage::{Salvaged, salvage};
use super::subject::{Spot, Subject};
use crate::report::Finding;

/// The lists of settings whose items are decoded one by one.
const LISTS: [&str; 2] = ["sidecarSets", "controllerRevisions"];

/// Checked settings.
#[derive(Debug)]
pub struct Judged<'a> {
    /// Their place.
    pub spot: Spot<'a>,
    /// The settings, with the `SidecarSet`s of their bundle in `sidecarSets`. If they cannot be decoded, without the
    /// faulty parts.
    pub settings: Settings,
    /// Whether all their feature gates could be decoded.
    pub has_known_gates: bool,
    /// The places of their `sidecarSets`.
    pub items: Vec<Spot<'a>>,
    /// Their `SidecarSet`s, those of the bundle included, except those that cannot be decoded.
    pub subjects: Vec<Subject<'a>>,
    /// The errors of `validate_settings`. The module stops if something cannot be decoded; these findings also cover
    /// the rest.
    pub findings: Vec<Finding>,
}

impl Judged<'_> {
    /// Whether the settings belong to a policy, rather than to a file or a ConfigMap of settings.
    pub fn are_of_policy(&self) -> bool {
        !self.spot.base.is_empty()
    }
}

/// Returns the `SidecarSet`s of a bundle in settings; none if it is damaged, which is an error of the settings.
pub fn bundled(raw: &Value) -> Vec<Value> {
    let text = json::text(raw, &["bundle"]).as_bytes();
    let sets = Bundle::read(text).and_then(|bundle| bundle.verify()).unwrap_or_default();
    sets.into_iter().map(SidecarSet::into_value).collect()
}

/// Decodes and validates settings. `bundled` are the `SidecarSet`s of [`bundled`].
pub fn judge<'a>(spot: Spot<'a>, bundled: &'a [Value]) -> Judged<'a> {
    let raw = json::items(spot.raw, &["sidecarSets"]);
    let every: Vec<usize> = (0..raw.len()).collect();
    let (salvaged, places, errors) = match Settings::decode(spot.raw.clone()) {
        Ok(settings) => (Salvaged::whole(settings), every.clone(), Vec::new()),
        Err(errors) => {
            let (salvaged, places) = without_faults(spot.raw);
            (salvaged, places, errors)
        }
    };
    let undecodable: Vec<&str> =
        (0..raw.len()).filter(|index| !places.contains(index)).filter_map(|index| name(raw, index)).collect();
    let mut findings: Vec<Finding> = errors.iter().map(|error| finding(&spot, error, &every)).collect();
    let invalid = salvaged.value.validate_all();
    // Report a base that cannot be decoded only as such, not also as missing.
    let base = FieldPath::new("metadata.annotations").key(names::BASE).to_string();
    let is_caused = |error: &FieldError| {
        super::item_of(&error.path).is_some_and(|(_, path)| path == base)
            && error.value.as_deref().is_some_and(|base| undecodable.contains(&base))
    };
    let stands =
        |error: &&FieldError| !is_caused(error) && (super::item_of(&error.path).is_some() || salvaged.stands(error));
    findings.extend(invalid.iter().filter(stands).map(|error| finding(&spot, error, &places)));
    let items: Vec<Spot<'_>> = raw.iter().enumerate().map(|(index, raw)| spot.item(index, raw)).collect();
    let settings = salvaged.value;
    let broken = items.iter().enumerate().filter(|(index, _)| !places.contains(index)).map(|(_, item)| item);
    findings.extend(broken.flat_map(|item| rest_of(item, &settings)));
    let of_bundle = bundled.iter().map(|set| Subject::stored(spot.bundled(set)));
    let subjects = items.iter().cloned().filter_map(Subject::decode).chain(of_bundle).collect();
    let settings = settings.clone().unbundled().unwrap_or(settings);
    let has_known_gates = !errors.iter().any(|error| error.path.as_str().starts_with("featureGates"));
    Judged { spot, settings, has_known_gates, items, subjects, findings }
}

/// Returns the errors in the valid fields of a `SidecarSet` that cannot be decoded.
pub fn rest_of(spot: &Spot<'_>, settings: &Settings) -> Vec<Finding> {
    let Some(salvaged) = salvage(spot.raw, |raw| decode(raw).map(Decoded::into_sidecar_set)) else {
        return Vec::new();
    };
    let alone = Settings {
        sidecar_sets: vec![salvaged.value.clone()],
        gates: settings.gates,
        service_accounts: settings.service_accounts.clone(),
        ..Settings::default()
    };
    let errors = alone.validate();
    let errors = errors.into_iter().filter_map(|error| {
        let (_, path) = super::item_of(&error.path)?;
        Some(FieldError { path, ..error })
    });
    errors.filter(|error| salvaged.stands(error)).map(|error| spot.error(&error)).collect()
}

fn name(items: &[Value], index: usize) -> Option<&str> {
    items.get(index).map(|item| json::text(item, &["metadata", "name"]))
}

/// Returns an error of the settings as a finding; below `sidecarSets`, as a finding about that `SidecarSet`. `places`
/// maps indexes of decoded `SidecarSet`s to indexes in the list.
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

/// Returns the settings without the parts that cannot be decoded, and the indexes of the decoded `SidecarSet`s.
fn without_faults(raw: &Value) -> (Salvaged<Settings>, Vec<usize>) {
    let mut rest = raw.clone();
    if let Some(rest) = rest.as_object_mut() {
        rest.retain(|key, _| !LISTS.contains(&key.as_str()));
    }
    let nothing = || Salvaged::whole(Settings::default());
    let mut salvaged = salvage(&rest, Settings::decode).unwrap_or_else(nothing);
    let mut places = Vec::new();
    for (index, manifest) in json::items(raw, &["sidecarSets"]).iter().enumerate() {
        if let Ok(set) = decode(manifest.clone()).map(Decoded::into_sidecar_set) {
            salvaged.value.sidecar_sets.push(set.with_origin(Origin::Settings));
            places.push(index);
        }
    }
    let revisions = json::items(raw, &["controllerRevisions"]).iter().cloned();
    salvaged.value.controller_revisions =
        revisions.filter_map(|revision| ControllerRevision::decode(revision).ok()).collect();
    (salvaged, places)
}
