//! Turns the core's tables of fields into a structural schema, as apiextensions.k8s.io/v1 requires.
//!
//! OpenKruise's definition leaves core/v1 types alone (API-4): containers keep unknown fields, and volumes have no
//! schema. This schema gives each field of a container its type, so that `kubectl explain` shows it, and accepts `null`
//! for each; it does not check what is below. The webhook decodes all of it.

use pillion_identity::declared;
use pillion_sidecarset::tables::{Field, Kind, Table};
use serde_json::{Map, Value, json};

use super::descriptions;
use crate::schema::fields;

/// The required fields (API-5), by type. OpenKruise also requires Pod counts in a status. This schema does not, so that
/// a condition can be set when no controller counts Pods.
const REQUIRED: [(&str, &[&str]); 6] = [
    ("ResourcesPolicy", &["targetContainersMode", "resourcesExpr"]),
    ("ObjectFieldSelector", &["fieldPath"]),
    ("UpdateScatterTerm", &["key", "value"]),
    ("UpdatePriorityOrderTerm", &["orderedKey"]),
    ("UpdatePriorityWeightTerm", &["matchSelector", "weight"]),
    ("LabelSelectorRequirement", &["key", "operator"]),
];
/// The fields with a fixed set of values, and the defaults that the API server sets before it calls webhooks (API-5).
const ENUMS: [(&str, &str, &[&str]); 2] = [
    ("ResourcesPolicy", "targetContainersMode", &["sum", "max"]),
    ("SidecarSetInjectRevision", "policy", &["Always", "Partial"]),
];
const DEFAULTS: [(&str, &str, &str); 3] = [
    ("ResourcesPolicy", "targetContainersNameRegex", ".*"),
    ("SidecarSetInjectRevision", "policy", "Always"),
    ("LocalObjectReference", "name", ""),
];
/// The types that server-side apply treats as atomic, and the types whose lists it treats as atomic.
const ATOMIC: [&str; 3] = ["LabelSelector", "LocalObjectReference", "ObjectFieldSelector"];
const ATOMIC_LISTS: [&str; 2] = ["LabelSelector", "LabelSelectorRequirement"];
/// The types of container fields that do not exist in core/v1.
const OWN: [&str; 4] = ["SidecarContainerUpgradeStrategy", "ShareVolumePolicy", "TransferEnvVar", "ResourcesPolicy"];

/// Returns the schema of a version. `is_union`: with the fields that only the other version has.
pub(super) fn schema(table: &Table, is_union: bool) -> Value {
    let mut properties = Map::new();
    for field in table.fields {
        let schema = match (field.name, field.kind) {
            ("metadata", _) => json!({"type": "object"}),
            ("spec", Kind::Object(spec)) => documented(self::spec(spec, is_union), table.name, "spec"),
            _ => property(table, field),
        };
        properties.insert(field.name.to_owned(), schema);
    }
    described(json!({"type": "object", "properties": properties}), fields::of_type(table.name))
}

/// Returns the fields of the spec that only one of the two versions has, with their schemas. `table` is a version.
pub(super) fn fields_of_one_version(table: &Table) -> Map<String, Value> {
    let spec = table.fields.iter().find_map(|field| match (field.name, field.kind) {
        ("spec", Kind::Object(spec)) => Some(spec),
        _ => None,
    });
    spec.map(of_one_version).unwrap_or_default()
}

fn of_one_version(table: &Table) -> Map<String, Value> {
    let names = ["namespace", "customVersion"].into_iter();
    names.map(|name| (name.to_owned(), documented(json!({"type": "string"}), table.name, name))).collect()
}

fn spec(table: &'static Table, is_union: bool) -> Value {
    let mut schema = object(table);
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    if is_union {
        properties.extend(of_one_version(table));
    }
    // No table has these fields, since no hash and no revision contains them.
    for field in declared::FIELDS {
        let kind = match field.name {
            name if name == declared::PERMISSIONS.name => json!({"type": "array", "items": policy_rule()}),
            name if name == declared::TOKENS.name => json!({"type": "array", "items": token()}),
            name if name == declared::PARTNERS.name => json!({"type": "array", "items": {"type": "string"}}),
            _ => json!({"type": "string"}),
        };
        properties.insert(field.name.to_owned(), documented(kind, table.name, field.name));
    }
    schema
}

