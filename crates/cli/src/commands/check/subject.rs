//! The objects that findings are about.

use std::fmt::Write as _;

use pillion_admission::words::nearest;
use pillion_identity::declared;
use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::{Version, decode};
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::locate::{Aim, place};
use crate::manifest::Manifest;
use crate::report::{Finding, Severity};

/// An object in a document: the document itself, or a part of it.
#[derive(Clone, Debug)]
pub struct Spot<'a> {
    /// The document.
    pub manifest: &'a Manifest,
    /// The path of the object in the document.
    pub base: String,
    /// The object as it is written.
    pub raw: &'a Value,
    /// The name of the `SidecarSet` that it is; else empty.
    pub sidecar_set: String,
}

impl<'a> Spot<'a> {
    /// A whole document.
    pub fn document(manifest: &'a Manifest) -> Self {
        Self { manifest, base: String::new(), raw: &manifest.value, sidecar_set: String::new() }
    }

    /// A document that is a `SidecarSet`.
    pub fn sidecar_set(manifest: &'a Manifest) -> Self {
        Self { sidecar_set: name_of(&manifest.value), ..Self::document(manifest) }
    }

    /// The `SidecarSet` at this place in the list `sidecarSets` of these settings.
    pub fn item(&self, index: usize, raw: &'a Value) -> Self {
        let base = self.below(&FieldPath::new("sidecarSets").index(index).to_string());
        Self { manifest: self.manifest, base, raw, sidecar_set: name_of(raw) }
    }

    /// The file and the line of the object's document.
    pub fn line(&self) -> String {
        format!("{}:{}", self.manifest.source.name, self.manifest.line())
    }

    /// A path of the object as a path of the document.
    pub fn below(&self, path: &str) -> String {
        FieldError::required(path, "").below(&self.base).path
    }

    /// What the core says of the object, as an error.
    pub fn error(&self, error: &FieldError) -> Finding {
        let path = self.below(&self.as_written(&error.path));
        let aim = if error.cause == Cause::Unknown { Aim::Key } else { Aim::Value };
        let (message, remedy) = split(error, &self.sidecar_set);
        Finding {
            severity: Severity::Error,
            place: place(self.manifest, &path, aim, error.value.as_deref()),
            path,
            message,
            remedy,
            sidecar_set: self.sidecar_set.clone(),
        }
    }

    /// What the core says of the object, as a warning, behind words of our own.
    pub fn warning_of(&self, error: &FieldError, words: &str) -> Finding {
        let finding = self.error(error);
        Finding { severity: Severity::Warning, message: format!("{words}: {}", finding.message), ..finding }
    }

    /// A warning about a field of the object.
    pub fn warning(&self, path: &str, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let path = self.below(&self.as_written(path));
        Finding {
            severity: Severity::Warning,
            place: place(self.manifest, &path, Aim::Value, None),
            path,
            message: message.into(),
            remedy: remedy.into(),
            sidecar_set: self.sidecar_set.clone(),
        }
    }

    /// Where a field of the v1beta1 form stands in what the user wrote, or the annotation that stands for it.
    fn as_written(&self, path: &str) -> String {
        if let Some(annotation) = self.annotation_for(path) {
            return annotation;
        }
        let is_v1alpha1 = self.raw.get("apiVersion").and_then(Value::as_str) == Some(Version::V1Alpha1.api_version());
        let text = |pointer: &str| self.raw.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if !is_v1alpha1 {
            return path.to_owned();
        }
        if path.starts_with("spec.namespaceSelector") && !text("/spec/namespace").is_empty() {
            return "spec.namespace".to_owned();
        }
        if path == "spec.customVersion" {
            return FieldPath::new("metadata.labels").key(names::CUSTOM_VERSION_LABEL).to_string();
        }
        path.to_owned()
    }
}

impl Spot<'_> {
    /// The annotation that says what the field at `path`, or above it, would say if it were there.
    fn annotation_for(&self, path: &str) -> Option<String> {
        let field = declared::FIELDS.into_iter().find(|field| {
            let rest = path.strip_prefix("spec.").and_then(|path| path.strip_prefix(field.name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })?;
        let is_set = json::at(self.raw, &["spec", field.name]).is_some_and(|value| !value.is_null());
        let is_annotated = !json::text(self.raw, &["metadata", "annotations", field.annotation]).is_empty();
        (!is_set && is_annotated).then(|| declared::annotation_path(field))
    }
}

/// A `SidecarSet` whose types are right.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Where it stands.
    pub spot: Spot<'a>,
    /// Its v1beta1 form, as it is written.
    pub set: SidecarSet,
    /// The same, defaulted and hashed.
    pub prepared: SidecarSet,
}

impl<'a> Subject<'a> {
    /// Decodes a `SidecarSet`; nothing where its types are wrong.
    pub fn of(spot: Spot<'a>) -> Option<Self> {
        let set = decode(spot.raw.clone()).ok()?.into_sidecar_set();
        Some(Self { prepared: prepared(&set), spot, set })
    }
}

fn name_of(manifest: &Value) -> String {
    json::text(manifest, &["metadata", "name"]).to_owned()
}

/// The names that could be meant if a key of a PolicyRule of a SidecarSet is unknown. Other errors say themselves which
/// name is meant, or which are known.
fn siblings(path: &str) -> &'static [&'static str] {
    if path.contains(&format!("{}[", declared::PERMISSIONS.name)) {
        &["apiGroups", "resources", "verbs", "resourceNames"]
    } else {
        &[]
    }
}

/// The message of an error and what to do about it. Details of the core say both, a semicolon between them.
fn split(error: &FieldError, sidecar_set: &str) -> (String, String) {
    let named = format!("SidecarSet \"{sidecar_set}\"");
    let detail = error.detail.as_str();
    let detail = if detail == named { "" } else { detail.strip_suffix(&format!(" ({named})")).unwrap_or(detail) };
    let mut message = error.cause.as_str().to_owned();
    if error.cause == Cause::Unknown {
        let key = error.path.rsplit('.').next().unwrap_or_default();
        let known = detail.strip_prefix("known here: ").map_or_else(Vec::new, |known| known.split(", ").collect());
        let known = known.into_iter().chain(siblings(&error.path).iter().copied());
        let remedy = nearest(key, known).map_or_else(|| detail.to_owned(), |near| format!("did you mean {near:?}?"));
        return (format!("{message} {key:?}"), remedy);
    }
    if let Some(value) = &error.value {
        // Writing to a String cannot fail.
        let _ = write!(message, ": {value:?}");
    }
    let (problem, remedy) = match detail.strip_prefix("supported values: ") {
        Some(supported) => {
            let value = error.value.as_deref().unwrap_or_default();
            let remedy = match nearest(value, supported.split(", ").map(|name| name.trim_matches('"'))) {
                Some(near) => format!("did you mean {near:?}? Supported are {supported}"),
                None => format!("use one of {supported}"),
            };
            ("", remedy)
        }
        None => {
            detail.split_once("; ").map_or((detail, String::new()), |(problem, remedy)| (problem, remedy.to_owned()))
        }
    };
    if !problem.is_empty() {
        message.push_str(": ");
        message.push_str(problem);
    }
    (message, remedy)
}
