//! Recorded results of the reference.
//!
//! `crates/samples/conformance/README.md` describes the format; each line is one case.

use std::path::{Path, PathBuf};

use pillion_kubernetes::json;
use serde_json::{Map, Value, json};

/// One line of a file of cases.
#[derive(Debug)]
pub struct Case {
    /// The whole line.
    line: Value,
}

impl Case {
    /// Reads a line.
    pub fn parse(line: &str) -> Self {
        Self { line: serde_json::from_str(line).unwrap_or_else(|error| panic!("not a case: {error}: {line}")) }
    }

    /// Returns the name of the case.
    pub fn id(&self) -> &str {
        json::text(&self.line, &["id"])
    }

    /// Whether the case is about a SidecarSet. The other cases are about Pods.
    pub fn is_sidecar_set(&self) -> bool {
        json::text(&self.line, &["target"]) == "sidecarset-admit"
    }

    /// Returns the tags: the areas in which Pillion differs, or may differ, on purpose.
    pub fn tags(&self) -> Vec<&str> {
        json::items(&self.line, &["tags"]).iter().filter_map(Value::as_str).collect()
    }

    /// Whether the case has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags().contains(&tag)
    }

    /// Returns the AdmissionRequest.
    pub fn request(&self) -> &Value {
        json::at(&self.line, &["request"]).unwrap_or(&Value::Null)
    }

    /// Returns the object of the request.
    pub fn object(&self) -> &Value {
        json::at(self.request(), &["object"]).unwrap_or(&Value::Null)
    }

    /// Whether the reference admits it.
    pub fn is_allowed(&self) -> bool {
        json::flag(&self.line, &["expect", "allowed"])
    }

    /// Returns the object in the reference's result.
    pub fn expected(&self) -> &Value {
        match json::at(&self.line, &["expect", "object"]) {
            Some(object) if !json::flag(&self.line, &["expect", "skip"]) => object,
            _ => self.object(),
        }
    }

    /// Returns the text of the reference's refusal.
    pub fn message(&self) -> &str {
        json::text(&self.line, &["expect", "message"])
    }

    /// Returns the objects of the cluster, those of the settings included.
    pub fn objects(&self) -> &[Value] {
        json::items(&self.line, &["objects"])
    }

    /// Returns the objects of one kind in the cluster.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects().iter().filter(move |object| json::text(object, &["kind"]) == kind)
    }

    /// Returns the settings of the case.
    pub fn settings(&self) -> Value {
        let gates: Map<String, Value> = json::text(&self.line, &["gates"])
            .split(',')
            .filter_map(|gate| gate.split_once('='))
            .map(|(name, value)| (name.to_owned(), json!(value == "true")))
            .collect();
        json!({
            "sidecarSets": self.of_kind("SidecarSet").collect::<Vec<_>>(),
            "controllerRevisions": self.of_kind("ControllerRevision").collect::<Vec<_>>(),
            "featureGates": gates,
        })
    }
}

/// Returns the file of recorded admissions in this repository: a subset of those that [`file`] may find.
pub fn own_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/admission.jsonl")
}

/// Returns the largest available file of recorded admissions: the one that `PILLION_CONFORMANCE` names, otherwise
/// `shared/conformance/admission.jsonl` in the nearest folder above this crate that has it, otherwise [`own_file`].
pub fn file() -> PathBuf {
    if let Some(path) = std::env::var_os("PILLION_CONFORMANCE") {
        return path.into();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all =
        here.ancestors().map(|folder| folder.join("shared/conformance/admission.jsonl")).find(|path| path.exists());
    all.unwrap_or_else(own_file)
}

/// Returns the cases of a file.
pub fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().filter(|line| !line.trim().is_empty()).map(Case::parse).collect()
}
