//! Containers and volumes that could give the token of a sidecar to others (E3, E4, E7, E11, E20, TOK-10).

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::field::ERRORS_MAX;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::names::TOKEN_CONTAINERS;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::foreign;
use super::granted::Granted;
use super::held::{Holder, containers, shown};
use super::volumes::{self, Volumes};
use crate::decision::{Decision, Narrowed};
use crate::drivers::Drivers;
use crate::names;
use crate::workload_identity::CloudWebhook;

/// The name of a sidecar's Secret, volume or container that another container uses. It is formatted only for a message
/// (E18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached<'a> {
    Secret(&'a str),
    Volume(&'a str),
    Processes(&'a str),
    Environment(&'a str),
}

impl fmt::Display for Reached<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (does, name) = match self {
            Self::Secret(name) => ("mounts the Secret", name),
            Self::Volume(name) => ("mounts the volume", name),
            Self::Processes(name) => ("shares the processes of the container", name),
            Self::Environment(name) => ("takes its environment from the Secret", name),
        };
        write!(f, "{does} {}", shown(name))
    }
}

/// Returns the volumes and Secrets with tokens of sidecars that a container uses and that `owns` does not allow.
fn reaches<'a>(volumes: &Volumes<'a>, container: &'a Value, owns: impl Fn(&str) -> bool) -> BTreeSet<Reached<'a>> {
    let mut found = BTreeSet::new();
    for used in pod::used_volumes(container) {
        if !volumes::is_called_like_ours(used) {
            found.extend(volumes.token_secret(used).map(Reached::Secret));
        } else if !owns(used) {
            found.insert(Reached::Volume(used));
        }
    }
    for (_, secret) in volumes::token_secrets_of_environment(container) {
        found.insert(Reached::Environment(secret));
    }
    found
}

/// A running Pod, to judge containers that are added to it (E7).
#[derive(Clone, Debug)]
pub struct Running<'a> {
    volumes: Volumes<'a>,
    is_for_some: bool,
    holders: BTreeSet<&'a str>,
}

impl<'a> Running<'a> {
    /// Reads a Pod. CSI drivers in `trusted` do not request tokens.
    ///
    /// If a volume of Pillion gives the Pod's account, the Pod has this account for its sidecars, or for some of its
    /// containers (TCN-4). Then every volume that gives the account counts, in particular one that no container mounted
    /// when the Pod was admitted (TOK-0). Annotations do not count, since users can edit them.
    pub fn from_pod(pod: &'a Value, trusted: &Drivers) -> Self {
        let volumes = Volumes::from_pod(pod, trusted);
        let is_for_some = volumes.give_account_to_some();
        let holds = |container: &&Value| pod::used_volumes(container).any(volumes::is_called_like_ours);
        let holders = containers(pod).filter(holds).map(pod::name).collect();
        Self { volumes, is_for_some, holders }
    }

    /// Describes how a container could get the tokens of sidecars. An ephemeral container can also share the processes
    /// of a sidecar.
    pub(crate) fn reached_for(&self, container: &Value) -> Vec<String> {
        let mut found = reaches(&self.volumes, container, |_| false);
        if self.is_for_some {
            let gives = |name: &&str| !volumes::is_called_like_ours(name) && self.volumes.gives_account(name);
            found.extend(pod::used_volumes(container).filter(gives).map(Reached::Volume));
        }
        let target = json::text(container, &["targetContainerName"]);
        if !target.is_empty() && self.holders.contains(target) {
            found.insert(Reached::Processes(target));
        }
        found.into_iter().take(ERRORS_MAX).map(|reached| reached.to_string()).collect()
    }

    /// Returns the names of the containers that hold the token of a sidecar.
    pub(crate) fn holders(&self) -> &BTreeSet<&'a str> {
        &self.holders
    }
}

/// Returns reasons to refuse a Pod. E3, E4, TOK-10: containers that use the token of another container, through a
/// volume of Pillion, or through a Secret as a volume or in the environment. E20: volumes and pull secrets that name
/// such a Secret and that no container uses. Stops at the first container or volume with which there are [`ERRORS_MAX`]
/// reasons.
pub fn intruders(pod: &Value, volumes: &Volumes<'_>, granted: &Granted<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for container in containers(pod) {
        let name = pod::name(container);
        let reached = reaches(volumes, container, |volume| granted.owns(name, volume));
        for reached in reached.iter().take(ERRORS_MAX) {
            let problem = format!("container {} {reached}, which belongs to a sidecar", shown(name));
            let remedy = "remove it; only the containers of the SidecarSet may hold its token";
            reasons.push(Reason::forbidden("spec", problem, remedy));
        }
        if reasons.len() >= ERRORS_MAX {
            return reasons;
        }
    }
    let stray = |field: &str, problem: String| {
        let remedy = "remove it; only the volume that Pillion writes for the containers of the SidecarSet may";
        Reason::forbidden(field, problem, remedy)
    };
    // Few Pods have a volume for which it matters who uses it.
    let used = LazyCell::new(|| containers(pod).flat_map(pod::used_volumes).collect::<BTreeSet<_>>());
    for volume in volumes.iter() {
        let name = pod::name(volume);
        let (is_ours, secrets) = (volumes::is_called_like_ours(name), volumes::token_secrets_of_volume(volume));
        let is_plain = !is_ours && secrets.is_empty();
        if is_plain || granted.of_volume(name).is_some() || used.contains(name) {
            continue;
        }
        if is_ours {
            let problem = format!("volume {} has the name of one that holds the token of a sidecar", shown(name));
            reasons.push(stray("spec.volumes", problem));
        }
        for secret in secrets {
            let problem = format!("volume {} names the Secret {} of a sidecar", shown(name), shown(secret));
            reasons.push(stray("spec.volumes", problem));
        }
        if reasons.len() >= ERRORS_MAX {
            return reasons;
        }
    }
    for secret in volumes::token_secrets_of_pulls(pod) {
        let problem = format!("the Secret {} holds the token of a sidecar", shown(secret));
        reasons.push(stray("spec.imagePullSecrets", problem));
    }
    reasons
}

