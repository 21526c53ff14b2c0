//! Facts about settings, on which the needs of settings depend.

use anyhow::anyhow;
use pillion_admission::settings::Settings;
use pillion_identity::rules::SYSTEM_NAMESPACES;
use serde_json::{Value, json};

use super::super::needs::Needs;

/// A fact about settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The name in the chart's data.
    pub name: &'static str,
    /// The path of the setting.
    path: &'static [&'static str],
    /// The state of the setting that makes the fact hold.
    is: Is,
}

/// When a fact holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// The setting is `true`.
    True,
    /// The setting has a value.
    Given,
    /// The setting has no value.
    Absent,
}

/// Every fact that decides about a part, a look-up or a right.
pub const ALL: [Fact; 12] = [
    Fact { name: "identities", path: &["featureGates", "SidecarSetServiceAccountInjection"], is: Is::True },
    Fact { name: "protectDefault", path: &["serviceAccounts", "protectDefault"], is: Is::True },
    Fact { name: "requireCreatePods", path: &["serviceAccounts", "requireCreatePods"], is: Is::True },
    Fact { name: "legacyTokenSecrets", path: &["serviceAccounts", "legacyTokenSecrets"], is: Is::Given },
    Fact { name: "tokensOfNamespaces", path: &["serviceAccounts", "tokenContainers", "namespaces"], is: Is::True },
    Fact { name: "tokensOtherwise", path: &["serviceAccounts", "tokenContainers", "otherwise"], is: Is::Given },
    Fact { name: "guardsExec", path: &["serviceAccounts", "guards", "exec"], is: Is::True },
    Fact { name: "guardsImages", path: &["serviceAccounts", "guards", "images"], is: Is::True },
    Fact { name: "guardsTokenRequests", path: &["serviceAccounts", "guards", "tokenRequests"], is: Is::True },
    Fact { name: "shoots", path: &["shoots", "enabled"], is: Is::True },
    Fact { name: "bundle", path: &["bundleRef"], is: Is::Given },
    Fact { name: "noWhitelist", path: &["patchPodMetadataWhitelist"], is: Is::Absent },
];

impl Fact {
    /// Returns the fact as data.
    pub fn to_value(self) -> Value {
        let is = match self.is {
            Is::True => "true",
            Is::Given => "given",
            Is::Absent => "absent",
        };
        json!({"name": self.name, "path": self.path, "is": is})
    }

    /// Makes the fact hold.
    fn hold(self, settings: &mut Value) {
        let value = match self.path {
            ["bundleRef"] => json!({"name": "bundle", "namespace": "bundles"}),
            ["serviceAccounts", "legacyTokenSecrets"] => json!("Deny"),
            ["serviceAccounts", "tokenContainers", "otherwise"] => json!([]),
            _ => json!(true),
        };
        set(settings, self.path, if self.is == Is::Absent { Value::Null } else { value });
    }
}

fn set(place: &mut Value, path: &[&str], value: Value) {
    match path {
        [] => *place = value,
        [key, rest @ ..] => {
            if let Some(members) = place.as_object_mut() {
                set(members.entry((*key).to_owned()).or_insert_with(|| json!({})), rest, value);
            }
        }
    }
}

/// Returns settings for which exactly these facts hold.
pub fn settings(facts: &[Fact]) -> Value {
    let mut settings = json!({"patchPodMetadataWhitelist": {"rules": []}});
    for fact in facts {
        fact.hold(&mut settings);
    }
    settings
}

/// Returns the needs of settings for which exactly these facts hold, with any SidecarSets.
///
/// # Errors
/// If the settings of this module do not decode, which is a bug.
pub fn needs(facts: &[Fact]) -> anyhow::Result<Needs> {
    let settings = settings(facts);
    let decoded = Settings::decode(settings.clone()).map_err(|errors| anyhow!("{settings}: {errors:?}"))?;
    Needs::from_settings(&settings, &decoded, true)
}

/// Returns the defaults of the settings that the chart reads itself.
pub fn defaults() -> Value {
    let defaults = Settings::default();
    json!({
        "facts": ALL.map(Fact::to_value),
        // The first is the rollout controller, whose name depends on the release.
        "imageUsers": defaults.service_accounts.guards.image_users,
        "protectedNamespaces": defaults.service_accounts.protected_namespaces,
        "systemNamespaces": SYSTEM_NAMESPACES,
    })
}