fn object(table: &Table) -> Value {
    let properties: Map<String, Value> =
        table.fields.iter().map(|field| (field.name.to_owned(), property(table, field))).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if let Some((_, required)) = REQUIRED.iter().find(|(owner, _)| *owner == table.name) {
        schema.insert("required".to_owned(), json!(required));
    }
    if ATOMIC.contains(&table.name) {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    described(schema.into(), fields::of_type(table.name))
}

fn property(owner: &Table, field: &Field) -> Value {
    let mut schema = match (field.name, field.kind) {
        ("containers" | "initContainers", Kind::Objects(table)) => json!({"type": "array", "items": container(table)}),
        ("volumes", _) => json!({"type": "array", "items": anything()}),
        ("conditions", _) => conditions(),
        (_, kind) => typed(kind),
    };
    if let Some(schema) = schema.as_object_mut() {
        let is_it = |of: &str, name: &str| (of, name) == (owner.name, field.name);
        if let Some((_, _, values)) = ENUMS.iter().find(|(of, name, _)| is_it(of, name)) {
            schema.insert("enum".to_owned(), json!(values));
        }
        if let Some((_, _, value)) = DEFAULTS.iter().find(|(of, name, _)| is_it(of, name)) {
            schema.insert("default".to_owned(), json!(value));
        }
        if matches!(field.kind, Kind::Objects(_) | Kind::Texts) && ATOMIC_LISTS.contains(&owner.name) {
            schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
        }
    }
    documented(schema, owner.name, field.name)
}

fn typed(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Time => json!({"type": "string", "format": "date-time"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Int32 => json!({"type": "integer", "format": "int32"}),
        Kind::Int64 => json!({"type": "integer", "format": "int64"}),
        Kind::IntOrString => {
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
        }
        Kind::Object(table) => object(table),
        Kind::Objects(table) => json!({"type": "array", "items": object(table)}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Kind::TextMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Kind::Quantity | Kind::QuantityMap | Kind::Any => anything(),
    }
}

/// Returns the schema of a list of `metav1.Condition`, keyed by type.
fn conditions() -> Value {
    let text = |text: &str| described(json!({"type": "string"}), text);
    let mut status = text("Whether the condition holds.");
    if let Some(status) = status.as_object_mut() {
        status.insert("enum".to_owned(), json!(["True", "False", "Unknown"]));
    }
    let properties = json!({
        "type": text("The type of the condition."),
        "status": status,
        "observedGeneration": described(typed(Kind::Int64), "The generation that the condition describes."),
        "lastTransitionTime": described(typed(Kind::Time), "The time of the last change of the status."),
        "reason": text("Why, in one word."),
        "message": text("Why, for people."),
    });
    let required = ["type", "status", "lastTransitionTime", "reason", "message"];
    json!({
        "type": "array",
        "items": {"type": "object", "properties": properties, "required": required},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Returns the schema of a container: known fields have types, unknown fields are kept.
fn container(table: &Table) -> Value {
    let mut schema = object(table);
    let Some(parts) = schema.as_object_mut() else { return schema };
    parts.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    for field in table.fields {
        let loose = match field.kind {
            Kind::Object(of) | Kind::Objects(of) if OWN.contains(&of.name) => continue,
            Kind::Text if field.name == "podInjectPolicy" => continue,
            Kind::Object(_) => {
                json!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
            }
            Kind::Objects(_) | Kind::Texts => json!({"type": "array", "nullable": true, "items": anything()}),
            kind => nullable(typed(kind)),
        };
        if let Some(properties) = parts.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert(field.name.to_owned(), documented(loose, table.name, field.name));
        }
    }
    schema
}

/// Returns the schema of an entry of `serviceAccountPermissions`.
fn policy_rule() -> Value {
    let texts = || json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"});
    let mut properties: Map<String, Value> = fields::described(fields::POLICY_RULE)
        .map(|field| (field.name().to_owned(), described(texts(), field.text)))
        .collect();
    properties.insert("nonResourceURLs".to_owned(), described(texts(), descriptions::URLS));
    let schema = json!({"type": "object", "properties": properties, "required": ["verbs"]});
    described(schema, fields::of_type(fields::POLICY_RULE))
}

/// Returns the schema of an entry of `serviceAccountTokens`. The webhook checks the values, so that a refusal has a
/// remedy.
fn token() -> Value {
    let kind = |name| match name {
        "expirationSeconds" => Kind::Int64,
        _ => Kind::Text,
    };
    let properties: Map<String, Value> = fields::described(fields::TOKEN)
        .map(|field| (field.name().to_owned(), described(typed(kind(field.name())), field.text)))
        .collect();
    let schema = json!({"type": "object", "properties": properties, "required": ["audience", "path"]});
    described(schema, fields::of_type(fields::TOKEN))
}

fn anything() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

fn nullable(schema: Value) -> Value {
    with(schema, "nullable", true.into())
}

fn documented(schema: Value, owner: &str, name: &str) -> Value {
    described(schema, descriptions::of_field(owner, name))
}

fn described(schema: Value, text: &str) -> Value {
    if text.is_empty() { schema } else { with(schema, "description", text.into()) }
}

fn with(mut schema: Value, key: &str, value: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(key.to_owned(), value);
    }
    schema
}
