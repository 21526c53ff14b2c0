//! The subjects of findings.

use std::fmt::Write as _;

use pillion_documents::locate::{Aim, place};
use pillion_documents::manifest::Manifest;
use pillion_identity::audience;
use pillion_identity::declared::{self, Field};
use pillion_install::unread::Unread;
use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::words::nearest;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode};
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::warnings::Warning;
use serde_json::Value;

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
    /// The name of the object if it is a `SidecarSet`; else empty.
    pub sidecar_set: String,
}

impl<'a> Spot<'a> {
    /// Returns the place of a whole document.
    pub fn document(manifest: &'a Manifest) -> Self {
        Self { manifest, base: String::new(), raw: &manifest.value, sidecar_set: String::new() }
    }

    /// Returns the place of a document that is a `SidecarSet`.
    pub fn sidecar_set(manifest: &'a Manifest) -> Self {
        Self { sidecar_set: name_of(&manifest.value), ..Self::document(manifest) }
    }

    /// Returns the place of a `SidecarSet` in the list `sidecarSets` of these settings.
    pub fn item(&self, index: usize, raw: &'a Value) -> Self {
        let base = self.below(&FieldPath::new("sidecarSets").index(index).to_string());
        Self { manifest: self.manifest, base, raw, sidecar_set: name_of(raw) }
    }

    /// Returns the place of a `SidecarSet` in the bundle of these settings.
    pub fn bundled(&self, raw: &'a Value) -> Self {
        let name = name_of(raw);
        let base = self.below(&FieldPath::new("bundle").key(&name).to_string());
        Self { manifest: self.manifest, base, raw, sidecar_set: name }
    }

    /// Returns the file and the line of the object's document.
    pub fn line(&self) -> String {
        format!("{}:{}", self.manifest.source.name, self.manifest.line())
    }

    /// Converts a path in the object into a path in the document.
    pub fn below(&self, path: &str) -> String {
        FieldError::required(path, "").below(&self.base).path
    }

    /// Returns a field error as an error at its place.
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
            rule: None,
        }
    }

    /// Returns a field error as a warning, with `words` before its message.
    pub fn warning_of(&self, error: &FieldError, words: &str) -> Finding {
        let finding = self.error(error);
        Finding { severity: Severity::Warning, message: format!("{words}: {}", finding.message), ..finding }
    }

    /// Returns a warning about a field of the object.
    pub fn warning(&self, path: &str, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let path = self.below(&self.as_written(path));
        Finding {
            severity: Severity::Warning,
            place: place(self.manifest, &path, Aim::Value, None),
            path,
            message: message.into(),
            remedy: remedy.into(),
            sidecar_set: self.sidecar_set.clone(),
            rule: None,
        }
    }

    /// Returns a warning that admission has, too.
    pub fn admission_warning(&self, warning: &Warning) -> Finding {
        let path = self.below(&warning.path);
        Finding {
            severity: Severity::Warning,
            place: place(self.manifest, &path, Aim::Value, None),
            path,
            message: warning.message.clone(),
            remedy: warning.remedy.clone(),
            sidecar_set: self.sidecar_set.clone(),
            rule: None,
        }
    }

    /// Returns a warning about a field that nothing reads.
    pub fn unread(&self, unread: Unread) -> Finding {
        let Unread { place, path, message, remedy } = unread;
        let sidecar_set = self.sidecar_set.clone();
        Finding { severity: Severity::Warning, place, path, message, remedy, sidecar_set, rule: None }
    }

    /// Returns the path that the user wrote for a field of the v1beta1 form (API-10), or the annotation that replaces
    /// the field.
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
    /// Returns the path of the annotation that replaces the field at `path` or its parent, if the field is absent.
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

/// A `SidecarSet` that can be decoded.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Its place.
    pub spot: Spot<'a>,
    /// Its decoded form, in its own version.
    pub written: Decoded,
    /// Its v1beta1 form, as it is written.
    pub set: SidecarSet,
    /// `set` with defaults and hash.
    pub prepared: SidecarSet,
}

impl<'a> Subject<'a> {
    /// Decodes a `SidecarSet`; returns `None` on failure.
    pub fn decode(spot: Spot<'a>) -> Option<Self> {
        let written = decode(spot.raw.clone()).ok()?;
        let set = written.clone().into_sidecar_set();
        Some(Self { prepared: prepared(&set), spot, written, set })
    }

    /// Returns a `SidecarSet` of a bundle, which is there as its admission would store it.
    pub fn stored(spot: Spot<'a>) -> Self {
        let set = SidecarSet::from_decoded(spot.raw.clone());
        Self { prepared: set.clone(), written: Decoded::stored(&set), spot, set }
    }
}

fn name_of(manifest: &Value) -> String {
    json::text(manifest, &["metadata", "name"]).to_owned()
}

/// Returns candidates for a misspelt key of a permission rule or a token of a SidecarSet. Other errors list the known
/// names themselves.
fn siblings(path: &str) -> &'static [&'static str] {
    let is_below = |field: Field| path.contains(&format!("{}[", field.name));
    if is_below(declared::PERMISSIONS) {
        &["apiGroups", "resources", "verbs", "resourceNames"]
    } else if is_below(declared::TOKENS) {
        &audience::FIELDS
    } else {
        &[]
    }
}

/// Returns the message and the remedy of an error. Details of errors contain both, separated by a semicolon.
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
        let _ = write!(message, ": {problem}");
    }
    (message, remedy)
}
