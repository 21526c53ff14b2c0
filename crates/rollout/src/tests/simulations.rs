//! Properties of whole rollouts over simulated kubelets: edits at any time, retags, nodes that are away, versions that
//! fail and the way back from them.
//!
//! `PILLION_ROLLOUT_STEPS=1000000` lets the simulations run for so many steps of kubelets and rounds; without it, they
//! run a sample.

use std::cell::Cell;
use std::collections::BTreeSet;

use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::SidecarSet;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::kubelet::{Kubelet, Naming, Runtime};
use super::{NOW, after, paired, pod, read, sidecar_set};
use crate::consistency::Judged;
use crate::pod::Pod;
use crate::round::{Round, round};
use crate::target::{RolloutTarget, Surroundings};
use crate::trouble;
use crate::upgrade::{reset, upgrade};

/// How long a kubelet does nothing at most, in seconds.
const AWAKE: i64 = 4;
/// The steps of a sample.
const SAMPLE: usize = 20_000;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Runs a property with new inputs until the kubelets and the controller have made so many steps.
fn for_many_steps<S: Strategy>(strategy: &S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let wanted = std::env::var("PILLION_ROLLOUT_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(SAMPLE);
    let config =
        ProptestConfig { cases: 16, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() };
    let (mut steps, mut rollouts) = (0, 0);
    while steps < wanted {
        STEPS.set(0);
        let mut runner = TestRunner::new(config.clone());
        if let Err(error) = runner.run(strategy, &property) {
            panic!("{error}");
        }
        steps += STEPS.get();
        rollouts += 16;
    }
    println!("{rollouts} rollouts, {steps} steps");
}

fn set(image: &str, is_hot: bool, most: usize) -> SidecarSet {
    let mut sidecar = json!({"image": image});
    if is_hot {
        sidecar["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    }
    sidecar_set(&sidecar, &json!({"maxUnavailable": most}))
}

/// Pods with their kubelets, and a controller.
struct Cluster {
    set: SidecarSet,
    /// The version that has failed, while Pods go back from it.
    failed: Option<SidecarSet>,
    pods: Vec<(Value, Kubelet)>,
    /// When each kubelet took its last step.
    steps: Vec<i64>,
    runtime: Runtime,
    now: Timestamp,
}

impl Cluster {
    fn new(count: usize, is_hot: bool, most: usize, runtime: Runtime) -> Self {
        let set = set("agent:v1", is_hot, most);
        let record =
            json!({"logs": {"hash": set.hash(), "sidecarSetName": "logs", "sidecarList": ["agent"]}}).to_string();
        let pods = (0..count).map(|index| {
            let changes = [
                ("/metadata/name", json!(format!("web-{index}"))),
                ("/metadata/uid", json!(format!("p{index}"))),
                ("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record)),
                ("/spec/nodeName", json!(format!("n{index}"))),
            ];
            let mut pod = if is_hot { paired(&set, &changes) } else { pod(&set, &changes) };
            let kubelet = Kubelet::new(&pod);
            kubelet.report(&mut pod, &runtime, NOW);
            (pod, kubelet)
        });
        Self { pods: pods.collect(), set, failed: None, steps: vec![NOW.0; count], runtime, now: NOW }
    }

    /// Calls a function with the target and the Pods as the controller sees them.
    fn with<T>(&self, act: impl FnOnce(&RolloutTarget<'_>, &[&Pod], &[Judged]) -> T) -> T {
        let away = self.pods.iter().enumerate().filter(|(_, (_, kubelet))| kubelet.is_away);
        let unready_nodes: BTreeSet<String> = away.map(|(index, _)| format!("n{index}")).collect();
        let target = RolloutTarget::new(&self.set, &self.set);
        let target = match &self.failed {
            Some(failed) => target.back_from(failed.hash()),
            None => target,
        };
        let target = target.within(Surroundings { now: self.now, unready_nodes, ..Surroundings::default() });
        let pods: Vec<Pod> = self.pods.iter().map(|(pod, _)| read(pod)).collect();
        let seen: Vec<&Pod> = pods.iter().collect();
        let judged: Vec<Judged> = seen.iter().map(|pod| Judged::judge(&target, pod)).collect();
        act(&target, &seen, &judged)
    }

    fn round(&mut self) {
        STEPS.set(STEPS.get() + 1);
        let now = self.now;
        let steps = self.with(|target, pods, judged| {
            let upgraded = |index: usize| upgrade(target, pods[index], "logs-1", now).unwrap().step(pods[index]);
            match round(target, pods, judged, |_| false) {
                Round::Rest(_) => Vec::new(),
                Round::Reset(reset_now) => reset_now
                    .into_iter()
                    .map(|index| (index, reset(target, pods[index], now).step(pods[index])))
                    .collect(),
                Round::Upgrade { chosen, .. } => chosen.iter().map(|it| (it.pod, upgraded(it.pod))).collect(),
            }
        });
        for (index, step) in steps {
            self.pods[index].0 = after(&self.pods[index].0, &step);
        }
    }

    fn kubelet(&mut self, index: usize, is_seen: bool) {
        STEPS.set(STEPS.get() + 1);
        self.steps[index] = self.now.0;
        let (pod, kubelet) = &mut self.pods[index];
        kubelet.step(pod, &self.runtime, self.now);
        if is_seen {
            kubelet.report(pod, &self.runtime, self.now);
        }
    }

    fn report(&mut self, index: usize) {
        let (pod, kubelet) = &mut self.pods[index];
        kubelet.report(pod, &self.runtime, self.now);
    }

    /// The node of a Pod goes away or comes back.
    fn toggle_node(&mut self, index: usize) {
        let kubelet = &mut self.pods[index].1;
        kubelet.is_away = !kubelet.is_away;
        if !kubelet.is_away {
            kubelet.restart();
        }
        self.report(index);
    }

    fn act(&mut self, action: &Action, is_hot: bool, most: usize) {
        let count = self.pods.len();
        match action {
            Action::Edit(image) => self.set = set(image, is_hot, most),
            Action::Round => self.round(),
            Action::Kubelet(index, is_seen) => self.kubelet(index.index(count), *is_seen),
            Action::Report(index) => self.report(index.index(count)),
            Action::Node(index) => self.toggle_node(index.index(count)),
            Action::Wait(seconds) => {
                self.now = Timestamp(self.now.0 + seconds);
                for index in 0..count {
                    // No kubelet sleeps for longer, unless its node is away.
                    if self.now.0 - self.steps[index] >= AWAKE {
                        self.kubelet(index, true);
                    }
                }
            }
        }
    }

    /// Lets all nodes come back, and gives kubelets and controller all the time that they need.
    fn settle(&mut self) {
        let count = self.pods.len();
        for index in 0..count {
            if self.pods[index].1.is_away {
                self.toggle_node(index);
            }
        }
        for _ in 0..(count * 24 + 40) {
            self.now = Timestamp(self.now.0 + 3);
            (0..count).for_each(|index| self.kubelet(index, true));
            self.round();
            let is_done = self.with(|_, _, judged| judged.iter().all(|it| it.is_updated && it.is_available()));
            if is_done && self.unavailable() == 0 {
                return;
            }
        }
    }

    /// Returns how many Pods do not serve, or have not been restarted yet.
    fn unavailable(&self) -> usize {
        self.pods.iter().filter(|(pod, kubelet)| !kubelet.serves(pod)).count()
    }

    fn fails(&self) -> Option<String> {
        self.with(|target, pods, judged| trouble::fails(target, pods, judged, &[]))
    }
}

#[derive(Clone, Debug)]
enum Action {
    Edit(String),
    Round,
    /// The kubelet of a Pod takes a step, and reports it or not.
    Kubelet(prop::sample::Index, bool),
    Report(prop::sample::Index),
    Node(prop::sample::Index),
    Wait(i64),
}

fn actions(with_nodes: bool) -> impl Strategy<Value = Vec<Action>> {
    let digest = format!("agent@sha256:{}", "d".repeat(64));
    let images =
        prop::sample::select(vec!["agent:v1".to_owned(), "agent:v2".to_owned(), "agent:v3".to_owned(), digest]);
    let index = any::<prop::sample::Index>;
    let action = prop_oneof![
        2 => images.prop_map(Action::Edit),
        8 => Just(Action::Round),
        12 => (index(), any::<bool>()).prop_map(|(pod, is_seen)| Action::Kubelet(pod, is_seen)),
        4 => index().prop_map(Action::Report),
        u32::from(with_nodes) => index().prop_map(Action::Node),
        4 => (1..6_i64).prop_map(Action::Wait),
    ];
    prop::collection::vec(action, 0..60)
}

fn naming() -> impl Strategy<Value = Naming> {
    prop::sample::select(vec![Naming::AsWritten, Naming::InFull, Naming::FirstTag])
}

fn good(naming: Naming, is_retagged: bool) -> Runtime {
    Runtime { naming, is_retagged, crashing: BTreeSet::new(), missing: BTreeSet::new() }
}

#[test]
fn roll20_every_rollout_whose_containers_become_ready_ends() {
    let inputs = (1..6_usize, any::<bool>(), 1..4_usize, naming(), any::<bool>(), actions(true));
    for_many_steps(&inputs, |(count, is_hot, most, naming, is_retagged, actions)| {
        let mut cluster = Cluster::new(count, is_hot, most, good(naming, is_retagged));
        for action in &actions {
            cluster.act(action, is_hot, most);
        }
        cluster.settle();
        let judged = cluster.with(|_, _, judged| judged.to_vec());
        prop_assert!(judged.iter().all(|judged| judged.is_updated && judged.is_available()), "{judged:#?}");
        prop_assert_eq!(cluster.unavailable(), 0);
        let before: Vec<Value> = cluster.pods.iter().map(|(pod, _)| pod.clone()).collect();
        cluster.round();
        prop_assert!(cluster.pods.iter().map(|(pod, _)| pod).eq(&before), "nothing changes any more");
        Ok(())
    });
}

/// Where two images never share an id, no Pod too many is unavailable, whenever an edit comes.
#[test]
fn roll35_no_edit_makes_a_pod_too_many_unavailable() {
    let inputs = (1..6_usize, 1..4_usize, naming(), actions(false));
    for_many_steps(&inputs, |(count, most, naming, actions)| {
        let mut cluster = Cluster::new(count, false, most, good(naming, false));
        for action in &actions {
            cluster.act(action, false, most);
            let unavailable = cluster.unavailable();
            prop_assert!(unavailable <= most, "{unavailable} of {most} after {action:?}");
        }
        Ok(())
    });
}

/// A version fails in each Pod that it reaches. Pods go back to the version before, which is never blamed.
#[test]
fn roll62_every_way_back_ends_with_working_containers() {
    let bad = prop::sample::select(vec!["agent:v2", "agent:v3"]);
    let inputs = (
        1..6_usize,
        any::<bool>(),
        1..4_usize,
        naming(),
        any::<bool>(),
        bad,
        any::<bool>(),
        0..12_usize,
        actions(true),
    );
    for_many_steps(&inputs, |(count, is_hot, most, naming, is_retagged, bad, crashes, late, actions)| {
        let mut runtime = good(naming, is_retagged);
        if crashes {
            runtime.crashing.insert(bad.to_owned())
        } else {
            runtime.missing.insert(bad.to_owned())
        };
        let mut cluster = Cluster::new(count, is_hot, most, runtime);
        let (restored, failed) = (cluster.set.clone(), set(bad, is_hot, most));
        cluster.set = failed.clone();
        for _ in 0..late {
            cluster.now = Timestamp(cluster.now.0 + 2);
            cluster.round();
            (0..count).for_each(|index| cluster.kubelet(index, true));
        }
        let reached = cluster.pods.iter().filter(|(pod, _)| {
            pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap().contains(failed.hash())
        });
        if reached.count() > most && late > 6 {
            prop_assert!(cluster.fails().is_some(), "the version is blamed");
        }
        (cluster.set, cluster.failed) = (restored, Some(failed));
        for action in actions.iter().filter(|action| !matches!(action, Action::Edit(_))) {
            cluster.act(action, is_hot, most);
            prop_assert_eq!(cluster.fails(), None, "after {:?}", action);
        }
        cluster.settle();
        prop_assert_eq!(cluster.unavailable(), 0);
        let judged = cluster.with(|_, _, judged| judged.to_vec());
        prop_assert!(judged.iter().all(|judged| judged.is_updated && judged.is_available()), "{judged:#?}");
        Ok(())
    });
}
