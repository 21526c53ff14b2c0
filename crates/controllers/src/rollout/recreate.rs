//! Prepares a round of a SidecarSet that asks for evictions (ROLL-66 to ROLL-68): the Pods that lack the sidecar, and the
//! evictions that are not replaced yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::evicted::{self, Evicted};
use pillion_rollout::evictions::Evictions;
use pillion_rollout::history::{self, Revision};
use pillion_rollout::method::Obstacle;
use pillion_rollout::pod::Pod;
use pillion_rollout::recreation::Recreation;
use pillion_runtime::controller::{Controller as _, Done, Failure};
use serde_json::Value;
use tokio::time::timeout;

use super::probe::{QUESTIONS, WorkloadRef};
use super::sources::{Sources, StoredRevision};
use super::{LISTING, Rollout, RolloutState, SidecarSetRollout};
use crate::pods::injected::InjectedPod;

/// How long to wait until further workloads are asked about.
const NEXT_QUESTIONS: Duration = Duration::from_secs(1);
/// How long to wait until a workload that lacks Pods is read again.
const REPLACED: Duration = Duration::from_secs(5);

/// The active Pods of workloads, by UID of the workload.
pub(super) struct Active(BTreeMap<String, BTreeSet<String>>);

impl Active {
    /// Counts Pods, except for those that are evicted already.
    fn count_pods<'a>(pods: impl Iterator<Item = &'a Pod>, evictions: &Evictions) -> Self {
        let mut all = BTreeMap::<String, BTreeSet<String>>::new();
        for pod in pods.filter(|pod| pod.is_active() && !evictions.is_going(pod)) {
            if let Some(owner) = pod.owner_uid() {
                all.entry(owner.to_owned()).or_default().insert(pod.metadata.uid.clone());
            }
        }
        Self(all)
    }

    /// Returns how many Pods a workload has.
    pub(super) fn count(&self, uid: &str) -> usize {
        self.0.get(uid).map_or(0, BTreeSet::len)
    }
}

/// Returns the stored revisions of a SidecarSet, ascending.
pub(super) fn ascending<'a>(rollout: &Rollout<'_>, stored: &'a [Arc<StoredRevision>]) -> Vec<&'a Revision> {
    let uid = json::text(rollout.object, &["metadata", "uid"]);
    history::ascending(uid, stored.iter().map(|revision| &revision.0))
}

impl SidecarSetRollout {
    /// Adds what evictions depend on to a rollout. Returns when to look again; `None` if Pods are not listed yet.
    ///
    /// # Errors
    /// A write failed, or a selector cannot be read.
    pub(super) async fn prepare_evictions(
        &self,
        rollout: &mut Rollout<'_>,
        sources: &Sources,
        latest: &str,
        state: &mut RolloutState,
    ) -> Result<Option<Done>, Failure> {
        let strategy = &rollout.target.strategy;
        let is_at_rest = !strategy.errors.is_empty() || !strategy.is_rolling || strategy.is_paused;
        if !rollout.target.upgrades.recreate {
            self.without_lacking(rollout.resource.name());
            drop(std::mem::take(&mut state.evictions));
            return Ok(Some(Done::Settled));
        }
        if is_at_rest {
            return Ok(Some(Done::Settled));
        }
        let lacking = self.lacking(rollout.target.version);
        if timeout(LISTING, lacking.listed()).await.is_err() {
            return Ok(None);
        }
        let now = self.context.clock.now();
        let mut lacking = lacking.all();
        // A Pod with other containers needs a new one, as a Pod without any does.
        let (recreated, others) = rollout.reshaped.drain(..).partition(|pod| pod.0.is_recreated());
        rollout.reshaped = others;
        lacking.extend::<Vec<_>>(recreated);
        let known = self.pods.group(rollout.target.name());
        let all = || known.iter().chain(&lacking).map(|pod| &pod.0);
        state.evictions.pods.observe(all(), now);
        state.evictions.dry_runs.keep(&rollout.target, rollout.object, now);
        for text in state.evictions.known_problems() {
            // It still holds, so it is told once.
            state.journal.is_news(&text);
        }
        let questions = self.ask_again(rollout, all(), state).await;
        rollout.pods.retain(|pod| !state.evictions.pods.is_going(&pod.0));
        rollout.members = rollout.pods.len();
        let active = Active::count_pods(all(), &state.evictions.pods);

        let stored = sources.revisions.group(rollout.resource.name());
        let revisions = ascending(rollout, &stored);
        let newest = revisions.iter().find(|revision| revision.name() == latest);
        let since = newest.and_then(|newest| newest.in_force_since(revisions.iter().copied()));
        if let Some(newest) = newest.filter(|_| since.is_none()) {
            // It was used again while nothing was noted.
            self.effects
                .settle(&newest.note_in_force(now), "Pods that are created from now on have the version")
                .await?;
        }
        rollout.evicted = Evicted::from_revisions(revisions.iter().copied());
        self.lower(rollout, &active, state, now).await;
        let has_held = state.evictions.pods.workloads_of_held(all());
        let missing = rollout.evicted.missing(|uid| active.count(uid)).map(|(.., missing)| missing).sum();
        rollout.evicted.prune(|uid| if has_held.contains(uid) { 0 } else { active.count(uid) });
        let settings = self.context.settings();
        rollout.target.recreation = Recreation {
            protected: settings.service_accounts.protected_namespaces.iter().cloned().collect(),
            held: state.evictions.pods.held_until_later(now),
            missing,
            ..Recreation::default()
        }
        .in_force(since, now);
        let is_complete = self.add_lacking(rollout, lacking, questions, state).await?;
        rollout.target.recreation.not_injected = state.evictions.dry_runs.not_injected();
        state.evictions.active = Some(active);

        let settles = rollout.target.recreation.settles_in(now).map(Duration::from_secs);
        let next = [
            (!is_complete).then_some(NEXT_QUESTIONS),
            (missing > 0).then_some(REPLACED),
            state.evictions.pods.next_try(now),
            settles,
        ];
        let next = next.into_iter().flatten().min();
        Ok(Some(next.map_or(Done::Settled, Done::LookAgain)))
    }

