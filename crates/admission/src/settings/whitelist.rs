//! The whitelist of patchPodMetadata in the settings (VAL-20).
//!
//! OpenKruise reads its ConfigMap leniently. Here an unknown key is an error: the whitelist would allow less than it
//! seems to.

use std::collections::BTreeMap;

use pillion_kubernetes::field::{Cause, FieldError, FieldErrors};
use pillion_kubernetes::node::Node;
use pillion_kubernetes::selector;
use pillion_pattern::{Pattern, STEPS_TOGETHER_MAX, TOO_MANY_EXPRESSIONS};
use serde::Deserialize;
use serde::de::IgnoredAny;

const RULES: &str = "rules";
const SELECTOR: &str = "selector";
const EXPRESSIONS: &str = "allowedAnnotationKeyExprs";

/// The shape of the whitelist. It is only used for checks: the whitelist is kept as JSON, like that of the ConfigMap.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, expecting = "an object")]
pub(super) struct Whitelist {
    /// The rules.
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
struct Rule {
    /// Labels of the SidecarSets that the rule applies to. Default: all SidecarSets.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Map<String, serde_json::Value>>"))]
    #[expect(clippy::zero_sized_map_values, reason = "an object whose labels are judged later")]
    selector: Option<BTreeMap<String, IgnoredAny>>,
    /// Regular expressions (RE2), matched anywhere in the key of an annotation.
    allowed_annotation_key_exprs: Vec<String>,
}

/// Checks selectors and expressions, which the shape does not cover.
pub(super) fn validate(whitelist: &Node<'_, '_>, errors: &mut Vec<FieldError>) {
    let mut steps = 0_usize;
    for rule in whitelist.items(RULES) {
        if let Some(labels) = rule.get(SELECTOR) {
            selector::check(&labels, errors);
        }
        for expression in rule.items(EXPRESSIONS) {
            let text = expression.own_text();
            match Pattern::new(text) {
                Ok(pattern) => steps = steps.saturating_add(pattern.steps()),
                Err(wrong) => errors.invalid(&expression.place, text, &wrong.to_string()),
            }
            if steps > STEPS_TOGETHER_MAX {
                return errors.add(|| FieldError::new(expression.place, Cause::TooMany, TOO_MANY_EXPRESSIONS));
            }
        }
    }
}
