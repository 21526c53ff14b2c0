//! Properties of whole rollouts, with a kubelet that restarts changed containers in its own time.

use pillion_sidecarset::sidecar_set::SidecarSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NOW, after, paired, pod, read, sidecar_set, status};
use crate::budget::partition;
use crate::consistency::{Judged, is_candidate};
use crate::pod::Pod;
use crate::round::{Round, round};
use crate::target::RolloutTarget;
use crate::upgrade::{reset, upgrade};

/// The cluster: Pods, and which of them the kubelet has caught up with.
struct Cluster {
    set: SidecarSet,
    pods: Vec<Value>,
}

impl Cluster {
    fn new(count: usize, is_hot: bool, strategy: &Value) -> Self {
        let hot = json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}});
        let set = sidecar_set(if is_hot { &hot } else { &Value::Null }, strategy);
        let name = |index: usize| {
            [("/metadata/name", json!(format!("web-{index}"))), ("/metadata/uid", json!(format!("p{index}")))]
        };
        let pods = (0..count).map(|index| if is_hot { paired(&set, &name(index)) } else { pod(&set, &name(index)) });
        Self { pods: pods.collect(), set }
    }

    /// Runs one round and returns how many Pods it changes.
    fn round(&mut self) -> usize {
        let target = RolloutTarget::new(&self.set, &self.set);
        let pods: Vec<Pod> = self.pods.iter().map(read).collect();
        let seen: Vec<&Pod> = pods.iter().collect();
        let judged: Vec<Judged> = seen.iter().map(|pod| Judged::judge(&target, pod)).collect();
        let (changed, is_reset) = match round(&target, &seen, &judged, |_| false) {
            Round::Rest(_) => (Vec::new(), false),
            Round::Reset(pods) => (pods, true),
            Round::Upgrade { chosen, .. } => (chosen.iter().map(|chosen| chosen.pod).collect(), false),
        };
        for index in &changed {
            let pod = &pods[*index];
            let edit = if is_reset { reset(&target, pod, NOW) } else { upgrade(&target, pod, "logs-1", NOW).unwrap() };
            self.pods[*index] = after(&self.pods[*index], &edit.step(pod));
        }
        changed.len()
    }

    /// Restarts the changed containers of one Pod.
    fn kubelet(&mut self, index: usize) {
        let pod = &mut self.pods[index];
        let containers = pod["spec"]["containers"].as_array().unwrap().clone();
        let statuses: Vec<Value> = containers
            .iter()
            .map(|container| status(container["name"].as_str().unwrap(), container["image"].as_str().unwrap()))
            .collect();
        pod["status"]["containerStatuses"] = json!(statuses);
    }

    fn judged(&self) -> Vec<Judged> {
        let target = RolloutTarget::new(&self.set, &self.set);
        self.pods.iter().map(|pod| Judged::judge(&target, &read(pod))).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn roll34_roll35_no_round_breaks_a_budget(
        count in 1..12_usize,
        is_hot in any::<bool>(),
        most in 0..6_usize,
        kept in 0..6_usize,
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let strategy = json!({"maxUnavailable": most, "partition": kept});
        let mut cluster = Cluster::new(count, is_hot, &strategy);
        for index in order {
            cluster.round();
            let judged = cluster.judged();
            let unavailable = judged.iter().filter(|judged| judged.is_updated && !judged.is_available()).count();
            prop_assert!(unavailable <= most, "{unavailable} of {most}");
            let kept = partition(crate::amount::Amount::Number(i64::try_from(kept).unwrap()), count);
            prop_assert!(judged.iter().filter(|judged| !judged.is_updated).count() >= kept.min(count));
            cluster.kubelet(index.index(count));
        }
    }

    #[test]
    fn roll12_a_rollout_comes_to_an_end_and_then_changes_nothing(count in 1..10_usize, is_hot in any::<bool>(), most in 1..4_usize) {
        let mut cluster = Cluster::new(count, is_hot, &json!({"maxUnavailable": most}));
        for _ in 0..count * 4 {
            cluster.round();
            (0..count).for_each(|index| cluster.kubelet(index));
        }
        let judged = cluster.judged();
        prop_assert!(judged.iter().all(|judged| judged.is_updated && judged.is_available()), "{judged:?}");
        let before = cluster.pods.clone();
        prop_assert_eq!(cluster.round(), 0);
        prop_assert_eq!(cluster.pods, before);
    }

    #[test]
    fn roll10_a_pod_of_others_is_no_candidate(list in "[a-z,]{0,12}", containers in prop::collection::vec("[a-z]{1,5}", 0..4)) {
        let set = sidecar_set(&Value::Null, &json!({}));
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "app:1"})).collect();
        let changes = [("/metadata/annotations/kruise.io~1sidecarset-injected-list", json!(list)), ("/spec/containers", json!(containers))];
        let is_of_it = list.split(',').any(|name| name == "logs") && containers.iter().any(|it| it["name"] == "agent");
        prop_assert_eq!(is_candidate(&RolloutTarget::new(&set, &set), &read(&pod(&set, &changes))), is_of_it);
    }
}
