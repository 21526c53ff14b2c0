//! The rules that Kubewarden has for metadata.

use super::{Action, ExecutionMode, Metadata, Rule};

pub(super) fn problems(metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    match metadata.protocol_version.as_deref() {
        None => {
            problems.push("protocolVersion: Required value: the module does not say which one it speaks".to_owned())
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

/// As kube-apiserver checks the resources of a webhook: none that another of the list covers.
fn resource_problems(resources: &[String], path: &str, problems: &mut Vec<String>) {
    let covered_by = |resource: &str| {
        let wider = |name: &str| resources.iter().any(|other| other == name);
        if resource != "*/*" && wider("*/*") {
            return Some("*/*".to_owned());
        }
        match resource.split_once('/') {
            None => (resource != "*" && wider("*")).then(|| "*".to_owned()),
            Some((of, part)) => {
                [format!("{of}/*"), format!("*/{part}")].into_iter().find(|name| name != resource && wider(name))
            }
        }
    };
    for (index, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            problems.push(format!("{path}[{index}]: Required value"));
        } else if let Some(wider) = covered_by(resource) {
            problems
                .push(format!("{path}[{index}]: Invalid value: {resource:?}: {wider:?} covers it; remove one of them"));
        }
    }
}

/// The major and minor number of a semantic version; `None` where it is none.
pub(super) fn minor_version(text: &str) -> Option<(u64, u64)> {
    let (numbers, suffix) = match text.find(['-', '+']) {
        Some(at) => text.split_at_checked(at)?,
        None => (text, ""),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
    if !suffix.chars().all(plain) || suffix.ends_with(['-', '+', '.']) {
        return None;
    }
    let mut parts = numbers.split('.').map(number);
    let (major, minor, _patch) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some((major, minor))
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    (digits && !leading_zero).then(|| text.parse().ok())?
}
