//! What the author of a `SidecarSet` allows (OVR-1, OVR-2).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::checked_text;
use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json;
use pillion_kubernetes::quantity::Quantity;
use pillion_kubernetes::text::TextError;
use pillion_pattern::Pattern;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use crate::expression::Slot;
use crate::image;
use crate::made;
use crate::other_webhooks::Variable;
use crate::pod;
use crate::sidecar_set::SidecarSet;

use super::OVERRIDES;

/// The most bytes of the annotation. Each Pod with an override reads it.
const TEXT_MAX: usize = 32 * 1024;
/// The most bytes of an expression for the values of a variable.
const EXPRESSION_MAX: usize = 256;

/// The annotation of a `SidecarSet`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct Rules {
    /// What happens to a Pod that asks for something else.
    #[serde(default)]
    pub out_of_bounds: OutOfBounds,
    /// Whose annotations count.
    #[serde(default = "all_sources")]
    pub from: BTreeSet<Source>,
    /// What may be overridden, by the name of the container.
    pub containers: BTreeMap<String, Allowed>,
}

/// What happens to a Pod that asks for what is not allowed (OVR-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum OutOfBounds {
    /// The Pod is refused.
    #[default]
    Refuse,
    /// The Pod gets the nearest amount that is allowed, and otherwise what the `SidecarSet` says, with a warning.
    Clamp,
}

/// Whose annotations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Source {
    /// The Pod.
    Pod,
    /// Its Namespace.
    Namespace,
}

fn all_sources() -> BTreeSet<Source> {
    BTreeSet::from([Source::Pod, Source::Namespace])
}

/// What may be overridden in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct Allowed {
    /// The bounds of its cpu.
    pub cpu: Option<Bounds>,
    /// The bounds of its memory.
    pub memory: Option<Bounds>,
    /// A regular expression for the whole value of each variable that may be overridden.
    pub env: BTreeMap<Variable, String>,
    /// The tags that its image may have.
    pub image_tags: Vec<ImageTag>,
    /// Whether Istio's annotations for the amounts of a proxy count as well.
    pub istio_annotations: bool,
}

impl Allowed {
    /// Returns the bounds of a resource; `None` if it may not be overridden.
    pub fn bounds(&self, slot: Slot) -> Option<&Bounds> {
        match slot {
            Slot::Cpu => self.cpu.as_ref(),
            Slot::Memory => self.memory.as_ref(),
        }
    }

    /// Returns the expression for the values of a variable; `None` if it may not be overridden.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known.as_str() == name).map(|(_, expression)| expression.as_str())
    }
}

/// The bounds of requests and limits. Both belong to them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with max, and min or not")]
pub struct Bounds {
    /// The least amount.
    #[serde(default, deserialize_with = "quantity")]
    pub min: Quantity,
    /// The greatest amount.
    #[serde(deserialize_with = "quantity")]
    pub max: Quantity,
}

fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    let quantity = Quantity::from_json(&Value::deserialize(deserializer)?).map_err(D::Error::custom)?;
    if quantity.is_negative() { Err(D::Error::custom("must not be negative")) } else { Ok(quantity) }
}

checked_text!(
    /// A tag, with the digest that the image must have or not.
    ImageTag,
    |text| {
        let problem = "is no tag of an image, as in 1.27.2, with @sha256:… behind it or not";
        if !text.contains('/') && image::tag(&format!("i:{text}")).is_some() {
            Ok(())
        } else {
            Err(TextError::malformed(text, problem))
        }
    }
);

impl ImageTag {
    /// Returns the tag without the digest.
    pub fn tag(&self) -> &str {
        self.as_str().split_once('@').map_or(self.as_str(), |(tag, _)| tag)
    }
}

/// Returns the path of the annotation.
fn path() -> String {
    FieldPath::new("metadata.annotations").key(OVERRIDES).to_string()
}

impl Rules {
    /// Reads the annotation of a `SidecarSet`; `None` if it has none.
    ///
    /// # Errors
    /// It is no JSON, or JSON of another shape.
    pub fn from_sidecar_set(set: &SidecarSet) -> Result<Option<Self>, FieldError> {
        let text = set.annotation(OVERRIDES);
        if text.trim().is_empty() {
            return Ok(None);
        }
        if text.len() > TEXT_MAX {
            return Err(FieldError::too_long(path(), TEXT_MAX));
        }
        let Ok(value) = json::parse(text.as_bytes()) else {
            let detail = r#"must be JSON, as in {"containers": {"agent": {"memory": {"max": "1Gi"}}}}"#;
            return Err(FieldError::new(path(), Cause::Invalid, detail));
        };
        if !value.is_object() {
            return Err(FieldError::wrong_type(path(), "an object", &value));
        }
        serde_path_to_error::deserialize(value).map(Some).map_err(|error| FieldError::undecodable(path(), &error))
    }

