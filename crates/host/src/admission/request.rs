//! The request of an `AdmissionReview`.

use k8s_openapi::api::authentication::v1::UserInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a JSON value is not an admission request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The value is not an object.
    #[error("not an admission request: must be an object, an AdmissionReview or its request")]
    NotAnObject,
    /// An object of another kind, usually the one that belongs in the request.
    #[error("not an admission request but a {0}: must be an AdmissionReview or its request")]
    OtherKind(String),
    /// A review without a request.
    #[error("invalid AdmissionReview object: it has no request")]
    NoRequest,
    /// A field is missing or has another type.
    #[error("cannot build AdmissionRequest object from given input: {0}")]
    Field(serde_json::Error),
}

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A kind of object by the name that URLs use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupVersionResource {
    pub group: String,
    pub version: String,
    pub resource: String,
}

/// `admission.k8s.io/v1` `AdmissionRequest`, with the fields that policies see. As in Kubewarden's hosts, fields that
/// are not listed here do not reach a policy. The objects pass through unchanged; `O` is their type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest<O = Value> {
    /// Identifies this request; the response repeats it.
    pub uid: String,
    /// The kind of the object in this request.
    pub kind: GroupVersionKind,
    /// The resource of the object in this request.
    pub resource: GroupVersionResource,
    /// `status`, `scale`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_resource: Option<String>,
    /// The kind of the original request, before the API server converted it for the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_kind: Option<GroupVersionKind>,
    /// The resource of the original request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_resource: Option<GroupVersionResource>,
    /// The subresource of the original request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_sub_resource: Option<String>,
    /// The name of the object; absent if the API server has yet to generate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operation: String,
    /// The user who sent the request.
    pub user_info: UserInfo,
    /// The new object; absent in a `DELETE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<O>,
    /// The stored object; absent in a `CREATE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_object: Option<O>,
    /// Whether the request is a dry run, which stores nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// The options of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<O>,
}

impl AdmissionRequest {
    /// Reads an `AdmissionReview`, or only its request.
    ///
    /// # Errors
    /// [`RequestError`] if the value is neither.
    pub fn from_json(value: &Value) -> Result<Self, RequestError> {
        let fields = value.as_object().ok_or(RequestError::NotAnObject)?;
        let request = match fields.get("kind") {
            Some(Value::String(kind)) if kind == "AdmissionReview" => {
                fields.get("request").ok_or(RequestError::NoRequest)?
            }
            // In a request, `kind` is an object rather than a string.
            Some(Value::String(kind)) => return Err(RequestError::OtherKind(kind.clone())),
            _ => value,
        };
        Self::deserialize(request).map_err(RequestError::Field)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> Value {
        json!({
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "ephemeralcontainers",
            "operation": "UPDATE", "userInfo": {"username": "me", "groups": ["g"]},
            "object": {"number": 12_345_678_901_234_567_890_u64, "null": null}, "oldObject": {"a": 1}, "dryRun": false,
        })
    }

    #[test]
    fn a_review_and_its_request_are_the_same() {
        let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request()});
        let bare = AdmissionRequest::from_json(&request()).unwrap();
        assert_eq!(AdmissionRequest::from_json(&review).unwrap(), bare);
        assert_eq!(serde_json::to_value(&bare).unwrap(), request(), "and a policy sees what came in");
    }

    #[test]
    fn fields_that_no_policy_knows_are_left_out() {
        let mut more = request();
        more["name"] = json!(null);
        more["newField"] = json!(1);
        more["userInfo"]["newField"] = json!(1);
        let seen = AdmissionRequest::from_json(&more).unwrap();
        assert_eq!(serde_json::to_value(&seen).unwrap(), request());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let message = |value: Value| AdmissionRequest::from_json(&value).unwrap_err().to_string();
        assert_eq!(
            message(json!([])),
            "not an admission request: must be an object, an AdmissionReview or its request"
        );
        assert_eq!(message(json!({"kind": "AdmissionReview"})), "invalid AdmissionReview object: it has no request");
        let pod = "not an admission request but a Pod: must be an AdmissionReview or its request";
        assert_eq!(message(json!({"kind": "Pod"})), pod);
        let start = "cannot build AdmissionRequest object from given input: ";
        assert_eq!(message(json!({})), format!("{start}missing field `uid`"));
        for field in ["uid", "kind", "resource", "operation", "userInfo"] {
            let mut without = request();
            without.as_object_mut().unwrap().remove(field);
            assert_eq!(message(without), format!("{start}missing field `{field}`"));
        }
    }
}
