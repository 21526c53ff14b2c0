//! The SidecarSet CustomResourceDefinition: a superset of OpenKruise's for both versions (docs/spec/sidecarset.md).
//!
//! Every object that passes OpenKruise's schema passes this one and gets the same defaults (API-5), so hashes stay the
//! same. The schema also has the identity fields, which OpenKruise's schema would prune.

mod descriptions;
mod structural;

use pillion_sidecarset::tables::{SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Table};
use serde_json::{Map, Value, json};

use super::document::{Document, metadata};

/// The name of the definition, which has to be `<plural>.<group>`.
pub const NAME: &str = "sidecarsets.apps.kruise.io";

/// The way in which the API server converts between versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Change `apiVersion` only. Both versions then have the fields of both.
    None,
    /// Call a webhook with this `clientConfig`.
    Webhook(Value),
}

/// Returns the definition, with these annotations.
pub fn document(instance: &str, conversion: &Conversion, annotations: &Value) -> Document {
    let is_union = *conversion == Conversion::None;
    let version = |name: &str, table: &'static Table, is_stored: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": is_stored,
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns(),
            "schema": {"openAPIV3Schema": structural::schema(table, is_union)},
        })
    };
    let conversion = match conversion {
        Conversion::None => json!({"strategy": "None"}),
        Conversion::Webhook(client) => json!({
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
        }),
    };
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata(NAME, None, instance, "crd", annotations),
        "spec": {
            "group": "apps.kruise.io",
            "names": {
                "kind": "SidecarSet",
                "listKind": "SidecarSetList",
                "plural": "sidecarsets",
                "singular": "sidecarset",
            },
            "scope": "Cluster",
            "conversion": conversion,
            // API-2: v1beta1 is the stored version, as in OpenKruise's definition.
            "versions": [
                version("v1alpha1", &SIDECAR_SET_V1ALPHA1, false),
                version("v1beta1", &SIDECAR_SET_V1BETA1, true),
            ],
        },
    });
    Document::new(
        "sidecarset-crd",
        "SidecarSets as objects of the cluster. Accepts whatever OpenKruise's definition accepts, and the fields of \
         identities. Where OpenKruise is installed, it takes the place of OpenKruise's.",
        object,
    )
}

/// Returns the fields of a spec that only one version has, with their schemas: without a webhook that converts, every
/// version needs them, or the API server drops them.
pub fn fields_of_one_version(version: &str) -> Map<String, Value> {
    let table = if version == "v1alpha1" { &SIDECAR_SET_V1ALPHA1 } else { &SIDECAR_SET_V1BETA1 };
    structural::fields_of_one_version(table)
}

/// Returns the printer columns (API-3).
fn columns() -> Value {
    json!([
        {"name": "MATCHED", "type": "integer", "jsonPath": ".status.matchedPods",
         "description": "How many Pods it was injected into."},
        {"name": "UPDATED", "type": "integer", "jsonPath": ".status.updatedPods",
         "description": "How many of them have its latest version."},
        {"name": "READY", "type": "integer", "jsonPath": ".status.readyPods",
         "description": "How many of them are ready."},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp",
         "description": "When it was created."},
    ])
}
