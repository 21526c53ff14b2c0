//! Comparing refusals: which fields the errors name.

use pillion_core::outcome::Reason;
use regex_lite::Regex;

use super::Case;

/// The errors of the reference that are left once the rows of the compatibility table are taken away: path, text.
pub fn of_reference(case: &Case) -> Vec<(String, String)> {
    let message = &case.expect.message;
    if case.expect.allowed {
        return Vec::new();
    }
    let start = Regex::new(
        r"(?:^\[?|, )((?:metadata|spec|patchPodMetadata|updateStrategy|revision)[A-Za-z0-9.]*(?:\[[^\]]*\][A-Za-z0-9.]*)*): (?:Invalid value|Required value|Not found|Duplicate value|Unsupported value|Forbidden|Too long|Too many)",
    )
    .unwrap();
    let starts: Vec<_> = start.captures_iter(message).map(|found| found.get(1).unwrap()).collect();
    let ends = starts.iter().skip(1).map(regex_lite::Match::start).chain([message.len()]);
    let errors =
        starts.iter().zip(ends).map(|(path, end)| (path.as_str().to_owned(), message[path.start()..end].to_owned()));
    errors.filter(|(path, text)| !is_row(case, path, text)).collect()
}

/// Whether the reference could not even decode the request: its message names no field path.
pub fn is_decoding(case: &Case) -> bool {
    let message = &case.expect.message;
    !case.expect.allowed
        && !["Invalid value", "Required value", "Not found", "Duplicate value", "Unsupported value", "Forbidden", "Too"]
            .iter()
            .any(|cause| message.contains(&format!(": {cause}")))
}

/// Whether the reference crashed, which counts as a refusal.
pub fn is_crash(case: &Case) -> bool {
    case.expect.message.starts_with("panic: ")
}

/// Whether this error of the reference is one that Pillion does not have on purpose.
fn is_row(case: &Case, path: &str, text: &str) -> bool {
    let startup = path.contains(".startupProbe.");
    startup && path.ends_with(".successThreshold") && text.contains("Invalid value: 0:")
        || startup && path.ends_with(".httpGet.path") && text.contains("Required value")
        || startup && path.ends_with(".httpGet.scheme") && text.contains("Unsupported value: \"\":")
        || text.contains("\"metadata.name\": error converting fieldPath: field label")
        // What depends on the targets' values is accepted (Q-6).
        || text.contains("calculation result is negative") && (text.contains("cpu") || text.contains("memory"))
        || text.contains("division by zero") && (text.contains("cpu") || text.contains("memory"))
        // The same error a second time, at a path that does not exist.
        || path.ends_with("elector.selector")
        || is_conflict(text) && (is_tagged(case, "selector-overlap") || case.exempt().any(|name| text.contains(&format!(" {name}"))))
}

fn is_tagged(case: &Case, tag: &str) -> bool {
    case.tags.iter().any(|own| own == tag)
}

fn is_conflict(text: &str) -> bool {
    (text.contains(": container ") && text.contains(" already exist in "))
        || text.contains(" is in conflict with sidecarset ")
}

/// Whether this error of ours is one that the reference does not have, on purpose.
fn is_addition(case: &Case, reason: &Reason) -> bool {
    let path = reason.field.as_str();
    path.ends_with(".hotUpgradeEmptyImage")
        || path == "spec.updateStrategy.type"
        || path.ends_with(".targetContainersNameRegex") && is_tagged(case, "regex")
        || path.ends_with(".sourceContainerNameFrom.fieldRef")
        || path.ends_with(".revision.revisionName") && is_tagged(case, "revision-owner")
        || path.contains(".resourcesExpr.") && is_tagged(case, "resources-policy")
        || reason.problem.contains(" the same Pods") && is_further_conflict(case, reason)
}

/// Whether a conflict of ours is one that the reference passes over: it names one other set for each container, and
/// none where something else is wrong, also where that is a row of the table.
fn is_further_conflict(case: &Case, reason: &Reason) -> bool {
    let names_it = || {
        let quoted = reason.problem.split('"').nth(1).unwrap();
        case.expect.message.contains(&format!(": container {quoted} already exist in "))
    };
    is_tagged(case, "selector-overlap")
        || names_it()
        || (of_reference(case).is_empty() && !is_conflict(&case.expect.message) && !case.expect.allowed)
}

/// Whether both name the same fields.
pub fn compare(case: &Case, theirs: &[(String, String)], ours: &[&Reason]) -> Result<(), String> {
    let named = |reason: &Reason, path: &str| reason.field.as_str().starts_with(&real(path)) || is_kin(reason, path);
    for (path, text) in theirs {
        // Conflicts are looked for only where nothing else is wrong.
        if !is_conflict(text) && !ours.iter().any(|reason| named(reason, path)) {
            return Err(format!("no error at {path} ({text}); ours: {ours:?}"));
        }
    }
    for reason in ours {
        if !is_addition(case, reason) && !theirs.iter().any(|(path, _)| named(reason, path)) {
            return Err(format!("unexpected {reason}; the reference: {}", case.expect.message));
        }
    }
    Ok(())
}

/// The path that stands where the reference names one that does not exist.
fn real(path: &str) -> String {
    match path.split_once('.') {
        None if path == "updateStrategy" => "spec.updateStrategy".to_owned(),
        None if path == "revision" => "spec.injectionStrategy.revision".to_owned(),
        _ if path == "revision.policy" => "spec.injectionStrategy.revision.policy".to_owned(),
        Some(("patchPodMetadata", _)) => "spec.patchPodMetadata".to_owned(),
        _ => path.to_owned(),
    }
}

/// Whether an error of ours is at the real path of what the reference calls `path`.
fn is_kin(reason: &Reason, path: &str) -> bool {
    let ours = reason.field.as_str();
    if let Some(field) = path.strip_prefix("spec.container.") {
        return ours.contains(&format!(".{field}"));
    }
    if let Some(rest) = path.strip_prefix("spec[") {
        let (index, rest) = rest.split_once("].").unwrap();
        let field = rest.split('.').next().unwrap();
        let below = |list: &str| ours.starts_with(&format!("spec.{list}[{index}].{field}"));
        return below("containers") || below("initContainers");
    }
    if path.starts_with("metadata.ownerReferences") || path.starts_with("metadata.finalizers") {
        let index = Regex::new(r"\[\d+\]").unwrap();
        return index.replace_all(ours, "").starts_with(path);
    }
    match path {
        "spec.containers" => ours.starts_with("spec.initContainers["),
        "spec.containers.name" => ours.starts_with("spec.containers[") && ours.ends_with(".name"),
        "spec.containers.upgradeStrategy.upgradeType" => ours.ends_with(".upgradeStrategy.upgradeType"),
        _ => false,
    }
}
