//! The request for the policies.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use pillion_host::admission::AdmissionRequest;
use pillion_kubernetes::json;
use serde_json::Value;

/// A request in the form that a policy gets.
pub(super) struct Request {
    pub(super) uid: String,
    /// The payload for the policy.
    pub(super) payload: Value,
    /// The object that the policy may change; `None` if the request has none.
    pub(super) object: Option<Value>,
}

/// Reads JSON from a file, or from stdin if the path is `-`.
///
/// # Errors
/// If the input cannot be read, or is not JSON.
pub(super) fn read(path: &Path) -> anyhow::Result<Value> {
    let (name, text) = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("request: <stdin>")?;
        ("<stdin>".to_owned(), text)
    } else {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("request: {name}"))?;
        (name, text)
    };
    serde_json::from_str(&text).map_err(|error| anyhow!("request: {name}: not JSON: {error}"))
}

impl Request {
    /// Reads an admission request, or any JSON if `raw`.
    ///
    /// # Errors
    /// If the value is not an admission request.
    pub(super) fn new(value: &Value, raw: bool) -> anyhow::Result<Self> {
        if raw {
            let uid = json::text(value, &["uid"]).to_owned();
            return Ok(Self { uid, payload: value.clone(), object: Some(value.clone()) });
        }
        let request = AdmissionRequest::from_json(value).context("request")?;
        let payload = serde_json::to_value(&request).context("request")?;
        Ok(Self { uid: request.uid, payload, object: request.object })
    }
}
