//! What a Pod or its Namespace asks for (OVR-3, OVR-4).

use std::collections::BTreeMap;
use std::fmt;

use pillion_kubernetes::json;
use pillion_kubernetes::quantity::Quantity;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use crate::expression::{Expression, Section, Slot};

use super::PREFIX;

/// The most bytes of an annotation with overrides.
const TEXT_MAX: usize = 4096;

/// Istio's annotations of a Pod for the amounts of its proxy, with the amount of each (OVR-4).
pub const ISTIO: [(&str, (Section, Slot)); 4] = [
    ("sidecar.istio.io/proxyCPU", (Section::Requests, Slot::Cpu)),
    ("sidecar.istio.io/proxyCPULimit", (Section::Limits, Slot::Cpu)),
    ("sidecar.istio.io/proxyMemory", (Section::Requests, Slot::Memory)),
    ("sidecar.istio.io/proxyMemoryLimit", (Section::Limits, Slot::Memory)),
];

/// A field of a sidecar that may be overridden.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Cpu or memory.
    Amount(Section, Slot),
    /// The value of an environment variable.
    Variable(String),
    /// The tag of the image.
    ImageTag,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(section, slot) => write!(f, "resources.{}.{}", section.key(), slot.variable()),
            Self::Variable(name) => write!(f, "env[{name}]"),
            Self::ImageTag => f.write_str("imageTag"),
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An annotation of the Pod.
    Pod,
    /// The same annotation of its Namespace.
    Namespace,
    /// An annotation of the Pod that Istio reads as well.
    Istio(&'static str),
}

impl By {
    /// Returns the annotation that asks for something in a container.
    pub fn annotation(self, container: &str) -> String {
        match self {
            Self::Pod | Self::Namespace => format!("{PREFIX}{container}"),
            Self::Istio(key) => key.to_owned(),
        }
    }

    /// Returns the kind of the object that has the annotation.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Pod | Self::Istio(_) => "Pod",
            Self::Namespace => "Namespace",
        }
    }
}

/// Returns the container that an annotation is about, if it is one with overrides.
pub fn container_of(key: &str) -> Option<&str> {
    key.strip_prefix(PREFIX)
}

/// What one annotation asks for in a container: its fields with the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked(pub BTreeMap<Field, String>);

