//! A model of a cluster whose Pods are evicted: whatever happens between two rounds, no eviction breaks a budget.

use std::collections::{BTreeMap, BTreeSet};

use pillion_plan::Step;
use pillion_sidecarset::sidecar_set::SidecarSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::recreations::{created, decided, outdated, replica_set, target, updated};
use super::sidecar_set;
use crate::evicted::{EVICTED, Evicted};
use crate::pod::Pod;
use crate::round::{Chosen, Round};

/// A Pod of the model.
#[derive(Clone, Debug)]
struct Modelled {
    uid: String,
    workload: usize,
    has_version: bool,
    is_ready: bool,
    is_going: bool,
}

/// What happens between two rounds.
#[derive(Clone, Debug)]
enum Happens {
    /// A replacement is created.
    Replace(prop::sample::Index),
    /// A Pod that was not ready becomes ready.
    Ready(prop::sample::Index),
    /// A Pod that goes is gone.
    Gone(prop::sample::Index),
    /// The watch of the controller catches up.
    Seen,
    /// The controller starts anew: it lists the Pods, and remembers nothing.
    Restart,
    /// A workload gets another number of Pods.
    Scale(prop::sample::Index, usize),
    /// A budget forbids evictions from a workload, or allows them again.
    Budget(prop::sample::Index),
}

fn happens() -> impl Strategy<Value = Happens> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => index().prop_map(Happens::Replace),
        4 => index().prop_map(Happens::Ready),
        4 => index().prop_map(Happens::Gone),
        3 => Just(Happens::Seen),
        1 => Just(Happens::Restart),
        1 => (index(), 0..5_usize).prop_map(|(index, wanted)| Happens::Scale(index, wanted)),
        1 => index().prop_map(Happens::Budget),
    ]
}

/// A cluster with workloads, and a controller that evicts their Pods.
struct Model {
    set: SidecarSet,
    wanted: Vec<usize>,
    pods: Vec<Modelled>,
    /// The Pods as the watch shows them.
    seen: Vec<Modelled>,
    /// The annotation of the revision.
    record: Value,
    going: BTreeSet<String>,
    forbidden: BTreeSet<usize>,
    next: usize,
}

impl Model {
    fn new(wanted: &[usize], strategy: &Value) -> Self {
        let set = sidecar_set(&json!({}), strategy);
        let (record, going, forbidden) = (json!({}), BTreeSet::new(), BTreeSet::new());
        let mut model =
            Self { set, wanted: wanted.to_vec(), pods: vec![], seen: vec![], record, going, forbidden, next: 0 };
        for (workload, count) in wanted.iter().enumerate() {
            (0..*count).for_each(|_| model.create(workload, false));
        }
        model.pods.iter_mut().for_each(|pod| pod.is_ready = true);
        model.seen = model.pods.clone();
        model
    }

    fn create(&mut self, workload: usize, has_version: bool) {
        self.next += 1;
        let uid = format!("p{}", self.next);
        self.pods.push(Modelled { uid, workload, has_version, is_ready: false, is_going: false });
    }

    fn active(&self, workload: usize) -> usize {
        self.pods.iter().filter(|pod| pod.workload == workload && !pod.is_going).count()
    }

    /// How many Pods are missing or not ready, of those that the workloads want.
    fn unavailable(&self) -> usize {
        let short = |(workload, wanted): (usize, &usize)| wanted.saturating_sub(self.active(workload));
        let missing: usize = self.wanted.iter().enumerate().map(short).sum();
        missing + self.pods.iter().filter(|pod| !pod.is_going && !pod.is_ready).count()
    }

    fn happen(&mut self, what: &Happens) {
        match what {
            Happens::Replace(index) => {
                let workload = index.index(self.wanted.len());
                if self.active(workload) < self.wanted[workload] {
                    self.create(workload, true);
                }
            }
            Happens::Ready(index) if !self.pods.is_empty() => {
                let index = index.index(self.pods.len());
                self.pods[index].is_ready = true;
            }
            Happens::Gone(index) if !self.pods.is_empty() => {
                let index = index.index(self.pods.len());
                if self.pods[index].is_going {
                    self.pods.remove(index);
                }
            }
            Happens::Ready(_) | Happens::Gone(_) => {}
            Happens::Seen => self.seen = self.pods.clone(),
            Happens::Restart => {
                self.seen = self.pods.clone();
                self.going.clear();
            }
            Happens::Scale(index, wanted) => {
                let workload = index.index(self.wanted.len());
                self.wanted[workload] = *wanted;
                // What a user adds is no eviction, so its Pods are there at once.
                while self.active(workload) < *wanted {
                    self.create(workload, true);
                    self.seen.extend(self.pods.last().cloned());
                }
                // Nor is what a user removes, which does not count (ROLL-66): the watch shows it at once.
                while self.active(workload) > *wanted {
                    let mut of_it = self.pods.iter_mut().filter(|pod| pod.workload == workload && !pod.is_going);
                    let removed = of_it.next().unwrap();
                    removed.is_going = true;
                    let uid = removed.uid.clone();
                    self.seen.iter_mut().filter(|pod| pod.uid == uid).for_each(|pod| pod.is_going = true);
                }
            }
            Happens::Budget(index) => {
                let workload = index.index(self.wanted.len());
                if !self.forbidden.remove(&workload) {
                    self.forbidden.insert(workload);
                }
            }
        }
    }

