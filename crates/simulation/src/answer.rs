//! Answers as an API server gives them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

/// The body of an answer: that of a watch goes on.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// Returns an answer with a JSON body.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response<AnswerBody> {
    text(status, body.to_string())
}

/// Returns an answer with a body that is JSON already.
pub(super) fn text(status: StatusCode, body: String) -> Response<AnswerBody> {
    of_body(status, Full::from(body).map_err(|never| match never {}).boxed_unsync())
}

/// Returns an answer with this body.
pub(super) fn of_body(status: StatusCode, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Passes an answer of the cluster on.
pub(super) fn passed_on(answer: Response<Body>) -> Response<AnswerBody> {
    answer.map(|body| body.map_err(BoxError::from).boxed_unsync())
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

    /// The versions after this one are no longer known.
    pub(super) fn expired(version: u64) -> Self {
        let message = format!("too old resource version: {version}");
        Self::new(StatusCode::GONE, "Expired", message)
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
    pub(super) fn answer(&self) -> Response<AnswerBody> {
        answer(self.code, &self.status())
    }

    /// Returns the object that says so, a `Status`.
    pub(super) fn status(&self) -> Value {
        let Self { code, reason, message, cause } = self;
        let causes: Vec<Value> = if cause.is_empty() { Vec::new() } else { vec![json!({"reason": cause})] };
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": code.as_u16(), "reason": reason, "message": message, "details": {"causes": causes}
        })
    }
}
