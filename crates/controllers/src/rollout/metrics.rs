//! Metrics of rollouts.

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::condition;
use pillion_plan::failure::Cause;
use pillion_rollout::consistency::Judged;
use pillion_rollout::pod::Pod;
use pillion_rollout::status::{Progress, READY};
use pillion_rollout::target::RolloutTarget;
use pillion_runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    sidecarset: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    sidecarset: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failing {
    sidecarset: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Written {
    sidecarset: String,
    result: &'static str,
}

/// The states of the Pods of a SidecarSet. Each Pod is in one of them.
const STATES: [&str; 4] = ["updated", "updating", "outdated", "not_upgradable"];

/// The result of a write to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Upgraded,
    Reset,
    /// The API server accepted new cpu and memory.
    Resized,
    /// The API server refuses new cpu and memory.
    Refused,
    /// The Pod was evicted.
    Evicted,
    /// A PodDisruptionBudget forbids the eviction.
    Held,
    /// Another client changed the Pod at the same time, or it is gone.
    Overtaken,
    Failed,
}

impl Outcome {
    /// All results.
    const ALL: [Self; 8] = [
        Self::Upgraded,
        Self::Reset,
        Self::Resized,
        Self::Refused,
        Self::Evicted,
        Self::Held,
        Self::Overtaken,
        Self::Failed,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::Upgraded => "upgraded",
            Self::Reset => "reset",
            Self::Resized => "resized",
            Self::Refused => "refused",
            Self::Evicted => "evicted",
            Self::Held => "held",
            Self::Overtaken => "overtaken",
            Self::Failed => "error",
        }
    }
}

/// The metrics.
pub(crate) struct RolloutMetrics {
    pods: Family<InState, Gauge>,
    oldest: Family<Of, Gauge>,
    failed: Family<Failing, Gauge>,
    upgrades: Family<Written, Counter>,
    durations: Histogram,
}

