//! The evictions of a SidecarSet's Pods (ROLL-66).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_rollout::edit::reference;
use pillion_rollout::pod::Pod;
use pillion_rollout::recreate::{Held, named};
use pillion_rollout::round::Chosen;

use super::metrics::Outcome;
use super::probe::Answers;
use super::recreate::{Active, ascending};
use super::round::object;
use super::sources::Sources;
use super::{Rollout, SidecarSetRollout, State};
use crate::controller::{Controller as _, Done, Failure};
use crate::problem::WriteProblem;

/// How long a Pod waits for a PodDisruptionBudget until its eviction is tried again, in seconds. Each further try doubles
/// it, up to the longest time. It begins anew when another Pod becomes ready, because the budget may allow more then.
const FIRST_WAIT: u64 = 5;
/// How long to wait after a Pod became ready, in seconds: the API server may count it a moment later.
const COUNTED: i64 = 1;
const LONGEST_WAIT: u64 = 60;
/// How long a Pod with several budgets waits, in seconds.
const SEVERAL_WAIT: u64 = 120;
/// The most refusals of evictions in one round.
const REFUSALS: usize = 5;
/// How long to wait until other Pods are tried after a refusal.
const AFTER_REFUSAL: Duration = Duration::from_secs(2);

/// What is remembered about the evictions of a SidecarSet.
#[derive(Default)]
pub(super) struct Evictions {
    /// The Pods whose eviction the API server has accepted, and that were not seen to go yet, by UID.
    pub(super) going: BTreeSet<String>,
    /// The Pods that wait for a PodDisruptionBudget, by UID.
    waiting: BTreeMap<String, Waiting>,
    /// The ready Pods, by UID.
    ready: BTreeSet<String>,
    /// Whether new Pods of workloads get the version.
    pub(super) answers: Answers,
    /// When workloads that lack Pods were last read, and the problem if they could not be.
    pub(super) asked: BTreeMap<String, (Timestamp, Option<String>)>,
    /// The Pods of workloads in this round.
    pub(super) active: Option<Active>,
}

/// A Pod that waits for a PodDisruptionBudget.
struct Waiting {
    namespace: String,
    until: Timestamp,
    tries: u32,
    held: Held,
}

impl Evictions {
    /// Forgets the Pods that have gone, and has evictions tried again in namespaces where a Pod has become ready.
    pub(super) fn observe<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>, now: Timestamp) {
        let active: BTreeMap<&str, &Pod> =
            pods.filter(|pod| pod.is_active()).map(|pod| (pod.metadata.uid.as_str(), pod)).collect();
        self.going.retain(|uid| active.contains_key(uid.as_str()));
        self.waiting.retain(|uid, _| active.contains_key(uid.as_str()));
        let ready = active.iter().filter(|(_, pod)| pod.state.is_ready);
        let ready: BTreeMap<&str, &str> = ready.map(|(uid, pod)| (*uid, pod.metadata.namespace.as_str())).collect();
        let new = ready.iter().filter(|(uid, _)| !self.ready.contains(**uid));
        let namespaces: BTreeSet<&str> = new.map(|(_, namespace)| *namespace).collect();
        let waiting = self.waiting.values_mut().filter(|waiting| !waiting.held.has_several_budgets);
        for waiting in waiting.filter(|waiting| namespaces.contains(waiting.namespace.as_str())) {
            let soon = Timestamp(now.0.saturating_add(COUNTED));
            (waiting.until, waiting.tries) = (waiting.until.min(soon), 0);
        }
        self.ready = ready.into_keys().map(str::to_owned).collect();
    }

    /// Returns what people were told and still holds.
    pub(super) fn told(&self) -> Vec<String> {
        let several = self.waiting.values().filter(|waiting| waiting.held.has_several_budgets);
        let unread = self.asked.values().filter_map(|(_, problem)| problem.clone());
        several.map(|waiting| refused(&waiting.held)).chain(unread).chain(self.answers.told()).collect()
    }

    /// Returns the Pods that wait for a PodDisruptionBudget.
    pub(super) fn held(&self) -> Vec<Held> {
        self.waiting.values().map(|waiting| waiting.held.clone()).collect()
    }

    /// Returns the UIDs of the Pods whose eviction is not tried now.
    pub(super) fn held_until_later(&self, now: Timestamp) -> BTreeSet<String> {
        self.waiting.iter().filter(|(_, waiting)| waiting.until > now).map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns the UIDs of the workloads of the Pods that wait for a PodDisruptionBudget.
    pub(super) fn workloads_of_held<'a>(&self, pods: impl Iterator<Item = &'a Pod>) -> BTreeSet<String> {
        let held = pods.filter(|pod| self.waiting.contains_key(&pod.metadata.uid));
        held.filter_map(|pod| pod.owner_uid().map(str::to_owned)).collect()
    }

    /// Returns how long to wait until an eviction is tried again.
    pub(super) fn next_try(&self, now: Timestamp) -> Option<Duration> {
        let next = self.waiting.values().map(|waiting| waiting.until).filter(|until| *until > now).min()?;
        u64::try_from(next.0.saturating_sub(now.0)).ok().map(Duration::from_secs)
    }

    /// Takes note that a budget forbids the eviction of a Pod.
    fn wait(&mut self, pod: &Pod, held: Held, after: Option<Duration>, now: Timestamp) {
        let tries = self.waiting.get(&pod.metadata.uid).map_or(0, |waiting| waiting.tries);
        let wait = if held.has_several_budgets {
            SEVERAL_WAIT
        } else {
            FIRST_WAIT.saturating_mul(2_u64.saturating_pow(tries)).min(LONGEST_WAIT)
        };
        let wait = i64::try_from(wait.max(after.unwrap_or_default().as_secs())).unwrap_or(i64::MAX);
        let until = Timestamp(now.0.saturating_add(wait));
        let namespace = pod.metadata.namespace.clone();
        let waiting = Waiting { namespace, until, tries: tries.saturating_add(1), held };
        self.waiting.insert(pod.metadata.uid.clone(), waiting);
    }
}

