//! The validation rules of Kubewarden for metadata.

use super::{Action, ExecutionMode, Metadata, Rule};

pub(super) fn problems(metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    match metadata.protocol_version.as_deref() {
        None => {
            problems.push("protocolVersion: Required value: the module does not say which one it speaks".to_owned());
        }
        Some(version) if metadata.execution_mode == ExecutionMode::KubewardenWapc && version != "v1" => {
            problems.push(format!("protocolVersion: Unsupported value: {version:?}: a policy speaks \"v1\""));
        }
        Some(_) => {}
    }
    for (index, rule) in metadata.rules.iter().enumerate() {
        rule_problems(rule, &format!("rules[{index}]"), &mut problems);
    }
    for (index, resource) in metadata.context_aware_resources.iter().enumerate() {
        for (field, value) in [("apiVersion", &resource.api_version), ("kind", &resource.kind)] {
            if value.is_empty() {
                problems.push(format!("contextAwareResources[{index}].{field}: Required value"));
            }
        }
    }
    if let Some(version) = metadata.minimum_kubewarden_version.as_deref()
        && minor_version(version).is_none()
    {
        problems.push(format!(
            "minimumKubewardenVersion: Invalid value: {version:?}: must be a semantic version such as \"1.35.0\""
        ));
    }
    problems
}

fn rule_problems(rule: &Rule, path: &str, problems: &mut Vec<String>) {
    let lists = [("apiGroups", &rule.api_groups), ("apiVersions", &rule.api_versions)];
    for (field, list) in lists {
        if list.is_empty() {
            problems.push(format!("{path}.{field}: Required value"));
        }
        if list.len() > 1 && list.iter().any(|item| item == "*") {
            problems.push(format!("{path}.{field}: Invalid value: \"*\" stands alone; remove it or everything else"));
        }
    }
    if rule.operations.is_empty() {
        problems.push(format!("{path}.operations: Required value"));
    }
    if rule.operations.len() > 1 && rule.operations.contains(&Action::All) {
        problems.push(format!("{path}.operations: Invalid value: \"*\" stands alone; remove it or everything else"));
    }
    if rule.resources.is_empty() {
        problems.push(format!("{path}.resources: Required value"));
    }
    resource_problems(&rule.resources, &format!("{path}.resources"), problems);
}

/// Checks resources as kube-apiserver does for a webhook: an earlier entry must not cover a later one, and `*/*` stands
/// alone.
fn resource_problems(resources: &[String], path: &str, problems: &mut Vec<String>) {
    for (index, resource) in resources.iter().enumerate() {
        let before = |name: &str| resources.iter().take(index).any(|other| other == name);
        let covering = match resource.split_once('/') {
            _ if resource != "*/*" && resources.iter().any(|other| other == "*/*") => Some("*/*".to_owned()),
            None => (resource != "*" && before("*")).then(|| "*".to_owned()),
            Some((of, part)) => [format!("{of}/*"), format!("*/{part}")].into_iter().find(|wider| before(wider)),
        };
        if resource.is_empty() {
            problems.push(format!("{path}[{index}]: Required value"));
        } else if let Some(wider) = covering {
            problems
                .push(format!("{path}[{index}]: Invalid value: {resource:?}: {wider:?} covers it; remove one of them"));
        }
    }
}

/// Returns the major and minor number of a semantic version; `None` if the text is not one.
pub(super) fn minor_version(text: &str) -> Option<(u64, u64)> {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(numbers, pre)| (numbers, Some(pre)));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let is_number_or_word = |word: &str| number(word).is_some() || (is_word(word) && !all_digits(word));
    let sound = build.is_none_or(|build| build.split('.').all(is_word))
        && pre.is_none_or(|pre| pre.split('.').all(is_number_or_word));
    let mut parts = numbers.split('.').map(number);
    let (major, minor, _patch) = (parts.next()??, parts.next()??, parts.next()??);
    (sound && parts.next().is_none()).then_some((major, minor))
}

/// Reads a number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let leading_zero = text.len() > 1 && text.starts_with('0');
    (all_digits(text) && !leading_zero).then(|| text.parse().ok())?
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}
