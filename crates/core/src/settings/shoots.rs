//! `shoots`: the rules for Gardener Shoots (serviceaccounts.md, G).

use serde_json::Value;

use super::read::wrong_type;
use crate::field::{Cause, FieldError, FieldPath};

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

pub(super) fn decode(settings: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) -> ShootSettings {
    let mut decoded = ShootSettings::default();
    let object = match settings {
        Value::Null => return decoded,
        Value::Object(object) => object,
        other => {
            errors.push(wrong_type(path, other, "an object"));
            return decoded;
        }
    };
    for (key, value) in object {
        let path = path.child(key);
        match (key.as_str(), value) {
            ("enabled" | "managedIssuer" | "migration" | "pathPrefixes", Value::Null) => {}
            ("enabled", Value::Bool(enabled)) => decoded.enabled = *enabled,
            ("enabled", other) => errors.push(wrong_type(&path, other, "true or false")),
            ("migration", value) => {
                if is_first(value, &["Deny", "Warn"], &path, errors) {
                    decoded.migration = Migration::Deny;
                }
            }
            ("managedIssuer", value) => {
                if is_first(value, &["Unsupported", "Supported"], &path, errors) {
                    decoded.managed_issuer = ManagedIssuer::Unsupported;
                }
            }
            ("pathPrefixes", Value::Array(list)) => prefixes(list, &path, &mut decoded.paths, errors),
            ("pathPrefixes", other) => errors.push(wrong_type(&path, other, "a list")),
            _ => errors.push(FieldError::new(&path, Cause::Unknown, KEYS)),
        }
    }
    decoded
}

/// The paths of the configs; a prefix may name the config itself. An empty list leaves the default ones.
fn prefixes(list: &[Value], path: &FieldPath, paths: &mut Vec<String>, errors: &mut Vec<FieldError>) {
    if !list.is_empty() {
        paths.clear();
    }
    for (index, prefix) in list.iter().enumerate() {
        let at = path.index(index);
        let Some(prefix) = prefix.as_str() else {
            errors.push(wrong_type(&at, prefix, "a dotted path"));
            continue;
        };
        let whole = if prefix.ends_with(CONFIG) { prefix.to_owned() } else { [prefix, CONFIG].concat() };
        if prefix.split('.').any(str::is_empty) || !prefix.as_bytes().first().is_some_and(u8::is_ascii_lowercase) {
            let detail = "must be a dotted path from the object's root, as in spec.kubernetes.kubeAPIServer";
            errors.push(FieldError::invalid(&at, prefix, detail));
        } else if paths.contains(&whole) {
            errors.push(FieldError::duplicate(&at, prefix));
        } else {
            paths.push(whole);
        }
    }
}

/// Whether the first of two values is written; an error where neither is.
fn is_first(value: &Value, values: &[&str; 2], path: &FieldPath, errors: &mut Vec<FieldError>) -> bool {
    let Some(text) = value.as_str() else {
        errors.push(wrong_type(path, value, "a string"));
        return false;
    };
    let [first, second] = values;
    if text != *first && text != *second {
        errors.push(FieldError::not_supported(path, text, values));
    }
    text == *first
}
