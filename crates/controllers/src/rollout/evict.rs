//! The evictions of a SidecarSet's Pods (ROLL-66).

use std::collections::BTreeMap;
use std::time::Duration;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_rollout::dry_runs::DryRuns;
use pillion_rollout::edit::reference;
use pillion_rollout::evictions::{Evictions, Refusals};
use pillion_rollout::pod::Pod;
use pillion_rollout::recreate::{Held, named};
use pillion_rollout::round::Chosen;
use pillion_rollout::unwritten::{Unevicted, Unwritten};
use pillion_runtime::controller::{Controller as _, Done, Failure};

use super::metrics::Outcome;
use super::recreate::{Active, ascending};
use super::round::object;
use super::sources::Sources;
use super::{Rollout, RolloutState, SidecarSetRollout};

/// What is remembered about the evictions of a SidecarSet.
#[derive(Default)]
pub(super) struct EvictionMemory {
    /// The Pods that go, or wait for a PodDisruptionBudget.
    pub(super) pods: Evictions,
    /// Whether new Pods of workloads get the version.
    pub(super) dry_runs: DryRuns,
    /// When workloads that lack Pods were last read, and the problem if they could not be.
    pub(super) asked: BTreeMap<String, (Timestamp, Option<String>)>,
    /// The Pods of workloads in this round.
    pub(super) active: Option<Active>,
}

impl EvictionMemory {
    /// Returns the problems of which people were told and that still hold.
    pub(super) fn known_problems(&self) -> Vec<String> {
        let several = self.pods.held().filter(|held| held.has_several_budgets).map(Held::text);
        let unread = self.asked.values().filter_map(|(_, problem)| problem.clone());
        several.chain(unread).chain(self.dry_runs.unknown().map(str::to_owned)).collect()
    }
}

/// What became of an eviction.
enum Evicted {
    Accepted,
    /// A PodDisruptionBudget forbids it.
    Held,
    /// The Pod is another one.
    Overtaken,
}

impl SidecarSetRollout {
    /// Evicts the chosen Pods, one after the other, after the record of evictions was written. Also removes from the record
    /// what is replaced. The first error ends the round.
    pub(super) async fn evict(
        &self,
        rollout: &Rollout<'_>,
        chosen: &[Chosen],
        (revision, sources): (&str, &Sources),
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        if !rollout.target.upgrades.recreate {
            return Ok(Done::Settled);
        }
        let Some(active) = state.evictions.active.take() else { return Ok(Done::Settled) };
        let mut record = rollout.evicted.clone();
        let (mut ready, mut is_complete) = (Vec::new(), true);
        for pod in chosen.iter().filter_map(|chosen| rollout.pods.get(chosen.pod)) {
            let is_injected = self.is_injected(rollout, &pod.0, state).await;
            let is_recorded = is_injected && record.add(&pod.0, active.count(pod.0.owner_uid().unwrap_or_default()));
            is_complete &= is_recorded;
            ready.extend(is_recorded.then_some(pod));
        }
        let stored = sources.revisions.group(rollout.resource.name());
        for step in record.steps(revision, ascending(rollout, &stored)) {
            if !self.effects.settle(&step, "which evicted Pods must be replaced").await? {
                return Ok(Done::after_write(false));
            }
        }
        let mut refusals = Refusals::default();
        for pod in ready {
            if self.rival.is_at_work().is_some() {
                return Ok(Done::after_write(false));
            }
            match self.evict_one(rollout, &pod.0, state).await? {
                Evicted::Accepted => {}
                Evicted::Held => refusals.add(),
                Evicted::Overtaken => is_complete = false,
            }
            if refusals.are_enough() {
                break;
            }
        }
        let next_dry_run = state.evictions.dry_runs.next_try(self.context.clock.now()).map(Duration::from_secs);
        let again = [refusals.wait(), next_dry_run].into_iter().flatten().min();
        Ok(Done::after_write(is_complete).or_sooner(again.map_or(Done::Settled, Done::LookAgain)))
    }

    async fn evict_one(&self, rollout: &Rollout<'_>, pod: &Pod, state: &mut RolloutState) -> Result<Evicted, Failure> {
        let set = rollout.target.name();
        let uid = pod.metadata.uid.clone();
        let step = Step::Evict { object: reference(pod), uid: uid.clone() };
        let Err(error) = self.effects.carry_out(&step, "the version needs a new Pod").await else {
            state.uncertain.remove(&uid);
            state.evictions.pods.accepted(uid);
            self.metrics.wrote(set, Outcome::Evicted);
            let name = named(pod);
            tracing::info!(controller = Self::NAME, sidecar_set = set, pod = name, "evicted");
            let text = format!("evicted, so that a new Pod gets the version of SidecarSet \"{set}\"");
            self.context.events.normal(&object(&pod.metadata), "Evict", "RecreateForSidecarSet", text).await;
            return Ok(Evicted::Accepted);
        };
        let (message, after, has_several_budgets) = match Unevicted::from(&error.problem) {
            Unevicted::Held { message, after, has_several_budgets } => (message, after, has_several_budgets),
            Unevicted::Other(Unwritten::Overtaken) => {
                self.metrics.wrote(set, Outcome::Overtaken);
                return Ok(Evicted::Overtaken);
            }
            Unevicted::Other(Unwritten::Failed { is_uncertain }) => {
                self.metrics.wrote(set, Outcome::Failed);
                if is_uncertain {
                    state.uncertain.insert(uid, pod.metadata.resource_version.clone());
                }
                return Err(error.into());
            }
        };
        self.metrics.wrote(set, Outcome::Held);
        state.uncertain.remove(&uid);
        let held = Held { uid, pod: named(pod), message, has_several_budgets };
        let text = held.text();
        self.effects.problem(Some(&pod.metadata.namespace), text.clone());
        if has_several_budgets && state.journal.is_news(&text) {
            self.context.events.warning(rollout.object, "Recreate", "SeveralBudgets", text).await;
        }
        state.evictions.pods.wait(pod, held, after, self.context.clock.now());
        Ok(Evicted::Held)
    }
}
