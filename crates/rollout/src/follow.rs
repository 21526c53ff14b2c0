//! Resizes that follow the app (ROLL-70): the containers of a Pod got other cpu or memory, and the `resourcesPolicy` of
//! the version that the Pod has gives its sidecars other amounts than they have.
//!
//! Whether that is so follows from the spec of the Pod alone, so nothing is recorded before a resize, and a restart of the
//! controller forgets nothing. A refusal is recorded with a digest of the amounts for which it holds.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_plan::Step;
use pillion_plan::restored::restored;
use pillion_sidecarset::overrides::Values;
use pillion_sidecarset::sidecar::List;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use crate::amount::Amount;
use crate::budget::{self, Counts, Limits, Waiting};
use crate::consistency::Judged;
use crate::method::Obstacle;
use crate::observed::Observed;
use crate::order;
use crate::pod::amounts::Amounts;
use crate::pod::resize::{Asked, Begun, key_of_follower};
use crate::pod::{Phase, Pod};
use crate::resize::{self, ContainerResize};
use crate::round::{Rest, Round, unavailable};
use crate::sized_by_others::{by_autoscaler, by_resize};
use crate::target::{RolloutTarget, Sidecar};

/// The most Pods that follow in a round, so that a round does not keep upgrades waiting. The next round goes on.
const AT_ONCE: usize = 50;

/// The Pods of a round whose sidecars follow the app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Following {
    /// The positions of those that are resized now.
    pub due: Vec<usize>,
    /// The positions of those whose resize was refused, or is infeasible.
    pub failed: Vec<(usize, Obstacle)>,
    /// Whether more Pods could be resized at once.
    pub is_cut: bool,
}

/// Whether sidecars of this SidecarSet follow the app: it allows resizes, and a version of it has a `resourcesPolicy`.
pub fn follows(target: &RolloutTarget<'_>) -> bool {
    target.upgrades.resize
        && (has_policy(target) || target.versions.stored().any(|stored| stored.data.contains("\"resourcesPolicy\"")))
}

fn has_policy(target: &RolloutTarget<'_>) -> bool {
    !computed(target).is_empty()
}

/// Returns the containers in a Pod whose resources an expression computes.
fn computed(target: &RolloutTarget<'_>) -> BTreeSet<String> {
    let sidecars = target.sidecars.iter();
    let sidecars = sidecars.filter(|it| json::at(it.container, &["resourcesPolicy"]).is_some_and(Value::is_object));
    sidecars.flat_map(Sidecar::containers).collect()
}

/// Returns the stored versions that Pods have, by hash, without the one that is rolled out.
fn older(target: &RolloutTarget<'_>, pods: &[&Pod]) -> BTreeMap<String, SidecarSet> {
    let hashes: BTreeSet<&str> = pods.iter().map(|pod| target.recorded_hash(pod.records())).collect();
    let stored = hashes.into_iter().filter(|hash| *hash != target.hash()).filter_map(|hash| {
        let revision = target.versions.with_hash(hash)?;
        // One that cannot be read is like one that is not stored any more.
        Some((hash.to_owned(), restored(target.version, &revision.whole()).ok()?))
    });
    stored.collect()
}

/// Returns the versions that Pods have and that compute resources, by hash.
fn own_versions<'v>(
    target: &'v RolloutTarget<'v>,
    older: &'v BTreeMap<String, SidecarSet>,
) -> BTreeMap<&'v str, RolloutTarget<'v>> {
    let of_older = older.iter().map(|(hash, version)| {
        let own = RolloutTarget::new(version, target.version).with_upgrades((target.upgrades, Vec::new()), []);
        (hash.as_str(), own.within(target.surroundings.clone()))
    });
    let all = of_older.chain([(target.hash(), target.clone())]);
    all.filter(|(_, version)| has_policy(version)).collect()
}