fn refused(held: &Held) -> String {
    format!("Pod \"{}\" cannot be evicted: {}", held.pod, held.message)
}

/// What became of an eviction.
enum Evicted {
    Done,
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
        state: &mut State,
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
        let mut refusals = 0_usize;
        for pod in ready {
            if self.rival.is_at_work().is_some() {
                return Ok(Done::after_write(false));
            }
            match self.evict_one(rollout, &pod.0, state).await? {
                Evicted::Done => {}
                Evicted::Held => refusals = refusals.saturating_add(1),
                Evicted::Overtaken => is_complete = false,
            }
            if refusals >= REFUSALS {
                break;
            }
        }
        let again = if refusals > 0 { Done::LookAgain(AFTER_REFUSAL) } else { Done::Settled };
        Ok(Done::after_write(is_complete).or_sooner(again))
    }

    async fn evict_one(&self, rollout: &Rollout<'_>, pod: &Pod, state: &mut State) -> Result<Evicted, Failure> {
        let set = rollout.target.name();
        let uid = pod.metadata.uid.clone();
        let step = Step::Evict { object: reference(pod), uid: uid.clone() };
        let Err(error) = self.effects.carry_out(&step, "the version needs a new Pod").await else {
            state.uncertain.remove(&uid);
            state.evictions.waiting.remove(&uid);
            state.evictions.going.insert(uid);
            self.metrics.wrote(set, Outcome::Evicted);
            let name = named(pod);
            tracing::info!(controller = Self::NAME, sidecar_set = set, pod = name, "evicted");
            let text = format!("evicted, so that a new Pod gets the version of SidecarSet \"{set}\"");
            self.context.events.normal(&object(&pod.metadata), "Evict", "RecreateForSidecarSet", text).await;
            return Ok(Evicted::Done);
        };
        let (message, after, has_several_budgets) = match &error.problem {
            WriteProblem::Held { message, after } => (message.to_string(), *after, false),
            WriteProblem::SeveralBudgets(message) => (message.clone(), None, true),
            problem if problem.is_overtaken() => {
                self.metrics.wrote(set, Outcome::Overtaken);
                return Ok(Evicted::Overtaken);
            }
            problem => {
                self.metrics.wrote(set, Outcome::Failed);
                if matches!(problem, WriteProblem::Failed(_) | WriteProblem::Later { .. }) {
                    state.uncertain.insert(uid, pod.metadata.resource_version.clone());
                }
                return Err(error.into());
            }
        };
        self.metrics.wrote(set, Outcome::Held);
        state.uncertain.remove(&uid);
        let held = Held { uid, pod: named(pod), message, has_several_budgets };
        let text = refused(&held);
        self.effects.problem(Some(&pod.metadata.namespace), text.clone());
        if has_several_budgets && state.journal.is_news(&text) {
            self.context.events.warning(rollout.object, "Recreate", "SeveralBudgets", text).await;
        }
        state.evictions.wait(pod, held, after, self.context.clock.now());
        Ok(Evicted::Held)
    }
}
