//! `AdmissionReview`, `admission.k8s.io/v1`.

use pillion_host::admission::AdmissionResponse;
use serde::{Deserialize, Serialize};

use crate::subject::Request;

/// The supported version.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Why a body is not a review. The texts do not quote the body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("not an AdmissionReview: {0}")]
    Json(serde_json::Error),
    #[error("not an AdmissionReview: kind must be \"AdmissionReview\"")]
    Kind,
    #[error(
        "invalid apiVersion: must be \"admission.k8s.io/v1\"; list v1 in admissionReviewVersions of the webhook configuration"
    )]
    ApiVersion,
    #[error("invalid AdmissionReview: request: required value")]
    NoRequest,
    #[error("invalid AdmissionReview: request.uid: required value")]
    NoUid,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming<T> {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    request: Option<T>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: &'a AdmissionResponse,
}

/// Reads the request of a review.
///
/// # Errors
/// [`ReviewError`] if the body is not a review of this version.
pub(crate) fn read(body: &[u8]) -> Result<Request<'_>, ReviewError> {
    let review: Incoming<Request<'_>> = serde_json::from_slice(body).map_err(|error| explain(body, error))?;
    check(&review)?;
    let request = review.request.ok_or(ReviewError::NoRequest)?;
    if request.uid.is_empty() { Err(ReviewError::NoUid) } else { Ok(request) }
}

fn check<T>(review: &Incoming<T>) -> Result<(), ReviewError> {
    if review.kind.as_deref() != Some(KIND) {
        return Err(ReviewError::Kind);
    }
    if review.api_version.as_deref() != Some(API_VERSION) {
        return Err(ReviewError::ApiVersion);
    }
    Ok(())
}

/// Returns the most helpful error for an unreadable body: a wrong kind of object matters more than a missing field.
fn explain(body: &[u8], error: serde_json::Error) -> ReviewError {
    let envelope: Result<Incoming<serde::de::IgnoredAny>, _> = serde_json::from_slice(body);
    let uid: Result<Incoming<Uid>, _> = serde_json::from_slice(body);
    match (envelope.map(|review| check(&review)), uid) {
        (Ok(Err(other)), _) => other,
        (Ok(Ok(())), Ok(Incoming { request: Some(Uid { uid: None }), .. })) => ReviewError::NoUid,
        _ => ReviewError::Json(without_values(error)),
    }
}

#[derive(Deserialize)]
struct Uid {
    uid: Option<String>,
}

/// Returns the error without the value that it quotes, which may be secret.
fn without_values(error: serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    if !text.starts_with("invalid type") && !text.starts_with("invalid value") {
        return error;
    }
    let expected = text.split_once(", expected").map(|(_, expected)| expected).unwrap_or_default();
    serde::de::Error::custom(format_args!("a value has another type than expected:{expected}"))
}

/// Returns the review with a response.
///
/// # Errors
/// Never in practice: a response always serializes to JSON.
pub(crate) fn write(response: &AdmissionResponse) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Outgoing { api_version: API_VERSION, kind: KIND, response })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn review() -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": "CREATE", "userInfo": {},
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "object": {"big": 1},
            },
        })
    }

    fn message(review: &Value) -> String {
        read(&serde_json::to_vec(review).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_review_is_read_and_written() {
        let body = serde_json::to_vec(&review()).unwrap();
        let request = read(&body).unwrap();
        assert_eq!((request.uid.as_str(), request.object.map(RawValue::get)), ("u", Some(r#"{"big":1}"#)));
        let answer = write(&AdmissionResponse { uid: "u".to_owned(), allowed: true, ..Default::default() }).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&answer).unwrap(),
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u", "allowed": true, "auditAnnotations": null, "warnings": null},
            })
        );
    }

    #[rstest]
    #[case::an_older_version("/apiVersion", json!("admission.k8s.io/v1beta1"), "invalid apiVersion")]
    #[case::another_kind("/kind", json!("Pod"), "kind must be")]
    #[case::no_kind("/kind", Value::Null, "kind must be")]
    #[case::no_request("/request", Value::Null, "request: required value")]
    #[case::an_empty_uid("/request/uid", json!(""), "request.uid: required value")]
    #[case::no_uid("/request/uid", Value::Null, "request.uid: required value")]
    #[case::another_type("/request/operation", json!({"a": "hunter2"}), "a value has another type than expected: a string")]
    #[case::a_text_for_an_object("/request/userInfo", json!("hunter2"), "a value has another type than expected")]
    fn what_is_no_review_is_refused(#[case] at: &str, #[case] value: Value, #[case] expected: &str) {
        let mut review = review();
        *review.pointer_mut(at).unwrap() = value;
        let message = message(&review);
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[rstest]
    #[case::nothing(b"")]
    #[case::no_json(b"hello")]
    #[case::cut(br#"{"kind": "AdmissionReview", "#)]
    #[case::a_list(b"[]")]
    fn what_is_no_json_object_is_refused(#[case] body: &[u8]) {
        assert!(read(body).unwrap_err().to_string().starts_with("not an AdmissionReview: "));
    }
}
