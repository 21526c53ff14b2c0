//! Settings whose SidecarSets are compiled into their `bundle`.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow};
use pillion_admission::settings::Settings;
use pillion_bundle::Bundle;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::NoObjects;
use pillion_sidecarset::names;
use pillion_sidecarset::requested_revision::{self, RequestedRevision};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

/// Settings with a bundle in place of their SidecarSets.
#[derive(Clone, Debug)]
pub struct Bundled {
    /// The settings.
    pub settings: Value,
    /// The bundle in them.
    pub text: String,
    /// The SidecarSets in the bundle, sorted by name, each with the stored revision that it requests, if that was found.
    pub sets: Vec<SidecarSet>,
    /// What is missing in the bundle, one sentence each.
    pub notes: Vec<String>,
}

/// Compiles the SidecarSets of settings, those of their `bundle` included; returns `None` if there are none.
///
/// A ControllerRevision that a SidecarSet requests goes into the bundle, and the revisions of this SidecarSet leave
/// `controllerRevisions`: the policy would read them for no other SidecarSet. The result depends only on the settings,
/// and compiling it again changes nothing.
///
/// # Errors
/// If the settings cannot be decoded, or the SidecarSets are too long for a bundle.
pub fn bundled(mut settings: Value) -> anyhow::Result<Option<Bundled>> {
    let decoded = Settings::decode(settings.clone()).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow!("the settings cannot be decoded: {}", errors.join("; "))
    })?;
    let mut notes = Vec::new();
    let mut found = BTreeSet::new();
    let mut sets = decoded.all_sidecar_sets()?.into_owned();
    if sets.is_empty() {
        return Ok(None);
    }
    for set in &mut sets {
        match requested(set, &decoded) {
            Requested::Nothing => {}
            Requested::Found(with_revision) => {
                found.insert(set.name().to_owned());
                *set = with_revision;
            }
            Requested::Missing(note) => notes.push(note),
        }
    }
    sets.sort_by(|one, other| one.name().cmp(other.name()));
    let of_settings: Vec<SidecarSet> = sets.iter().cloned().map(SidecarSet::for_settings).collect();
    let text = pillion_bundle::write(&of_settings);
    Bundle::read(text.as_bytes()).and_then(|bundle| bundle.verify()).context("the bundle")?;
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("sidecarSets");
        settings.insert("bundle".to_owned(), json!(text));
        drop_revisions(settings, &found);
    }
    Ok(Some(Bundled { settings, text, sets, notes }))
}

/// Removes the revisions of these SidecarSets from settings.
fn drop_revisions(settings: &mut json::Object, sets: &BTreeSet<String>) {
    let of = |revision: &Value| json::text(revision, &["metadata", "labels", names::SIDECAR_SET_NAME_LABEL]).to_owned();
    let Some(Value::Array(revisions)) = settings.get_mut("controllerRevisions") else { return };
    let before = revisions.len();
    revisions.retain(|revision| !sets.contains(&of(revision)));
    if revisions.is_empty() && before > 0 {
        settings.remove("controllerRevisions");
    }
}

/// What a SidecarSet requests beside its latest version.
enum Requested {
    /// No stored revision, or one that a bundle already has.
    Nothing,
    /// The SidecarSet with the stored revision.
    Found(SidecarSet),
    /// The settings have no such revision; the text says what this means.
    Missing(String),
}

fn requested(set: &SidecarSet, settings: &Settings) -> Requested {
    let Some(selection) = RequestedRevision::from_sidecar_set(set) else { return Requested::Nothing };
    let found = requested_revision::find(
        set,
        selection,
        &settings.controller_revisions,
        &settings.system_namespace,
        &NoObjects,
    );
    match found {
        Ok(Some(found)) => Requested::Found(set.clone().with_revision(&found)),
        // A revision that was in a bundle already stays in the set.
        Ok(None) | Err(_) if set.revision().is_some() => Requested::Nothing,
        Ok(None) => Requested::Missing(format!(
            "SidecarSet \"{}\": no ControllerRevision with an earlier version was given, so every Pod gets the latest one",
            set.name()
        )),
        Err(_) => Requested::Missing(format!(
            "SidecarSet \"{}\": no ControllerRevision with {} \"{}\" was given, so the policy has to find it for each Pod",
            set.name(),
            selection.field(),
            selection.value()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, spec: &Value) -> Value {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "containers": [{"name": name, "image": "i:2"}]}
        });
        for (key, value) in spec.as_object().unwrap() {
            set["spec"][key] = value.clone();
        }
        set
    }

    fn revision(of: &str, number: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
            "metadata": {"name": format!("{of}-{number}"), "labels": {"kruise.io/sidecarset-name": of}},
            "data": {"spec": {"containers": [{"name": of, "image": format!("i:{number}")}]}},
        })
    }

    #[test]
    fn settings_without_sidecar_sets_stay_as_they_are() {
        assert!(bundled(json!({"sidecarSets": [], "systemNamespace": "a"})).unwrap().is_none());
    }

    #[test]
    fn the_order_of_the_sidecar_sets_does_not_matter_and_compiling_again_changes_nothing() {
        let (one, other) = (set("a", &json!({})), set("b", &json!({})));
        let first = bundled(json!({"systemNamespace": "x", "sidecarSets": [one, other]})).unwrap().unwrap();
        let turned = bundled(json!({"systemNamespace": "x", "sidecarSets": [other, one]})).unwrap().unwrap();
        assert_eq!(first.settings, turned.settings);
        assert_eq!(first.settings, json!({"systemNamespace": "x", "bundle": first.text}));
        assert_eq!(bundled(first.settings.clone()).unwrap().unwrap().settings, first.settings);
        // A further SidecarSet joins those of the bundle.
        let mut more = first.settings;
        more["sidecarSets"] = json!([set("0", &json!({}))]);
        let more = bundled(more).unwrap().unwrap();
        assert_eq!(more.sets.iter().map(SidecarSet::name).collect::<Vec<_>>(), ["0", "a", "b"]);
    }

    /// The version before the latest one depends on all revisions of a SidecarSet, so none of them may stay alone.
    #[test]
    fn a_requested_revision_goes_into_the_bundle_with_all_others_of_its_sidecar_set() {
        let partial = json!({"injectionStrategy": {"revision": {"policy": "Partial"}}});
        let settings = json!({
            "sidecarSets": [set("a", &partial), set("b", &json!({}))],
            "controllerRevisions": [revision("a", 0), revision("a", 1), revision("b", 1)],
        });
        let first = bundled(settings).unwrap().unwrap();
        assert_eq!(first.notes, [] as [&str; 0]);
        assert_eq!(first.settings["controllerRevisions"], json!([revision("b", 1)]));
        let stored = first.sets[0].revision().unwrap();
        assert_eq!(stored.name(), "a-1");
        let again = bundled(first.settings.clone()).unwrap().unwrap();
        assert_eq!(again.settings, first.settings);
    }

    #[test]
    fn a_revision_that_is_missing_is_said() {
        let named = json!({"injectionStrategy": {"revision": {"revisionName": "a-7"}}});
        let settings = json!({"sidecarSets": [set("a", &named)], "controllerRevisions": [revision("a", 1)]});
        let found = bundled(settings).unwrap().unwrap();
        assert_eq!(found.notes.len(), 1);
        assert!(
            found.notes[0].contains("no ControllerRevision with revisionName \"a-7\" was given"),
            "{:?}",
            found.notes
        );
        assert_eq!(found.settings["controllerRevisions"], json!([revision("a", 1)]));
    }
}
