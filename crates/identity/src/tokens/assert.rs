//! The validating policy (TOK-10, E11): checks a Pod after all mutating webhooks have changed it.

use std::collections::BTreeSet;

use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::foreign::{self, Known};
use super::give;
use super::granted::{Credential, Granted};
use super::held::containers;
use super::reach::{self, Counted};
use super::settle::settle;
use super::volumes::Volumes;
use super::{Owners, account_of};
use crate::decision::{Decision, Token};
use crate::drivers::Drivers;

/// The remedy if a Pod differs from the result of the mutating policy.
const UNDONE: &str = "find the webhook that took it away, or the injecting policy that did not run";

/// The SidecarSets of a Pod.
#[derive(Clone, Copy, Debug)]
pub struct InEffect<'a> {
    /// The SidecarSets, in the version that the Pod has.
    pub sets: &'a [SidecarSet],
    /// Their containers.
    pub owners: &'a Owners,
}

/// Compares a Pod with a decision about it.
///
/// The Pod is compared with the result of the policy itself ([`settle`]). A Pod that the policy refuses is refused. So
/// is a Pod with sidecars that the policy would still change. A Pod without any of the sidecars has not passed the
/// mutating policy, so nothing in it can be missing.
pub fn judge(pod: &Value, decision: &Decision, in_effect: InEffect<'_>, trusted: &Drivers) -> Vec<Reason> {
    let InEffect { sets, owners } = in_effect;
    let granted = Granted::new(decision, owners);
    let volumes = Volumes::from_pod(pod, trusted);
    let mut reasons = lacking(pod, &volumes, &granted);
    reasons.append(&mut unmounted(pod, &volumes, &granted));
    if let Some(account) = decision.limited_account().filter(|_| decision.account.is_none()) {
        let counted = Counted::from_decision(decision, account);
        reasons.append(&mut reach::regained(pod, &volumes, &granted, account, counted, true));
    }
    let mut rest = pod.clone();
    let runs_as = decision.account.as_deref().unwrap_or_else(|| account_of(pod));
    let known = Known { volumes: &volumes, granted: &granted, sets };
    reasons.append(&mut foreign::set_apart(&mut rest, runs_as, &known));
    let settled = match settle(rest, decision, owners, trusted) {
        Ok(settled) => settled,
        Err(mut more) => {
            reasons.append(&mut more);
            return reasons;
        }
    };
    let is_there = containers(pod).any(|container| granted.of_container(pod::name(container)).next().is_some());
    if reasons.is_empty() && is_there && settled.pod.get("spec") != pod.get("spec") {
        let problem = "the tokens of the Pod are not mounted as the policy mounts them".to_owned();
        reasons.push(Reason::forbidden("spec", problem, UNDONE));
    }
    reasons
}

/// TOK-10: returns a reason for each owner that lacks the token which a decision gives it. Its mount is missing or
/// replaced, its volume was changed, or the Pod runs under another account.
pub(super) fn lacking(pod: &Value, volumes: &Volumes<'_>, granted: &Granted<'_>) -> Vec<Reason> {
    let runs_as = account_of(pod);
    let right: BTreeSet<_> = granted
        .credentials()
        .filter(|of| of.token == Token::OfSecret || runs_as == of.account)
        .filter(|of| volumes.get(&of.volume).is_some_and(|volume| *volume == give::volume_of(of)))
        .map(|of| of.volume.as_str())
        .collect();
    let mut reasons = Vec::new();
    for container in containers(pod) {
        let name = pod::name(container);
        for Credential { account, volume, .. } in granted.of_container(name) {
            if !right.contains(volume.as_str()) || !give::has_token(container, volume) {
                let problem = format!("{} lacks the token of \"{account}\"", granted.call(name));
                reasons.push(Reason::forbidden("spec", problem, UNDONE));
            }
        }
    }
    reasons
}

/// E20: returns a reason for each token volume of Pillion whose owners are all missing from the Pod. [`lacking`]
/// reports an owner that is in the Pod but does not mount its volume.
fn unmounted(pod: &Value, volumes: &Volumes<'_>, granted: &Granted<'_>) -> Vec<Reason> {
    let there: BTreeSet<_> = containers(pod).map(pod::name).collect();
    let stray = |of: &&Credential<'_>| volumes.get(&of.volume).is_some() && of.owners.is_disjoint(&there);
    let refused = |of: &Credential<'_>| {
        let problem = format!("no sidecar mounts the volume \"{}\", which holds its token", of.volume);
        Reason::forbidden("spec.volumes", problem, UNDONE)
    };
    granted.credentials().filter(stray).map(refused).collect()
}
