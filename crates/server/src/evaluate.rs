//! Evaluates one admission request, from bytes to bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_admission::settings::Role;
use pillion_host::admission::{AdmissionRequest, AdmissionResponse};
use pillion_host::{Cluster, Error, Module, Operation, ValidationResponse};
use pillion_patch::{Node, Patch};
use tokio::sync::watch;

use crate::Endpoint;
use crate::gate::CoreHandle;
use crate::labels::{Fault, Refusal, Request};
use crate::lookups::{AtOnce, LookUps};
use crate::metrics::Shared;
use crate::review::{self, ReviewError};
use crate::settings::ServedSettings;
use crate::subject::{self, Subject};

/// Decides on requests.
pub(crate) struct Judge {
    pub(crate) module: Module,
    pub(crate) settings: watch::Receiver<Arc<ServedSettings>>,
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) metrics: Shared,
}

/// The circumstances of a request.
pub(crate) struct Situation {
    pub(crate) endpoint: Endpoint,
    pub(crate) core: CoreHandle,
    /// The time of arrival.
    pub(crate) arrived: Instant,
    /// The deadline for the answer.
    pub(crate) until: Instant,
}

/// A response, with data for the metrics and the log.
struct Judged {
    response: AdmissionResponse,
    refusal: Option<Refusal>,
    injected: u64,
    /// The time of the evaluation.
    evaluated: Duration,
}

impl Judge {
    /// Returns the review that answers a review. Blocks while the cluster is asked.
    ///
    /// # Errors
    /// If the body is not a review. Any other problem becomes a response.
    pub(crate) fn judge(&self, body: &[u8], situation: &Situation) -> Result<Vec<u8>, ReviewError> {
        let Situation { core, until, .. } = situation;
        let look_ups = LookUps { cluster: Arc::clone(&self.cluster), core: core.clone(), until: *until };
        let subject = Subject::new(review::read(body)?);
        let judged = self.decide(situation, &subject, Arc::new(look_ups));
        self.finish(situation, &subject, &judged)
    }

    /// Like [`Self::judge`], but never blocks: returns `None` if the evaluation would have to wait for the cluster.
    ///
    /// # Errors
    /// As [`Self::judge`].
    pub(crate) fn judge_at_once(&self, body: &[u8], situation: &Situation) -> Result<Option<Vec<u8>>, ReviewError> {
        let cluster = Arc::new(AtOnce::new(Arc::clone(&self.cluster)));
        let subject = Subject::new(review::read(body)?);
        let judged = self.decide(situation, &subject, Arc::clone(&cluster) as _);
        if cluster.has_to_wait() { Ok(None) } else { self.finish(situation, &subject, &judged).map(Some) }
    }

    fn decide(&self, situation: &Situation, subject: &Subject<'_>, cluster: Arc<dyn Cluster>) -> Judged {
        let Situation { endpoint, until, .. } = *situation;
        let settings = Arc::clone(&self.settings.borrow());
        let started = Instant::now();
        let role = if endpoint == Endpoint::Assert { Role::Assert } else { Role::Inject };
        let answered = self.evaluate(role, &settings, subject, cluster, until);
        let evaluated = started.elapsed();
        let judged = answered.and_then(|answer| {
            let read = |decision| respond(endpoint, subject, decision, evaluated);
            read_answer(&answer).and_then(read).map_err(message)
        });
        judged.unwrap_or_else(|error| failed(endpoint, subject.request(), &error, evaluated))
    }

    /// Counts and logs a response, and returns its review.
    fn finish(&self, situation: &Situation, subject: &Subject<'_>, judged: &Judged) -> Result<Vec<u8>, ReviewError> {
        let Situation { endpoint, arrived, until, .. } = *situation;
        let answer = review::write(&judged.response).map_err(ReviewError::Json)?;
        self.metrics.evaluated(judged.evaluated);
        // After the deadline the client no longer waits for the answer. The code that detects the timeout counts the
        // request.
        if Instant::now() < until {
            tell(endpoint, subject, judged);
            let labels = Request::new(endpoint, subject.request(), judged.response.allowed);
            self.metrics.answered(&labels, judged.refusal.as_ref(), judged.injected, arrived.elapsed());
        }
        Ok(answer)
    }

    fn evaluate(
        &self,
        role: Role,
        settings: &ServedSettings,
        subject: &Subject<'_>,
        cluster: Arc<dyn Cluster>,
        until: Instant,
    ) -> Result<Vec<u8>, Error> {
        let payload = settings.payload(role, subject).map_err(message)?;
        let left = until.saturating_duration_since(Instant::now());
        self.module.evaluate_within(left, Operation::Validate, &payload, settings.cluster(subject, cluster))
    }
}

