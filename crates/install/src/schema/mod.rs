//! The JSON Schema (draft 2020-12) of the policy's settings, of the manifests in them and of the policies that hold them,
//! for editors and CI, and the Markdown reference made from it. The types that the policy decodes settings into yield
//! the schema of the settings; the core's tables of fields yield that of the manifests, which stay JSON.
//!
//! A schema checks the shape only. Everything that the policy accepts is valid; nearly everything that it rejects while
//! decoding is invalid. Other rules (unique names, conflicts, expressions) are checked by `pillion check`. There is one
//! exception: the schema describes the identity fields as their feature gate requires them.

mod definitions;
pub(crate) mod fields;
pub mod markdown;
mod policy;

use std::sync::LazyLock;

use pillion_admission::settings;
use pillion_sidecarset::tables::SIDECAR_SET_V1BETA1;
use serde_json::Value;

use self::definitions::Definitions;
pub use self::policy::of_policy;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

static OF_SETTINGS: LazyLock<Value> = LazyLock::new(settings_with_manifests);

/// Returns the schema of the settings.
pub fn of_settings() -> Value {
    OF_SETTINGS.clone()
}

/// Returns the names, sorted, and schemas of the settings, or of the members of one setting. An empty name selects the
/// settings themselves.
pub fn members(setting: &str) -> impl Iterator<Item = (&'static str, &'static Value)> {
    let root = OF_SETTINGS.get("properties");
    let properties = match setting {
        "" => root,
        setting => root.and_then(|settings| settings.get(setting)?.get("properties")),
    };
    let members = properties.and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, schema)| (name.as_str(), schema))
}

fn settings_with_manifests() -> Value {
    let mut schema = settings::schema::of_settings();
    let mut definitions = Definitions::default();
    let items =
        [("sidecarSets", definitions.sidecar_set()), ("controllerRevisions", definitions.controller_revision())];
    if let Some(properties) = schema.get_mut("properties") {
        for (list, item) in items {
            if let Some(list) = properties.get_mut(list).and_then(Value::as_object_mut) {
                list.insert("items".to_owned(), item);
            }
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$defs".to_owned(), definitions.into_value());
    }
    schema
}

/// Returns the schema of a `SidecarSet` manifest of either version.
pub fn of_sidecar_set() -> Value {
    let mut definitions = Definitions::default();
    let mut schema = definitions.sidecar_set();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".to_owned(), DRAFT.into());
        schema.insert("description".to_owned(), fields::of_type(SIDECAR_SET_V1BETA1.name).into());
        schema.insert("$defs".to_owned(), definitions.into_value());
    }
    schema
}
