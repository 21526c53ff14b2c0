//! Carrying a decision out on a Pod (`serviceaccounts.md` A1, B, M5).

use std::collections::BTreeSet;

use pillion_kubernetes::index::index;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use serde_json::{Value, json};

use super::give::{self, Giving};
use super::granted::Granted;
use super::held::{LISTS, containers, is_at_path};
use super::reach::{self, Since};
use super::volumes::{self, Volumes};
use super::{INJECTED, Owners, SKIPPED, Settled, account_of};
use crate::decision::Decision;
use crate::drivers::Drivers;

/// Carries a decision out on the Pod as it is after injection.
///
/// In mode `Isolate` nothing changes but the owners and the list of volumes (B3). Carrying it out again changes
/// nothing (M6).
///
/// # Errors
/// Owners that have something else at, above or below the token path (B2, E21), a volume of ours that is not what we
/// would write, containers that reach for a token which is not theirs, and volumes through which another one could.
pub fn settle(mut pod: Value, decision: &Decision, owners: &Owners, trusted: &Drivers) -> Result<Settled, Vec<Reason>> {
    let granted = Granted::of(decision, owners);
    // The volumes as they were. Most volumes of a Pod do not matter, and the Pod itself may be too long for a copy (E18).
    let mattering: Vec<Value> =
        json::items(&pod, &["spec", "volumes"]).iter().filter(|volume| volumes::matters(volume)).cloned().collect();
    let volumes = Volumes::among(&mattering, trusted);
    let account_before = account_of(&pod).to_owned();
    let original = json::text(&pod, &["spec", "serviceAccountName"]).to_owned();
    let mut reasons = reach::intruders(&pod, &volumes, &granted);
    let mut warnings = Vec::new();
    // Sidecars that were just injected have no token yet: the API server would mount it after the policy.
    let automounts = containers(&pod).flat_map(volumes::mounts).any(|mount| is_automount(mount, &volumes));
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        if decision.hides_token {
            warnings = hide(spec, automounts, &volumes, &granted, owners);
        }
        reasons.append(&mut give::add_volumes(spec, &volumes, &granted));
        let automounted = automounted(decision, owners);
        let giving = Giving {
            before: &volumes,
            granted: &granted,
            automounted: &|container| automounted.contains(container),
            runs_as: decision.account.as_deref().unwrap_or(&account_before),
        };
        reasons.append(&mut giving.mount(spec));
        if let Some(account) = &decision.account {
            // The alias follows only where it is the one that is set (A1-3).
            for key in ["serviceAccountName", "serviceAccount"] {
                spec.insert(key.to_owned(), account.as_str().into());
            }
        }
    }
    if let Some(account) = &decision.private {
        let volumes = Volumes::of(&pod, trusted);
        let what = (account.as_str(), Since::of(decision, account));
        reasons.append(&mut reach::regained(&pod, &volumes, &granted, what, false));
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    annotate(&mut pod, &original, decision);
    for (sidecar_set, why) in decision.skipped.iter().chain(&decision.kept) {
        warnings.push(format!("SidecarSet \"{sidecar_set}\" is injected without its ServiceAccount: {why}"));
    }
    Ok(Settled { pod, warnings })
}

/// The containers into which the API server mounts the token that is theirs.
fn automounted<'a>(decision: &Decision, owners: &'a Owners) -> BTreeSet<&'a str> {
    let containers = decision.automounted.iter().filter_map(|set| owners.get(set));
    containers.flatten().map(String::as_str).collect()
}

/// Whether a mount is the one through which the API server gives a container the token of the Pod's account.
fn is_automount(mount: &Value, volumes: &Volumes<'_>) -> bool {
    volumes.is_automounted(pod::name(mount)) && is_at_path(mount)
}

/// A1-f, g: the automounted token stays away only where the Pod says so.
///
/// Answers a warning for each sidecar that loses it.
///
/// `automounts` tells whether a container had that token already.
fn hide(
    spec: &mut Object,
    automounts: bool,
    volumes: &Volumes<'_>,
    granted: &Granted<'_>,
    owners: &Owners,
) -> Vec<String> {
    spec.insert("automountServiceAccountToken".to_owned(), Value::Bool(false));
    let mut warnings = Vec::new();
    let set_of =
        index(owners.iter().rev().flat_map(|(set, names)| names.iter().map(|name| (name.as_str(), set.as_str()))));
    let mut left = BTreeSet::new();
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = pod::name(container).to_owned();
            left.extend(volumes::used_otherwise(container).filter(|name| volumes.has(name)).map(str::to_owned));
            let Some(object) = container.as_object_mut() else { continue };
            let mut loses = automounts;
            if let Some(mounts) = object.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                let count = mounts.len();
                mounts.retain(|mount| !is_automount(mount, volumes));
                loses = loses && !mounts.iter().any(is_at_path);
                left.extend(mounts.iter().map(pod::name).filter(|name| volumes.has(name)).map(str::to_owned));
                if mounts.is_empty() && count > 0 {
                    json::take(object, "volumeMounts");
                }
            }
            let owns = granted.of_container(&name).next().is_some();
            if let Some(set) = set_of.get(name.as_str()).filter(|_| loses && !owns) {
                warnings.push(format!(
                    "sidecar \"{name}\" of SidecarSet \"{set}\" loses the token of the Pod's ServiceAccount"
                ));
            }
        }
    }
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !volumes::is_automounted(volume) || left.contains(pod::name(volume)));
    }
    warnings
}

/// M5, and why some sets stay without. Nothing reads these annotations back.
///
/// `original` is the `serviceAccountName` with which the Pod came.
fn annotate(pod: &mut Value, original: &str, decision: &Decision) {
    let mut texts: Vec<(&str, String)> = Vec::new();
    if let Some(account) = &decision.account {
        let original = if original.is_empty() { "default" } else { original };
        let grants = decision.grants.iter().filter(|grant| grant.account == *account);
        let sets: Vec<&str> = grants.map(|grant| grant.sidecar_set.as_str()).collect();
        let record = json!({"original": original, "injected": account, "sidecarSets": sets});
        texts.push((INJECTED, json::shown(&record)));
    }
    if !decision.skipped.is_empty() {
        let record = index(decision.skipped.iter().map(|(set, why)| (set.as_str(), why.as_str())));
        texts.push((SKIPPED, json::shown(&json!(record))));
    }
    let metadata = pod.as_object_mut().and_then(|object| json::object_mut(object, "metadata"));
    if let Some(annotations) = metadata.filter(|_| !texts.is_empty()).and_then(|m| json::object_mut(m, "annotations")) {
        for (key, text) in texts {
            annotations.insert(key.to_owned(), text.into());
        }
    }
}
