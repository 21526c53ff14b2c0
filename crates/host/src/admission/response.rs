//! The response of an `AdmissionReview`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::module::Error;
use crate::protocol::ValidationResponse;

/// `admission.k8s.io/v1` `AdmissionResponse`. The order of the fields, and which of them are written as null, match
/// Kubewarden's hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The `uid` of the request.
    pub uid: String,
    /// Whether the request is allowed.
    pub allowed: bool,
    /// `JSONPatch` if there is a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// The policy's changes: a base64-encoded JSON patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The reason for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Annotations for the audit event.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// Warnings for the client.
    pub warnings: Option<Vec<String>>,
}

/// The reason for a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// A text for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Further details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// An HTTP status code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// Further details of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusDetails {
    /// The causes of the refusal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
}

/// A cause of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    /// Always null, as in Kubewarden's hosts.
    pub reason: Option<String>,
    /// A text for the client.
    pub message: Option<String>,
    /// Always null, as in Kubewarden's hosts.
    pub field: Option<String>,
}

/// Whether a policy's refusals take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Refusals take effect.
    #[default]
    Protect,
    /// Every request is allowed, unchanged.
    Monitor,
}

/// The fields of a Kubewarden policy that change its response before it reaches the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handling {
    /// The name of the policy, for messages.
    pub policy: String,
    /// Whether refusals take effect.
    pub mode: Mode,
    /// Whether the policy may change objects.
    pub mutating: bool,
    /// Replaces the policy's own message, which moves to the causes.
    pub message: Option<String>,
}

impl AdmissionResponse {
    /// Returns a refusal.
    pub fn refused(uid: &str, message: String, code: Option<u16>) -> Self {
        let status = Status { message: Some(message), code, ..Status::default() };
        Self { uid: uid.to_owned(), status: Some(status), ..Self::default() }
    }

    /// Returns the refusal for a policy that gave no answer: the guest failed or trapped, or its answer is not a
    /// response.
    pub fn failed(uid: &str, error: &Error) -> Self {
        // Only the engine's text, without the name of the operation.
        let text = match error {
            Error::Call { error, .. } => error.to_string(),
            Error::Message { error, .. } => format!("invalid response from policy: {error}"),
            Error::Load(_) | Error::Start(_) => error.to_string(),
        };
        Self::refused(uid, format!("internal server error: {text}"), Some(500))
    }

    /// Returns the response for a policy's decision. `object` is the object of the request.
    pub fn new(uid: &str, object: Option<&Value>, decision: ValidationResponse) -> Self {
        let patch = match (&decision.mutated_object, object) {
            (None, _) => None,
            (Some(_), None) => return Self::without_object(uid),
            (Some(mutated), Some(object)) => patch(object, mutated),
        };
        Self::with_patch(uid, patch, decision)
    }

    /// Returns the response for a policy's decision whose changes are this JSON patch, encoded in base64.
    pub fn with_patch<O>(uid: &str, patch: Option<String>, decision: ValidationResponse<O>) -> Self {
        let ValidationResponse { accepted, message, code, mutated_object: _, audit_annotations, warnings } = decision;
        let status = (message.is_some() || code.is_some()).then_some(Status { message, code, details: None });
        Self {
            uid: uid.to_owned(),
            allowed: accepted,
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch,
            status,
            audit_annotations,
            warnings,
        }
    }

    /// Returns the refusal if the policy changes the object of a request that has none.
    pub fn without_object(uid: &str) -> Self {
        let message = "Incoming object is null, which happens only with DELETE operations, but the policy is \
                       attempting a mutation. This is not allowed";
        Self::refused(uid, message.to_owned(), None)
    }

    /// Returns the response after applying the policy's configuration.
    #[must_use]
    pub fn handled(self, handling: &Handling) -> Self {
        let mut response = match handling.mode {
            Mode::Monitor => Self { allowed: true, patch_type: None, patch: None, status: None, ..self },
            Mode::Protect if self.patch.is_some() && !handling.mutating => {
                let message = format!(
                    "Request rejected by policy {}. The policy attempted to mutate the request, but it is currently \
                     configured to not allow mutations.",
                    handling.policy
                );
                let status = Status { message: Some(message), ..Status::default() };
                Self { allowed: false, patch_type: None, patch: None, status: Some(status), ..self }
            }
            Mode::Protect => self,
        };
        if let Some(message) = handling.message.as_ref().filter(|_| !response.allowed) {
            let mut status = response.status.unwrap_or_default();
            let original = status.message.replace(message.clone()).unwrap_or_default();
            let cause = StatusCause { message: Some(original), ..StatusCause::default() };
            status.details.get_or_insert_default().causes.push(cause);
            response.status = Some(status);
        }
        response
    }
}

