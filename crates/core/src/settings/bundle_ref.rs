//! `bundleRef`, `onBundleUnavailable`, `bundleMaxAge`: SidecarSets that a controller keeps in a ConfigMap.

use serde_json::Value;

use super::read::wrong_type;
use super::shoots::is_first;
use crate::duration::Duration;
use crate::field::{Cause, FieldError, Report};
use crate::format;
use crate::node::Node;

/// How old a bundle may be, unless told otherwise: ten minutes, in nanoseconds.
const MAX_AGE: Duration = Duration(600_000_000_000);

/// Where the SidecarSets of the cluster are kept. [`Default`] is nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleSource {
    /// `bundleRef`.
    pub config_map: Option<ConfigMapName>,
    /// `onBundleUnavailable`.
    pub on_unavailable: OnUnavailable,
    /// `bundleMaxAge`: the longest time since the bundle was written, and the furthest that its time may be ahead of
    /// the clock. More than nothing.
    pub max_age: Duration,
}

impl Default for BundleSource {
    fn default() -> Self {
        Self { config_map: None, on_unavailable: OnUnavailable::default(), max_age: MAX_AGE }
    }
}

/// The name of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMapName {
    /// Its namespace.
    pub namespace: String,
    /// Its name; that of the index, where there are shards.
    pub name: String,
}

/// What happens to requests that need a bundle that cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnavailable {
    /// They are refused, with code 503.
    #[default]
    Deny,
    /// They are answered with the SidecarSets of the settings alone, and a warning.
    UseSettings,
}

/// Decodes one of the three settings.
pub(super) fn decode(setting: &Node<'_, '_>, key: &str, source: &mut BundleSource, errors: &mut Vec<FieldError>) {
    match (key, setting.value) {
        (_, Value::Null) => {}
        // A form that is not filled in.
        ("bundleRef", _) if ["namespace", "name"].map(|key| setting.optional_text(key)) == [Some(""); 2] => {}
        ("bundleRef", Value::Object(_)) => source.config_map = Some(config_map(setting, errors)),
        ("bundleRef", other) => errors.push(wrong_type(&setting.place, other, "an object of namespace and name")),
        ("bundleMaxAge", Value::String(text)) => match Duration::parse(text) {
            Ok(age) if age.0 > 0 => source.max_age = age,
            Ok(_) => errors.invalid(&setting.place, text, "must be longer than nothing"),
            Err(error) => errors.invalid(&setting.place, text, error.as_str()),
        },
        ("bundleMaxAge", other) => errors.push(wrong_type(&setting.place, other, "a duration, as in \"10m\"")),
        _ => {
            let is_lenient = is_first(setting, &["UseSettings", "Deny"], errors);
            source.on_unavailable = if is_lenient { OnUnavailable::UseSettings } else { OnUnavailable::Deny };
        }
    }
}

fn config_map(setting: &Node<'_, '_>, errors: &mut Vec<FieldError>) -> ConfigMapName {
    for (key, value) in setting.value.as_object().into_iter().flatten() {
        let place = setting.at(key);
        match (key.as_str(), value) {
            ("namespace" | "name", Value::Null) => {}
            ("namespace", Value::String(text)) => errors.wrong(&place, text, format::dns_label(text)),
            ("name", Value::String(text)) => errors.wrong(&place, text, format::dns_subdomain(text)),
            ("namespace" | "name", other) => errors.push(wrong_type(&place, other, "a string")),
            _ => errors.report(Cause::Unknown, &place, None, "known here: namespace, name"),
        }
    }
    for key in ["namespace", "name"] {
        if !setting.has(key) {
            setting.required(key, "say which ConfigMap it is", errors);
        }
    }
    ConfigMapName { namespace: setting.text("namespace").to_owned(), name: setting.text("name").to_owned() }
}
