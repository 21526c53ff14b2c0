//! The payloads of the policy's functions.

use pillion_core::field::{FieldError, FieldPath};
use pillion_core::outcome::{Code, Reason, Refusal};
use pillion_core::settings::Settings;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// `{"request": ..., "settings": ...}`. The settings stay text until a rule needs them: they are the larger part,
/// and most requests are accepted without.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(default)]
    request: Value,
    #[serde(borrow, default)]
    settings: Option<&'a RawValue>,
}

/// The request and the text of the settings.
///
/// # Errors
/// Code 400 where the payload is no such object.
pub fn split(payload: &[u8]) -> Result<(Value, &str), Refusal> {
    let payload: Payload<'_> = serde_json::from_slice(payload)
        .map_err(|error| undecodable(FieldPath::default(), format!("the payload is not valid JSON: {error}")))?;
    Ok((payload.request, payload.settings.map_or("null", RawValue::get)))
}

/// The settings as admission uses them: decoded, not validated.
///
/// # Errors
/// Code 400 with every error. A policy server refuses such settings when it starts, so only hosts that skip
/// `validate_settings` get here.
pub fn settings(text: &str) -> Result<Settings, Refusal> {
    let parsed = parse(text.as_bytes()).map_err(|error| vec![error]);
    parsed.and_then(Settings::decode).map_err(|errors| {
        let root = FieldPath::new("settings");
        let reasons = errors.into_iter().map(|error| {
            let path = error.clone().below(&root).path;
            reason(path, FieldError { path: FieldPath::default(), ..error }.to_string())
        });
        // There is no failure without an error; were there one, it would still be a refusal.
        Refusal::of(reasons).unwrap_or_else(|| undecodable(root.clone(), "cannot be decoded".to_owned()))
    })
}

/// Everything that is wrong with settings: decoding first, and validation where that succeeds.
pub fn settings_errors(payload: &[u8]) -> Vec<FieldError> {
    match parse(payload).map_err(|error| vec![error]).and_then(Settings::decode) {
        Ok(settings) => settings.validate(),
        Err(errors) => errors,
    }
}

fn parse(text: &[u8]) -> Result<Value, FieldError> {
    serde_json::from_slice(text)
        .map_err(|error| FieldError::invalid(&FieldPath::default(), error, "the settings are not valid JSON"))
}

fn undecodable(field: FieldPath, problem: String) -> Refusal {
    reason(field, problem).into()
}

fn reason(field: FieldPath, problem: String) -> Reason {
    Reason { sidecar_set: None, field, problem, remedy: String::new(), code: Code::Undecodable }
}
