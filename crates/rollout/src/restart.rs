//! Which Pods a restart evicts next (`pillion rollout restart`): one budget after another, each Pod at most once.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::Amount;
use crate::budget::{self, Counts, Limits, Waiting};

/// A Pod of a SidecarSet, reduced to what a restart depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `metadata.uid`.
    pub uid: String,
    /// The uid of the controller that creates it anew; `None` if there is none, and then the Pod is never evicted.
    pub owner: Option<String>,
    /// Whether it has neither ended nor is being deleted.
    pub is_alive: bool,
    /// Whether it runs and is ready.
    pub is_ready: bool,
    /// Whether the restart is for this Pod.
    pub is_due: bool,
}

/// A restart under way.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    most: usize,
    /// The Pods that were evicted, or that turned out to be gone.
    gone: BTreeSet<String>,
    /// The owners of these Pods.
    touched: BTreeSet<String>,
    /// The number of Pods that each owner has, by its uid.
    wanted: BTreeMap<String, usize>,
}

/// The number of Pods that may be unavailable is 0 or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no Pod may be unavailable, so none can be restarted")]
pub struct NoBudget;

impl Restart {
    /// Begins a restart of these Pods. `max_unavailable` is the number of Pods that may be unavailable at the same time;
    /// a percentage is one of all Pods that have an owner, rounded up.
    ///
    /// # Errors
    /// No Pod may be unavailable.
    pub fn new(max_unavailable: Amount, pods: &[Member]) -> Result<Self, NoBudget> {
        let mut wanted = BTreeMap::<String, usize>::new();
        // A Pod that is being deleted is still one of its owner's until the owner says that it wants fewer.
        for owner in pods.iter().filter_map(|pod| pod.owner.clone()) {
            *wanted.entry(owner).or_default() += 1;
        }
        let total = wanted.values().sum::<usize>().max(1);
        let most = Some(budget::max_unavailable(max_unavailable, total)).filter(|most| *most > 0).ok_or(NoBudget)?;
        Ok(Self { most, wanted, ..Self::default() })
    }

    /// Returns the number of Pods that may be unavailable at the same time.
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Takes note of what an owner says about itself: how many Pods it wants, and how many it has, if it says that.
    /// If it has more than `pods` show, not all of them belong to the SidecarSet; then it can only want fewer of these.
    pub fn wants(&mut self, owner: &str, wants: usize, has: Option<usize>, pods: &[Member]) {
        let shown = pods.iter().filter(|pod| pod.owner.as_deref() == Some(owner)).count();
        let known = self.wanted.entry(owner.to_owned()).or_default();
        *known = if has.is_none_or(|has| has <= shown) { wants } else { wants.min(*known) };
    }

    /// Takes note that a Pod was evicted, or is gone. It is never chosen again.
    pub fn evicted(&mut self, pod: &Member) {
        self.gone.insert(pod.uid.clone());
        self.touched.extend(pod.owner.clone());
    }

    /// Whether a Pod of this owner was evicted.
    pub fn has_touched(&self, owner: &str) -> bool {
        self.touched.contains(owner)
    }

    /// Returns the number of Pods that owners of evicted Pods have yet to create, or that are not ready.
    pub fn awaited(&self, pods: &[Member]) -> usize {
        let owners = self.owners(pods);
        let touched = owners.into_iter().filter(|(owner, _)| self.touched.contains(*owner));
        touched.map(|(_, state)| state.lacks()).sum()
    }

    /// Returns the owners that have fewer Pods than they want.
    pub fn lacking(&self, pods: &[Member]) -> BTreeSet<String> {
        let owners = self.owners(pods);
        let lacking = owners.into_iter().filter(|(_, state)| state.alive < state.wanted);
        lacking.map(|(owner, _)| owner.to_owned()).collect()
    }

    /// Returns the number of Pods that are not available: those that are not ready, and those that an owner has yet to
    /// create.
    pub fn unavailable(&self, pods: &[Member]) -> usize {
        self.owners(pods).values().map(|state| state.lacks()).sum()
    }

    /// Returns the Pods that are left to evict.
    pub fn left<'a>(&'a self, pods: &'a [Member]) -> impl Iterator<Item = &'a Member> {
        pods.iter().filter(|pod| self.is_left(pod))
    }

    /// Returns the positions of the Pods to evict now, in the order of `pods`. Pods of `held` wait: a
    /// PodDisruptionBudget does not allow to evict them yet. A Pod that is not ready is taken until a ready one does not
    /// fit: evicting it makes no further Pod unavailable.
    pub fn next(&self, pods: &[Member], held: &BTreeSet<String>) -> Vec<usize> {
        let waiting: Vec<Waiting> = pods
            .iter()
            .enumerate()
            .filter(|(_, pod)| self.is_left(pod) && !held.contains(&pod.uid))
            .map(|(position, pod)| Waiting { pod: position, is_ready: pod.is_ready })
            .collect();
        let counts = Counts { matched: waiting.len(), unavailable: self.unavailable(pods) };
        let most = i64::try_from(self.most).unwrap_or(i64::MAX);
        budget::within_budget(
            &waiting,
            counts,
            Limits { partition: Amount::Number(0), max_unavailable: Amount::Number(most) },
        )
    }