/// Returns the error for a payload or an answer that is not a message of the protocol.
fn message(error: serde_json::Error) -> Error {
    Error::Message { operation: Operation::Validate, error }
}

/// Reads the answer of the module. UTF-8 is checked once: of bytes, `serde_json` checks each string.
fn read_answer(answer: &[u8]) -> serde_json::Result<ValidationResponse<Node<'_>>> {
    serde_json::from_str(str::from_utf8(answer).map_err(serde::de::Error::custom)?)
}

/// Returns the response for a decision.
///
/// # Errors
/// If the patch cannot be written.
fn respond(
    endpoint: Endpoint,
    subject: &Subject<'_>,
    mut decision: ValidationResponse<Node<'_>>,
    evaluated: Duration,
) -> serde_json::Result<Judged> {
    let request = subject.request();
    let after = decision.mutated_object.take();
    let changes = after.as_ref().map(|after| subject.object().map(|before| (before, after)));
    let (response, injected) = match changes {
        None => (AdmissionResponse::with_patch(&request.uid, None, decision), 0),
        Some(None) => (AdmissionResponse::without_object(&request.uid), 0),
        Some(Some((before, after))) => {
            let patch = encoded(&pillion_patch::diff(before, after))?;
            (AdmissionResponse::with_patch(&request.uid, patch, decision), added(before, after))
        }
    };
    if endpoint != Endpoint::Mutate && response.patch.is_some() {
        let message = format!(
            "the policy would change this object, and {:?} changes nothing; the administrator of the cluster has to \
             send these requests to {:?}",
            endpoint.path(),
            Endpoint::Mutate.path()
        );
        let response = AdmissionResponse::refused(&request.uid, message, Some(403));
        let refusal = Some(Refusal::by_code(endpoint, request, Some(403)));
        return Ok(Judged { response, refusal, injected: 0, evaluated });
    }
    let code = response.status.as_ref().and_then(|status| status.code);
    let refusal = (!response.allowed).then(|| Refusal::by_code(endpoint, request, code));
    Ok(Judged { response, refusal, injected, evaluated })
}

/// Returns a patch in base64; `None` if it is empty.
fn encoded(patch: &Patch<'_>) -> serde_json::Result<Option<String>> {
    if patch.0.is_empty() { Ok(None) } else { Ok(Some(STANDARD.encode(serde_json::to_vec(patch)?))) }
}

/// Returns the response if the policy gave no answer. The error of the engine goes to the log, not to the user.
fn failed(endpoint: Endpoint, request: &subject::Request<'_>, error: &Error, took: Duration) -> Judged {
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
    Judged { response, refusal: Some(Refusal::by_fault(endpoint, request, fault)), injected: 0, evaluated: took }
}

/// Returns the number of containers that one Pod has more than the other.
fn added(before: &Node<'_>, after: &Node<'_>) -> u64 {
    let length = |pod: &Node<'_>, list| pod.at(&["spec", list]).and_then(Node::as_array).map_or(0, <[_]>::len);
    let count = |pod| length(pod, "containers") + length(pod, "initContainers");
    u64::try_from(count(after).saturating_sub(count(before))).unwrap_or(u64::MAX)
}

/// Logs a response. The log has names, but no contents or messages, because a refusal's message can quote a field.
fn tell(endpoint: Endpoint, subject: &Subject<'_>, judged: &Judged) {
    let response = &judged.response;
    if response.allowed && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let AdmissionRequest { uid, kind, namespace, name, operation, .. } = subject.request();
    let name = name.as_deref().filter(|name| !name.is_empty()).unwrap_or_else(|| prefix(subject.object()));
    let (kind, namespace) = (&kind.kind, namespace.as_deref().unwrap_or_default());
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
fn prefix<'a>(object: Option<&'a Node<'_>>) -> &'a str {
    object.and_then(|object| object.at(&["metadata", "generateName"])?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::one_of_each(json!({"containers": [1], "initContainers": []}), json!({"containers": [1, 2], "initContainers": [3]}), 2)]
    #[case::a_list_that_was_not_there(json!({"containers": [1]}), json!({"containers": [1], "initContainers": [3]}), 1)]
    #[case::nothing(json!({"containers": [1]}), json!({"containers": [1]}), 0)]
    #[case::no_pod(json!({}), json!({"replicas": 1}), 0)]
    fn added_containers_are_counted(#[case] before: Value, #[case] after: Value, #[case] count: u64) {
        let pod = |spec| Node::from(json!({ "spec": spec }));
        assert_eq!(added(&pod(before), &pod(after)), count);
    }
}
