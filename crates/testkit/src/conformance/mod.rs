//! The comparison of the module with the recorded results of the reference, which are in [`pillion_samples::recorded`].

pub mod compare;
mod fields;
mod judge;
mod resources;

use std::sync::Arc;

use pillion_host::{Module, ValidationResponse};
use pillion_kubernetes::json;
pub use pillion_samples::recorded::{Case, cases, file, own_file};
use serde_json::Value;

use crate::FakeCluster;

pub use judge::judge;

/// Returns the cluster: the objects that are not in the settings.
pub fn cluster(case: &Case) -> FakeCluster {
    let is_elsewhere = |object: &&Value| !matches!(json::text(object, &["kind"]), "SidecarSet" | "ControllerRevision");
    FakeCluster::with(case.objects().iter().filter(is_elsewhere).cloned())
}

/// Evaluates the case.
///
/// # Errors
/// The error of the guest or the engine, which no policy may cause.
pub fn run(case: &Case, module: &Module) -> Result<ValidationResponse, pillion_host::Error> {
    answer(case, case.request(), module)
}

/// Evaluates the case and judges the answer by the reference. The exception is a new Pod whose manifest claims that
/// it has finished (MATCH-2), which the reference leaves alone: the answer must be the one to the same Pod without
/// a `status`.
///
/// # Errors
/// A description of what is wrong with the answer, or the error of the guest or the engine.
pub fn judged(case: &Case, module: &Module) -> Result<(), String> {
    let found = run(case, module).map_err(|error| error.to_string())?;
    if !says_it_has_finished(case) {
        return judge(case, &found);
    }
    let mut request = case.request().clone();
    let status = request.get_mut("object").and_then(Value::as_object_mut).and_then(|pod| pod.remove("status"));
    let mut expected = answer(case, &request, module).map_err(|error| error.to_string())?;
    if let Some((pod, status)) = expected.mutated_object.as_mut().and_then(Value::as_object_mut).zip(status) {
        pod.insert("status".to_owned(), status);
    }
    let (answer, expected) = (untimed(&found), untimed(&expected));
    if answer == expected { Ok(()) } else { Err(format!("{answer}, without a status it is {expected}")) }
}

fn answer(case: &Case, request: &Value, module: &Module) -> Result<ValidationResponse, pillion_host::Error> {
    module.validate(request, &case.settings(), Arc::new(cluster(case)))
}

/// Whether the case creates a Pod whose manifest has a phase in which the reference injects nothing.
fn says_it_has_finished(case: &Case) -> bool {
    !case.is_sidecar_set()
        && json::text(case.request(), &["operation"]) == "CREATE"
        && matches!(json::text(case.object(), &["status", "phase"]), "Succeeded" | "Failed")
}

/// Returns an answer without its times, since the clock may advance between two evaluations.
fn untimed(answer: &ValidationResponse) -> String {
    let text = format!("{answer:?}");
    let mut parts = text.split("updateTimestamp");
    let first = parts.next().unwrap_or_default();
    let others = parts.map(|part| part.split_once('Z').map_or(part, |(_, rest)| rest));
    std::iter::once(first).chain(others).collect()
}
