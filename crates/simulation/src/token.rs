//! Tokens of a simulation: they have the claims of real ones, and no signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

/// The lifetime of a token for which none is requested, in seconds.
const LIFETIME: i64 = 3600;

/// The audience of a simulated API server: that of most clusters.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// Completes a TokenRequest with its audiences and its status, as the API server does. `now` is in seconds since 1970.
pub(super) fn answer(request: &mut Value, account: &Value, now: i64) {
    let lifetime = json::at(request, &["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(LIFETIME);
    let ends = now.saturating_add(lifetime);
    let of_account = |key| json::text(account, &["metadata", key]);
    let bound = |key| json::text(request, &["spec", "boundObjectRef", key]);
    let asked = json::items(request, &["spec", "audiences"]);
    let audiences = if asked.is_empty() { json!([AUDIENCE]) } else { asked.to_vec().into() };
    let claims = json!({
        "aud": audiences,
        "iat": now, "nbf": now, "exp": ends,
        "kubernetes.io": {
            "namespace": of_account("namespace"),
            "serviceaccount": {"name": of_account("name"), "uid": of_account("uid")},
            "secret": {"name": bound("name"), "uid": bound("uid")},
        },
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let token = format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims));
    if let Some(request) = request.as_object_mut() {
        let status = json!({"token": token, "expirationTimestamp": Timestamp(ends).to_string()});
        request.insert("status".to_owned(), status);
        if let Some(spec) = json::object_mut(request, "spec") {
            spec.insert("audiences".to_owned(), audiences);
        }
    }
}