    /// Returns the positions of the Pods in waves, as if each replacement became ready before the next wave, and no
    /// PodDisruptionBudget held any Pod.
    pub fn waves(&self, pods: &[Member]) -> Vec<Vec<usize>> {
        let (mut restart, mut now) = (self.clone(), pods.to_vec());
        let mut waves = Vec::new();
        loop {
            let wave = restart.next(&now, &BTreeSet::new());
            if wave.is_empty() {
                return waves;
            }
            for pod in wave.iter().filter_map(|position| pods.get(*position)) {
                restart.evicted(pod);
                let replacement = Member {
                    uid: format!("{} anew", pod.uid),
                    is_alive: true,
                    is_ready: true,
                    is_due: false,
                    owner: pod.owner.clone(),
                };
                now.push(replacement);
            }
            waves.push(wave);
        }
    }

    fn is_left(&self, pod: &Member) -> bool {
        pod.is_due && pod.is_alive && pod.owner.is_some() && !self.gone.contains(&pod.uid)
    }

    fn owners<'a>(&'a self, pods: &'a [Member]) -> BTreeMap<&'a str, Owned> {
        let mut owners: BTreeMap<&str, Owned> = BTreeMap::new();
        for (owner, wanted) in &self.wanted {
            owners.entry(owner).or_default().wanted = *wanted;
        }
        for pod in pods.iter().filter(|pod| pod.is_alive && !self.gone.contains(&pod.uid)) {
            let Some(owner) = &pod.owner else { continue };
            let state = owners.entry(owner).or_default();
            state.alive += 1;
            state.ready += usize::from(pod.is_ready);
        }
        owners
    }
}

/// The Pods of an owner.
#[derive(Clone, Copy, Debug, Default)]
struct Owned {
    wanted: usize,
    alive: usize,
    ready: usize,
}