/// Returns the base64-encoded JSON patch between two objects; `None` if they are equal.
fn patch(from: &Value, to: &Value) -> Option<String> {
    let patch = json_patch::diff(from, to);
    if patch.0.is_empty() {
        return None;
    }
    // A patch always serializes to JSON.
    serde_json::to_vec(&patch).ok().map(|json| STANDARD.encode(json))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn decision(fields: Value) -> ValidationResponse {
        serde_json::from_value(fields).unwrap()
    }

    fn json_of(response: &AdmissionResponse) -> String {
        serde_json::to_string(response).unwrap()
    }

    fn handling(mode: Mode, mutating: bool, message: Option<&str>) -> Handling {
        Handling { policy: "p".to_owned(), mode, mutating, message: message.map(str::to_owned) }
    }

    // The expected lines are the output of kwctl.
    #[rstest]
    #[case::accepted(
        json!({"accepted": true}),
        r#"{"uid":"u","allowed":true,"auditAnnotations":null,"warnings":null}"#
    )]
    #[case::unchanged(
        json!({"accepted": true, "mutated_object": {"a": 1}}),
        r#"{"uid":"u","allowed":true,"auditAnnotations":null,"warnings":null}"#
    )]
    #[case::changed(
        json!({"accepted": true, "mutated_object": {"a": 2}}),
        r#"{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9hIiwidmFsdWUiOjJ9XQ==","auditAnnotations":null,"warnings":null}"#
    )]
    #[case::refused(
        json!({"accepted": false, "message": "no", "code": 403}),
        r#"{"uid":"u","allowed":false,"status":{"message":"no","code":403},"auditAnnotations":null,"warnings":null}"#
    )]
    #[case::refused_without_a_word(
        json!({"accepted": false}),
        r#"{"uid":"u","allowed":false,"auditAnnotations":null,"warnings":null}"#
    )]
    #[case::annotated(
        json!({"accepted": true, "audit_annotations": {"b": "2", "a": "1"}, "warnings": ["w"]}),
        r#"{"uid":"u","allowed":true,"auditAnnotations":{"a":"1","b":"2"},"warnings":["w"]}"#
    )]
    fn decisions_become_responses(#[case] fields: Value, #[case] expected: &str) {
        assert_eq!(json_of(&AdmissionResponse::new("u", Some(&json!({"a": 1})), decision(fields))), expected);
    }

    #[test]
    fn nothing_can_be_changed_where_nothing_is() {
        let response = AdmissionResponse::new("u", None, decision(json!({"accepted": true, "mutated_object": {}})));
        assert!(!response.allowed && response.patch.is_none());
        let status = response.status.unwrap();
        assert!(status.message.unwrap().starts_with("Incoming object is null"));
        assert_eq!(status.code, None);
    }

    #[test]
    fn monitoring_lets_everything_pass_and_keeps_the_warnings() {
        let refused = decision(json!({"accepted": false, "message": "no", "warnings": ["w"]}));
        let response = AdmissionResponse::new("u", Some(&json!({})), refused);
        assert_eq!(
            json_of(&response.handled(&handling(Mode::Monitor, false, Some("m")))),
            r#"{"uid":"u","allowed":true,"auditAnnotations":null,"warnings":["w"]}"#
        );
    }

    #[test]
    fn a_policy_that_may_not_change_objects_refuses_where_it_would() {
        let changed = decision(json!({"accepted": true, "mutated_object": {"a": 2}}));
        let response = AdmissionResponse::new("u", Some(&json!({"a": 1})), changed);
        assert!(response.clone().handled(&handling(Mode::Protect, true, Some("m"))).allowed);
        assert_eq!(
            json_of(&response.handled(&handling(Mode::Protect, false, None))),
            r#"{"uid":"u","allowed":false,"status":{"message":"Request rejected by policy p. The policy attempted to mutate the request, but it is currently configured to not allow mutations."},"auditAnnotations":null,"warnings":null}"#
        );
    }

    #[test]
    fn a_message_of_the_configuration_moves_the_policys_to_the_causes() {
        let response = AdmissionResponse::refused("u", "no".to_owned(), Some(403));
        assert_eq!(
            json_of(&response.handled(&handling(Mode::Protect, false, Some("ask us")))),
            r#"{"uid":"u","allowed":false,"status":{"message":"ask us","details":{"causes":[{"reason":null,"message":"no","field":null}]},"code":403},"auditAnnotations":null,"warnings":null}"#
        );
    }
}
