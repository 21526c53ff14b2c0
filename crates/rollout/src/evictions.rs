//! The Pods of a SidecarSet that are being evicted, or wait for a PodDisruptionBudget (ROLL-66).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillion_kubernetes::time::Timestamp;

use crate::pod::Pod;
use crate::recreate::Held;

/// How long a Pod waits for a PodDisruptionBudget until its eviction is tried again, in seconds. Each further try doubles
/// it, up to the longest time. It begins anew when another Pod becomes ready, because the budget may allow more then.
const FIRST_WAIT: u64 = 5;
const LONGEST_WAIT: u64 = 60;
/// How long to wait after a Pod became ready, in seconds: the API server may count it a moment later.
const COUNTED: i64 = 1;
/// How long a Pod with several budgets waits, in seconds.
const SEVERAL_WAIT: u64 = 120;
/// The most refusals of evictions in one round.
const REFUSALS: usize = 5;
/// How long to wait until other Pods are tried after a refusal.
const AFTER_REFUSAL: Duration = Duration::from_secs(2);

/// What is remembered about the Pods of a SidecarSet that are evicted.
#[derive(Debug, Default)]
pub struct Evictions {
    /// The Pods whose eviction the API server has accepted, and that were not seen to go yet, by UID.
    going: BTreeSet<String>,
    /// The Pods that wait for a PodDisruptionBudget, by UID.
    waiting: BTreeMap<String, WaitingPod>,
    /// The ready Pods, by UID.
    ready: BTreeSet<String>,
}

/// A Pod that waits for a PodDisruptionBudget.
#[derive(Debug)]
struct WaitingPod {
    namespace: String,
    until: Timestamp,
    tries: u32,
    held: Held,
}

impl Evictions {
    /// Forgets the Pods that have gone, and has evictions tried again in namespaces where a Pod has become ready.
    pub fn observe<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>, now: Timestamp) {
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

    /// Takes note that the API server has accepted the eviction of the Pod with this UID.
    pub fn accepted(&mut self, uid: String) {
        self.waiting.remove(&uid);
        self.going.insert(uid);
    }

    /// Takes note that a budget forbids the eviction of a Pod. `after` is how long the API server asks to wait.
    pub fn wait(&mut self, pod: &Pod, held: Held, after: Option<Duration>, now: Timestamp) {
        let tries = self.waiting.get(&pod.metadata.uid).map_or(0, |waiting| waiting.tries);
        let wait = if held.has_several_budgets {
            SEVERAL_WAIT
        } else {
            FIRST_WAIT.saturating_mul(2_u64.saturating_pow(tries)).min(LONGEST_WAIT)
        };
        let wait = i64::try_from(wait.max(after.unwrap_or_default().as_secs())).unwrap_or(i64::MAX);
        let until = Timestamp(now.0.saturating_add(wait));
        let namespace = pod.metadata.namespace.clone();
        let waiting = WaitingPod { namespace, until, tries: tries.saturating_add(1), held };
        self.waiting.insert(pod.metadata.uid.clone(), waiting);
    }

    /// Whether the API server has accepted the eviction of a Pod that is still there.
    pub fn is_going(&self, pod: &Pod) -> bool {
        self.going.contains(&pod.metadata.uid)
    }

    /// Returns the Pods that wait for a PodDisruptionBudget.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.waiting.values().map(|waiting| &waiting.held)
    }

    /// Returns the UIDs of the Pods whose eviction is not tried now.
    pub fn held_until_later(&self, now: Timestamp) -> BTreeSet<String> {
        self.waiting.iter().filter(|(_, waiting)| waiting.until > now).map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns the UIDs of the workloads of the Pods that wait for a PodDisruptionBudget.
    pub fn workloads_of_held<'a>(&self, pods: impl Iterator<Item = &'a Pod>) -> BTreeSet<String> {
        let held = pods.filter(|pod| self.waiting.contains_key(&pod.metadata.uid));
        held.filter_map(|pod| pod.owner_uid().map(str::to_owned)).collect()
    }

    /// Returns how long to wait until an eviction is tried again.
    pub fn next_try(&self, now: Timestamp) -> Option<Duration> {
        let next = self.waiting.values().map(|waiting| waiting.until).filter(|until| *until > now).min()?;
        u64::try_from(next.0.saturating_sub(now.0)).ok().map(Duration::from_secs)
    }
}

