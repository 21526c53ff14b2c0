//! What nothing reads in SidecarSets, such as misspelt fields, with its place.

use pillion_documents::locate::{Aim, place};
use pillion_documents::manifest::Manifest;
use pillion_documents::place::FilePlace;
use pillion_identity::warnings::unread;
use pillion_kubernetes::field::{FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::warnings::Rule;
use serde_json::Value;

use crate::settings::Origin;

/// A field of a SidecarSet that nothing reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The place of the field.
    pub place: FilePlace,
    /// The path of the field in the document.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

/// Returns what nothing reads in the SidecarSet `raw`, which may be undecodable. `base` is its path in the document; empty
/// if it is the document.
pub fn of_set(manifest: &Manifest, base: &str, raw: &Value) -> Vec<Unread> {
    let found = |path: &str, aim: Aim, message: &str, remedy: &str| {
        let path = FieldError::required(path, "").below(base).path;
        Unread {
            place: place(manifest, &path, aim, None),
            path,
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        }
    };
    let version = Version::parse(json::text(raw, &["apiVersion"]));
    let warnings = version.map(|version| unread(raw, version)).unwrap_or_default();
    let fields = warnings.iter().map(|warning| {
        let aim = if warning.rule == Rule::UnknownField { Aim::Key } else { Aim::Value };
        found(&warning.path, aim, &warning.message, &warning.remedy)
    });
    let namespace = cleared(raw).map(|(path, message, remedy)| found(path, Aim::Value, message, remedy));
    fields.chain(namespace).collect()
}

/// Returns path, message and remedy for `metadata.namespace`, which the API server clears before admission.
fn cleared(raw: &Value) -> Option<(&'static str, &'static str, &'static str)> {
    let message = "a SidecarSet is in no namespace: the API server drops this, and it chooses no Pods";
    let remedy = "remove it; spec.namespaceSelector chooses the namespaces of Pods";
    let is_named = !json::text(raw, &["metadata", "namespace"]).is_empty();
    is_named.then_some(("metadata.namespace", message, remedy))
}

/// Returns the fields of a `SidecarSet` that nothing reads, one line each, with the place and the probable spelling.
pub fn unknown_fields(manifest: &Manifest) -> Vec<String> {
    let is_set = json::text(&manifest.value, &["kind"]) == "SidecarSet";
    if is_set { lines(manifest, "", &manifest.value) } else { Vec::new() }
}

/// Returns [`unknown_fields`] of the SidecarSets in settings.
pub fn unknown_fields_in_settings(settings: &Origin) -> Vec<String> {
    let Origin { manifest, base } = settings;
    let keys: Vec<&str> = base.as_str().split('.').filter(|key| !key.is_empty()).chain(["sidecarSets"]).collect();
    let sets = json::items(&manifest.value, &keys).iter().enumerate();
    let below = |index: usize| {
        let item = FieldPath::new("sidecarSets").index(index).to_string();
        FieldError::required(item, "").below(base).path
    };
    sets.flat_map(|(index, raw)| lines(manifest, &below(index), raw)).collect()
}

fn lines(manifest: &Manifest, base: &str, raw: &Value) -> Vec<String> {
    let name = json::text(raw, &["metadata", "name"]);
    let line = |unread: &Unread| {
        let Unread { place, path, message, remedy } = unread;
        let (file, line) = (&place.source.name, place.start().line);
        format!("{file}:{line}: {path}: {message}; {remedy} (SidecarSet \"{name}\")")
    };
    of_set(manifest, base, raw).iter().map(line).collect()
}
