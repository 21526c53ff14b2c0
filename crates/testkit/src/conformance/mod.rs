//! Recorded results of the reference, and the comparison of the module with them.
//!
//! `crates/testkit/conformance/README.md` describes the format; each line is one case.

pub mod compare;
mod fields;
mod judge;
mod resources;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_host::{Module, ValidationResponse};
use pillion_kubernetes::json;
use serde_json::{Map, Value, json};

use crate::FakeCluster;

pub use judge::judge;

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

    /// Returns the objects of one kind in the cluster.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        json::items(&self.line, &["objects"]).iter().filter(move |object| json::text(object, &["kind"]) == kind)
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

    /// Returns the cluster: the objects that are not in the settings.
    pub fn cluster(&self) -> FakeCluster {
        let is_elsewhere =
            |object: &&Value| !matches!(json::text(object, &["kind"]), "SidecarSet" | "ControllerRevision");
        FakeCluster::with(json::items(&self.line, &["objects"]).iter().filter(is_elsewhere).cloned())
    }

    /// Evaluates the case.
    ///
    /// # Errors
    /// The error of the guest or the engine, which no policy may cause.
    pub fn run(&self, module: &Module) -> Result<ValidationResponse, pillion_host::Error> {
        self.answer(self.request(), module)
    }

    /// Evaluates the case and judges the answer by the reference. The exception is a new Pod whose manifest claims that
    /// it has finished (MATCH-2), which the reference leaves alone: the answer must be the one to the same Pod without
    /// a `status`.
    ///
    /// # Errors
    /// A description of what is wrong with the answer, or the error of the guest or the engine.
    pub fn judged(&self, module: &Module) -> Result<(), String> {
        let answer = self.run(module).map_err(|error| error.to_string())?;
        if !self.says_it_has_finished() {
            return judge(self, &answer);
        }
        let mut request = self.request().clone();
        let status = request.get_mut("object").and_then(Value::as_object_mut).and_then(|pod| pod.remove("status"));
        let mut expected = self.answer(&request, module).map_err(|error| error.to_string())?;
        if let Some((pod, status)) = expected.mutated_object.as_mut().and_then(Value::as_object_mut).zip(status) {
            pod.insert("status".to_owned(), status);
        }
        let (answer, expected) = (untimed(&answer), untimed(&expected));
        if answer == expected { Ok(()) } else { Err(format!("{answer}, without a status it is {expected}")) }
    }

    fn answer(&self, request: &Value, module: &Module) -> Result<ValidationResponse, pillion_host::Error> {
        module.validate(request, &self.settings(), Arc::new(self.cluster()))
    }

    /// Whether the case creates a Pod whose manifest has a phase in which the reference injects nothing.
    fn says_it_has_finished(&self) -> bool {
        !self.is_sidecar_set()
            && json::text(self.request(), &["operation"]) == "CREATE"
            && matches!(json::text(self.object(), &["status", "phase"]), "Succeeded" | "Failed")
    }
}

/// Returns an answer without its times, since the clock may advance between two evaluations.
fn untimed(answer: &ValidationResponse) -> String {
    let text = format!("{answer:?}");
    let mut parts = text.split("updateTimestamp");
    let first = parts.next().unwrap_or_default();
    let others = parts.map(|part| part.split_once('Z').map_or(part, |(_, rest)| rest));
    std::iter::once(first).chain(others).collect()
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
