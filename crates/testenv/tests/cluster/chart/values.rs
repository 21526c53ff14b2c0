//! The values of values.yaml, each with another value.

use std::fs;

use serde_json::{Map, Value, json};

use super::folder;
use super::matrix::PEM;

/// Values that a change of one value needs in order to be seen.
const WITH: [(&str, &str); 8] = [
    ("kubewarden", r#"{"kubewarden": {"enabled": true}}"#),
    (
        "server.certificates.issuer",
        r#"{"server": {"certificates": {"source": "cert-manager", "issuer": {"kind": "Issuer", "name": "a"}}}}"#,
    ),
    ("server.certificates.caBundle", r#"{"server": {"certificates": {"source": "files", "secretName": "mine"}}}"#),
    ("server.autoscaling", r#"{"server": {"autoscaling": {"enabled": true}}}"#),
    ("controller.tokenNamespaces", r#"{"settings": {"featureGates": {"SidecarSetServiceAccountInjection": true}}}"#),
    ("monitoring.serviceMonitor", r#"{"monitoring": {"serviceMonitor": {"enabled": true}}}"#),
    ("monitoring.prometheusRule", r#"{"monitoring": {"prometheusRule": {"enabled": true}}}"#),
    ("monitoring.dashboard", r#"{"monitoring": {"dashboard": {"enabled": true}}}"#),
];

/// Another value where no rule finds one that the chart accepts.
fn chosen(path: &str) -> Option<Value> {
    Some(match path {
        "global.imageRegistry" => json!("registry.example.com"),
        "nameOverride" | "fullnameOverride" => json!("other"),
        "image.digest" => json!(format!("sha256:{}", "a".repeat(64))),
        "image.pullPolicy" => json!("Always"),
        "image.pullSecrets" => json!([{"name": "registry"}]),
        "without" => json!(["sidecarsets"]),
        "optOutLabel" => json!("a=b"),
        "failurePolicy" | "guardFailurePolicy" => json!("Ignore"),
        "kubewarden.module" => json!("registry://registry.example.com/pillion:v2"),
        "kubewarden.mode" => json!("monitor"),
        "server.certificates.source" => json!("cert-manager"),
        "server.certificates.issuer.kind" => json!("ClusterIssuer"),
        "server.certificates.caBundle" => json!(PEM),
        "controller.controllers" => json!(["serviceaccount"]),
        "podSecurityContext.seccompProfile.type" => json!("Localhost"),
        "containerSecurityContext.capabilities.drop" => json!(["NET_RAW"]),
        "podDisruptionBudget.minAvailable" => json!(1),
        "podDisruptionBudget.maxUnavailable" => json!("50%"),
        "rbac.sidecarSetReaders" => json!([{"kind": "Group", "name": "developers"}]),
        "server.autoscaling.behavior" => json!({"scaleDown": {"stabilizationWindowSeconds": 600}}),
        "monitoring.serviceMonitor.interval" => json!("1m"),
        path if path.ends_with("logLevel") => json!("debug"),
        path if path.ends_with("extraEnv") => json!([{"name": "A", "value": "b"}]),
        path if path.ends_with("extraVolumes") => json!([{"name": "a", "emptyDir": {}}]),
        path if path.ends_with("extraVolumeMounts") => json!([{"name": "a", "mountPath": "/a"}]),
        path if path.ends_with("tolerations") => json!([{"operator": "Exists"}]),
        path if path.ends_with("topologySpreadConstraints") => json!([]),
        _ => return None,
    })
}

/// Returns the path of each value, and the value. Maps whose content is the user's are one value.
fn leaves(at: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                leaves(&if at.is_empty() { key.clone() } else { format!("{at}.{key}") }, value, found);
            }
        }
        value => found.push((at.to_owned(), value.clone())),
    }
}

fn other(path: &str, value: &Value) -> Value {
    chosen(path).unwrap_or_else(|| match value {
        Value::Bool(is) => json!(!is),
        Value::Number(number) => json!(number.as_u64().unwrap() + 1),
        Value::String(text) => json!(format!("{text}1")),
        Value::Array(items) if items.is_empty() => json!(["other"]),
        Value::Array(items) => json!(items[..1]),
        Value::Object(_) => json!({"other": "value"}),
        Value::Null => panic!("{path} has no value"),
    })
}

/// Returns values with `value` at a path.
fn at(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, key| Value::Object(Map::from_iter([(key.to_owned(), value)])))
}

/// Returns every value of values.yaml: its path, the values with which a change has an effect, and these with the
/// change.
pub fn changed() -> Vec<(String, Value, Value)> {
    let text = fs::read_to_string(folder().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let mut found = Vec::new();
    leaves("", &values, &mut found);
    found
        .into_iter()
        .map(|(path, value)| {
            let is_below = |above: &str| path == above || path.starts_with(&format!("{above}."));
            let base = WITH.iter().find(|(above, _)| is_below(above) && path != format!("{above}.enabled"));
            let base: Value = base.map_or(json!({}), |(_, base)| serde_json::from_str(base).unwrap());
            let mut changed = base.clone();
            json_patch::merge(&mut changed, &at(&path, other(&path, &value)));
            (path, base, changed)
        })
        .collect()
}
