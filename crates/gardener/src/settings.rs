//! The setting `shoots`: rules for Gardener Shoots (SET-11).

use std::collections::BTreeSet;

use pillion_kubernetes::field::shortened;
use pillion_kubernetes::text::{TextError, checked_text};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// The paths at which Shoot, Garden and `ManagedSeedSet` contain a `kubeAPIServer`.
const PREFIXES: [&str; 3] = [
    "spec.kubernetes.kubeAPIServer",
    "spec.virtualCluster.kubernetes.kubeAPIServer",
    "spec.shootTemplate.spec.kubernetes.kubeAPIServer",
];
const CONFIG: &str = ".serviceAccountConfig";
const NO_PATH: &str = "must be a dotted path from the object's root, as in spec.kubernetes.kubeAPIServer";

/// The setting `shoots`. [`Default`] is what `{}` decodes to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct ShootSettings {
    /// Whether these rules are on. Without it, every object is accepted.
    pub enabled: bool,
    /// The dotted paths at which objects hold a kubeAPIServer. An empty list stands for the paths of Shoot, Garden and
    /// `ManagedSeedSet`.
    // The field contains the paths of the configs, including `serviceAccountConfig`.
    #[serde(rename = "pathPrefixes", deserialize_with = "paths")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Prefix>", extend("default" = [])))]
    pub paths: Vec<String>,
    /// What happens if an issuer changes and its tokens would stop working at once.
    pub migration: Migration,
    /// Whether the Gardener installation has a discovery server.
    pub managed_issuer: ManagedIssuer,
}

/// What happens if an issuer changes and its tokens would stop working at once (W1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum Migration {
    /// It is refused.
    Deny,
    /// It is accepted with a warning.
    Warn,
}

/// Whether the Gardener installation has a discovery server: for Gardener, a Secret says so (D16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum ManagedIssuer {
    /// It has one.
    Supported,
    /// It has none.
    Unsupported,
}

impl Default for ShootSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            paths: PREFIXES.map(|prefix| format!("{prefix}{CONFIG}")).into(),
            migration: Migration::Warn,
            managed_issuer: ManagedIssuer::Supported,
        }
    }
}

checked_text!(
    /// A dotted path from the root of an object.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = r"^[a-z][^.]*(\.[^.]+)*$")))]
    Prefix,
    |text| {
        let is_path =
            text.as_bytes().first().is_some_and(u8::is_ascii_lowercase) && !text.split('.').any(str::is_empty);
        if is_path { Ok(()) } else { Err(TextError::Malformed { text: text.to_owned(), problem: NO_PATH }) }
    }
);

impl Prefix {
    /// Returns the path of the config. The prefix may already end in it.
    fn config(&self) -> String {
        let path = self.as_str().strip_suffix(CONFIG).unwrap_or(self.as_str());
        format!("{path}{CONFIG}")
    }
}

/// Reads prefixes and returns the paths of configs. An empty list means the default paths.
fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let prefixes = Vec::<Prefix>::deserialize(deserializer)?;
    let mut known = BTreeSet::new();
    if let Some(twice) = prefixes.iter().find(|prefix| !known.insert(prefix.config())) {
        let twice = shortened(twice.as_str());
        return Err(D::Error::custom(format_args!("{twice:?}: is in the list twice; remove one")));
    }
    if prefixes.is_empty() {
        return Ok(ShootSettings::default().paths);
    }
    Ok(prefixes.iter().map(Prefix::config).collect())
}
