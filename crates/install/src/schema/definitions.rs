//! Turns the core's tables of fields into JSON Schema.

use std::ptr;

use pillion_identity::{audience, declared, partner_names};
use pillion_kubernetes::text::LENGTH_MAX;
use pillion_sidecarset::sidecar_set::version::Version;
use pillion_sidecarset::tables::{CONTROLLER_REVISION, Kind, SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Table};
use serde_json::{Map, Value, json};

use super::fields::{self, POLICY_RULE, TOKEN, Values};

/// The name of the type of `spec`, the same in both versions.
const SPEC: &str = "SidecarSetSpec";

/// The texts that Kubernetes reads as a quantity. A pattern cannot limit the value.
const QUANTITY: &str = r"^\s*[+-]?[0-9]*(\.[0-9]*)?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\s*$";
/// The texts that Go reads as a time. A pattern cannot check that the day exists.
const TIME: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$";

/// The audiences of tokens: printable ASCII characters (AUD-2).
const AUDIENCE: &str = "^[!-~]+$";
/// The names of files with tokens: keys of a Secret, which are not `.` and do not start with `..` (AUD-2).
const FILE: &str = r"^([A-Za-z0-9_-][A-Za-z0-9._-]*|\.[A-Za-z0-9_-][A-Za-z0-9._-]*)$";

/// The type definitions that a schema refers to, each once.
#[derive(Default)]
pub(super) struct Definitions {
    known: Vec<(&'static Table, String)>,
    written: Map<String, Value>,
}

impl Definitions {
    /// Returns the value of `$defs`.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.written)
    }

    /// Returns the schema of a `SidecarSet` of either version. A manifest has to state its version and kind; the
    /// version decides the rest.
    pub(super) fn sidecar_set(&mut self) -> Value {
        let beta = self.reference(&SIDECAR_SET_V1BETA1);
        let alpha = self.reference(&SIDECAR_SET_V1ALPHA1);
        json!({
            "title": "SidecarSet",
            "type": "object",
            "required": ["apiVersion", "kind"],
            "properties": {
                "apiVersion": {"enum": Version::ALL.map(Version::api_version)},
                "kind": {"const": "SidecarSet"},
            },
            "if": {"properties": {"apiVersion": {"const": Version::V1Alpha1.api_version()}}},
            "then": alpha,
            "else": beta,
        })
    }

    /// Returns the schema of a ControllerRevision.
    pub(super) fn controller_revision(&mut self) -> Value {
        let revision = self.reference(&CONTROLLER_REVISION);
        json!({
            "title": "ControllerRevision",
            "type": "object",
            "required": ["apiVersion", "kind"],
            "properties": {"apiVersion": {"const": "apps/v1"}, "kind": {"const": "ControllerRevision"}},
            "allOf": [revision],
        })
    }

