//! The SidecarSet CustomResourceDefinition: a superset of OpenKruise's for both versions (`sidecarset.md`, section 1).
//!
//! Whatever passes OpenKruise's schema passes this one, and gets the same defaults from it, so that hashes stay
//! the same. It has the fields of identities, too, which OpenKruise's would prune.

mod descriptions;
mod structural;

use pillion_sidecarset::schema::{SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1, Schema};
use serde_json::{Value, json};

use super::document::{Document, metadata};

/// `<plural>.<group>`, as a definition has to be called.
pub const NAME: &str = "sidecarsets.apps.kruise.io";

/// How the API server makes one version of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// It changes `apiVersion` and nothing else, so both versions have the fields of both.
    None,
    /// It asks a webhook, whose `clientConfig` this is.
    Webhook(Value),
}

/// The definition. `annotations` are added to it.
pub fn document(instance: &str, conversion: &Conversion, annotations: &Value) -> Document {
    let is_union = *conversion == Conversion::None;
    let version = |name: &str, table: &'static Schema, is_stored: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": is_stored,
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns(),
            "schema": {"openAPIV3Schema": structural::of(table, is_union)},
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
            // v1beta1 is stored, here and there.
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

///
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
