//! Evaluates one admission request, from bytes to bytes. This is CPU work, so it runs on a thread for blocking work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_admission::settings::Role;
use serde_json::Value;
use tokio::sync::watch;

use super::Endpoint;
use super::gate::CoreHandle;
use super::labels::{Fault, Refusal, Request};
use super::lookups::LookUps;
use super::metrics::Shared;
use super::review::{self, ReviewError};
use super::settings::ServedSettings;
use crate::admission::{AdmissionRequest, AdmissionResponse};
use crate::cluster::Cluster;
use crate::module::{Error, Module};
use crate::protocol::ValidationResponse;

/// Decides on requests.
pub(super) struct Judge {
    pub(super) module: Module,
    pub(super) settings: watch::Receiver<Arc<ServedSettings>>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) metrics: Shared,
}

/// The circumstances of a request.
pub(super) struct Situation {
    pub(super) endpoint: Endpoint,
    pub(super) core: CoreHandle,
    /// The time of arrival.
    pub(super) arrived: Instant,
    /// The deadline for the answer.
    pub(super) until: Instant,
}

/// A response, with data for the metrics and the log.
struct Judged {
    response: AdmissionResponse,
    refusal: Option<Refusal>,
    injected: u64,
}

impl Judge {
    /// Returns the review that answers a review.
    ///
    /// # Errors
    /// If the body is not a review. Any other problem becomes a response.
    pub(super) fn judge(&self, body: &[u8], situation: Situation) -> Result<Vec<u8>, ReviewError> {
        let Situation { endpoint, core, arrived, until } = situation;
        let request = review::read(body)?;
        let judged = self.decide(endpoint, &request, core, until);
        let answer = review::write(&judged.response).map_err(ReviewError::Json)?;
        // After the deadline the client no longer waits for the answer. The code that detects the timeout counts the
        // request.
        if Instant::now() < until {
            tell(endpoint, &request, &judged);
            let labels = Request::of(endpoint, &request, judged.response.allowed);
            self.metrics.answered(&labels, judged.refusal.as_ref(), judged.injected, arrived.elapsed());
        }
        Ok(answer)
    }

    fn decide(&self, endpoint: Endpoint, request: &AdmissionRequest, core: CoreHandle, until: Instant) -> Judged {
        let settings = Arc::clone(&self.settings.borrow());
        let started = Instant::now();
        let cluster = Arc::new(LookUps { cluster: Arc::clone(&self.cluster), core, until });
        let left = until.saturating_duration_since(started);
        let role = if endpoint == Endpoint::Assert { Role::Assert } else { Role::Inject };
        let decision = settings.decide(&self.module, role, request, cluster, left);
        self.metrics.evaluated(started.elapsed());
        match decision {
            Ok(decision) => answer(endpoint, request, decision),
            Err(error) => failed(endpoint, request, &error, started.elapsed()),
        }
    }
}

fn answer(endpoint: Endpoint, request: &AdmissionRequest, decision: ValidationResponse) -> Judged {
    let object = request.object.as_ref();
    let injected = decision.mutated_object.as_ref().zip(object).map_or(0, |(after, before)| added(before, after));
    let response = AdmissionResponse::new(&request.uid, object, decision);
    if endpoint != Endpoint::Mutate && response.patch.is_some() {
        let message = format!(
            "the policy would change this object, and {:?} changes nothing; the administrator of the cluster has to \
             send these requests to {:?}",
            endpoint.path(),
            Endpoint::Mutate.path()
        );
        let response = AdmissionResponse::refused(&request.uid, message, Some(403));
        return Judged { response, refusal: Some(Refusal::of(endpoint, request, Some(403))), injected: 0 };
    }
    let code = response.status.as_ref().and_then(|status| status.code);
    let refusal = (!response.allowed).then(|| Refusal::of(endpoint, request, code));
    Judged { response, refusal, injected }
}

/// Returns the response if the policy gave no answer. The error of the engine goes to the log, not to the user.
fn failed(endpoint: Endpoint, request: &AdmissionRequest, error: &Error, took: Duration) -> Judged {
    let fault = if error.is_out_of_time() { Fault::OutOfTime } else { Fault::Broken };
    let text = error.to_string();
    tracing::error!(
        uid = request.uid,
        took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        error = text.lines().next().unwrap_or_default(),
        "the policy gave no answer"
    );
    tracing::debug!(uid = request.uid, error = text, "the whole error");
    let what = match fault {
        Fault::OutOfTime => "the policy was stopped before it had an answer, since its time was up",
        Fault::Broken => "the policy was stopped before it had an answer",
    };
    let message = format!(
        "{what}; try again; if that does not help, the administrator of the cluster finds request {:?} in the log \
         of pillion",
        request.uid
    );
    let response = AdmissionResponse::refused(&request.uid, message, Some(503));
    Judged { response, refusal: Some(Refusal::by_fault(endpoint, request, fault)), injected: 0 }
}

/// Returns the number of containers that one Pod has more than the other.
fn added(before: &Value, after: &Value) -> u64 {
    let count = |pod: &Value| -> usize {
        ["/spec/containers", "/spec/initContainers"]
            .into_iter()
            .filter_map(|list| pod.pointer(list)?.as_array())
            .map(Vec::len)
            .sum()
    };
    u64::try_from(count(after).saturating_sub(count(before))).unwrap_or(u64::MAX)
}

/// Logs a response. The log has names, but no contents or messages, because a refusal's message can quote a field.
fn tell(endpoint: Endpoint, request: &AdmissionRequest, judged: &Judged) {
    let AdmissionRequest { uid, kind, namespace, name, operation, .. } = request;
    let name = name.as_deref().filter(|name| !name.is_empty()).unwrap_or_else(|| prefix(request.object.as_ref()));
    let (kind, namespace) = (&kind.kind, namespace.as_deref().unwrap_or_default());
    let response = &judged.response;
    if response.allowed {
        let (patched, injected) = (response.patch.is_some(), judged.injected);
        tracing::debug!(uid, path = endpoint.path(), operation, kind, namespace, name, patched, injected, "allowed");
    } else {
        let code = response.status.as_ref().and_then(|status| status.code).unwrap_or_default();
        let by = response.audit_annotations.as_ref().and_then(|audit| audit.get("refused-by"));
        let by = by.map(String::as_str).unwrap_or_default();
        tracing::info!(uid, path = endpoint.path(), operation, kind, namespace, name, code, refused_by = by, "refused");
    }
}

/// Returns the `generateName` of an object whose name the API server has yet to generate.
fn prefix(object: Option<&Value>) -> &str {
    object.and_then(|object| object.pointer("/metadata/generateName")?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::one_of_each(json!({"containers": [1], "initContainers": []}), json!({"containers": [1, 2], "initContainers": [3]}), 2)]
    #[case::a_list_that_was_not_there(json!({"containers": [1]}), json!({"containers": [1], "initContainers": [3]}), 1)]
    #[case::nothing(json!({"containers": [1]}), json!({"containers": [1]}), 0)]
    #[case::no_pod(json!({}), json!({"replicas": 1}), 0)]
    fn added_containers_are_counted(#[case] before: Value, #[case] after: Value, #[case] count: u64) {
        assert_eq!(added(&json!({ "spec": before }), &json!({ "spec": after })), count);
    }
}