impl Owned {
    fn lacks(self) -> usize {
        self.wanted.max(self.alive) - self.ready
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(uid: &str, owner: Option<&str>, is_ready: bool) -> Member {
        Member { uid: uid.to_owned(), owner: owner.map(str::to_owned), is_alive: true, is_ready, is_due: true }
    }

    fn of_one_owner(count: usize) -> Vec<Member> {
        (0..count).map(|number| member(&format!("p{number}"), Some("o"), true)).collect()
    }

    #[test]
    fn a_percentage_is_one_of_the_pods_that_have_an_owner() {
        let mut pods = of_one_owner(15);
        pods.push(member("bare", None, true));
        assert_eq!(Restart::new(Amount::Percent(10), &pods).unwrap().most(), 2);
        assert_eq!(Restart::new(Amount::Number(0), &pods).unwrap_err(), NoBudget);
        assert_eq!(Restart::new(Amount::Percent(-10), &pods).unwrap_err(), NoBudget);
    }

    #[test]
    fn pods_without_an_owner_are_never_chosen() {
        let restart = Restart::new(Amount::Number(5), &[member("bare", None, true)]).unwrap();
        assert_eq!(restart.next(&[member("bare", None, true)], &BTreeSet::new()), [0_usize; 0]);
    }

    #[test]
    fn the_next_pods_wait_for_the_replacements_of_those_before() {
        let mut pods = of_one_owner(4);
        let mut restart = Restart::new(Amount::Number(2), &pods).unwrap();
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0, 1]);
        for pod in &pods[..2] {
            restart.evicted(pod);
        }
        // A list that was made before the evictions still shows these Pods as ready.
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0_usize; 0]);
        pods.drain(..2);
        assert_eq!((restart.unavailable(&pods), restart.awaited(&pods), restart.lacking(&pods).len()), (2, 2, 1));
        pods.push(Member { is_due: false, ..member("r0", Some("o"), true) });
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0]);
        pods.push(Member { is_due: false, ..member("r1", Some("o"), false) });
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0], "a Pod that is not ready counts as unavailable");
    }

    #[test]
    fn an_owner_that_was_scaled_down_lacks_nothing() {
        let mut pods = of_one_owner(3);
        let mut restart = Restart::new(Amount::Number(1), &pods).unwrap();
        restart.evicted(&pods.remove(0));
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0_usize; 0]);
        restart.wants("o", 2, Some(2), &pods);
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0]);
    }

    #[test]
    fn an_owner_may_have_pods_that_do_not_belong_to_the_set() {
        let pods = of_one_owner(3);
        let mut restart = Restart::new(Amount::Number(1), &pods).unwrap();
        restart.wants("o", 10, Some(10), &pods);
        assert_eq!((restart.unavailable(&pods), restart.next(&pods, &BTreeSet::new())), (0, vec![0]));
    }

    #[test]
    fn an_owner_that_lacks_a_pod_at_the_start_has_none_to_spare() {
        let pods = of_one_owner(3);
        let mut restart = Restart::new(Amount::Number(1), &pods).unwrap();
        restart.wants("o", 4, Some(3), &pods);
        assert_eq!((restart.unavailable(&pods), restart.next(&pods, &BTreeSet::new()).len()), (1, 0));
    }

    #[test]
    fn a_pod_that_is_held_lets_the_others_pass() {
        let pods = of_one_owner(3);
        let restart = Restart::new(Amount::Number(1), &pods).unwrap();
        assert_eq!(restart.next(&pods, &BTreeSet::from(["p0".to_owned()])), [1]);
    }

    #[test]
    fn pods_that_are_not_ready_are_evicted_within_any_budget() {
        let pods = [member("a", Some("o"), false), member("b", Some("o"), false), member("c", Some("o"), true)];
        let restart = Restart::new(Amount::Number(1), &pods).unwrap();
        assert_eq!(restart.next(&pods, &BTreeSet::new()), [0, 1]);
    }

    #[test]
    fn waves_are_as_large_as_the_budget() {
        let pods = of_one_owner(5);
        let restart = Restart::new(Amount::Number(2), &pods).unwrap();
        assert_eq!(restart.waves(&pods), [vec![0, 1], vec![2, 3], vec![4]]);
    }

    /// A cluster whose owners create their Pods anew.
    struct Simulated {
        replicas: Vec<usize>,
        pods: Vec<Member>,
        made: usize,
    }

    impl Simulated {
        fn new(replicas: &[usize], ready: &[bool]) -> Self {
            let mut pods = Vec::new();
            for (owner, count) in replicas.iter().enumerate() {
                for _ in 0..*count {
                    let number = pods.len();
                    let is_ready = ready.get(number).copied().unwrap_or(true);
                    pods.push(member(&format!("p{number}"), Some(&format!("o{owner}")), is_ready));
                }
            }
            Self { replicas: replicas.to_vec(), pods, made: 0 }
        }

        fn unavailable(&self) -> usize {
            let of = |owner: usize| {
                let own = self.pods.iter().filter(|pod| pod.owner == Some(format!("o{owner}")));
                own.filter(|pod| pod.is_alive && pod.is_ready).count()
            };
            self.replicas.iter().enumerate().map(|(owner, wanted)| wanted.saturating_sub(of(owner))).sum()
        }

        /// Lets the cluster work a little: `chance` decides what happens.
        fn work(&mut self, chance: u8) {
            if chance & 1 == 1 {
                self.pods.retain(|pod| pod.is_alive);
            }
            if chance & 2 == 2 {
                for (owner, wanted) in self.replicas.iter().enumerate() {
                    let owner = format!("o{owner}");
                    let alive =
                        self.pods.iter().filter(|pod| pod.is_alive && pod.owner.as_ref() == Some(&owner)).count();
                    for _ in alive..*wanted {
                        self.made += 1;
                        let pod = member(&format!("r{}", self.made), Some(&owner), false);
                        self.pods.push(Member { is_due: false, ..pod });
                    }
                }
            }
            if chance & 4 == 4
                && let Some(pod) = self.pods.iter_mut().find(|pod| pod.is_alive && !pod.is_ready)
            {
                pod.is_ready = true;
            }
        }
    }

    proptest! {
        #[test]
        fn roll66_a_restart_holds_its_budget_ends_and_evicts_no_pod_twice(
            replicas in prop::collection::vec(0..6_usize, 1..4),
            ready in prop::collection::vec(any::<bool>(), 0..16),
            most in 1..5_i64,
            chances in prop::collection::vec(any::<u8>(), 0..60),
            interrupted in prop::option::of(0..60_usize),
        ) {
            let mut cluster = Simulated::new(&replicas, &ready);
            let due: BTreeSet<String> = cluster.pods.iter().map(|pod| pod.uid.clone()).collect();
            let mut restart = Restart::new(Amount::Number(most), &cluster.pods).unwrap();
            let mut limit = cluster.unavailable().max(usize::try_from(most).unwrap());
            let mut evicted = BTreeSet::new();
            for step in 0..1000 {
                if interrupted == Some(step) {
                    // Another run begins, and learns from the owners how many Pods they want.
                    restart = Restart::new(Amount::Number(most), &cluster.pods).unwrap();
                    limit = limit.max(cluster.unavailable());
                }
                for (owner, wanted) in replicas.iter().enumerate() {
                    restart.wants(&format!("o{owner}"), *wanted, None, &cluster.pods);
                }
                let chance = chances.get(step).copied().unwrap_or(7);
                let held: BTreeSet<String> = cluster.pods.iter().filter(|_| chance > 191).map(|pod| pod.uid.clone()).collect();
                for position in restart.next(&cluster.pods, &held) {
                    let pod = &mut cluster.pods[position];
                    prop_assert!(evicted.insert(pod.uid.clone()), "{} twice", pod.uid);
                    restart.evicted(pod);
                    // The kubelet stops it in its own time.
                    pod.is_alive = false;
                }
                prop_assert!(cluster.unavailable() <= limit, "{} of {limit}", cluster.unavailable());
                if restart.left(&cluster.pods).next().is_none() && restart.unavailable(&cluster.pods) == 0 {
                    break;
                }
                cluster.work(chance);
            }
            prop_assert_eq!(evicted, due);
        }
    }
}