/// Decides which Pods follow in a round. `judged` are the states of the Pods.
pub fn following(observed: &Observed<'_>, round: &Round, judged: &[Judged]) -> Following {
    let Observed { target, pods, uncertain, asked, members, .. } = *observed;
    let chosen: BTreeSet<usize> = match round {
        // A strategy that lets nothing be done holds for these resizes as well.
        Round::Rest(Rest::NotUpdate | Rest::Paused | Rest::Unreadable) | Round::Reset(_) => {
            return Following::default();
        }
        Round::Rest(Rest::Done) => BTreeSet::new(),
        Round::Upgrade { chosen, .. } => chosen.iter().map(|chosen| chosen.pod).collect(),
    };
    if !follows(target) {
        return Following::default();
    }
    let older = older(target, pods);
    let versions = own_versions(target, &older);
    let mut known = BTreeMap::new();
    let (mut free, mut restarting, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (position, (pod, judged)) in pods.iter().zip(judged).enumerate().take(members) {
        let Some(own) = versions.get(target.recorded_hash(pod.records())) else { continue };
        if chosen.contains(&position) || uncertain.contains_key(&pod.metadata.uid) || !may_follow(own, pod) {
            continue;
        }
        // Many Pods have the same amounts.
        let overridden = own.overridden(&pod.metadata);
        let key = (own.hash(), pod.amounts.as_ref(), by_autoscaler(&pod.metadata.annotations), overridden);
        let sized = known.entry(key);
        let sized = sized
            .or_insert_with_key(|(_, amounts, left, overridden)| SameAmounts::new(own, amounts, (left, overridden)));
        match sized.need.filter(|_| !is_answered(own, pod, sized, asked)) {
            None => failed.extend(obstacle(own, pod, sized).map(|obstacle| (position, obstacle))),
            Some(Need { restarts: false }) => free.push(position),
            // As with an upgrade, a Pod that is away waits (ROLL-35).
            Some(Need { restarts: true }) if judged.absence.is_some() => {}
            Some(Need { restarts: true }) => restarting.push(position),
        }
    }
    let taken = chosen.iter().filter(|position| judged.get(**position).is_some_and(|it| it.is_available())).count();
    let mut due = free;
    due.extend(within_budget(observed, judged, restarting, taken));
    let is_cut = due.len() > AT_ONCE;
    due.truncate(AT_ONCE);
    Following { due, failed, is_cut }
}

/// Returns the Pods that `maxUnavailable` lets restart, as it limits upgrades. `taken` Pods are upgraded in this round.
fn within_budget(observed: &Observed<'_>, judged: &[Judged], waiting: Vec<usize>, taken: usize) -> Vec<usize> {
    let Observed { target, pods, uncertain, .. } = *observed;
    let missing = unavailable(target, pods, judged, &|pod| uncertain.contains_key(&pod.metadata.uid));
    let counts = Counts {
        matched: pods.len().saturating_add(target.recreation.missing),
        unavailable: missing.saturating_add(taken),
    };
    let waiting = order::sort(pods, &target.strategy.priority, waiting).into_iter().map(|pod| {
        let is_ready = judged.get(pod).is_some_and(|judged| judged.is_available());
        Waiting { pod, is_ready }
    });
    let limits = Limits { partition: Amount::Number(0), ..target.strategy.limits };
    budget::within_budget(&waiting.collect::<Vec<_>>(), counts, limits)
}

/// Whether a Pod is in a state in which its sidecars follow: it runs, nothing of the SidecarSet is under way in it, and the
/// kubelet has resized the app. If the resize of the app and that of the sidecars are pending together, one may keep the
/// other from ever being carried out, so the sidecars follow at once.
fn may_follow(own: &RolloutTarget<'_>, pod: &Pod) -> bool {
    let is_settled = pod.resize(own).is_none() && !own.is_in_flight(pod);
    let is_in_reach = own.upgrades.native || !own.is_native_in(pod);
    let is_behind = |name: &str| pod.status(name).is_none_or(|status| !status.has_resources);
    let mut app = pod.amounts.containers().filter(|it| it.list == List::Containers && !it.is_injected);
    let waits = app.any(|container| is_behind(&container.name)) && !lags(own, pod);
    pod.is_active() && pod.state.phase == Phase::Running && is_settled && is_in_reach && !waits
}

/// Whether a container of the SidecarSet does not have the amounts of the spec.
fn lags(own: &RolloutTarget<'_>, pod: &Pod) -> bool {
    own.containers().iter().any(|name| pod.status(name).is_none_or(|status| !status.has_resources))
}

/// A resize that is needed.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Whether it restarts a container.
    restarts: bool,
}

/// What all Pods with the same amounts of a version have in common.
struct SameAmounts<'a> {
    amounts: &'a Amounts,
    /// The resize that they need. One that cannot be computed is needed, too: it is refused.
    need: Option<Need>,
    digest: OnceCell<String>,
}

impl<'a> SameAmounts<'a> {
    fn new(own: &RolloutTarget<'_>, amounts: &'a Amounts, (left, overridden): (&BTreeSet<&str>, &Values)) -> Self {
        let restarts =
            |change: &ContainerResize| amounts.containers().any(|it| it.name == change.container && it.restarts);
        let need = match changes(own, &amounts.to_pod(), (left, overridden)) {
            Ok(changes) => (!changes.is_empty()).then(|| Need { restarts: changes.iter().any(restarts) }),
            Err(_) => Some(Need { restarts: false }),
        };
        Self { amounts, need, digest: OnceCell::new() }
    }

