//! Recorded outcomes of the reference, and whether the module agrees with them.
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

    /// The name of the case.
    pub fn id(&self) -> &str {
        json::text(&self.line, &["id"])
    }

    /// Whether a SidecarSet is admitted; otherwise a Pod is.
    pub fn is_sidecar_set(&self) -> bool {
        json::text(&self.line, &["target"]) == "sidecarset-admit"
    }

    /// Where Pillion differs on purpose, or may.
    pub fn tags(&self) -> Vec<&str> {
        json::items(&self.line, &["tags"]).iter().filter_map(Value::as_str).collect()
    }

    /// Whether it has this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags().contains(&tag)
    }

    /// The AdmissionRequest.
    pub fn request(&self) -> &Value {
        json::at(&self.line, &["request"]).unwrap_or(&Value::Null)
    }

    /// The object that is admitted.
    pub fn object(&self) -> &Value {
        json::at(self.request(), &["object"]).unwrap_or(&Value::Null)
    }

    /// Whether the reference admits it.
    pub fn is_allowed(&self) -> bool {
        json::flag(&self.line, &["expect", "allowed"])
    }

    /// The object as the reference leaves it.
    pub fn expected(&self) -> &Value {
        match json::at(&self.line, &["expect", "object"]) {
            Some(object) if !json::flag(&self.line, &["expect", "skip"]) => object,
            _ => self.object(),
        }
    }

    /// The text of the reference's refusal.
    pub fn message(&self) -> &str {
        json::text(&self.line, &["expect", "message"])
    }

    /// The objects of one kind in the cluster.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        json::items(&self.line, &["objects"]).iter().filter(move |object| json::text(object, &["kind"]) == kind)
    }

    /// The settings under which the case is evaluated.
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

    /// What the settings do not hold.
    pub fn cluster(&self) -> FakeCluster {
        let is_elsewhere =
            |object: &&Value| !matches!(json::text(object, &["kind"]), "SidecarSet" | "ControllerRevision");
        FakeCluster::with(json::items(&self.line, &["objects"]).iter().filter(is_elsewhere).cloned())
    }

    /// Evaluates the case.
    ///
    /// # Errors
    /// The error of the guest or the engine: never what a policy may answer with.
    pub fn run(&self, module: &Module) -> Result<ValidationResponse, pillion_host::Error> {
        self.answer(self.request(), module)
    }

    /// Evaluates the case and judges the answer: by the reference, or, where the reference leaves a new Pod alone that
    /// says it has finished (P-2), by the answer to the same Pod without a `status`.
    ///
    /// # Errors
    /// What is wrong with the answer, or the error of the guest or the engine.
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

    /// Whether a Pod is created whose manifest has a phase in which the reference injects nothing.
    fn says_it_has_finished(&self) -> bool {
        !self.is_sidecar_set()
            && json::text(self.request(), &["operation"]) == "CREATE"
            && matches!(json::text(self.object(), &["status", "phase"]), "Succeeded" | "Failed")
    }
}

/// An answer without the times in it: the clock may go on between two evaluations.
fn untimed(answer: &ValidationResponse) -> String {
    let text = format!("{answer:?}");
    let mut parts = text.split("updateTimestamp");
    let first = parts.next().unwrap_or_default();
    let others = parts.map(|part| part.split_once('Z').map_or(part, |(_, rest)| rest));
    std::iter::once(first).chain(others).collect()
}

/// The recorded admissions of this repository: a part of those that [`file`] may find.
pub fn own_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/admission.jsonl")
}

/// The largest file of recorded admissions: what `PILLION_CONFORMANCE` names, else `shared/conformance/admission.jsonl` in
/// the nearest folder above the repository that has it, else [`own_file`].
pub fn file() -> PathBuf {
    if let Some(path) = std::env::var_os("PILLION_CONFORMANCE") {
        return path.into();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all =
        here.ancestors().map(|folder| folder.join("shared/conformance/admission.jsonl")).find(|path| path.exists());
    all.unwrap_or_else(own_file)
}

/// The cases of a file.
pub fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().filter(|line| !line.trim().is_empty()).map(Case::parse).collect()
}