    /// Returns a reference to a type, and defines the type on first use.
    fn reference(&mut self, schema: &'static Table) -> Value {
        let known = self.known.iter().find(|(known, _)| ptr::eq(*known, schema)).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| self.define(schema));
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn define(&mut self, schema: &'static Table) -> String {
        // Both versions of a kind have the same name, so the second gets a suffix.
        let is_taken = |name: &str| self.known.iter().any(|(_, known)| known == name);
        let name = if is_taken(schema.name) { format!("{}V1alpha1", schema.name) } else { schema.name.to_owned() };
        self.known.push((schema, name.clone()));
        let mut properties: Map<String, Value> = schema
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), self.field(schema, field.name, field.kind)))
            .collect();
        if schema.name == SPEC {
            // No table has these fields, since no hash and no revision contains them.
            for field in declared::FIELDS {
                let kind = match field.name {
                    name if name == declared::PERMISSIONS.name => {
                        json!({"type": ["array", "null"], "items": policy_rule()})
                    }
                    name if name == declared::TOKENS.name => {
                        json!({"type": ["array", "null"], "items": token(), "maxItems": audience::TOKENS_MAX})
                    }
                    name if name == declared::PARTNERS.name => {
                        json!({"type": ["array", "null"], "items": text(), "maxItems": partner_names::PARTNERS_MAX})
                    }
                    _ => text(),
                };
                properties.insert(field.name.to_owned(), documented(kind, schema.name, field.name));
            }
        }
        let mut definition = json!({"type": ["object", "null"], "properties": properties});
        let description = fields::of_type(schema.name);
        if let Some(definition) = definition.as_object_mut().filter(|_| !description.is_empty()) {
            definition.insert("description".to_owned(), description.into());
        }
        self.written.insert(name.clone(), definition);
        name
    }

    fn field(&mut self, owner: &Table, name: &str, kind: Kind) -> Value {
        let mut schema = documented(self.kind(kind), owner.name, name);
        if let Some(schema) = schema.as_object_mut()
            && owner.name == SPEC
            && name == "containers"
        {
            schema.insert("items".to_owned(), plain_container(schema.get("items")));
        }
        schema
    }

    fn kind(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Text => text(),
            Kind::Time => json!({"type": ["string", "null"], "pattern": TIME}),
            Kind::Bool => json!({"type": ["boolean", "null"]}),
            Kind::Int32 => json!({"type": ["integer", "null"], "minimum": i32::MIN, "maximum": i32::MAX}),
            Kind::Int64 => json!({"type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX}),
            Kind::IntOrString => {
                json!({"type": ["integer", "string", "null"], "minimum": i32::MIN, "maximum": i32::MAX})
            }
            Kind::Quantity => quantity(),
            Kind::Object(schema) => self.reference(schema),
            Kind::Objects(schema) => json!({"type": ["array", "null"], "items": self.reference(schema)}),
            Kind::Texts => json!({"type": ["array", "null"], "items": {"type": ["string", "null"]}}),
            Kind::TextMap => json!({"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}}),
            Kind::QuantityMap => json!({"type": ["object", "null"], "additionalProperties": quantity()}),
            Kind::Any => json!({}),
        }
    }
}

/// Adds a field's description, default and allowed values to its schema.
fn documented(mut schema: Value, owner: &str, name: &str) -> Value {
    let Some((documented, schema_of)) = fields::of_field(owner, name).zip(schema.as_object_mut()) else {
        return schema;
    };
    schema_of.insert("description".to_owned(), documented.text.into());
    if let Some(default) = documented.default {
        schema_of.insert("default".to_owned(), default.parse().unwrap_or_else(|_| Value::from(default)));
    }
    match documented.values {
        Values::Any => {}
        Values::Only(values) => {
            schema_of.insert("enum".to_owned(), only(values));
        }
        Values::Known(values) => {
            schema_of.insert("anyOf".to_owned(), json!([{"enum": values}, {}]));
        }
        Values::AnyCase(values) => {
            schema_of.insert("anyOf".to_owned(), json!([{"enum": only(values)}, {"pattern": any_case(values)}]));
        }
    }
    schema
}

/// Returns a regular expression that matches these words in any case.
fn any_case(words: &[&str]) -> String {
    let word = |word: &&str| -> String {
        let letters = word.chars();
        letters.flat_map(|one| ['[', one.to_ascii_uppercase(), one.to_ascii_lowercase(), ']']).collect()
    };
    let words: Vec<String> = words.iter().map(word).collect();
    format!("^({})$", words.join("|"))
}

fn text() -> Value {
    json!({"type": ["string", "null"]})
}

/// Returns the schema of a PolicyRule of a SidecarSet. The rule belongs to a namespace, so it cannot name URLs (IDV-6).
fn policy_rule() -> Value {
    let text = |length: u8| json!({"type": "string", "minLength": length});
    let some = json!({"type": "array", "items": text(0), "minItems": 1});
    let names = json!({"type": ["array", "null"], "items": text(1)});
    let lists = fields::described(POLICY_RULE).map(|field| {
        let list = if field.name() == "resourceNames" { &names } else { &some };
        (field.name().to_owned(), documented(list.clone(), POLICY_RULE, field.name()))
    });
    let urls = ("nonResourceURLs".to_owned(), json!({"type": ["array", "null"], "maxItems": 0}));
    let properties: Map<String, Value> = lists.chain([urls]).collect();
    let required = ["apiGroups", "resources", "verbs"];
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Returns the schema of an entry of `serviceAccountTokens` (AUD-2).
fn token() -> Value {
    let shapes = [
        ("audience", json!({"type": "string", "maxLength": LENGTH_MAX, "pattern": AUDIENCE})),
        (
            "path",
            json!({"type": "string", "maxLength": audience::PATH_MAX, "pattern": FILE, "not": {"enum": audience::RESERVED}}),
        ),
        (
            "expirationSeconds",
            json!({"type": ["integer", "null"], "minimum": audience::LIFETIME_MIN, "maximum": audience::LIFETIME_MAX}),
        ),
    ];
    let properties: Map<String, Value> =
        shapes.into_iter().map(|(name, shape)| (name.to_owned(), documented(shape, TOKEN, name))).collect();
    let required = ["audience", "path"];
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn quantity() -> Value {
    json!({"type": ["string", "number", "null"], "minLength": 1, "pattern": QUANTITY})
}

/// Returns the values of an `enum`. An empty text and `null` count as absent, so the default applies to them.
fn only(values: &[&str]) -> Value {
    values.iter().map(|value| Value::from(*value)).chain([Value::from(""), Value::Null]).collect()
}

/// Adds the rules that apply to plain containers only (VAL-9).
fn plain_container(container: Option<&Value>) -> Value {
    let mut container = container.cloned().unwrap_or_default();
    if let Some(container) = container.as_object_mut() {
        let share = json!({"type": ["object", "null"], "properties": {"type": {"enum": only(&fields::SHARE)}}});
        let properties = json!({"podInjectPolicy": {"enum": only(&fields::PLACES)}, "shareVolumePolicy": share});
        container.insert("properties".to_owned(), properties);
    }
    container
}
