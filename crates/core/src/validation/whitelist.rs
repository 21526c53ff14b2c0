//! The whitelist of patchPodMetadata (V-20 to V-22).

use std::borrow::Cow;

use serde_json::Value;

use crate::field::{FieldError, FieldPath};
use crate::gates::Gates;
use crate::json;
use crate::lookup::{Answer, Lookup, ObjectRef};
use crate::names;
use crate::outcome::Code;
use crate::pattern::Pattern;
use crate::selector::Selector;
use crate::sidecar_set::SidecarSet;

use super::Finding;

/// Checks that the annotations that `set` patches are allowed.
///
/// `inline` is the whitelist of the settings, the JSON object `{"rules": [{"selector", "allowedAnnotationKeyExprs"}]}`;
/// without it the ConfigMap in `system_namespace` is read, once, and only where `set` patches anything.
pub fn validate(
    set: &SidecarSet,
    gates: Gates,
    inline: Option<&Value>,
    system_namespace: &str,
    lookup: &dyn Lookup,
) -> Vec<Finding> {
    let path = FieldPath::new("spec").child("patchPodMetadata");
    let patches = set.spec(&["patchPodMetadata"]).map_or(&[][..], |list| json::items(list, &[]));
    if patches.is_empty() {
        return Vec::new();
    }
    let rules = match inline.map_or_else(|| read(system_namespace, lookup), |rules| Ok(Some(Cow::Borrowed(rules)))) {
        Ok(rules) => rules,
        Err((code, problem)) => return vec![Finding { error: FieldError::required(&path, problem), code }],
    };
    let allowed = match rules.as_deref().map(|rules| patterns(rules, set)) {
        Some(Ok(allowed)) => allowed,
        Some(Err(problem)) => return vec![FieldError::required(&path, problem).into()],
        None => Vec::new(),
    };
    if allowed.is_empty() {
        if gates.patch_pod_metadata_defaults_allowed {
            return Vec::new();
        }
        let wrong = match rules {
            None => "there is no whitelist; set patchPodMetadataWhitelist in the settings",
            Some(_) => "no rule of the whitelist is for this SidecarSet; add one to patchPodMetadataWhitelist",
        };
        return vec![FieldError::required(&path, wrong).into()];
    }
    let mut findings = Vec::new();
    for (index, patch) in patches.iter().enumerate() {
        for (key, _) in json::string_map(patch, &["annotations"]) {
            if !allowed.iter().any(|pattern| pattern.is_match(key)) {
                let at = path.index(index).child("annotations").key(key);
                let wrong = "the whitelist does not allow this annotation; add it to patchPodMetadataWhitelist";
                findings.push(FieldError::invalid(&at, key, wrong).into());
            }
        }
    }
    findings
}

/// Reads the whitelist of the cluster; `None` where there is none (V-21).
fn read(namespace: &str, lookup: &dyn Lookup) -> Result<Option<Cow<'static, Value>>, (Code, String)> {
    let object = ObjectRef {
        api_version: "v1",
        kind: "ConfigMap",
        namespace: Some(namespace.to_owned()),
        name: names::WHITELIST_CONFIG_MAP.to_owned(),
    };
    let name = names::WHITELIST_CONFIG_MAP;
    match lookup.get(&object) {
        Answer::NotFound => Ok(None),
        Answer::Failed(_) => {
            let wrong = format!(
                "ConfigMap \"{namespace}/{name}\" could not be read; try again, or set patchPodMetadataWhitelist in the settings"
            );
            Err((Code::Unavailable, wrong))
        }
        Answer::Found(config_map) => {
            let Some(text) = json::at(&config_map, &["data", names::WHITELIST_KEY]).and_then(Value::as_str) else {
                return Ok(None);
            };
            let rules: Value = json::parse(text.as_bytes()).map_err(|error| {
                (
                    Code::Invalid,
                    format!("{} in ConfigMap \"{namespace}/{name}\" is no JSON: {error}", names::WHITELIST_KEY),
                )
            })?;
            Ok(Some(Cow::Owned(rules)))
        }
    }
}

/// The patterns of the rules that are for this `SidecarSet`: those without a selector, and those whose selector
/// matches its labels. What other rules hold is not looked at.
fn patterns(whitelist: &Value, set: &SidecarSet) -> Result<Vec<Pattern>, String> {
    let labels = json::object(set.as_value(), &["metadata", "labels"]);
    let mut patterns = Vec::new();
    for (index, rule) in list(whitelist, "rules", "whitelist")?.iter().enumerate() {
        let name = format!("whitelist.rules[{index}]");
        let selector = json::at(rule, &["selector"]).filter(|selector| !selector.is_null());
        if let Some(selector) = selector {
            let selector = Selector::parse(selector)
                .map_err(|errors| format!("{name}.selector cannot be used: {}", super::joined(&errors)))?;
            if !selector.matches_labels(labels) {
                continue;
            }
        }
        for pattern in list(rule, "allowedAnnotationKeyExprs", &name)? {
            let text = pattern.as_str().ok_or_else(|| format!("{name}.allowedAnnotationKeyExprs must hold strings"))?;
            patterns
                .push(Pattern::new(text).map_err(|error| {
                    format!("{name}.allowedAnnotationKeyExprs: \"{text}\" cannot be used: {error}")
                })?);
        }
    }
    Ok(patterns)
}

/// The list at `key` of an object; absent and null are empty, as they are to the reference.
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
