//! The outcome that the specification requires for a Pod: the table of IDP-7 in the order of IDP-8, with TOK-0, E3 and
//! E4.

use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::names;
use pillion_kubernetes::json;
use serde_json::Value;

use super::scenario::Set;
use super::{Scenario, TOKEN_PATH, audiences, is_automount, is_token_path, secrets};

/// The outcome for a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The Pod is refused with this code.
    Refused(u16),
    /// The Pod is admitted.
    Admitted {
        /// The account under which the Pod runs, if that changes.
        runs_as: Option<String>,
        /// Whether only owners keep a token of that account.
        hides: bool,
        /// The account of each SidecarSet that gets one.
        identities: BTreeMap<&'static str, String>,
        /// Whether a set asks for an account and does not get it, which an annotation records (`onMissing`,
        /// `onConflict`).
        skips: bool,
    },
}

const FORBIDDEN: Expected = Expected::Refused(403);
const UNAVAILABLE: Expected = Expected::Refused(503);

impl Expected {
    /// Returns the outcome for a Pod. `seen` is the Pod as the policy sees it, `injected` the result of injection
    /// without identities.
    pub fn for_scenario(scenario: &Scenario, seen: &Value, injected: &Value) -> Self {
        let runs_as = json::text(seen, &["spec", "serviceAccountName"]);
        let is_merged = names::is_merged(runs_as);
        let asking: Vec<&Set> = scenario.sets.iter().filter(|set| set.asks()).collect();
        // E21.
        if asking.iter().any(|set| set.in_the_way.is_some() || set.token.is_some_and(|(_, path)| path == TOKEN_PATH)) {
            return FORBIDDEN;
        }
        if asking.iter().any(|set| set.mode == "Pod" && !scenario.allow_pod_mode) {
            return FORBIDDEN;
        }
        let (mut isolated, mut shared): (Vec<&Set>, Vec<&Set>) =
            asking.iter().copied().partition(|set| set.mode == "Isolate");

        let account = |set: &Set| scenario.accounts.0.get(set.account.unwrap_or_default());
        let is_missing =
            |set: &Set| account(set).is_none_or(|account| account.is_terminating && !account.is_unreadable);
        // IDP-6: sets that are skipped, or may be, do not influence the Pod's account.
        let is_unreadable = |set: &Set| account(set).is_some_and(|account| account.is_unreadable);
        let skipped = |set: &Set| scenario.on_missing == "Skip" && (is_missing(set) || is_unreadable(set));
        let wanted = target(&shared.iter().copied().filter(|set| !skipped(set)).collect::<Vec<_>>());
        let stays = is_merged || wanted.as_deref() == Some(runs_as);
        let has_own = runs_as != "default" || further_token(injected, &shared);
        if !shared.is_empty() && !stays && has_own {
            match scenario.on_app_account {
                "Deny" => return FORBIDDEN,
                "Isolate" => isolated.append(&mut shared),
                _ => shared.clear(),
            }
        }
        let all = isolated.iter().chain(&shared);
        if all.clone().any(|set| is_missing(set)) && scenario.on_missing == "Deny" {
            return FORBIDDEN;
        }
        if all.clone().any(|set| is_unreadable(set)) {
            return UNAVAILABLE;
        }
        let mut skips = all.clone().any(|set| is_missing(set));
        isolated.retain(|set| !is_missing(set));
        shared.retain(|set| !is_missing(set));

        let mut wanted = target(&shared);
        if is_merged && wanted.as_deref() != Some(runs_as) {
            return FORBIDDEN;
        }
        // E6: a Pod that names the right merged account itself is treated like a Pod that the policy gives it to.
        let is_for_sidecars = shared.iter().all(|set| set.mode == "SidecarsOnly");
        if is_merged && is_for_sidecars && further_token(injected, &shared) {
            return FORBIDDEN;
        }
        if wanted.is_none() && !shared.is_empty() {
            if scenario.on_conflict == "Deny" {
                return FORBIDDEN;
            }
            shared.clear();
            skips = true;
        }
        if wanted.as_deref().is_some_and(|name| names::is_merged(name) && !scenario.merged_is_ready) {
            return UNAVAILABLE;
        }
        let mut identities = BTreeMap::new();
        for set in &shared {
            identities.extend(wanted.clone().map(|account| (set.name, account)));
        }
        identities.extend(isolated.iter().map(|set| (set.name, set.account.unwrap_or_default().to_owned())));

        let is_doubled = identities.iter().any(|(name, account)| {
            let set = asking.iter().find(|set| set.name == *name);
            wanted.as_ref() != Some(account) && account != runs_as && set.is_some_and(|set| shadows(seen, set.volume))
        });
        if is_doubled || is_reached_for(injected) {
            return FORBIDDEN;
        }
        wanted = wanted.filter(|name| name != runs_as);
        let hides = (wanted.is_some() || is_merged) && is_for_sidecars;
        // A sidecar that is injected without its account is no owner, and may not hold a token of the owners' account.
        if hides && further_token(injected, &shared) {
            return FORBIDDEN;
        }
        Self::Admitted { runs_as: wanted, hides, identities, skips }
    }
}

