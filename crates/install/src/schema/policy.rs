//! The schema of a Kubewarden policy that has this policy's settings.

use serde_json::{Map, Value, json};

use super::{DRAFT, of_settings};
use crate::policy_fields::{CONDITIONS_MAX, Field, Kind, SPEC, Shape, TIMEOUT};

/// The kinds with one module, each with the definition of its spec.
const KINDS: [(&str, &str); 2] =
    [("ClusterAdmissionPolicy", "ClusterAdmissionPolicySpec"), ("AdmissionPolicy", "AdmissionPolicySpec")];
/// The versions, the newest first.
const VERSIONS: [&str; 2] = ["policies.kubewarden.io/v1", "policies.kubewarden.io/v1alpha2"];
/// The definition of the settings.
const SETTINGS: &str = "Settings";
/// The fields of a spec that Kubewarden's definition requires.
const REQUIRED: [&str; 1] = ["module"];

/// The descriptions of the fields of a spec, which editors show.
const DESCRIPTIONS: [(&str, &str); 18] = [
    ("policyServer", "The PolicyServer that runs the policy. Absent: `default`."),
    ("mode", "`monitor` only logs the answer. Absent: `protect`."),
    ("module", "The module: registry://ghcr.io/pillion/policies/pillion:vX.Y.Z, or one of its variants."),
    ("settings", "Pillion's settings."),
    ("rules", "The requests that the policy judges."),
    ("failurePolicy", "What happens if the policy server gives no answer. Absent: `Fail`."),
    (
        "mutating",
        "Whether the policy may change objects. `true` for the policies that inject and that judge SidecarSets.",
    ),
    ("backgroundAudit", "Whether the audit scanner evaluates the policy. Absent: true."),
    ("matchPolicy", "Whether rules also match other versions of a kind. Absent: `Equivalent`."),
    ("matchConditions", "CEL expressions, all of which must be true for a request."),
    ("objectSelector", "The labels of the objects that the policy judges."),
    ("namespaceSelector", "The labels of the namespaces whose objects the policy judges."),
    ("sideEffects", "What the policy does beside answering. Absent: `None`."),
    ("timeoutSeconds", "How long the API server waits for the answer. Absent: 10."),
    ("timeoutEvalSeconds", "How long the policy server lets the policy run."),
    ("contextAwareResources", "The kinds that the policy may look up, with the rights of its policy server."),
    ("allowInsideAdmissionControllerNamespace", "Whether the policy judges objects of Kubewarden's own namespace."),
    ("message", "The text that refusals begin with, instead of the policy's own."),
];

/// Returns the schema of a `ClusterAdmissionPolicy` or an `AdmissionPolicy`.
pub fn of_policy() -> Value {
    let mut settings = of_settings();
    let mut definitions = Map::new();
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("$schema");
        if let Some(Value::Object(moved)) = settings.remove("$defs") {
            definitions.extend(moved);
        }
    }
    definitions.insert(SETTINGS.to_owned(), settings);
    for (kind, spec) in KINDS {
        let mut schema = object(SPEC, Kind::parse(kind));
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("required".to_owned(), json!(REQUIRED));
        }
        describe(&mut schema);
        definitions.insert(spec.to_owned(), schema);
    }
    let reference = |definition: &str| json!({"properties": {"spec": {"$ref": format!("#/$defs/{definition}")}}});
    let [(of_cluster, cluster_spec), (_, spec)] = KINDS;
    json!({
        "$schema": DRAFT,
        "title": "Kubewarden policy with Pillion's settings",
        "description": "A ClusterAdmissionPolicy or an AdmissionPolicy that runs Pillion's module.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"enum": VERSIONS},
            "kind": {"enum": KINDS.map(|(kind, _)| kind)},
            "metadata": {"type": "object"},
            "spec": {"type": "object"},
            "status": {},
        },
        "additionalProperties": false,
        "if": {"properties": {"kind": {"const": of_cluster}}},
        "then": reference(cluster_spec),
        "else": reference(spec),
        "$defs": definitions,
    })
}

fn describe(spec: &mut Value) {
    let properties = spec.get_mut("properties").and_then(Value::as_object_mut);
    for (name, schema) in properties.into_iter().flatten() {
        let described = DESCRIPTIONS.iter().find(|(known, _)| known == name);
        if let Some(((_, text), schema)) = described.zip(schema.as_object_mut()) {
            schema.insert("description".to_owned(), (*text).into());
        }
    }
}

/// Returns the schema of an object. Other fields are errors, as for `pillion check`.
fn object(fields: &[Field], kind: Kind) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .filter(|field| field.is_in(kind))
        .map(|field| (field.name.to_owned(), shape(field.shape, kind)))
        .collect();
    json!({"type": ["object", "null"], "properties": properties, "additionalProperties": false})
}

fn shape(shape: Shape, kind: Kind) -> Value {
    let list = |items: Value| json!({"type": ["array", "null"], "items": items});
    match shape {
        Shape::Any => json!({"$ref": format!("#/$defs/{SETTINGS}")}),
        Shape::Text => json!({"type": ["string", "null"]}),
        Shape::Flag => json!({"type": ["boolean", "null"]}),
        Shape::Seconds => {
            json!({"type": ["integer", "null"], "minimum": TIMEOUT.start(), "maximum": TIMEOUT.end()})
        }
        Shape::OneOf(words) => {
            json!({"enum": words.iter().copied().map(Value::from).chain([Value::Null]).collect::<Vec<_>>()})
        }
        Shape::Map => json!({"type": ["object", "null"], "additionalProperties": {"type": "string"}}),
        Shape::Object(fields) => object(fields, kind),
        Shape::Members(fields) => {
            json!({"type": ["object", "null"], "additionalProperties": object(fields, kind)})
        }
        Shape::List(of) => list(self::shape(*of, kind)),
        Shape::Conditions(of) => {
            let mut conditions = self::shape(*of, kind);
            if let Some(conditions) = conditions.as_object_mut() {
                conditions.insert("maxItems".to_owned(), CONDITIONS_MAX.into());
            }
            conditions
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_spec_is_described() {
        let schema = of_policy();
        let cluster = schema["$defs"]["ClusterAdmissionPolicySpec"]["properties"].as_object().unwrap();
        for (name, field) in cluster {
            assert!(field["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        }
        assert_eq!(cluster.len(), DESCRIPTIONS.len());
    }
}