/// The annotation's JSON.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
struct Shape {
    resources: Resources,
    env: BTreeMap<String, String>,
    image_tag: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Resources {
    limits: Amounts,
    requests: Amounts,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Amounts {
    #[serde(deserialize_with = "amount")]
    cpu: Option<String>,
    #[serde(deserialize_with = "amount")]
    memory: Option<String>,
}

/// Reads an amount, as a text or a number. Returns it as Kubernetes writes it.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    canonical(&value).map(Some).map_err(D::Error::custom)
}

/// Returns an amount as Kubernetes writes it.
fn canonical(value: &Value) -> Result<String, String> {
    let quantity = Quantity::from_json(value).map_err(|error| error.to_string())?;
    let text = quantity.to_string();
    // Where a resourcesPolicy computes the resources, the amount takes the place of an expression.
    let is_usable = !quantity.is_negative() && Expression::parse(&text).is_ok_and(|amount| amount.is_constant());
    if is_usable { Ok(text) } else { Err("is no amount of cpu or memory, as in 250m or 512Mi".to_owned()) }
}

impl Asked {
    /// Reads the annotation of a Pod or a Namespace.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("has {} bytes; at most {TEXT_MAX} are read", text.len()));
        }
        let value: Value = json::parse(text.as_bytes()).map_err(|_| "is no JSON".to_owned())?;
        if !value.is_object() {
            return Err(format!("cannot be read: must be an object, found {}", json::type_name(&value)));
        }
        let shape: Shape = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { format!("{path}: ") };
            format!("cannot be read: {place}{}", error.inner())
        })?;
        let Shape { resources: Resources { limits, requests }, env, image_tag } = shape;
        let amounts = [(Section::Limits, limits), (Section::Requests, requests)];
        let amounts = amounts.into_iter().flat_map(|(section, Amounts { cpu, memory })| {
            [(Slot::Cpu, cpu), (Slot::Memory, memory)].map(|(slot, amount)| (Field::Amount(section, slot), amount))
        });
        let variables = env.into_iter().map(|(name, value)| (Field::Variable(name), Some(value)));
        let all = amounts.chain(variables).chain([(Field::ImageTag, image_tag)]);
        Ok(Self(all.filter_map(|(field, value)| Some((field, value?))).collect()))
    }

    /// Reads one of Istio's annotations ([`ISTIO`]).
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse_istio((section, slot): (Section, Slot), text: &str) -> Result<Self, String> {
        let amount = canonical(&Value::from(text))?;
        Ok(Self(BTreeMap::from([(Field::Amount(section, slot), amount)])))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn shown(asked: &Asked) -> Vec<String> {
        asked.0.iter().map(|(field, value)| format!("{field}={value}")).collect()
    }

    #[rstest]
    #[case::nothing("{}", &[])]
    #[case::amounts(
        r#"{"resources":{"limits":{"cpu":1,"memory":"1Gi"},"requests":{"cpu":"0.5","memory":"1e6"}}}"#,
        &["resources.limits.cpu=1", "resources.limits.memory=1Gi", "resources.requests.cpu=500m", "resources.requests.memory=1e6"]
    )]
    #[case::all(
        r#"{"resources":{"limits":{"memory":" 64Mi "}},"env":{"LEVEL":"debug"},"imageTag":"1.2"}"#,
        &["resources.limits.memory=64Mi", "env[LEVEL]=debug", "imageTag=1.2"]
    )]
    fn ovr3_an_annotation_asks_for_fields(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(shown(&Asked::parse(text).unwrap()), expected);
    }

    #[rstest]
    #[case::no_json("memory: 1Gi", "is no JSON")]
    #[case::a_list("[]", "cannot be read: must be an object, found a list")]
    #[case::another_field(
        r#"{"command":["sh"]}"#,
        "cannot be read: command: unknown field `command`, expected one of `resources`, `env`, `imageTag`"
    )]
    #[case::another_resource(
        r#"{"resources":{"limits":{"gpu":"1"}}}"#,
        "cannot be read: resources.limits.gpu: unknown field `gpu`, expected `cpu` or `memory`"
    )]
    #[case::negative(
        r#"{"resources":{"limits":{"cpu":"-1"}}}"#,
        "cannot be read: resources.limits.cpu: is no amount of cpu or memory, as in 250m or 512Mi"
    )]
    #[case::finer_than_a_thousandth(
        r#"{"resources":{"limits":{"cpu":"100u"}}}"#,
        "cannot be read: resources.limits.cpu: is no amount of cpu or memory, as in 250m or 512Mi"
    )]
    #[case::an_expression(
        r#"{"resources":{"limits":{"memory":"memory*2"}}}"#,
        r#"cannot be read: resources.limits.memory: not a quantity: write a number and, right after it, an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent (e3), such as "500m" or "1Gi""#
    )]
    #[case::a_number_as_value(
        r#"{"env":{"LEVEL":3}}"#,
        "cannot be read: env.LEVEL: invalid type: number, expected a string"
    )]
    fn ovr3_anything_else_cannot_be_read(#[case] text: &str, #[case] problem: &str) {
        assert_eq!(Asked::parse(text).unwrap_err(), problem);
    }

    #[test]
    fn ovr3_a_long_annotation_is_not_read() {
        let text = format!(r#"{{"imageTag":"{}"}}"#, "1".repeat(TEXT_MAX));
        assert!(Asked::parse(&text).unwrap_err().ends_with("at most 4096 are read"));
    }

    #[rstest]
    #[case("sidecar.istio.io/proxyCPU", "100m", "resources.requests.cpu=100m")]
    #[case("sidecar.istio.io/proxyCPULimit", "2", "resources.limits.cpu=2")]
    #[case("sidecar.istio.io/proxyMemory", "128Mi", "resources.requests.memory=128Mi")]
    #[case("sidecar.istio.io/proxyMemoryLimit", "1Gi", "resources.limits.memory=1Gi")]
    fn ovr4_istio_has_an_annotation_for_each_amount(#[case] key: &str, #[case] text: &str, #[case] expected: &str) {
        let (_, amount) = ISTIO.iter().find(|(known, _)| *known == key).unwrap();
        assert_eq!(shown(&Asked::parse_istio(*amount, text).unwrap()), [expected]);
    }
}
