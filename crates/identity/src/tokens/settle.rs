//! Carries out a decision on a Pod (SAP-8, TOK-1, IDP-5).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use serde_json::{Value, json};

use super::give::{self, Giving};
use super::granted::Granted;
use super::held::{LISTS, is_at_path, is_automount, is_automounted};
use super::reach::{self, Counted};
use super::volumes::{self, Volumes};
use super::{INJECTED, Owners, SKIPPED, Settled, account_of};
use crate::decision::Decision;
use crate::drivers::Drivers;

/// Carries out a decision on a Pod after injection.
///
/// In mode `Isolate`, only the owners and the list of volumes change (TOK-3). Carrying out the decision again changes
/// nothing (IDP-6).
///
/// # Errors
/// Owners with other mounts or files at, above or below the token directory (TOK-2, E21); a volume with a name of
/// Pillion's but other contents; containers that use the token of another container; and volumes through which a later
/// container could.
pub fn settle(mut pod: Value, decision: &Decision, owners: &Owners, trusted: &Drivers) -> Result<Settled, Vec<Reason>> {
    let granted = Granted::new(decision, owners);
    // The volumes before the change. Copy only those that matter: the whole Pod may be too large to copy (E18).
    let mattering: Vec<Value> =
        json::items(&pod, &["spec", "volumes"]).iter().filter(|volume| volumes::matters(volume)).cloned().collect();
    let volumes = Volumes::among(&mattering, trusted);
    let account_before = account_of(&pod).to_owned();
    let original = json::text(&pod, &["spec", "serviceAccountName"]).to_owned();
    let mut reasons = reach::intruders(&pod, &volumes, &granted);
    let mut warnings = Vec::new();
    // One automounted mount in any container is enough: sidecars that were just injected have none yet, since the API
    // server mounts the token after the policy.
    let automounts = is_automounted(&pod, &volumes);
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
            // Set the alias to the same name (SAP-3).
            for key in ["serviceAccountName", "serviceAccount"] {
                spec.insert(key.to_owned(), account.as_str().into());
            }
        }
    }
    if let Some(account) = decision.limited_account() {
        let volumes = Volumes::from_pod(&pod, trusted);
        let counted = Counted::from_decision(decision, account);
        reasons.append(&mut reach::regained(&pod, &volumes, &granted, account, counted, false));
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    annotate(&mut pod, &original, decision);
    for (sidecar_set, why) in decision.skipped.iter().chain(&decision.kept) {
        warnings.push(format!("SidecarSet \"{sidecar_set}\" is injected without its ServiceAccount: {why}"));
    }
    for sidecar_set in &decision.without_audiences {
        warnings.push(format!(
            "SidecarSet \"{sidecar_set}\" is injected without its tokens for other audiences: the Pod runs under a merged ServiceAccount"
        ));
    }
    Ok(Settled { pod, warnings })
}

/// Returns the containers that get their token from the API server.
fn automounted<'a>(decision: &Decision, owners: &'a Owners) -> BTreeSet<&'a str> {
    let containers = decision.automounted.iter().filter_map(|set| owners.get(set));
    containers.flatten().map(String::as_str).collect()
}

/// SAP-8f, g: turns automounting off in the Pod, the only setting that keeps the token away. Removes the mounts of the
/// automounted volume, and the volume itself unless a container still uses it in another way.
///
/// `automounts` tells whether a container had the automounted token before. Returns a warning for each sidecar that
/// loses it.
fn hide(
    spec: &mut Object,
    automounts: bool,
    volumes: &Volumes<'_>,
    granted: &Granted<'_>,
    owners: &Owners,
) -> Vec<String> {
    spec.insert("automountServiceAccountToken".to_owned(), Value::Bool(false));
    let mut warnings = Vec::new();
    let set_of: BTreeMap<_, _> =
        owners.iter().rev().flat_map(|(set, names)| names.iter().map(|name| (name.as_str(), set.as_str()))).collect();
    let mut left = BTreeSet::new();
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = pod::name(container).to_owned();
            left.extend(pod::volumes_used_without_mount(container).filter(|name| volumes.has(name)).map(str::to_owned));
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
            // Whoever says which containers get the token knows that the others do not.
            let is_told = granted.narrowed().is_some();
            if let Some(set) = set_of.get(name.as_str()).filter(|_| loses && !owns && !is_told) {
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

/// IDP-5: writes annotations about the change of the account and about the skipped sets. Nothing reads them back.
///
/// `original` is the `serviceAccountName` of the Pod before the change.
fn annotate(pod: &mut Value, original: &str, decision: &Decision) {
    let mut texts: Vec<(&str, String)> = Vec::new();
    if let Some(account) = &decision.account {
        let original = if original.is_empty() { "default" } else { original };
        let grants = decision.grants.iter().filter(|grant| grant.account == *account);
        let sets: Vec<&str> = grants.map(|grant| grant.sidecar_set.as_str()).collect();
        let record = json!({"original": original, "injected": account, "sidecarSets": sets});
        texts.push((INJECTED, record.to_string()));
    }
    if !decision.skipped.is_empty() {
        let record: BTreeMap<_, _> = decision.skipped.iter().map(|(set, why)| (set.as_str(), why.as_str())).collect();
        texts.push((SKIPPED, json!(record).to_string()));
    }
    let metadata = pod.as_object_mut().and_then(|object| json::object_mut(object, "metadata"));
    if let Some(annotations) = metadata.filter(|_| !texts.is_empty()).and_then(|m| json::object_mut(m, "annotations")) {
        for (key, text) in texts {
            annotations.insert(key.to_owned(), text.into());
        }
    }
}
