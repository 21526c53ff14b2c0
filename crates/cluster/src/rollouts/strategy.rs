//! Changes of `spec.updateStrategy`, as the verbs make them.

use pillion_kubernetes::json;
use pillion_rollout::amount::Amount;
use serde_json::{Value, json};

/// Reads an integer or a percentage as an `IntOrString`.
pub fn parse_amount(text: &str) -> Result<Value, String> {
    let value = text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from);
    Amount::try_from(&value).map_err(|error| error.to_string())?;
    Ok(value)
}

/// Returns the operation that sets a field of `spec.updateStrategy`, which may be absent.
pub fn set_field(set: &Value, field: &str, value: &Value) -> Value {
    match json::object(set, &["spec", "updateStrategy"]) {
        Some(_) => json!({"op": "add", "path": format!("/spec/updateStrategy/{field}"), "value": value}),
        None => json!({"op": "add", "path": "/spec/updateStrategy", "value": {field: value}}),
    }
}