    /// Returns what a `SidecarSet` allows; `None` if nothing. Admission refuses an annotation that cannot be read. A
    /// `SidecarSet` that got in nevertheless allows nothing.
    pub fn allowed_by(set: &SidecarSet) -> Option<Self> {
        Self::from_sidecar_set(set).ok().flatten()
    }

    /// Whether a `SidecarSet` lets Namespaces override something.
    pub fn read_namespaces(set: &SidecarSet) -> bool {
        Self::allowed_by(set).is_some_and(|rules| rules.from.contains(&Source::Namespace))
    }
}

/// Returns what is wrong with the annotation of a `SidecarSet` (OVR-1, OVR-2).
pub fn validate(set: &SidecarSet) -> Vec<FieldError> {
    let rules = match Rules::from_sidecar_set(set) {
        Ok(Some(rules)) => rules,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![error],
    };
    let (path, mut errors) = (path(), Vec::new());
    let path = FieldPath::new(&path);
    if rules.from.is_empty() {
        errors.push(FieldError::required(path.child("from"), "name Pod, Namespace or both, or leave it out for both"));
    }
    let containers = path.child("containers");
    if rules.containers.is_empty() {
        errors.push(FieldError::required(containers, "name a container, and what may be overridden in it"));
    }
    let names: BTreeSet<&str> = made::sidecars(set).map(|(_, _, sidecar)| pod::name(sidecar)).collect();
    for (name, allowed) in &rules.containers {
        let at = containers.child(name);
        if !names.contains(name.as_str()) {
            errors.push(FieldError::not_found(
                at,
                name,
                "no container or init container of the SidecarSet has this name",
            ));
        }
        check(allowed, &at, &mut errors);
    }
    errors
}

