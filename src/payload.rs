//! The payloads of the policy's functions.

use pillion_core::field::{FieldError, FieldPath};
use pillion_core::json;
use pillion_core::outcome::{Code, Reason, Refusal};
use pillion_core::settings::Settings;
use serde_json::Value;

/// The request and the settings in `{"request": ..., "settings": ...}`; what is missing is null.
///
/// # Errors
/// Code 400 where the payload is no JSON.
pub fn split(payload: &[u8]) -> Result<(Value, Value), Refusal> {
    let mut payload = json::parse(payload)
        .map_err(|error| undecodable(FieldPath::default(), format!("the payload is not valid JSON: {error}")))?;
    let mut take = |key| payload.get_mut(key).map(Value::take).unwrap_or_default();
    Ok((take("request"), take("settings")))
}

/// The settings as admission uses them: decoded, not validated.
///
/// # Errors
/// Code 400 with every error. A policy server refuses such settings when it starts, so only hosts that skip
/// `validate_settings` get here.
pub fn settings(settings: Value) -> Result<Settings, Refusal> {
    Settings::decode(settings).map_err(|errors| {
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
    let settings = match json::parse(payload) {
        Ok(settings) => settings,
        Err(error) => {
            return vec![FieldError::invalid(&FieldPath::default(), error, "the settings are not valid JSON")];
        }
    };
    match Settings::decode(settings) {
        Ok(settings) => settings.validate(),
        Err(errors) => errors,
    }
}

fn undecodable(field: FieldPath, problem: String) -> Refusal {
    reason(field, problem).into()
}

fn reason(field: FieldPath, problem: String) -> Reason {
    Reason { sidecar_set: None, field, problem, remedy: String::new(), code: Code::Undecodable }
}
