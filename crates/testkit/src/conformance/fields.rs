//! Comparing refusals of SidecarSets: which fields the errors name.

use pillion_kubernetes::json;
use pillion_sidecarset::names;
use regex_lite::Regex;
use serde_json::Value;

use super::Case;

/// The causes that stand between the path and the value of a field error.
const CAUSES: &str = "Invalid value|Required value|Not found|Duplicate value|Unsupported value|Forbidden|Too long|Too many|Unknown field";

/// One error: its path and its whole text.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) path: String,
    pub(super) text: String,
}

/// Cuts a message into its errors; `start` matches where one begins and captures its path.
fn cut(message: &str, start: &str) -> Vec<Named> {
    let start = Regex::new(start).expect("the pattern is fixed");
    let starts: Vec<_> = start.captures_iter(message).filter_map(|found| found.get(1)).collect();
    let ends = starts.iter().skip(1).map(regex_lite::Match::start).chain([message.len()]);
    let errors = starts.iter().zip(ends);
    errors
        .map(|(path, end)| Named { path: path.as_str().to_owned(), text: message[path.start()..end].to_owned() })
        .collect()
}

/// The errors in a message of ours: `SidecarSet "name": path: cause: ...`; the name is left out where there is none.
pub(super) fn of_ours(message: &str) -> Vec<Named> {
    cut(
        message,
        r#"(?:^|; )(?:SidecarSet "[^"]*": )?((?:metadata|spec|apiVersion|kind|oldObject)[A-Za-z0-9.]*(?:\[[^\]]*\][A-Za-z0-9.]*)*): "#,
    )
}

/// The errors of the reference that are left once the rows of the compatibility table are taken away.
pub(super) fn of_reference(case: &Case) -> Vec<Named> {
    let roots = "metadata|spec|patchPodMetadata|updateStrategy|revision";
    let start = format!(r"(?:^\[?|, )((?:{roots})[A-Za-z0-9.]*(?:\[[^\]]*\][A-Za-z0-9.]*)*): (?:{CAUSES})");
    cut(case.message(), &start).into_iter().filter(|error| !is_row(case, error)).collect()
}

/// Whether the reference could not decode the request: its message names no field.
pub(super) fn is_decoding(case: &Case) -> bool {
    !case.is_allowed() && !CAUSES.split('|').any(|cause| case.message().contains(&format!(": {cause}")))
}

/// Whether this error of the reference is one that Pillion does not have on purpose.
fn is_row(case: &Case, Named { path, text }: &Named) -> bool {
    let startup = path.contains(".startupProbe.");
    startup && path.ends_with(".successThreshold") && text.contains("Invalid value: 0:")
        || startup && path.ends_with(".httpGet.path") && text.contains("Required value")
        || startup && path.ends_with(".httpGet.scheme") && text.contains("Unsupported value: \"\":")
        // Q-17.
        || text.contains("\"metadata.name\": error converting fieldPath: field label")
        // The same error a second time, at a path that does not exist (V-5).
        || path.ends_with("elector.selector")
        // Q-5, Q-1.
        || is_conflict(text)
            && (case.has_tag("selector-overlap") || exempt(case).any(|name| text.contains(&format!(" {name}"))))
}

/// The base of the set, and the canaries of which it is the base: never compared with it (Q-1).
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

/// Whether this error of ours is one that the reference does not have, on purpose.
fn is_addition(case: &Case, error: &Named) -> bool {
    let path = error.path.as_str();
    // Q-22, Q-24, Q-16, Q-11, Q-6.
    path.ends_with(".hotUpgradeEmptyImage")
        || path == "spec.updateStrategy.type"
        || path.ends_with(".sourceContainerNameFrom.fieldRef")
        || path.ends_with(".revision.revisionName") && case.has_tag("revision-owner")
        || path.contains(".resourcesExpr.") && case.has_tag("resources-policy")
        || error.text.contains(" the same Pods") && is_further_conflict(case, error)
}

/// Whether a conflict of ours is one that the reference passes over: it names one other set for each container, and
/// none where something else is wrong, also where that is a row of the table.
fn is_further_conflict(case: &Case, error: &Named) -> bool {
    let container = error.text.split('"').nth(1).unwrap_or_default();
    case.has_tag("selector-overlap")
        || case.message().contains(&format!(": container {container} already exist in "))
        || (of_reference(case).is_empty() && !is_conflict(case.message()) && !case.is_allowed())
}

/// Whether both name the same fields; what differs otherwise.
pub(super) fn compare(case: &Case, theirs: &[Named], ours: &[Named]) -> Result<(), String> {
    for error in theirs {
        // Conflicts are looked for only where nothing else is wrong.
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

/// Whether an error of ours is where the reference's is; some of its paths do not exist (V-7, V-9, V-11).
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