/// The refused evictions of a round: after some, the other Pods wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals(usize);

impl Refusals {
    /// Counts another refusal.
    pub fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Whether the other Pods wait.
    pub fn are_enough(self) -> bool {
        self.0 >= REFUSALS
    }

    /// Returns how long to wait until other Pods are tried; `None` if no eviction was refused.
    pub fn wait(self) -> Option<Duration> {
        (self.0 > 0).then_some(AFTER_REFUSAL)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1000);

    fn pod(uid: &str, is_ready: bool) -> Pod {
        let ready = if is_ready { "True" } else { "False" };
        Pod::decode(&json!({
            "metadata": {
                "namespace": "shop", "name": uid, "uid": uid,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": true}],
            },
            "spec": {"containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn held(has_several_budgets: bool) -> Held {
        Held { uid: "a".to_owned(), pod: "shop/a".to_owned(), message: "no".to_owned(), has_several_budgets }
    }

    /// Returns how long each try of an eviction waits for the next one.
    fn waits(tries: usize, has_several_budgets: bool, after: Option<u64>) -> Vec<u64> {
        let (pod, mut evictions) = (pod("a", false), Evictions::default());
        let waits = (0..tries).map(|_| {
            evictions.wait(&pod, held(has_several_budgets), after.map(Duration::from_secs), NOW);
            evictions.next_try(NOW).unwrap().as_secs()
        });
        waits.collect()
    }

    #[rstest]
    #[case::it_doubles(6, false, None, &[5, 10, 20, 40, 60, 60])]
    #[case::the_api_server_asks_for_more(3, false, Some(15), &[15, 15, 20])]
    #[case::several_budgets(2, true, None, &[120, 120])]
    fn roll66_each_try_waits_longer(
        #[case] tries: usize,
        #[case] has_several_budgets: bool,
        #[case] after: Option<u64>,
        #[case] expected: &[u64],
    ) {
        assert_eq!(waits(tries, has_several_budgets, after), expected);
    }

    #[rstest]
    #[case::another_pod_becomes_ready(true, false, 1)]
    #[case::nothing_changes(false, false, 10)]
    #[case::several_budgets(true, true, 120)]
    fn roll66_a_pod_that_becomes_ready_ends_the_wait(
        #[case] is_ready: bool,
        #[case] has_several_budgets: bool,
        #[case] expected: u64,
    ) {
        let (waiting, mut evictions) = (pod("a", false), Evictions::default());
        evictions.wait(&waiting, held(has_several_budgets), None, NOW);
        evictions.wait(&waiting, held(has_several_budgets), None, NOW);
        evictions.observe([&waiting, &pod("b", is_ready)].into_iter(), NOW);
        assert_eq!(evictions.next_try(NOW), Some(Duration::from_secs(expected)));
    }

    #[test]
    fn roll66_a_pod_is_remembered_until_it_is_gone() {
        let (one, mut evictions) = (pod("a", true), Evictions::default());
        evictions.wait(&one, held(false), None, NOW);
        assert_eq!(evictions.workloads_of_held([&one].into_iter()), BTreeSet::from(["w".to_owned()]));
        evictions.accepted("a".to_owned());
        assert!(evictions.is_going(&one) && evictions.held().next().is_none());
        evictions.observe([&one].into_iter(), NOW);
        assert!(evictions.is_going(&one));
        evictions.observe(std::iter::empty(), NOW);
        assert!(!evictions.is_going(&one));
    }

    #[test]
    fn roll66_after_some_refusals_the_other_pods_wait() {
        let mut refusals = Refusals::default();
        assert_eq!((refusals.are_enough(), refusals.wait()), (false, None));
        (0..5).for_each(|_| refusals.add());
        assert_eq!((refusals.are_enough(), refusals.wait()), (true, Some(AFTER_REFUSAL)));
    }
}
