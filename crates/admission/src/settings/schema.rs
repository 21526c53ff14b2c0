//! The JSON Schema of the settings, with examples.

use pillion_bundle::source::ConfigMapName;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use super::raw::RawSettings;

/// A pattern for Go's durations of at least zero. Both Unicode characters for the Greek mu are allowed.
pub(super) const DURATION: &str = "^[+]?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+$";

/// Returns the schema (draft 2020-12) of the settings. It does not cover the manifests in `sidecarSets` and
/// `controllerRevisions`.
pub fn of_settings() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .with_transform(RecursiveTransform(allow_nulls))
        .with_transform(RecursiveTransform(describe_in_one_line))
        .into_generator()
        .into_root_schema_for::<RawSettings>();
    schema.insert("title".to_owned(), "Settings of the Pillion policy".into());
    schema.insert("type".to_owned(), json!(["object", "null"]));
    schema.to_value()
}

/// Joins the lines of a description: comments in the code are wrapped.
fn describe_in_one_line(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

/// Allows `null` for optional members, because it counts as absent. The Rust types do not allow it, since nulls are
/// removed before they are read.
fn allow_nulls(schema: &mut Schema) {
    let null = json!({"type": "null"});
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let members = schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, member) in members.filter(|(name, _)| !required.iter().any(|required| required == *name)) {
        let Some(member) = member.as_object_mut() else { continue };
        if let Some(Value::String(kind)) = member.get("type") {
            let kinds = json!([kind, "null"]);
            member.insert("type".to_owned(), kinds);
        }
        for choice in ["oneOf", "anyOf"] {
            let choices = member.get_mut(choice).and_then(Value::as_array_mut);
            if let Some(choices) = choices.filter(|choices| choices.iter().all(|choice| *choice != null)) {
                choices.push(null.clone());
            }
        }
        if member.get("default").is_some_and(Value::is_null) {
            member.remove("default");
        }
    }
}

/// Returns the schema for the name of a ConfigMap. Two empty texts, from a form that is not filled in, mean no
/// ConfigMap.
pub(super) fn bundle_ref(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = ConfigMapName::json_schema(generator);
    let named = schema.get("properties").cloned().unwrap_or_default();
    let empty = json!({"namespace": {"const": ""}, "name": {"const": ""}});
    for (_, text) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        *text = json!({"type": "string", "description": text.get("description")});
    }
    schema.insert("anyOf".to_owned(), json!([{"properties": named}, {"properties": empty}]));
    schema
}

pub(super) fn rollouts() -> Value {
    json!({"upgradePolicies": ["Resize", "Recreate"], "progressDeadline": "10m", "rollback": true})
}

pub(super) fn sidecar_sets() -> Value {
    json!([{
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "log-agent"},
        "spec": {
            "selector": {"matchLabels": {"logs": "collect"}},
            "containers": [{"name": "log-agent", "image": "fluent/fluent-bit:3.0"}],
        },
    }])
}

pub(super) fn config_map_name() -> Value {
    json!({"namespace": "pillion-system", "name": "sidecarsets"})
}

pub(super) fn gates() -> Value {
    json!({"SidecarSetServiceAccountInjection": true})
}

pub(super) fn service_accounts() -> Value {
    json!({
        "allowed": [{"namespaces": ["team-*"], "names": ["log-agent", "mesh-*"]}],
        "onAppServiceAccount": "Isolate",
        "protectInUse": true,
    })
}

pub(super) fn other_webhooks() -> Value {
    json!({"imageRegistries": ["mirror.example.com/hub"], "variables": ["HTTPS_PROXY", "NO_PROXY"]})
}

pub(super) fn shoots() -> Value {
    json!({"enabled": true, "migration": "Deny"})
}

pub(super) fn whitelist() -> Value {
    json!({"rules": [{
        "selector": {"matchLabels": {"team": "platform"}},
        "allowedAnnotationKeyExprs": [r"^log\.example\.com/"],
    }]})
}
