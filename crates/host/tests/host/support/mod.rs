//! Requests, settings and verdicts for the tests of the module.

pub mod identity;

use std::sync::Arc;

use pillion_host::{Error, NoCluster, Operation, SettingsResponse, ValidationResponse};
use pillion_testkit::module;
use serde_json::{Value, json};

pub fn create_pod(pod: &Value, uid: &str) -> Value {
    json!({
        "uid": uid, "operation": "CREATE", "namespace": "default", "name": "p", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "dev"}, "object": pod,
    })
}

pub fn create_set(set: &Value) -> Value {
    json!({
        "uid": "u", "operation": "CREATE", "dryRun": false,
        "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
        "userInfo": {"username": "dev"}, "object": set,
    })
}

/// Evaluates a request without a cluster, and checks that the answer is sound.
pub fn admit(request: &Value, settings: &Value) -> ValidationResponse {
    let answer = module().validate(request, settings, Arc::new(NoCluster)).unwrap();
    assert!(is_sound(&answer), "{answer:?}");
    answer
}

/// Parses the bytes of an evaluation into an answer, and checks that it is sound.
pub fn decision(bytes: Result<Vec<u8>, Error>) -> ValidationResponse {
    let answer: ValidationResponse = serde_json::from_slice(&bytes.unwrap()).unwrap();
    assert!(is_sound(&answer), "{answer:?}");
    answer
}

/// Whether a policy may give this answer: refusals have one of our codes and a message, and no patch; warnings fit the
/// API server's limits.
pub fn is_sound(answer: &ValidationResponse) -> bool {
    let warnings = answer.warnings.as_deref().unwrap_or_default();
    let fits = warnings.iter().all(|warning| warning.chars().count() <= 256 && !warning.contains(char::is_control))
        && warnings.iter().map(String::len).sum::<usize>() <= 4096;
    let says = if answer.accepted {
        answer.code.is_none() && answer.message.is_none()
    } else {
        matches!(answer.code, Some(400 | 403 | 422 | 503))
            && answer.message.as_ref().is_some_and(|message| !message.is_empty())
            && answer.mutated_object.is_none()
            && answer.audit_annotations.as_ref().is_some_and(|audit| audit.contains_key("refused-because"))
    };
    fits && says
}

/// Returns the verdict on settings given as bytes. An error is a guest error or a trap.
pub fn settings_verdict(settings: &[u8]) -> Result<SettingsResponse, String> {
    let bytes = module()
        .evaluate(Operation::ValidateSettings, settings, Arc::new(NoCluster))
        .map_err(|error| error.to_string())?;
    let verdict: SettingsResponse = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if verdict.valid == verdict.message.is_some() {
        return Err(format!("{verdict:?}"));
    }
    Ok(verdict)
}

/// Returns the Pod without the times of its records, because two evaluations may run in different seconds.
pub fn unstamped(pod: Option<Value>) -> Option<Value> {
    pod.map(|mut pod| {
        for key in ["kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"] {
            let Some(Value::String(text)) = pod.pointer_mut("/metadata/annotations").and_then(|map| map.get_mut(key))
            else {
                continue;
            };
            let mut record: Value = serde_json::from_str(text).unwrap();
            for entry in record.as_object_mut().unwrap().values_mut() {
                entry["updateTimestamp"] = Value::Null;
            }
            *text = record.to_string();
        }
        pod
    })
}

/// Prints JSON with the keys of every object rotated by `turn` places.
pub fn print_turned(value: &Value, turn: usize) -> String {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<String> = object
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), print_turned(value, turn)))
                .collect();
            let length = entries.len().max(1);
            entries.rotate_left(turn % length);
            format!("{{{}}}", entries.join(","))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(|item| print_turned(item, turn)).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns settings with every field.
pub fn full_settings(sets: &[Value]) -> Value {
    json!({
        "sidecarSets": sets,
        "controllerRevisions": [revision()],
        "featureGates": {"EnableSortSidecarContainerByName": true},
        "systemNamespace": "kruise-system",
        "patchPodMetadataWhitelist": {"rules": [{"selector": {"matchLabels": {"a": "b"}}, "allowedAnnotationKeyExprs": ["^k"]}]},
    })
}

pub fn revision() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {
            "name": "asking-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "asking"},
        },
        "data": {"spec": {"containers": [{"name": "old", "image": "old:1"}]}},
    })
}

/// Returns a SidecarSet that needs every kind of look-up: Namespace, revision, whitelist.
pub fn asking_set() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "asking"},
        "spec": {
            "selector": {"matchExpressions": [{"key": "no-such-label", "operator": "DoesNotExist"}]},
            "namespaceSelector": {"matchLabels": {"env": "prod"}},
            "containers": [{"name": "new", "image": "new:1"}],
            "injectionStrategy": {"revision": {"revisionName": "asking-1"}},
            "patchPodMetadata": [{"patchPolicy": "Retain", "annotations": {"key": "value"}}],
        },
    })
}

pub fn asking_settings() -> Value {
    json!({ "sidecarSets": [asking_set()] })
}

pub fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"env": "prod"}}})
}

pub fn whitelist(rules: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
        "data": {"SidecarSet_PatchPodMetadata_WhiteList": rules.to_string()},
    })
}

/// Returns all objects that the evaluation of [`asking_set`] looks up.
pub fn looked_up() -> [Value; 3] {
    [namespace(), revision(), whitelist(&json!({"rules": [{"allowedAnnotationKeyExprs": ["^key$"]}]}))]
}
