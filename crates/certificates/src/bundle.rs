//! `caBundle`: the authorities that the API server trusts for a webhook.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::names::ServerNames;
use crate::pem;
use crate::x509::Id;

/// An object with `caBundle`s.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaBundleTarget {
    /// A `MutatingWebhookConfiguration`, by name.
    Mutating(String),
    /// A `ValidatingWebhookConfiguration`, by name.
    Validating(String),
    /// A `CustomResourceDefinition` with a conversion webhook, by name.
    Conversion(String),
}

impl CaBundleTarget {
    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Mutating(name) | Self::Validating(name) | Self::Conversion(name) => name,
        }
    }

    /// Returns the group and the resource for the object's URL.
    pub(crate) fn resource(&self) -> (&'static str, &'static str) {
        match self {
            Self::Mutating(_) => ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
            Self::Validating(_) => ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            Self::Conversion(_) => ("apiextensions.k8s.io", "customresourcedefinitions"),
        }
    }
}

impl fmt::Display for CaBundleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Mutating(_) => "MutatingWebhookConfiguration",
            Self::Validating(_) => "ValidatingWebhookConfiguration",
            Self::Conversion(_) => "CustomResourceDefinition",
        };
        write!(f, "{kind} \"{}\"", self.name())
    }
}

/// The Service that the API server calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
}

/// A `clientConfig` that calls this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaBundlePlace {
    /// The JSON pointer to it.
    pointer: String,
    /// The content of its `caBundle`; `None` if it is absent or not base64.
    bundle: Option<Vec<u8>>,
}

/// Returns the places in an object that call the Service, or one of the names by URL. Other places are not ours.
pub(crate) fn places(
    target: &CaBundleTarget,
    object: &Value,
    service: &Service,
    names: &ServerNames,
) -> Vec<CaBundlePlace> {
    let configs: Vec<(String, Option<&Value>)> = match target {
        CaBundleTarget::Mutating(_) | CaBundleTarget::Validating(_) => {
            let webhooks = object.get("webhooks").and_then(Value::as_array).into_iter().flatten().enumerate();
            webhooks
                .map(|(index, webhook)| (format!("/webhooks/{index}/clientConfig"), webhook.get("clientConfig")))
                .collect()
        }
        CaBundleTarget::Conversion(_) => {
            let pointer = "/spec/conversion/webhook/clientConfig";
            let is_webhook = object.pointer("/spec/conversion/strategy").is_some_and(|strategy| strategy == "Webhook");
            vec![(pointer.to_owned(), object.pointer(pointer).filter(|_| is_webhook))]
        }
    };
    let ours = configs.into_iter().filter_map(|(pointer, config)| Some((pointer, config?)));
    let ours = ours.filter(|(_, config)| calls(config, service, names));
    ours.map(|(pointer, config)| {
        let text = config.get("caBundle").and_then(Value::as_str);
        CaBundlePlace { pointer, bundle: text.and_then(|text| STANDARD.decode(text).ok()) }
    })
    .collect()
}

fn calls(config: &Value, service: &Service, names: &ServerNames) -> bool {
    if let Some(called) = config.get("service") {
        let is = |key: &str, wanted: &str| called.get(key).is_some_and(|value| value == wanted);
        return is("name", &service.name) && is("namespace", &service.namespace);
    }
    let url = config.get("url").and_then(Value::as_str).and_then(|url| url.strip_prefix("https://"));
    let authority = url.and_then(|rest| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| names.has_host(host(authority)))
}

/// Returns the host of `host:port`.
fn host(authority: &str) -> &str {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { authority }
}

/// Returns the authorities that all of the places hold; `None` if there is no place.
pub(crate) fn held<'a>(places: impl IntoIterator<Item = &'a CaBundlePlace>) -> Option<BTreeSet<Id>> {
    let held = places.into_iter().map(|place| {
        let certificates = pem::certificates(place.bundle.as_deref().unwrap_or_default()).0;
        certificates.iter().map(Id::from_certificate).collect::<BTreeSet<_>>()
    });
    held.reduce(|one, other| &one & &other)
}

/// Returns the JSON patch that sets the `caBundle` of the places to `bundle`; `None` if all are up to date.
///
/// The patch requires the version of the object that was read: in another version, the indexes could mean other
/// webhooks.
pub(crate) fn patch(object: &Value, places: &[CaBundlePlace], bundle: &str) -> Option<Value> {
    let differ = places.iter().filter(|place| place.bundle.as_deref() != Some(bundle.as_bytes()));
    let encoded = STANDARD.encode(bundle);
    let mut changes: Vec<Value> = differ
        .map(|place| json!({"op": "add", "path": format!("{}/caBundle", place.pointer), "value": encoded}))
        .collect();
    if changes.is_empty() {
        return None;
    }
    let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    changes.insert(0, json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}));
    Some(Value::Array(changes))
}