/// Returns the account under which sets want the whole Pod to run, or `None` if they disagree and not all of them
/// merge.
fn target(shared: &[&Set]) -> Option<String> {
    let accounts: BTreeSet<&str> = shared.iter().filter_map(|set| set.account).collect();
    let merges = shared.iter().all(|set| set.on_conflict == "Merge");
    match accounts.len() {
        0 => None,
        1 => accounts.first().map(|account| (*account).to_owned()),
        _ if merges => Some(names::merged(&shared.iter().map(|set| set.name).collect::<Vec<_>>())),
        _ => None,
    }
}

/// Returns the mounts of all containers except those of `owners`, with their volumes.
fn mounts<'a>(pod: &'a Value, owners: &'a [&Set]) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let volumes = json::items(pod, &["spec", "volumes"]);
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| json::items(pod, &["spec", list]));
    let others = containers.filter(|container| {
        let name = json::text(container, &["name"]);
        !owners.iter().any(|set| set.containers().iter().any(|own| own == name))
    });
    others.flat_map(|container| json::items(container, &["volumeMounts"])).filter_map(move |mount| {
        let name = json::text(mount, &["name"]);
        volumes.iter().find(|volume| json::text(volume, &["name"]) == name).map(|volume| (mount, volume))
    })
}

/// Returns the names of the volumes that are mounted.
fn mounted(pod: &Value) -> BTreeSet<&str> {
    mounts(pod, &[]).map(|(_, volume)| json::text(volume, &["name"])).collect()
}

/// TOK-0, E19, E20: whether a container other than the owners' has a token that the API server did not mount, or could
/// get one from a volume that no container mounts.
fn further_token(pod: &Value, owners: &[&Set]) -> bool {
    let is_ours = |volume: &Value| json::text(volume, &["name"]).starts_with("sidecarset-sa-");
    let gives = |volume: &Value| !audiences(volume).is_empty() && !is_ours(volume);
    let used = mounted(pod);
    let mut unused = json::items(pod, &["spec", "volumes"])
        .iter()
        .filter(|volume| !used.contains(json::text(volume, &["name"])) && !is_automount(volume));
    unused.any(gives)
        || mounts(pod, owners).any(|(mount, volume)| {
            gives(volume) && !(is_automount(volume) && is_token_path(json::text(mount, &["mountPath"])))
        })
}

/// E4, E20: whether the Pod refers to the token of a sidecar before any identity is given.
fn is_reached_for(pod: &Value) -> bool {
    let is_ours = |text: &str| text.starts_with("sidecarset-token-");
    let by_volume = json::items(pod, &["spec", "volumes"]).iter().any(|volume| {
        json::text(volume, &["name"]).starts_with("sidecarset-sa-") || secrets(volume).into_iter().any(is_ours)
    });
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| json::items(pod, &["spec", list]));
    let mut variables = containers.flat_map(|container| json::items(container, &["env"]));
    by_volume || variables.any(|variable| is_ours(json::text(variable, &["valueFrom", "secretKeyRef", "name"])))
}

/// Whether a volume of the Pod replaces a SidecarSet's volume of the same name, and gives access to the Pod's account.
fn shadows(pod: &Value, volume: &str) -> bool {
    let called_so = |own: &&Value| json::text(own, &["name"]) == volume;
    json::items(pod, &["spec", "volumes"]).iter().find(called_so).is_some_and(|own| !audiences(own).is_empty())
}
