//! Tokens of the Pod's own account that another webhook mounted into isolated sidecars (TOK-14).

use std::cell::OnceCell;
use std::collections::BTreeMap;

use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::made;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::granted::Granted;
use super::held::{LISTS, shown};
use super::volumes::{self, Volumes};
use crate::decision::Token;
use crate::paths;
use crate::workload_identity::CloudWebhook;

/// What the twin knows about the containers of a Pod.
pub(super) struct Known<'a> {
    /// The volumes of the Pod.
    pub volumes: &'a Volumes<'a>,
    /// The tokens and their owners.
    pub granted: &'a Granted<'a>,
    /// The SidecarSets of the Pod.
    pub sets: &'a [SidecarSet],
}

/// Removes the mounts through which isolated owners get a token of `runs_as`, the account of the Pod, although their
/// SidecarSet does not mount that volume. Returns a reason for each.
///
/// The injecting policy leaves no such mount, so another webhook added it later. Mounts that the SidecarSet has, and those
/// in the way of the sidecar's token, stay: [`settle`](super::settle()) judges them.
pub(super) fn set_apart(pod: &mut Value, runs_as: &str, known: &Known<'_>) -> Vec<Reason> {
    let makers = OnceCell::new();
    let mut reasons = Vec::new();
    for list in LISTS {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = pod::name(container).to_owned();
            let mut credentials = known.granted.of_container(&name);
            if !credentials.any(|of| of.token == Token::OfSecret && of.account != runs_as) {
                continue;
            }
            let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) else { continue };
            mounts.retain(|mount| {
                let volume = pod::name(mount);
                let path = mount.get("mountPath").and_then(Value::as_str).unwrap_or_default();
                if volumes::is_called_like_ours(volume)
                    || !known.volumes.gives_account(volume)
                    || paths::relation(path).is_some()
                {
                    return true;
                }
                let makers = makers.get_or_init(|| makers_of(known.sets));
                let Some((set, sidecar)) = makers.get(name.as_str()) else { return true };
                if pod::used_volumes(sidecar).any(|used| used == volume) {
                    return true;
                }
                reasons.push(reason(list, &name, volume).about(set));
                false
            });
        }
    }
    reasons
}

/// Returns the SidecarSet and the sidecar of each container.
fn makers_of(sets: &[SidecarSet]) -> BTreeMap<String, (&str, &Value)> {
    let of = |set| made::containers(set).map(|made| (made.name, (set.name(), made.sidecar)));
    sets.iter().flat_map(of).collect()
}

fn reason(list: &str, container: &str, volume: &str) -> Reason {
    let webhook = CloudWebhook::of_volume(volume);
    let by = webhook
        .map_or("another webhook".to_owned(), |webhook| format!("the workload identity webhook of {}", webhook.name()));
    let problem = format!(
        "{by} mounted the volume {}, which holds a token of the Pod's own ServiceAccount, into the sidecar {}",
        shown(volume),
        shown(container)
    );
    let remedy = match webhook {
        Some(webhook) => skipping(webhook),
        None => "let that webhook leave the container out, or leave the Pod out".to_owned(),
    };
    Reason::forbidden(format!("spec.{list}"), problem, &remedy)
}

/// Returns the way out of a webhook that mounts a token into a container.
pub(super) fn skipping(webhook: CloudWebhook) -> String {
    format!("name the container in the annotation {} of the Pod", webhook.annotation())
}
