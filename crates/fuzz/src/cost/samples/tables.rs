//! SidecarSets with every field of the core's tables, so that a new field grows without being added here.

use pillion_bench::corpus::requests::{Resource, create};
use pillion_sidecarset::tables::{CONTROLLER_REVISION, Kind, SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Table};
use serde_json::{Value, json};

use super::{clusters, gate, object, with};
use crate::cost::Input;

pub(super) fn inputs() -> Vec<Input> {
    let beta = named(value(&SIDECAR_SET_V1BETA1, 0), "apps.kruise.io/v1beta1", "SidecarSet");
    let alpha = named(value(&SIDECAR_SET_V1ALPHA1, 0), "apps.kruise.io/v1alpha1", "SidecarSet");
    let revision = named(value(&CONTROLLER_REVISION, 0), "apps/v1", "ControllerRevision");
    let set = |name: &str, resource, set: &Value| {
        Input::validate(name, create(resource, set))
            .with("settings", json!({"featureGates": gate()}))
            .with("objects", clusters::objects())
            .about(&["/request/object"])
    };
    vec![
        set("table/v1beta1", Resource::SIDECAR_SET, &beta),
        set("table/v1alpha1", Resource::SIDECAR_SET_V1ALPHA1, &alpha),
        Input::settings("table/settings", json!({"sidecarSets": [beta], "controllerRevisions": [revision]}))
            .about(&["/settings/controllerRevisions"]),
    ]
}

fn named(object: Value, api_version: &str, kind: &str) -> Value {
    with(object, &json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "table"}}))
}

/// Returns a value with every field of a table. Recursive tables end at a fixed depth.
fn value(table: &Table, depth: usize) -> Value {
    object(table.fields.iter().map(|field| (field.name.to_owned(), of_kind(field.kind, depth + 1))))
}

fn of_kind(kind: Kind, depth: usize) -> Value {
    if depth > 16 {
        return Value::Null;
    }
    match kind {
        Kind::Text => "a".into(),
        Kind::Time => "2026-01-02T03:04:05Z".into(),
        Kind::Bool => true.into(),
        Kind::Int32 | Kind::Int64 | Kind::IntOrString => 1.into(),
        Kind::Quantity => "1Gi".into(),
        Kind::Object(table) => value(table, depth),
        Kind::Objects(table) => json!([value(table, depth)]),
        Kind::Texts => json!(["a"]),
        Kind::TextMap => json!({"a": "b"}),
        Kind::QuantityMap => json!({"cpu": "1"}),
        Kind::Any => json!({"a": [{"b": "c"}]}),
    }
}
