//! Recognising a container of ours that is already in the Pod (product.md, "Order and determinism").
//!
//! The API server calls a webhook again after others have changed the Pod, and people create Pods from manifests that
//! were read from a cluster. Annotations prove nothing then: what counts is whether the container that is there is the
//! one that we would write.

use serde_json::Value;

use crate::json::{self, MAX_DEPTH, Object};
use crate::quantity::Quantity;
use crate::schema::{Field, Kind, Omit, SIDECAR_CONTAINER, Schema, VOLUME};

/// Where the API server mounts the token of the Pod's ServiceAccount.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Fields that decide what runs in a container. Nothing defaults them, so one that we do not write must not be there:
/// otherwise a manifest with our annotations and a `command` of its own would switch a security sidecar off.
const DECISIVE: [&str; 10] = [
    "args",
    "command",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "restartPolicy",
    "startupProbe",
    "volumeDevices",
    "workingDir",
];

/// Whether `existing`, a container of the Pod, is what we would write: every field of `wanted` is there with that
/// value. Fields that others have added or defaulted are no difference, resources and mounts of a ServiceAccount
/// token among them; quantities compare by value.
pub fn covers(existing: &Value, wanted: &Value) -> bool {
    let (Some(existing), Some(wanted)) = (existing.as_object(), wanted.as_object()) else { return false };
    let absent = |key: &str| match existing.get(key) {
        None => true,
        Some(value) => is_zero(value),
    };
    DECISIVE.iter().all(|key| wanted.contains_key(*key) || absent(key))
        && object(existing, wanted, &SIDECAR_CONTAINER, MAX_DEPTH)
}

/// Whether `existing`, a volume of the Pod, is the volume that we would write.
pub fn covers_volume(existing: &Value, wanted: &Value) -> bool {
    match (existing.as_object(), wanted.as_object()) {
        (Some(existing), Some(wanted)) => object(existing, wanted, &VOLUME, MAX_DEPTH),
        _ => false,
    }
}

fn object(existing: &Object, wanted: &Object, schema: &Schema, depth: usize) -> bool {
    depth > 0
        && wanted.iter().all(|(key, wanted)| match schema.field(key) {
            None => existing.get(key) == Some(wanted),
            Some(known) => field(existing.get(key), wanted, known, depth),
        })
}

fn field(existing: Option<&Value>, wanted: &Value, field: &Field, depth: usize) -> bool {
    let Some(existing) = existing.filter(|value| !value.is_null()) else {
        // The API server drops zero values of these; of a pointer it does not.
        return wanted.is_null() || (field.omit != Omit::Absent && is_zero(wanted));
    };
    match field.kind {
        Kind::Object(schema) => match (existing.as_object(), wanted.as_object()) {
            (Some(existing), Some(wanted)) => object(existing, wanted, schema, depth - 1),
            _ => false,
        },
        Kind::Objects(schema) => match (existing.as_array(), wanted.as_array()) {
            (Some(existing), Some(wanted)) => list(field.name, existing, wanted, schema, depth - 1),
            _ => false,
        },
        Kind::Quantity => same_quantity(existing, wanted),
        Kind::QuantityMap => each_member(existing, wanted, same_quantity),
        Kind::TextMap => each_member(existing, wanted, |existing, wanted| existing == wanted),
        Kind::Int32 | Kind::Int64 => existing.as_i64().is_some() && existing.as_i64() == wanted.as_i64(),
        _ => existing == wanted,
    }
}

