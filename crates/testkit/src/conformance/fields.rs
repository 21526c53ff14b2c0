//! Compares refusals of SidecarSets by the fields that the errors name.

use pillion_kubernetes::json;
use pillion_sidecarset::names;
use regex_lite::Regex;
use serde_json::Value;

use super::Case;

/// The causes, which follow the path in the text of a field error.
const CAUSES: &str = "Invalid value|Required value|Not found|Duplicate value|Unsupported value|Forbidden|Too long|Too many|Unknown field";

/// One error: its path and its complete text.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) path: String,
    pub(super) text: String,
}

/// Splits a message into its errors. `start` matches the beginning of an error and captures its path.
fn cut(message: &str, start: &str) -> Vec<Named> {
    let start = Regex::new(start).expect("the pattern is fixed");
    let starts: Vec<_> = start.captures_iter(message).filter_map(|found| found.get(1)).collect();
    let ends = starts.iter().skip(1).map(regex_lite::Match::start).chain([message.len()]);
    let errors = starts.iter().zip(ends);
    errors
        .map(|(path, end)| Named { path: path.as_str().to_owned(), text: message[path.start()..end].to_owned() })
        .collect()
}

/// Returns the errors in a message of Pillion: `SidecarSet "name": path: cause: ...`. The name may be missing.
pub(super) fn of_ours(message: &str) -> Vec<Named> {
    cut(
        message,
        r#"(?:^|; )(?:SidecarSet "[^"]*": )?((?:metadata|spec|apiVersion|kind|oldObject)[A-Za-z0-9.]*(?:\[[^\]]*\][A-Za-z0-9.]*)*): "#,
    )
}

/// Returns the errors of the reference, except for those that the compatibility table covers.
pub(super) fn of_reference(case: &Case) -> Vec<Named> {
    let roots = "metadata|spec|patchPodMetadata|updateStrategy|revision";
    let start = format!(r"(?:^\[?|, )((?:{roots})[A-Za-z0-9.]*(?:\[[^\]]*\][A-Za-z0-9.]*)*): (?:{CAUSES})");
    cut(case.message(), &start).into_iter().filter(|error| !is_row(case, error)).collect()
}

/// Whether the reference could not decode the request. Its message then names no field.
pub(super) fn is_decoding(case: &Case) -> bool {
    !case.is_allowed() && !CAUSES.split('|').any(|cause| case.message().contains(&format!(": {cause}")))
}

/// Whether this is an error of the reference that Pillion omits on purpose.
fn is_row(case: &Case, Named { path, text }: &Named) -> bool {
    let startup = path.contains(".startupProbe.");
    startup && path.ends_with(".successThreshold") && text.contains("Invalid value: 0:")
        || startup && path.ends_with(".httpGet.path") && text.contains("Required value")
        || startup && path.ends_with(".httpGet.scheme") && text.contains("Unsupported value: \"\":")
        // DIFF-17.
        || text.contains("\"metadata.name\": error converting fieldPath: field label")
        // The same error again, at a path that does not exist (VAL-5).
        || path.ends_with("elector.selector")
        // DIFF-5, DIFF-1.
        || is_conflict(text)
            && (case.has_tag("selector-overlap") || exempt(case).any(|name| text.contains(&format!(" {name}"))))
}

/// Returns the base of the set and its canaries, which are never compared with the set (DIFF-1).
fn exempt(case: &Case) -> impl Iterator<Item = String> {
    let base = |set: &Value| {
        let base = json::text(set, &["metadata", "annotations", names::BASE]).to_owned();
        (json::text(set, &["metadata", "annotations", names::CANARY]) == "true" && !base.is_empty()).then_some(base)
    };
    let name = |set: &Value| json::text(set, &["metadata", "name"]).to_owned();
    let own = name(case.object());
    let canaries = case.of_kind("SidecarSet").filter(move |set| base(set).as_ref() == Some(&own)).map(name);
    base(case.object()).into_iter().chain(canaries)
}

fn is_conflict(text: &str) -> bool {
    (text.contains(": container ") && text.contains(" already exist in "))
        || text.contains(" is in conflict with sidecarset ")
}

/// Whether this is an error of Pillion that the reference lacks, on purpose.
fn is_addition(case: &Case, error: &Named) -> bool {
    let path = error.path.as_str();
    // DIFF-22, DIFF-24, DIFF-16, DIFF-11, DIFF-6.
    path.ends_with(".hotUpgradeEmptyImage")
        || path == "spec.updateStrategy.type"
        || path.ends_with(".sourceContainerNameFrom.fieldRef")
        || path.ends_with(".revision.revisionName") && case.has_tag("revision-owner")
        || path.contains(".resourcesExpr.") && case.has_tag("resources-policy")
        || error.text.contains(" the same Pods") && is_further_conflict(case, error)
}

/// Whether this is a conflict that the reference omits: it names one other set for each container, and no conflict at
/// all if something else is wrong, even if that is a row of the table.
fn is_further_conflict(case: &Case, error: &Named) -> bool {
    let container = error.text.split('"').nth(1).unwrap_or_default();
    case.has_tag("selector-overlap")
        || case.message().contains(&format!(": container {container} already exist in "))
        || (of_reference(case).is_empty() && !is_conflict(case.message()) && !case.is_allowed())
}

/// Checks that both name the same fields. Returns the first difference as the error.
pub(super) fn compare(case: &Case, theirs: &[Named], ours: &[Named]) -> Result<(), String> {
    for error in theirs {
        // Pillion looks for conflicts only if nothing else is wrong.
        if !is_conflict(&error.text) && !ours.iter().any(|own| is_same_field(&own.path, &error.path)) {
            return Err(format!("no error at {} ({}); ours: {ours:?}", error.path, error.text));
        }
    }
    for own in ours {
        if !is_addition(case, own) && !theirs.iter().any(|error| is_same_field(&own.path, &error.path)) {
            return Err(format!("unexpected {}; the reference: {}", own.text, case.message()));
        }
    }
    Ok(())
}

/// Whether an error of Pillion is at the place of the reference's. Some paths of the reference do not exist (VAL-7,
/// VAL-9, VAL-11).
fn is_same_field(own: &str, theirs: &str) -> bool {
    let real = match theirs {
        "updateStrategy" => "spec.updateStrategy",
        "revision" => "spec.injectionStrategy.revision",
        "revision.policy" => "spec.injectionStrategy.revision.policy",
        _ if theirs.starts_with("patchPodMetadata.") => "spec.patchPodMetadata",
        _ => theirs,
    };
    if own.starts_with(real) {
        return true;
    }
    if let Some(field) = theirs.strip_prefix("spec.container.") {
        return own.contains(&format!(".{field}"));
    }
    if let Some((index, rest)) = theirs.strip_prefix("spec[").and_then(|rest| rest.split_once("].")) {
        let field = rest.split('.').next().unwrap_or_default();
        return ["containers", "initContainers"]
            .iter()
            .any(|list| own.starts_with(&format!("spec.{list}[{index}].{field}")));
    }
    match theirs {
        _ if theirs.starts_with("metadata.ownerReferences.") => own.starts_with("metadata.ownerReferences["),
        "spec.containers" => own.starts_with("spec.initContainers["),
        "spec.containers.name" => own.starts_with("spec.containers[") && own.rsplit('.').next() == Some("name"),
        "spec.containers.upgradeStrategy.upgradeType" => own.ends_with(".upgradeStrategy.upgradeType"),
        _ => false,
    }
}