/// Which volumes with a token of the sidecars' account are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// All volumes: the account is new to the Pod, it is a merged one, which is never a Pod's own, or the Pod gives its own
    /// to some containers.
    All,
    /// Only those that follow Pillion's volume in the list. As far as can be known, the Pod ran under the account
    /// before and may have had tokens of it. But volumes that follow Pillion's were added after the policy ran.
    AfterOurs,
}

impl Counted {
    /// Returns the rule for an account that a decision gives only to sidecars.
    pub fn from_decision(decision: &Decision, account: &str) -> Self {
        // The annotation of a Pod that gives its token to some containers holds for its author, too.
        let is_limited = decision.account.is_some() || decision.narrowed.is_some() || names::is_merged(account);
        if is_limited { Self::All } else { Self::AfterOurs }
    }
}

/// E11, E20, TCN-5: returns reasons for containers that hold a token of `account`, which the Pod runs under only for its
/// sidecars or gives to some of its containers, and for volumes through which a container that is added later could get
/// it.
///
/// Mounts of Pillion's own volumes count only if `with_ours` is set; [`intruders`] finds them in any case.
pub(super) fn regained(
    pod: &Value,
    volumes: &Volumes<'_>,
    granted: &Granted<'_>,
    account: &str,
    counted: Counted,
    with_ours: bool,
) -> Vec<Reason> {
    let ours: BTreeSet<_> = granted.of_account(account).map(|of| of.volume.as_str()).collect();
    let is_ours = |volume: &&Value| ours.contains(pod::name(volume));
    let before_ours: BTreeSet<_> =
        volumes.iter().take_while(|volume| counted == Counted::AfterOurs && !is_ours(volume)).map(pod::name).collect();
    let mut reasons = Vec::new();
    let mut refuse = |holder: Holder<'_>| {
        let of_sidecars = || {
            let problem = format!("{}, which is for sidecars alone", holder.describe(shown(account)));
            let found = "find the webhook that changed the Pod after it was injected";
            let webhook = CloudWebhook::of_volume(holder.volume).filter(|_| holder.container.is_some());
            let remedy = webhook.map_or(found.to_owned(), foreign::skipping);
            Reason::forbidden("spec", problem, &remedy)
        };
        reasons.push(granted.narrowed().map_or_else(of_sidecars, |narrowed| further_holder(holder, narrowed)));
    };
    let is_for_others = |name: &str| granted.narrowed().is_some_and(|narrowed| narrowed.for_others.contains(name));
    let holder = |container, name| {
        let is_ours = volumes::is_called_like_ours(name);
        let counts = if is_ours { with_ours } else { !before_ours.contains(name) && !is_for_others(name) };
        Some(Holder { container, volume: name, given: volumes.given(name).filter(|_| counts)? })
    };
    let on_their_own = granted.narrowed().into_iter().flat_map(|narrowed| &narrowed.on_their_own).map(String::as_str);
    let owners = granted.of_account(account).flat_map(|of| of.owners.iter().copied());
    let owners: BTreeSet<_> = owners.chain(on_their_own).collect();
    let mut used = BTreeSet::new();
    for container in containers(pod) {
        let name = pod::name(container);
        used.extend(pod::used_volumes(container).filter(|name| volumes.has(name)));
        if owners.contains(name) {
            continue;
        }
        if let Some(holder) = pod::used_volumes(container).find_map(|volume| holder(Some(name), volume)) {
            refuse(holder);
        }
    }
    let unused = volumes.iter().map(pod::name).filter(|name| !used.contains(name));
    let unused = unused.filter(|name| !volumes::is_called_like_ours(name));
    for holder in unused.filter_map(|name| holder(None, name)) {
        refuse(holder);
    }
    reasons
}

/// TCN-5: returns the reason to refuse a Pod in which one more container or volume has the token that the Pod gives to
/// some of its containers.
fn further_holder(holder: Holder<'_>, narrowed: &Narrowed) -> Reason {
    let Narrowed { account, by, .. } = narrowed;
    let problem = format!("{}, but {by} gives it to {narrowed}", holder.describe(shown(account)));
    let remedy = match holder.container {
        Some(_) => format!("remove the volume from the container, or name the container in {TOKEN_CONTAINERS}"),
        None => "remove the volume".to_owned(),
    };
    Reason::forbidden("spec", problem, &remedy)
}