impl RolloutMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let (pods, oldest, failed, upgrades) =
            (Family::default(), Family::default(), Family::default(), Family::default());
        // From a second to nine hours.
        let durations = Histogram::new(exponential_buckets(1.0, 2.0, 16));
        metrics.register(|registry| {
            let help = "Pods of a SidecarSet; state is updated, updating, outdated or not_upgradable";
            registry.register("rollout_pods", help, Family::clone(&pods));
            let help = "When the oldest outdated Pod of a SidecarSet was created, in seconds since 1970";
            registry.register_with_unit("rollout_oldest_outdated_pod_created", help, Unit::Seconds, oldest.clone());
            let help = "1 while the rollout of a SidecarSet has failed; reason is that of its condition";
            registry.register("rollout_failed", help, Family::clone(&failed));
            let help =
                "Upgrades of Pods; result is upgraded, reset, resized, refused, evicted, held, overtaken or error";
            registry.register("rollout_upgrades", help, Family::clone(&upgrades));
            let help = "Time from a change of a SidecarSet until its updateStrategy was satisfied";
            registry.register_with_unit("rollout", help, Unit::Seconds, durations.clone());
        });
        Self { pods, oldest, failed, upgrades, durations }
    }

    /// Records the states of the Pods of a SidecarSet.
    pub(crate) fn measured(&self, target: &RolloutTarget<'_>, pods: &[&Pod], judged: &[Judged]) {
        let mut counts: BTreeMap<&str, i64> = STATES.map(|state| (state, 0)).into();
        let mut oldest: Option<Timestamp> = None;
        for (pod, judged) in pods.iter().zip(judged) {
            *counts.entry(state(target, pod, *judged)).or_default() += 1;
            if !judged.is_updated {
                let created = pod.metadata.creation_timestamp.unwrap_or_default().0;
                oldest = Some(oldest.map_or(created, |oldest| oldest.min(created)));
            }
        }
        let sidecarset = target.name();
        for (state, count) in counts {
            self.pods.get_or_create(&InState { sidecarset: sidecarset.to_owned(), state }).set(count);
        }
        let of = Of { sidecarset: sidecarset.to_owned() };
        match oldest {
            Some(created) => {
                self.oldest.get_or_create(&of).set(created.0);
            }
            None => {
                self.oldest.remove(&of);
            }
        }
    }

    /// Records whether the rollout of a SidecarSet has failed, and why.
    pub(crate) fn failed(&self, sidecarset: &str, cause: Option<Cause>) {
        for other in Cause::ALL {
            let failing = Failing { sidecarset: sidecarset.to_owned(), reason: other.as_str() };
            if cause == Some(other) {
                self.failed.get_or_create(&failing).set(1);
            } else {
                self.failed.remove(&failing);
            }
        }
    }

    /// Removes the states of a SidecarSet that is not rolled out any longer.
    pub(crate) fn forget(&self, sidecarset: &str) {
        self.failed(sidecarset, None);
        for state in STATES {
            self.pods.remove(&InState { sidecarset: sidecarset.to_owned(), state });
        }
        self.oldest.remove(&Of { sidecarset: sidecarset.to_owned() });
    }

    /// Removes everything about a SidecarSet that is deleted.
    pub(crate) fn remove(&self, sidecarset: &str) {
        self.forget(sidecarset);
        for result in Outcome::ALL.map(Outcome::text) {
            self.upgrades.remove(&Written { sidecarset: sidecarset.to_owned(), result });
        }
    }

    /// Counts a write to a Pod.
    pub(crate) fn wrote(&self, sidecarset: &str, outcome: Outcome) {
        let written = Written { sidecarset: sidecarset.to_owned(), result: outcome.text() };
        self.upgrades.get_or_create(&written).inc();
    }

    /// Records how far a SidecarSet is. `since` is when its rollout began, if it has begun; `object` is the SidecarSet
    /// before this is written into its status.
    pub(crate) fn progressed(
        &self,
        since: &mut Option<Timestamp>,
        progress: &Progress,
        object: &Value,
        now: Timestamp,
    ) {
        if progress.is_rolling() {
            // After a restart, the condition tells since when.
            since.get_or_insert_with(|| waiting_since(object).unwrap_or(now));
        } else if progress.is_ready
            && let Some(since) = since.take()
        {
            let seconds = u32::try_from(now.0.saturating_sub(since.0)).unwrap_or_default();
            self.durations.observe(f64::from(seconds));
        }
    }
}

#[cfg(test)]
impl RolloutMetrics {
    /// Gives every series a value.
    pub(crate) fn fill(&self, sidecarset: &str) {
        let Self { pods, oldest, failed, upgrades, durations: _ } = self;
        let sidecarset = sidecarset.to_owned();
        for state in STATES {
            pods.get_or_create(&InState { sidecarset: sidecarset.clone(), state }).set(1);
        }
        for reason in Cause::ALL.map(Cause::as_str) {
            failed.get_or_create(&Failing { sidecarset: sidecarset.clone(), reason }).set(1);
        }
        for result in Outcome::ALL.map(Outcome::text) {
            upgrades.get_or_create(&Written { sidecarset: sidecarset.clone(), result }).inc();
        }
        oldest.get_or_create(&Of { sidecarset }).set(1);
    }
}

fn state(target: &RolloutTarget<'_>, pod: &Pod, judged: Judged) -> &'static str {
    match (judged.is_updated, judged.is_available()) {
        (true, true) => "updated",
        (true, false) => "updating",
        (false, _) if judged.is_resizing => "updating",
        (false, _) if target.upgrade_method(pod).is_ok() => "outdated",
        (false, _) => "not_upgradable",
    }
}

/// Returns since when the condition `Ready` of a SidecarSet is false.
fn waiting_since(object: &Value) -> Option<Timestamp> {
    let ready = condition::find(object, READY)?;
    let is_false = json::text(ready, &["status"]) == "False";
    Timestamp::parse(json::text(ready, &["lastTransitionTime"])).filter(|_| is_false)
}