    /// Returns the digest of the amounts of the Pod's own containers. Few Pods need it.
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| self.amounts.digest_of_own())
    }
}

fn changes(
    own: &RolloutTarget<'_>,
    object: &Value,
    (left, overridden): (&BTreeSet<&str>, &Values),
) -> Result<Vec<ContainerResize>, Vec<Reason>> {
    let computed = computed(own);
    resize::changes(own, object, overridden, |name| computed.contains(name) && !left.contains(name))
}

/// Returns the record of a Pod that a resize which follows the app was refused.
fn refusal<'p>(own: &RolloutTarget<'_>, pod: &'p Pod) -> Option<&'p Begun> {
    pod.resizes().get(&key_of_follower(own.name()))
}

/// The same if it is about the version and the amounts that the Pod has now.
fn refusal_now<'p>(own: &RolloutTarget<'_>, pod: &'p Pod, sized: &SameAmounts<'_>) -> Option<&'p Begun> {
    refusal(own, pod).filter(|refused| refused.hash == own.hash() && refused.amounts == sized.digest())
}

/// Whether the sidecars of a Pod were looked at before, or their resize refused, for the amounts that the app has.
fn is_answered(own: &RolloutTarget<'_>, pod: &Pod, sized: &SameAmounts<'_>, asked: &BTreeMap<String, Asked>) -> bool {
    let before = asked.get(&pod.metadata.uid);
    before.is_some_and(|before| before.hash == own.hash() && before.amounts == sized.digest())
        || refusal_now(own, pod, sized).is_some()
}

/// Returns why the sidecars of a Pod do not follow, although no resize is asked for: it was refused, or the kubelet calls
/// it infeasible.
fn obstacle(own: &RolloutTarget<'_>, pod: &Pod, sized: &SameAmounts<'_>) -> Option<Obstacle> {
    if let Some(refused) = refusal_now(own, pod, sized).filter(|_| sized.need.is_some()) {
        return Some(Obstacle::ResizeRefused { problem: refused.refused.clone() });
    }
    let pending = pod.state.resize.pending.as_ref().filter(|pending| pending.is_infeasible)?;
    lags(own, pod).then(|| Obstacle::ResizeInfeasible { problem: pending.message.clone() })
}

/// What is done about the sidecars of a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Follow {
    /// Drops the record of an earlier refusal, first of all; `None` if there is none.
    pub forget: Option<Step>,
    /// Changes cpu and memory; `None` if the sidecars have their amounts, or somebody else sizes them.
    pub resize: Option<Step>,
}

/// Plans the resize that follows the app. `object` is the whole Pod, as the API server has it; `manager` is the field
/// manager of Pillion's own writes. Returns `None` if the Pod has changed and does not follow now. The result is an error
/// if the amounts cannot be computed for this Pod.
pub fn plan(target: &RolloutTarget<'_>, object: &Value, manager: &str) -> Option<(Asked, Result<Follow, Vec<Reason>>)> {
    let pod = Pod::decode(object).ok()?;
    let older = older(target, &[&pod]);
    let versions = own_versions(target, &older);
    let own = versions.get(target.recorded_hash(pod.records())).filter(|own| may_follow(own, &pod))?;
    let mut left = by_autoscaler(&pod.metadata.annotations);
    left.extend(by_resize(object, manager));
    let planned = changes(own, object, (&left, &own.overridden(&pod.metadata))).map(|changes| {
        let resize = resize::step(&pod, changes);
        let is_outdated = resize.is_some() && refusal(own, &pod).is_some();
        let forget = is_outdated.then(|| resize::forget(&pod, &key_of_follower(own.name())));
        Follow { forget, resize }
    });
    let asked = Asked { hash: own.hash().to_owned(), amounts: pod.amounts.digest_of_own() };
    Some((asked, planned))
}

/// Returns the step that records why a resize is refused. It is not asked for again until the app has other amounts or the
/// Pod has another version.
pub fn refuse(target: &RolloutTarget<'_>, pod: &Pod, asked: &Asked, problem: &str) -> Step {
    let Asked { hash, amounts } = asked.clone();
    let record = Begun { hash, amounts, refused: resize::shortened(problem), ..Begun::default() };
    resize::write(pod, key_of_follower(target.name()), record)
}