    /// Runs one round as the controller does, and returns the largest number of unavailable Pods after an eviction.
    fn round(&mut self) -> Option<usize> {
        let set = self.set.clone();
        let decode = |modelled: &Modelled| {
            let workload = format!("rs{}", modelled.workload);
            let mut pod = if modelled.has_version {
                updated(&set, &modelled.uid, modelled.is_ready)
            } else {
                outdated(&set, &modelled.uid, &[])
            };
            pod.state.is_ready = modelled.is_ready;
            pod.metadata.owner = outdated(&set, "x", &[replica_set(&workload)]).metadata.owner;
            pod
        };
        let is_shown = |uid: &String| self.seen.iter().any(|pod| pod.uid == *uid && !pod.is_going);
        self.going.retain(is_shown);
        let shown = self.seen.iter().filter(|pod| !pod.is_going && !self.going.contains(&pod.uid));
        let pods: Vec<Pod> = shown.map(decode).collect();
        let mut counts = BTreeMap::<&str, usize>::new();
        for pod in &pods {
            *counts.entry(pod.owner_uid().unwrap()).or_default() += 1;
        }
        let active = |uid: &str| counts.get(uid).copied().unwrap_or_default();

        let mut record = Evicted::from_revisions([&created(2, 200, "new", &self.record)]);
        let short: Vec<String> = record.missing(active).map(|(uid, ..)| uid.to_owned()).collect();
        for uid in short {
            let workload: usize = uid.trim_start_matches("rs").parse().unwrap();
            record.lower(&uid, self.wanted[workload]);
        }
        let mut target = target(&self.set);
        target.recreation.missing = record.missing(active).map(|(.., missing)| missing).sum();
        record.prune(active);
        let chosen: Vec<Chosen> = match decided(&target, &pods).0 {
            Round::Upgrade { chosen, .. } => chosen,
            _ => Vec::new(),
        };
        let evicted: Vec<&Pod> = chosen.iter().map(|chosen| &pods[chosen.pod]).collect();
        for pod in &evicted {
            assert!(record.add(pod, active(pod.owner_uid().unwrap())));
        }
        for step in record.steps("logs-new", [&created(2, 200, "new", &self.record)]) {
            let Step::Patch { patch, .. } = step else { panic!("{step:?}") };
            json_patch::merge(&mut self.record, &patch["metadata"]["annotations"]);
        }
        let evicted: Vec<String> = evicted.iter().map(|pod| pod.metadata.uid.clone()).collect();
        let mut most = None;
        for uid in evicted {
            let Some(pod) = self.pods.iter_mut().find(|pod| pod.uid == uid && !pod.is_going) else { continue };
            if self.forbidden.contains(&pod.workload) {
                continue;
            }
            pod.is_going = true;
            self.going.insert(uid);
            most = most.max(Some(self.unavailable()));
        }
        most
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn roll66_no_eviction_breaks_a_budget(
        wanted in prop::collection::vec(1..5_usize, 1..5),
        most in 0..4_usize,
        events in prop::collection::vec(happens(), 0..80),
    ) {
        let mut model = Model::new(&wanted, &json!({"maxUnavailable": most}));
        for event in &events {
            if let Some(unavailable) = model.round() {
                prop_assert!(unavailable <= most, "{unavailable} of {most}: {:?}", model.pods);
            }
            model.happen(event);
        }
    }

    #[test]
    fn roll66_a_rollout_comes_to_an_end(wanted in prop::collection::vec(1..4_usize, 1..4), most in 1..3_usize) {
        let mut model = Model::new(&wanted, &json!({"maxUnavailable": most}));
        for _ in 0..wanted.iter().sum::<usize>() * 3 {
            model.round();
            model.pods.retain(|pod| !pod.is_going);
            for (workload, wanted) in wanted.iter().enumerate() {
                while model.active(workload) < *wanted {
                    model.create(workload, true);
                }
            }
            model.pods.iter_mut().for_each(|pod| pod.is_ready = true);
            model.happen(&Happens::Seen);
        }
        prop_assert!(model.pods.iter().all(|pod| pod.has_version));
        model.round();
        prop_assert!(model.record.get(EVICTED).is_none_or(Value::is_null), "{}", model.record);
    }
}
