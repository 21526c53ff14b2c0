//! Validation against the whitelist of patchPodMetadata (VAL-20 to VAL-22).

use std::borrow::Cow;

use pillion_kubernetes::field::{FieldErrors, joined, shortened};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Lookup, ObjectRef};
use pillion_kubernetes::node::Node;
use pillion_kubernetes::outcome::Code;
use pillion_kubernetes::selector::Selector;
use pillion_pattern::{EFFORT_MAX, Pattern, STEPS_TOGETHER_MAX, TOO_MANY_EXPRESSIONS};
use serde_json::Value;

use super::LookupErrors;
use crate::gates::Gates;
use crate::names;
use crate::sidecar_set::SidecarSet;

const PATCHES: &str = "patchPodMetadata";

/// Checks that the whitelist allows the annotations that `set` patches.
///
/// `inline` is the whitelist of the settings, the JSON object `{"rules": [{"selector", "allowedAnnotationKeyExprs"}]}`.
/// Without it, reads the ConfigMap in `system_namespace` once, and only if `set` patches annotations.
pub fn check(
    set: &SidecarSet,
    gates: Gates,
    inline: Option<&Value>,
    system_namespace: &str,
    lookup: &dyn Lookup,
    findings: &mut LookupErrors,
) {
    let object = Node::root(set.as_value());
    let spec = object.part("spec");
    if spec.list(PATCHES).is_empty() {
        return;
    }
    let rules = match inline {
        Some(rules) => Some(Cow::Borrowed(rules)),
        None => match read(system_namespace, lookup) {
            Ok(rules) => rules.map(Cow::Owned),
            Err((Code::Unavailable, problem)) => return findings.unavailable.required(&spec.at(PATCHES), &problem),
            Err((_, problem)) => return findings.invalid.required(&spec.at(PATCHES), &problem),
        },
    };
    let allowed = match rules.as_deref().map_or(Ok(Vec::new()), |rules| patterns(rules, set)) {
        Ok(allowed) => allowed,
        Err(problem) => return findings.invalid.required(&spec.at(PATCHES), &problem),
    };
    if allowed.is_empty() {
        if !gates.patch_pod_metadata_defaults_allowed {
            let wrong = match rules {
                None => "there is no whitelist; set patchPodMetadataWhitelist in the settings",
                Some(_) => "no rule of the whitelist is for this SidecarSet; add one to patchPodMetadataWhitelist",
            };
            findings.invalid.required(&spec.at(PATCHES), wrong);
        }
        return;
    }
    let mut left = EFFORT_MAX;
    for patch in spec.items(PATCHES) {
        for (key, _) in json::string_map(patch.value, &["annotations"]) {
            let effort = allowed.iter().fold(0_usize, |sum, pattern| sum.saturating_add(pattern.effort(key)));
            let Some(less) = left.checked_sub(effort) else {
                let wrong = "too many annotations for the expressions of the whitelist; patch fewer in one SidecarSet";
                return findings.invalid.required(&spec.at(PATCHES), wrong);
            };
            left = less;
            if !allowed.iter().any(|pattern| pattern.is_match(key)) {
                let wrong = "the whitelist does not allow this annotation; add it to patchPodMetadataWhitelist";
                findings.invalid.invalid(&patch.at("annotations").key(key), key, wrong);
            }
        }
    }
}

/// Reads the whitelist of the cluster. Returns `None` if there is none (VAL-21).
fn read(namespace: &str, lookup: &dyn Lookup) -> Result<Option<Value>, (Code, String)> {
    let name = names::WHITELIST_CONFIG_MAP;
    let object = ObjectRef {
        api_version: "v1",
        kind: "ConfigMap",
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    let found = lookup.get(&object).map_err(|_| {
        let wrong = format!(
            "ConfigMap \"{namespace}/{name}\" could not be read; try again, or set patchPodMetadataWhitelist in the settings"
        );
        (Code::Unavailable, wrong)
    })?;
    let key = names::WHITELIST_KEY;
    let parse = |text: &str| {
        json::parse(text.as_bytes())
            .map_err(|error| (Code::Invalid, format!("{key} in ConfigMap \"{namespace}/{name}\" is no JSON: {error}")))
    };
    found.as_ref().and_then(|config_map| json::at(config_map, &["data", key])?.as_str()).map(parse).transpose()
}

/// Returns the patterns of the rules that apply to this `SidecarSet`: rules without a selector, and rules whose
/// selector matches its labels. The patterns of other rules are not read.
fn patterns(whitelist: &Value, set: &SidecarSet) -> Result<Vec<Pattern>, String> {
    let labels = json::object(set.as_value(), &["metadata", "labels"]);
    let (mut patterns, mut steps) = (Vec::new(), 0_usize);
    for (index, rule) in list(whitelist, "rules", "whitelist")?.iter().enumerate() {
        let name = format!("whitelist.rules[{index}]");
        let selector = json::at(rule, &["selector"]).filter(|selector| !selector.is_null());
        if let Some(selector) = selector {
            let selector = Selector::parse(selector)
                .map_err(|errors| format!("{name}.selector cannot be used: {}", joined(&errors)))?;
            if !selector.matches_labels(labels) {
                continue;
            }
        }
        for pattern in list(rule, "allowedAnnotationKeyExprs", &name)? {
            let text = pattern.as_str().ok_or_else(|| format!("{name}.allowedAnnotationKeyExprs must hold strings"))?;
            let pattern = Pattern::new(text).map_err(|error| {
                format!("{name}.allowedAnnotationKeyExprs: \"{}\" cannot be used: {error}", shortened(text))
            })?;
            steps = steps.saturating_add(pattern.steps());
            if steps > STEPS_TOGETHER_MAX {
                return Err(format!("{name}.allowedAnnotationKeyExprs: {TOO_MANY_EXPRESSIONS}"));
            }
            patterns.push(pattern);
        }
    }
    Ok(patterns)
}

/// Returns the list at `key` of an object. As in the reference, absent and null mean empty.
fn list<'a>(value: &'a Value, key: &str, name: &str) -> Result<&'a [Value], String> {
    let object = match value {
        Value::Null => return Ok(&[]),
        Value::Object(object) => object,
        _ => return Err(format!("{name} must be an object")),
    };
    match object.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{name}.{key} must be a list")),
    }
}
