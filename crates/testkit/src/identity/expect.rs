//! What `serviceaccounts.md` says about a Pod: table A4 in the order of G, B0, E3, E4.

use std::collections::{BTreeMap, BTreeSet};

use pillion_core::json;
use pillion_core::service_account::names;
use serde_json::Value;

use super::scenario::Set;
use super::{Scenario, is_token_path};

/// What becomes of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It is refused with this code.
    Refused(u16),
    /// It is admitted.
    Admitted {
        /// The account that it runs under from now on, where that changes.
        runs_as: Option<String>,
        /// Whether only owners keep a token of that account.
        hides: bool,
        /// The account of each SidecarSet that gets one.
        identities: BTreeMap<&'static str, String>,
        /// Whether a set asked and stays without, which an annotation says (`onMissing`, `onConflict`).
        skips: bool,
    },
}

const FORBIDDEN: Expected = Expected::Refused(403);
const UNAVAILABLE: Expected = Expected::Refused(503);

impl Expected {
    /// For a Pod as the policy sees it, and as injection without identities would leave it.
    pub fn of(scenario: &Scenario, seen: &Value, injected: &Value) -> Self {
        let runs_as = json::text(seen, &["spec", "serviceAccountName"]);
        let is_merged = names::is_merged(runs_as);
        let asking: Vec<&Set> = scenario.sets.iter().filter(|set| set.asks()).collect();
        if asking.iter().any(|set| set.mode == "Pod" && !scenario.allow_pod_mode) {
            return FORBIDDEN;
        }
        let (mut isolated, mut shared): (Vec<&Set>, Vec<&Set>) =
            asking.iter().copied().partition(|set| set.mode == "Isolate");

        let account = |set: &Set| scenario.accounts.0.get(set.account.unwrap_or_default());
        let is_missing =
            |set: &Set| account(set).is_none_or(|account| account.is_terminating && !account.is_unreadable);
        // M6: what is skipped, or may be, has no say in what the Pod's account is.
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
        // E6: a Pod that names the right merged account itself is treated like one that is given it.
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
        if is_doubled || is_reached_for(injected) || is_taken(scenario, seen, &identities, wanted.as_deref()) {
            return FORBIDDEN;
        }
        wanted = wanted.filter(|name| name != runs_as);
        let hides = (wanted.is_some() || is_merged) && is_for_sidecars;
        Self::Admitted { runs_as: wanted, hides, identities, skips }
    }
}

/// The account that sets want a whole Pod to run under; nobody knows where they disagree and not all merge.
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

/// The mounts of everybody but these owners, with their volumes.
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

/// B0: whether somebody besides the owners has a token that the API server did not mount.
fn further_token(pod: &Value, owners: &[&Set]) -> bool {
    mounts(pod, owners).any(|(mount, volume)| {
        let sources = json::items(volume, &["projected", "sources"]);
        let tokens: Vec<&Value> = sources.iter().filter_map(|source| source.get("serviceAccountToken")).collect();
        let is_automounted = json::text(volume, &["name"]).starts_with("kube-api-access-")
            && tokens.iter().all(|token| token.get("audience").is_none())
            && is_token_path(json::text(mount, &["mountPath"]));
        !tokens.is_empty() && !is_automounted
    })
}

/// E4: whether a container reaches for the token of a sidecar, before anybody was given any.
fn is_reached_for(pod: &Value) -> bool {
    let is_ours = |text: &str| text.starts_with("sidecarset-token-");
    let by_volume = mounts(pod, &[]).any(|(_, volume)| {
        let sources = json::items(volume, &["projected", "sources"]);
        json::text(volume, &["name"]).starts_with("sidecarset-sa-")
            || is_ours(json::text(volume, &["secret", "secretName"]))
            || sources.iter().any(|source| is_ours(json::text(source, &["secret", "name"])))
    });
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| json::items(pod, &["spec", list]));
    let mut variables = containers.flat_map(|container| json::items(container, &["env"]));
    by_volume || variables.any(|variable| is_ours(json::text(variable, &["valueFrom", "secretKeyRef", "name"])))
}

/// Whether the Pod brings a volume of the name that an account's token needs.
fn is_taken(scenario: &Scenario, seen: &Value, identities: &BTreeMap<&str, String>, wanted: Option<&str>) -> bool {
    let runs_as = json::text(seen, &["spec", "serviceAccountName"]);
    let says = json::at(seen, &["spec", "automountServiceAccountToken"]).and_then(Value::as_bool);
    let automount = scenario.accounts.0.get(runs_as).and_then(|account| account.automount);
    let automounts = says.or(automount).unwrap_or(true) && !is_misled(seen);
    let is_for_all =
        identities.keys().any(|name| scenario.sets.iter().any(|set| set.name == *name && set.mode == "Pod"));
    let is_isolated = |name: &str| scenario.sets.iter().any(|set| set.name == name && set.mode == "Isolate");
    let volumes = json::items(seen, &["spec", "volumes"]);
    identities.iter().any(|(set, account)| {
        // Where nothing is swapped and the API server mounts the token, no volume is needed.
        let takes_over = wanted != Some(runs_as) || names::is_merged(runs_as);
        let is_given = is_isolated(set) || takes_over || is_for_all || !automounts;
        is_given && volumes.iter().any(|volume| json::text(volume, &["name"]) == names::token_volume(account))
    })
}

/// Whether a volume of the Pod takes the place of a SidecarSet's, and projects a token.
fn shadows(pod: &Value, volume: &str) -> bool {
    let called_so = |own: &&Value| json::text(own, &["name"]) == volume;
    let Some(own) = json::items(pod, &["spec", "volumes"]).iter().find(called_so) else { return false };
    json::items(own, &["projected", "sources"]).iter().any(|source| source.get("serviceAccountToken").is_some())
}

/// A1-k: whether the API server mounts a volume of the Pod in place of a token, which is called like its own.
fn is_misled(pod: &Value) -> bool {
    let called_so = |volume: &&Value| json::text(volume, &["name"]).starts_with("kube-api-access-");
    let Some(volume) = json::items(pod, &["spec", "volumes"]).iter().find(called_so) else { return false };
    let sources = json::items(volume, &["projected", "sources"]);
    let mut tokens = sources.iter().filter_map(|source| source.get("serviceAccountToken"));
    !tokens.any(|token| token.get("audience").is_none())
}
