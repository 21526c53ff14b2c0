//! The `managedFields` of an object, as an API server keeps them: almost half of a Pod's text.

use serde_json::{Map, Value, json};

/// The lists whose items have keys of their own, and the fields of the keys.
const KEYED: [(&str, &[&str]); 8] = [
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];
/// The fields that no manager has, only their fields.
const NEVER_OWNED: [&str; 6] = ["containers", "metadata", "spec", "status", "strategy", "template"];
/// The fields that a manager has as a whole.
const WHOLE: [&str; 1] = ["selector"];
/// The fields of an object that no manager has.
const UNMANAGED: [&str; 2] = ["apiVersion", "kind"];
/// The fields of the metadata that no manager has.
const UNMANAGED_METADATA: [&str; 6] = ["name", "namespace", "uid", "creationTimestamp", "generation", "managedFields"];

/// Returns the `managedFields` of an object that a controller created, and whose status this manager wrote.
pub fn fields(object: &Value, status_by: &str) -> Value {
    let time = &object["metadata"]["creationTimestamp"];
    let mut created = object.as_object().cloned().unwrap_or_default();
    created.retain(|key, _| !UNMANAGED.contains(&key.as_str()));
    if let Some(Value::Object(metadata)) = created.get_mut("metadata") {
        metadata.retain(|key, _| !UNMANAGED_METADATA.contains(&key.as_str()));
    }
    let status = created.remove("status");
    let entry = |manager: &str, fields: Map<String, Value>| {
        json!({
            "apiVersion": object["apiVersion"], "fieldsType": "FieldsV1", "fieldsV1": named(&fields).collect::<Value>(),
            "manager": manager, "operation": "Update", "time": time
        })
    };
    let mut entries = vec![entry("kube-controller-manager", created)];
    if let Some(status) = status {
        let mut entry = entry(status_by, Map::from_iter([("status".to_owned(), status)]));
        entry["subresource"] = "status".into();
        entries.push(entry);
    }
    entries.into()
}

/// Returns what a manager has of a field with this value.
fn owned(name: &str, value: &Value) -> Value {
    let own = (!NEVER_OWNED.contains(&name)).then(|| (".".to_owned(), json!({})));
    match value {
        Value::Object(fields) if !fields.is_empty() && !WHOLE.contains(&name) => {
            own.into_iter().chain(named(fields)).collect()
        }
        Value::Array(items) if !items.is_empty() => match KEYED.iter().find(|(list, _)| *list == name) {
            Some((_, keys)) => {
                let key =
                    |item: &Value| keys.iter().map(|key| ((*key).to_owned(), item[*key].clone())).collect::<Value>();
                own.into_iter().chain(items.iter().map(|item| (format!("k:{}", key(item)), owned("", item)))).collect()
            }
            None => json!({}),
        },
        _ => json!({}),
    }
}

fn named(fields: &Map<String, Value>) -> impl Iterator<Item = (String, Value)> {
    fields.iter().map(|(key, value)| (format!("f:{key}"), owned(key, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_as_an_api_server_names_them() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "uid": "1", "labels": {"app": "web"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {
                "containers": [{"name": "app", "args": ["a"], "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
                "volumes": [{"name": "data", "emptyDir": {}}]
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        });
        let port = r#"k:{"containerPort":80,"protocol":"TCP"}"#;
        let container = json!({
            ".": {}, "f:name": {}, "f:args": {}, "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}, "f:protocol": {}}}
        });
        let created = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:containers": {r#"k:{"name":"app"}"#: container},
                "f:volumes": {".": {}, r#"k:{"name":"data"}"#: {".": {}, "f:name": {}, "f:emptyDir": {}}}
            }
        });
        let condition = json!({".": {}, "f:type": {}, "f:status": {}});
        let conditions = json!({".": {}, r#"k:{"type":"Ready"}"#: condition});
        let status = json!({"f:status": {"f:phase": {}, "f:conditions": conditions}});
        let entries = fields(&pod, "kubelet");
        assert_eq!((&entries[0]["fieldsV1"], &entries[1]["fieldsV1"]), (&created, &status));
        assert_eq!(
            (&entries[0]["manager"], &entries[1]["manager"]),
            (&json!("kube-controller-manager"), &json!("kubelet"))
        );
        assert_eq!((&entries[0]["subresource"], &entries[1]["subresource"]), (&Value::Null, &json!("status")));
        assert_eq!(entries[0]["time"], "2026-01-02T03:04:05Z");
    }
}
