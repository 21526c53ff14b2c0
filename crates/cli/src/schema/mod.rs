//! The JSON Schema (draft 2020-12) of the policy's settings and of the manifests in them, for editors and CI, and the
//! reference for people that is made of the same tables.
//!
//! A schema says what has the right shape: whatever the policy takes is valid, and nearly whatever it refuses while it
//! decodes is not. What a schema cannot say (unique names, conflicts, expressions) is for `pillion check`. There is one
//! exception: the fields of identities are described as they have to be once their feature gate is on.

mod definitions;
pub(crate) mod fields;
pub mod markdown;
pub mod service_accounts;
pub mod settings;

use serde_json::{Map, Value, json};

use pillion_core::schema::SIDECAR_SET_V1BETA1;

use self::definitions::Definitions;
use self::settings::SETTINGS;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of the settings.
pub fn of_settings() -> Value {
    let mut definitions = Definitions::default();
    let properties: Map<String, Value> =
        SETTINGS.iter().map(|setting| (setting.name.to_owned(), setting.schema(&mut definitions))).collect();
    json!({
        "$schema": DRAFT,
        "title": "Settings of the Pillion policy",
        "description": "What a Kubewarden policy that runs Pillion has as its settings.",
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
        "$defs": definitions.into_value(),
    })
}

/// The schema of a `SidecarSet` manifest of either version.
pub fn of_sidecar_set() -> Value {
    let mut definitions = Definitions::default();
    let mut schema = definitions.sidecar_set();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".to_owned(), DRAFT.into());
        schema.insert("title".to_owned(), "SidecarSet".into());
        schema.insert("description".to_owned(), fields::of_type(SIDECAR_SET_V1BETA1.name).into());
        schema.insert("$defs".to_owned(), definitions.into_value());
    }
    schema
}
