//! `shoots`: the rules for Gardener Shoots (serviceaccounts.md, G).

use serde_json::Value;

use super::read::{items, wrong_type};
use crate::field::{Cause, FieldError, FieldPath};
use crate::ordered::Set;

/// Where the kinds that are known hold a `kubeAPIServer`: Shoot, Garden, `ManagedSeedSet`.
const PREFIXES: [&str; 3] = [
    "spec.kubernetes.kubeAPIServer",
    "spec.virtualCluster.kubernetes.kubeAPIServer",
    "spec.shootTemplate.spec.kubernetes.kubeAPIServer",
];
const CONFIG: &str = ".serviceAccountConfig";
const KEYS: &str = "known here: enabled, managedIssuer, migration, pathPrefixes";

/// `shoots`. [`Default`] is what `{}` decodes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShootSettings {
    /// `enabled`: without it, every object is accepted.
    pub enabled: bool,
    /// `pathPrefixes`: the dotted paths at which objects may hold a `serviceAccountConfig`, that name included.
    pub paths: Vec<String>,
    /// `migration`.
    pub migration: Migration,
    /// `managedIssuer`.
    pub managed_issuer: ManagedIssuer,
}

/// What happens where an issuer changes and its tokens would stop working at once (W1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// It is refused.
    Deny,
    /// It is accepted with a warning.
    Warn,
}

/// Whether the Gardener installation has a discovery server: for Gardener, a Secret says so (D16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedIssuer {
    /// It has.
    Supported,
    /// It has none.
    Unsupported,
}

impl Default for ShootSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            paths: PREFIXES.map(|prefix| [prefix, CONFIG].concat()).into(),
            migration: Migration::Warn,
            managed_issuer: ManagedIssuer::Supported,
        }
    }
}

pub(super) fn decode(settings: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> ShootSettings {
    let mut decoded = ShootSettings::default();
    let object = match settings {
        Value::Null => return decoded,
        Value::Object(object) => object,
        other => {
            errors.push(wrong_type(path, &other, "an object"));
            return decoded;
        }
    };
    for (key, value) in object {
        let path = path.child(&key);
        match (key.as_str(), value) {
            ("enabled" | "managedIssuer" | "migration" | "pathPrefixes", Value::Null) => {}
            ("enabled", Value::Bool(enabled)) => decoded.enabled = enabled,
            ("enabled", other) => errors.push(wrong_type(&path, &other, "true or false")),
            ("migration", value) => match chosen(&value, &["Deny", "Warn"], &path, errors) {
                Some("Deny") => decoded.migration = Migration::Deny,
                _ => decoded.migration = Migration::Warn,
            },
            ("managedIssuer", value) => match chosen(&value, &["Supported", "Unsupported"], &path, errors) {
                Some("Unsupported") => decoded.managed_issuer = ManagedIssuer::Unsupported,
                _ => decoded.managed_issuer = ManagedIssuer::Supported,
            },
            ("pathPrefixes", value) => {
                let paths = prefixes(value, &path, errors);
                if !paths.is_empty() {
                    decoded.paths = paths;
                }
            }
            _ => errors.push(FieldError::new(&path, Cause::Unknown, KEYS)),
        }
    }
    decoded
}

/// The paths of the configs; a prefix may name the config itself.
fn prefixes(list: Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut paths = Vec::new();
    let mut seen = Set::new();
    for (index, prefix) in items(list, path, errors).into_iter().enumerate() {
        let at = path.index(index);
        let Value::String(mut prefix) = prefix else {
            errors.push(wrong_type(&at, &prefix, "a dotted path"));
            continue;
        };
        if prefix.split('.').any(str::is_empty) || !prefix.starts_with(|first: char| first.is_ascii_lowercase()) {
            let detail = "must be a dotted path from the object's root, as in spec.kubernetes.kubeAPIServer";
            errors.push(FieldError::invalid(&at, prefix, detail));
            continue;
        }
        if !prefix.ends_with(CONFIG) {
            prefix.push_str(CONFIG);
        }
        if seen.insert(prefix.clone()) {
            paths.push(prefix);
        } else {
            errors.push(FieldError::duplicate(&at, prefix));
        }
    }
    paths
}

/// The one of `values` that is written.
fn chosen<'a>(value: &Value, values: &[&'a str], path: &FieldPath, errors: &mut Vec<FieldError>) -> Option<&'a str> {
    let Some(text) = value.as_str() else {
        errors.push(wrong_type(path, value, "a string"));
        return None;
    };
    let known = values.iter().copied().find(|known| *known == text);
    if known.is_none() {
        errors.push(FieldError::not_supported(path, text, values));
    }
    known
}