    /// Reads the workloads that lack Pods: one that was scaled down, or that is gone, replaces none.
    async fn lower(&self, rollout: &mut Rollout<'_>, active: &Active, state: &mut RolloutState, now: Timestamp) {
        let again = |asked: &Timestamp| now.0.saturating_sub(asked.0) < REPLACED.as_secs().cast_signed();
        state.evictions.asked.retain(|_, (asked, _)| again(asked));
        let missing = rollout.evicted.missing(|uid| active.count(uid));
        let missing = missing.map(|(uid, workload, _)| (uid.to_owned(), workload.clone()));
        let due = missing.filter(|(uid, _)| !state.evictions.asked.contains_key(uid)).take(QUESTIONS);
        let due: Vec<_> = due.collect();
        for (uid, workload) in due {
            let evicted::Workload { api_version, kind, namespace, name, .. } = &workload;
            let there = self.workload(WorkloadRef { api_version, kind, namespace, name }).await;
            let mut problem = None;
            match there {
                Ok(there) => {
                    let there = there.filter(|there| json::text(there, &["metadata", "uid"]) == uid);
                    let wanted = there.map_or(Some(0), |there| wanted(rollout, &there));
                    if let Some(wanted) = wanted {
                        rollout.evicted.lower(&uid, wanted);
                    }
                }
                Err(error) => {
                    let text = format!("could not read {kind} \"{namespace}/{name}\": {error}");
                    if state.journal.is_news(&text) {
                        tracing::warn!(controller = Self::NAME, "{text}");
                    }
                    problem = Some(text);
                }
            }
            state.evictions.asked.insert(uid, (now, problem));
        }
    }

    /// Adds the Pods that lack the sidecar and would get it. `questions` is how many workloads the round has asked about so
    /// far. Returns whether the answer is known for all Pods.
    async fn add_lacking(
        &self,
        rollout: &mut Rollout<'_>,
        lacking: Vec<Arc<InjectedPod>>,
        mut questions: usize,
        state: &mut RolloutState,
    ) -> Result<bool, Failure> {
        let mut is_selected = self.selection(rollout.target.version).map_err(Failure::new)?;
        let (mut is_complete, mut added) = (true, Vec::new());
        for pod in lacking {
            let is_evictable =
                matches!(rollout.target.recreation.check(&pod.0), Ok(()) | Err(Obstacle::NewPodLacksVersion));
            let is_going = state.evictions.pods.is_going(&pod.0);
            let is_left_out = || self.is_left_out(rollout.resource, &pod.0);
            if is_going || !is_evictable || !is_selected(&pod.0) || is_left_out() {
                continue;
            }
            if state.evictions.dry_runs.gets_version(&pod.0).is_none() {
                if questions >= QUESTIONS {
                    is_complete = false;
                    continue;
                }
                questions = questions.saturating_add(1);
            }
            if self.is_injected(rollout, &pod.0, state).await {
                added.push(pod);
            }
        }
        drop(is_selected);
        rollout.pods.extend(added);
        Ok(is_complete)
    }
}

/// Returns how many Pods of the SidecarSet a workload wants: none if the SidecarSet does not select its Pods any more.
fn wanted(rollout: &Rollout<'_>, workload: &Value) -> Option<usize> {
    let selector = rollout.target.version.spec(&["selector"]).and_then(|selector| Selector::parse(selector).ok());
    let labels = json::object(workload, &["spec", "template", "metadata", "labels"]);
    if selector.is_some_and(|selector| !selector.matches_labels(labels)) {
        return Some(0);
    }
    evicted::wanted(workload)
}