fn check(allowed: &Allowed, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Allowed { cpu, memory, env, image_tags, istio_annotations } = allowed;
    for (key, bounds) in [("cpu", cpu), ("memory", memory)] {
        let Some(bounds) = bounds else { continue };
        let at = at.child(key);
        if bounds.max.is_zero() {
            errors.push(FieldError::invalid(at.child("max"), &bounds.max, "must be more than zero"));
        } else if bounds.min > bounds.max {
            errors.push(FieldError::invalid(at.child("min"), &bounds.min, format!("is above max, {}", bounds.max)));
        }
    }
    let has_amounts = cpu.is_some() || memory.is_some();
    if *istio_annotations && !has_amounts {
        let detail = "Istio's annotations are about cpu and memory; give bounds for one of them";
        errors.push(FieldError::invalid(at.child("istioAnnotations"), "true", detail));
    }
    for (name, expression) in env {
        let at = at.child("env");
        let problem = if expression.len() > EXPRESSION_MAX {
            format!("has more than {EXPRESSION_MAX} bytes")
        } else {
            match Pattern::new(expression) {
                Ok(_) => continue,
                Err(problem) => problem.to_string(),
            }
        };
        errors.push(FieldError::invalid(at.key(name.as_str()), expression, problem));
    }
    if !has_amounts && env.is_empty() && image_tags.is_empty() {
        errors.push(FieldError::required(at, "say what may be overridden: cpu, memory, env or imageTags"));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set(annotation: &str) -> SidecarSet {
        SidecarSet::from_decoded(json!({
            "metadata": {"name": "s", "annotations": {OVERRIDES: annotation}},
            "spec": {"containers": [{"name": "agent", "image": "agent:1"}], "initContainers": [{"name": "setup"}]},
        }))
    }

    fn shown(rules: &Value) -> Vec<String> {
        let prefix = format!("metadata.annotations[{OVERRIDES}]");
        let shown = |error: FieldError| error.to_string().replace(&prefix, "@");
        validate(&set(&rules.to_string())).into_iter().map(shown).collect()
    }

    #[test]
    fn ovr1_an_annotation_says_what_may_be_overridden() {
        let rules = json!({
            "outOfBounds": "Clamp",
            "from": ["Pod"],
            "containers": {
                "agent": {
                    "cpu": {"min": "50m", "max": 1}, "memory": {"max": "1Gi"}, "env": {"LEVEL": "debug|info"},
                    "imageTags": ["1.2", "1.3@sha256:".to_owned() + &"a".repeat(64)], "istioAnnotations": true,
                },
                "setup": {"memory": {"max": "1Gi"}},
            },
        });
        assert_eq!(shown(&rules), Vec::<String>::new());
        let read = Rules::from_sidecar_set(&set(&rules.to_string())).unwrap().unwrap();
        assert_eq!((read.out_of_bounds, read.from), (OutOfBounds::Clamp, BTreeSet::from([Source::Pod])));
        let agent = &read.containers["agent"];
        assert_eq!(agent.image_tags.iter().map(ImageTag::tag).collect::<Vec<_>>(), ["1.2", "1.3"]);
        assert_eq!((agent.variable("LEVEL"), agent.variable("OTHER")), (Some("debug|info"), None));
    }

    #[test]
    fn ovr1_without_the_annotation_nothing_may_be_overridden() {
        assert_eq!(Rules::from_sidecar_set(&set(" ")), Ok(None));
        let both = set(r#"{"containers":{"agent":{"cpu":{"max":"1"}}}}"#);
        assert!(Rules::read_namespaces(&both));
        assert!(!Rules::read_namespaces(&set("no JSON")));
    }

    #[rstest]
    #[case::no_containers(json!({}), &["@: Invalid value: missing field `containers`"])]
    #[case::a_list(json!([]), &["@: Invalid value: must be an object, found a list"])]
    #[case::empty(json!({"containers": {}}), &["@.containers: Required value: name a container, and what may be overridden in it"])]
    #[case::unknown_field(
        json!({"containers": {"agent": {"command": ["sh"]}}}),
        &["@.containers.agent.command: Invalid value: unknown field `command`, expected one of `cpu`, `memory`, `env`, `imageTags`, `istioAnnotations`"]
    )]
    fn ovr1_other_shapes(#[case] rules: Value, #[case] expected: &[&str]) {
        assert_eq!(shown(&rules), expected);
    }

    #[test]
    fn ovr2_every_error_is_told() {
        let rules = json!({
            "from": [],
            "containers": {
                "agent": {"cpu": {"max": "0"}, "memory": {"min": "2Gi", "max": "1Gi"}, "env": {"LEVEL": "(a", "B": "a".repeat(300)}},
                "other": {},
                "setup": {"istioAnnotations": true, "imageTags": ["1"]},
            },
        });
        assert_begin(
            &shown(&rules),
            &[
                "@.from: Required value: name Pod, Namespace or both, or leave it out for both",
                "@.containers.agent.cpu.max: Invalid value: \"0\": must be more than zero",
                "@.containers.agent.memory.min: Invalid value: \"2Gi\": is above max, 1Gi",
                "@.containers.agent.env[B]: Invalid value: ",
                "@.containers.agent.env[LEVEL]: Invalid value: \"(a\": ",
                "@.containers.other: Not found: \"other\": no container or init container of the SidecarSet has this name",
                "@.containers.other: Required value: say what may be overridden: cpu, memory, env or imageTags",
                "@.containers.setup.istioAnnotations: Invalid value: \"true\": Istio's annotations are about cpu and memory; give bounds for one of them",
            ],
        );
    }

    /// Compares the beginnings of messages.
    fn assert_begin(found: &[String], expected: &[&str]) {
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[rstest]
    #[case::starts_code("LD_PRELOAD")]
    #[case::finds_the_cluster("KUBERNETES_SERVICE_HOST")]
    #[case::says_that_it_is_injected("IS_INJECTED")]
    #[case::no_name("A=B")]
    fn ovr2_variables_that_decide_what_runs_cannot_be_overridden(#[case] name: &str) {
        let found = shown(&json!({"containers": {"agent": {"env": {name: "x"}}}}));
        assert!(found.len() == 1 && found[0].contains(name), "{found:?}");
    }

    #[rstest]
    #[case("")]
    #[case("a:b")]
    #[case("@sha256:aa")]
    #[case("1/2")]
    fn ovr2_tags_are_tags(#[case] tag: &str) {
        assert_eq!(shown(&json!({"containers": {"agent": {"imageTags": [tag]}}})).len(), 1);
    }
}
