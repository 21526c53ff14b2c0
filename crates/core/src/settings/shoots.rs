//! `shoots`: the rules for Gardener Shoots (serviceaccounts.md, G).

use std::collections::BTreeSet;

use serde_json::Value;

use super::read::wrong_type;
use crate::field::{Cause, FieldError, Place, Report};
use crate::node::Node;

/// Where the kinds that are known hold a `kubeAPIServer`: Shoot, Garden, `ManagedSeedSet`.
const PREFIXES: [&str; 3] = [
    "spec.kubernetes.kubeAPIServer",
    "spec.virtualCluster.kubernetes.kubeAPIServer",
    "spec.shootTemplate.spec.kubernetes.kubeAPIServer",
];
const CONFIG: &str = ".serviceAccountConfig";
const NO_PATH: &str = "must be a dotted path from the object's root, as in spec.kubernetes.kubeAPIServer";
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

pub(super) fn decode(settings: &Node<'_, '_>, errors: &mut Vec<FieldError>) -> ShootSettings {
    let mut decoded = ShootSettings::default();
    let object = match settings.value {
        Value::Null => return decoded,
        Value::Object(object) => object,
        other => {
            errors.push(wrong_type(&settings.place, other, "an object"));
            return decoded;
        }
    };
    for (key, value) in object {
        let setting = Node { value, place: settings.at(key) };
        match (key.as_str(), value) {
            ("enabled" | "managedIssuer" | "migration" | "pathPrefixes", Value::Null) => {}
            ("enabled", Value::Bool(enabled)) => decoded.enabled = *enabled,
            ("enabled", other) => errors.push(wrong_type(&setting.place, other, "true or false")),
            ("migration", _) => {
                if is_first(&setting, &["Deny", "Warn"], errors) {
                    decoded.migration = Migration::Deny;
                }
            }
            ("managedIssuer", _) => {
                if is_first(&setting, &["Unsupported", "Supported"], errors) {
                    decoded.managed_issuer = ManagedIssuer::Unsupported;
                }
            }
            ("pathPrefixes", Value::Array(list)) => prefixes(list, &setting.place, &mut decoded.paths, errors),
            ("pathPrefixes", other) => errors.push(wrong_type(&setting.place, other, "a list")),
            _ => errors.report(Cause::Unknown, &setting.place, None, KEYS),
        }
    }
    decoded
}

/// The paths of the configs; a prefix may name the config itself. An empty list leaves the default ones.
fn prefixes(list: &[Value], place: &Place<'_>, paths: &mut Vec<String>, errors: &mut Vec<FieldError>) {
    if !list.is_empty() {
        paths.clear();
    }
    let mut known = BTreeSet::new();
    for (index, prefix) in list.iter().enumerate() {
        let at = place.index(index);
        let Some(prefix) = prefix.as_str() else {
            errors.push(wrong_type(&at, prefix, "a dotted path"));
            continue;
        };
        let whole = if prefix.ends_with(CONFIG) { prefix.to_owned() } else { [prefix, CONFIG].concat() };
        if prefix.split('.').any(str::is_empty) || !prefix.as_bytes().first().is_some_and(u8::is_ascii_lowercase) {
            errors.invalid(&at, prefix, NO_PATH);
        } else if known.insert(whole.clone()) {
            paths.push(whole);
        } else {
            errors.duplicate(&at, prefix);
        }
    }
}

/// Whether the first of two values is written; an error where neither is.
pub(super) fn is_first(setting: &Node<'_, '_>, values: &[&str; 2], errors: &mut Vec<FieldError>) -> bool {
    let Some(text) = setting.value.as_str() else {
        errors.push(wrong_type(&setting.place, setting.value, "a string"));
        return false;
    };
    let [first, second] = values;
    if text != *first && text != *second {
        errors.not_supported(&setting.place, text, values);
    }
    text == *first
}