/// Lists are ours as a whole: the same items in the same order. Only mounts at the path of the token may come and go:
/// the API server adds them to containers that a webhook has added.
fn list(name: &str, existing: &[Value], wanted: &[Value], schema: &Schema, depth: usize) -> bool {
    let counts =
        |item: &&Value| name != "volumeMounts" || json::text(item, &["mountPath"]).trim_end_matches('/') != TOKEN_PATH;
    // A `subPath` or a `valueFrom` beside what we write would make another mount or variable of it.
    let exact = matches!(name, "env" | "volumeMounts" | "volumeDevices");
    let mut existing = existing.iter().filter(counts);
    let mut wanted = wanted.iter().filter(counts);
    loop {
        match (existing.next(), wanted.next()) {
            (None, None) => return true,
            (Some(Value::Object(existing)), Some(Value::Object(wanted))) => {
                let nothing_more = || existing.iter().all(|(key, value)| wanted.contains_key(key) || is_zero(value));
                if !object(existing, wanted, schema, depth) || (exact && !nothing_more()) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

fn each_member(existing: &Value, wanted: &Value, same: impl Fn(&Value, &Value) -> bool) -> bool {
    match (existing.as_object(), wanted.as_object()) {
        (Some(existing), Some(wanted)) => {
            wanted.iter().all(|(key, wanted)| existing.get(key).is_some_and(|existing| same(existing, wanted)))
        }
        _ => false,
    }
}

fn same_quantity(existing: &Value, wanted: &Value) -> bool {
    match (Quantity::from_json(existing), Quantity::from_json(wanted)) {
        (Ok(existing), Ok(wanted)) => existing == wanted,
        _ => existing == wanted,
    }
}

/// Whether Go's JSON leaves the value out: null, `""`, `0`, `false`, an empty list, an object of such values.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({
            "name": "log", "image": "log:1", "stdin": false, "command": ["run"],
            "env": [{"name": "A", "value": ""}, {"name": "IS_INJECTED", "value": "true"}],
            "resources": {"limits": {"cpu": "0.5"}},
            "securityContext": {"runAsUser": 0, "capabilities": {}},
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "future": {"a": [1]}
        })
    }

    /// The wanted container after `edit`.
    fn after(edit: impl FnOnce(&mut Value)) -> Value {
        let mut container = wanted();
        edit(&mut container);
        container
    }

    #[rstest]
    #[case::itself(wanted())]
    #[case::zero_values_dropped(after(|c| {
        c.as_object_mut().unwrap().remove("stdin");
        c["env"][0] = json!({"name": "A"});
    }))]
    #[case::quantity_in_canonical_form(after(|c| c["resources"]["limits"]["cpu"] = json!("500m")))]
    #[case::resources_defaulted(after(|c| c["resources"] = json!({
        "limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m"}
    })))]
    #[case::port_protocol_defaulted(after(|c| c["ports"][0]["protocol"] = json!("TCP")))]
    #[case::unknown_field_added(after(|c| c["newer"] = json!(1)))]
    #[case::termination_message_path_defaulted(after(|c| c["terminationMessagePath"] = json!("/dev/x")))]
    #[case::security_context_extended(after(|c| c["securityContext"]["runAsNonRoot"] = json!(true)))]
    #[case::token_mount_added(after(|c| c["volumeMounts"].as_array_mut().unwrap().push(
        json!({"name": "kube-api-access-x", "mountPath": TOKEN_PATH, "readOnly": true})
    )))]
    #[case::token_mount_added_with_slash(after(|c| c["volumeMounts"].as_array_mut().unwrap().insert(
        0, json!({"name": "t", "mountPath": format!("{TOKEN_PATH}/")})
    )))]
    fn stays_where_it_says_what_we_would_say(#[case] existing: Value) {
        assert!(covers(&existing, &wanted()), "{existing}");
    }

    #[rstest]
    #[case::image(after(|c| c["image"] = json!("evil")))]
    #[case::command(after(|c| c["command"] = json!(["sleep"])))]
    #[case::args_added(after(|c| c["args"] = json!(["--off"])))]
    #[case::probe_added(after(|c| c["livenessProbe"] = json!({"exec": {"command": ["false"]}})))]
    #[case::lifecycle_added(after(|c| c["lifecycle"] = json!({"postStart": {"exec": {"command": ["kill"]}}})))]
    #[case::variable_changed(after(|c| c["env"][0]["value"] = json!("x")))]
    #[case::variable_from_elsewhere(after(|c| c["env"][0] = json!({"name": "A", "valueFrom": {"fieldRef": {}}})))]
    #[case::variable_added(after(|c| c["env"].as_array_mut().unwrap().push(json!({"name": "B"}))))]
    #[case::variables_reordered(after(|c| c["env"].as_array_mut().unwrap().reverse()))]
    #[case::quantity(after(|c| c["resources"]["limits"]["cpu"] = json!("501m")))]
    #[case::limit_removed(after(|c| c["resources"] = json!({})))]
    #[case::pointer_dropped(after(|c| c["securityContext"] = json!({"capabilities": {}})))]
    #[case::sub_path_added(after(|c| c["volumeMounts"][0]["subPath"] = json!("x")))]
    #[case::other_mount_added(after(|c| c["volumeMounts"].as_array_mut().unwrap().push(
        json!({"name": "x", "mountPath": "/x"})
    )))]
    #[case::mount_removed(after(|c| c["volumeMounts"] = json!([])))]
    #[case::unknown_field_dropped(after(|c| { c.as_object_mut().unwrap().remove("future"); }))]
    #[case::no_object(json!("log"))]
    fn is_replaced_where_it_differs(#[case] existing: Value) {
        assert!(!covers(&existing, &wanted()), "{existing}");
    }
}
