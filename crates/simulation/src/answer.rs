//! Answers as an API server gives them.

use http::{HeaderValue, Response, StatusCode, header};
use kube::client::Body;
use serde_json::{Value, json};

/// Returns an answer with a JSON body.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal: the HTTP status, the reason and the text for people.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    /// The reason of the only cause, or `""`.
    cause: &'static str,
}

impl Refusal {
    pub(super) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{what} not found"))
    }

    pub(super) fn already_exists(what: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "AlreadyExists", format!("{what} already exists"))
    }

    pub(super) fn conflict(what: &str) -> Self {
        let text = "the object has been modified; please apply your changes to the latest version";
        Self::new(StatusCode::CONFLICT, "Conflict", format!("operation cannot be fulfilled on {what}: {text}"))
    }

    pub(super) fn terminating(namespace: &str) -> Self {
        let message = format!("namespace {namespace} is being terminated");
        let refusal = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        Self { cause: "NamespaceTerminating", ..refusal }
    }

    pub(super) fn invalid(message: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(super) fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(super) fn not_allowed() -> Self {
        let message = "a preview does not simulate this request".to_owned();
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(super) fn without_admission() -> Self {
        let message = "only a cluster knows what admission does with a Pod".to_owned();
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(super) fn unreachable(error: &kube::Error) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "BadGateway", error.to_string())
    }

    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, cause: "" }
    }

    /// Returns the answer.
    pub(super) fn answer(&self) -> Response<Body> {
        let Self { code, reason, message, cause } = self;
        let causes: Vec<Value> = if cause.is_empty() { Vec::new() } else { vec![json!({"reason": cause})] };
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": code.as_u16(), "reason": reason, "message": message, "details": {"causes": causes}
        });
        answer(*code, &status)
    }
}
