//! The writes to Pods of one round.

use std::sync::Arc;

use pillion_kubernetes::outcome::Reason;
use pillion_rollout::edit::Edit;
use pillion_rollout::method::UpgradeMethod;
use pillion_rollout::pod::{Metadata, Pod};
use pillion_rollout::round::Chosen;
use pillion_rollout::unwritten::Unwritten;
use pillion_rollout::upgradable::{self, Unreadable};
use pillion_rollout::upgrade;
use pillion_runtime::controller::{Controller as _, Done, Failure};
use pillion_runtime::read;
use serde_json::{Value, json};

use super::metrics::Outcome;
use super::{Rollout, RolloutState, SidecarSetRollout};
use crate::pods::injected::{self, InjectedPod};

/// The number of tries to write a condition of a Pod that others change at the same time.
const TRIES: usize = 3;

/// Whether the condition of a Pod names a SidecarSet.
pub(super) fn is_in_condition(pod: &Pod, name: &str) -> bool {
    upgradable::read(pod).is_ok_and(|entries| entries.contains_key(name))
}

/// The part of an upgrade that a write carries out.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// The images, while the kubelet carries out the resize (ROLL-65).
    Images,
    /// The records, and the images that have not changed yet, when the resize is complete (ROLL-65).
    AfterResize,
}

/// What became of a write to a Pod.
pub(super) enum Written {
    Done,
    /// Another client changed the Pod at the same time, or it is gone.
    Overtaken,
}

/// Why a Pod is written.
#[derive(Clone, Copy)]
struct Cause<'a> {
    sidecar_set: &'a str,
    /// What the write is counted as, if it succeeds.
    outcome: Outcome,
    why: &'a str,
}

impl SidecarSetRollout {
    /// Upgrades the chosen Pods, one after the other. Returns false if a Pod was changed by another client at the same
    /// time. The first error ends the round (ROLL-44).
    pub(super) async fn upgrade(
        &self,
        rollout: &Rollout<'_>,
        chosen: &[Chosen],
        revision: &str,
        state: &mut RolloutState,
    ) -> Result<bool, Failure> {
        let mut is_complete = true;
        for (pod, method) in chosen.iter().filter_map(|chosen| Some((rollout.pods.get(chosen.pod)?, chosen.method))) {
            if self.rival.is_at_work().is_some() {
                return Ok(false);
            }
            let written = match method {
                UpgradeMethod::Resize => self.resize_one(rollout, &pod.0, revision, state).await?,
                UpgradeMethod::InPlace => self.upgrade_one(rollout, &pod.0, Part::Whole, revision, state).await?,
                // `evict` takes these.
                UpgradeMethod::Recreate => continue,
            };
            match written {
                Written::Done => {}
                Written::Overtaken => is_complete = false,
            }
        }
        Ok(is_complete)
    }

    /// Upgrades one Pod. The condition comes first: a Pod with the new images is not looked at again, so a condition that
    /// was not written after it would be missing for ever.
    pub(super) async fn upgrade_one(
        &self,
        rollout: &Rollout<'_>,
        pod: &Pod,
        part: Part,
        revision: &str,
        state: &mut RolloutState,
    ) -> Result<Written, Failure> {
        let Metadata { namespace, name, uid, .. } = &pod.metadata;
        let set = rollout.resource.name();
        // A condition that cannot be read does not keep the Pod from its upgrade.
        let unreadable = upgradable::read(pod).err();
        if unreadable.is_none() && !self.tell(&pod.metadata, (set, Some(true))).await? {
            return Ok(Written::Overtaken);
        }
        let Some(current) = self.pods.injected(namespace, name).filter(|current| current.0.metadata.uid == *uid) else {
            return Ok(Written::Overtaken);
        };
        let (target, current, now) = (&rollout.target, &current.0, self.context.clock.now());
        let edit = match part {
            Part::Whole => upgrade::upgrade(target, current, revision, now),
            Part::Images => Ok(upgrade::images(target, current, now)),
            Part::AfterResize => upgrade::after_resize(target, current, revision, now),
        };
        let edit = edit.map_err(|reasons| unpatchable(pod, &reasons))?;
        let why = if edit.changes_images() { "new images" } else { "it has the images already" };
        let cause = Cause { sidecar_set: set, outcome: Outcome::Upgraded, why };
        let written = self.write(current, &edit, cause, state).await?;
        unreadable.map_or(Ok(written), |error| Err(Failure::new(error.to_string())))
    }

    /// Gives idle containers of these Pods their empty image (ROLL-47).
    pub(super) async fn reset(
        &self,
        rollout: &Rollout<'_>,
        pods: &[usize],
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        let mut is_complete = true;
        for pod in pods.iter().filter_map(|position| rollout.pods.get(*position)) {
            if self.rival.is_at_work().is_some() {
                return Ok(Done::after_write(false));
            }
            let edit = upgrade::reset(&rollout.target, &pod.0, self.context.clock.now());
            let why = "the hot upgrade is complete";
            let cause = Cause { sidecar_set: rollout.resource.name(), outcome: Outcome::Reset, why };
            match self.write(&pod.0, &edit, cause, state).await {
                Ok(Written::Done) => {
                    let text = "reset sidecar container image empty successfully";
                    let object = object(&pod.0.metadata);
                    self.context.events.normal(&object, "Reset", "ResetContainerSucceed", text.to_owned()).await;
                }
                Ok(Written::Overtaken) => is_complete = false,
                Err(failure) => {
                    let text = format!("reset sidecar container image empty failed: {failure}");
                    let object = object(&pod.0.metadata);
                    self.context.events.warning(&object, "Reset", "ResetContainerFailed", text).await;
                    return Err(failure);
                }
            }
        }
        Ok(Done::after_write(is_complete))
    }

    async fn write(
        &self,
        pod: &Pod,
        edit: &Edit,
        cause: Cause<'_>,
        state: &mut RolloutState,
    ) -> Result<Written, Failure> {
        let Metadata { uid, resource_version, namespace, name, .. } = &pod.metadata;
        let Cause { sidecar_set, outcome, why } = cause;
        let Err(error) = self.effects.carry_out(&edit.step(pod), why).await else {
            state.uncertain.remove(uid);
            self.metrics.wrote(sidecar_set, outcome);
            tracing::info!(controller = Self::NAME, sidecar_set, namespace, pod = name, why, "changed");
            return Ok(Written::Done);
        };
        match Unwritten::from(&error.problem) {
            Unwritten::Overtaken => {
                self.metrics.wrote(sidecar_set, Outcome::Overtaken);
                Ok(Written::Overtaken)
            }
            Unwritten::Failed { is_uncertain } => {
                self.metrics.wrote(sidecar_set, Outcome::Failed);
                if is_uncertain {
                    state.uncertain.insert(uid.clone(), resource_version.clone());
                }
                Err(error.into())
            }
        }
    }

    /// Writes into the conditions of Pods that they cannot be upgraded, and tells how many there are.
    pub(super) async fn tell_not_upgradable(
        &self,
        rollout: &Rollout<'_>,
        pods: &[usize],
        state: &mut RolloutState,
    ) -> Result<bool, Failure> {
        let mut is_complete = true;
        for pod in pods.iter().filter_map(|position| rollout.pods.get(*position)) {
            is_complete &= self.tell(&pod.0.metadata, (rollout.resource.name(), Some(false))).await?;
        }
        let count = pods.len();
        let text =
            format!("SidecarSet in-place update detected {count} not upgradable pod(s) in this round, will skip them.");
        if count > 0 && state.journal.is_news(&text) {
            self.context.events.normal(rollout.object, "Upgrade", "NotUpgradablePods", text).await;
        }
        Ok(is_complete)
    }

    /// Removes a SidecarSet that is gone from the conditions of Pods (DIFF-13).
    pub(super) async fn clean(&self, name: &str) -> Result<Done, Failure> {
        self.metrics.remove(name);
        let mut is_complete = true;
        for pod in self.pods.group(name).iter().filter(|pod| is_in_condition(&pod.0, name)) {
            is_complete &= self.tell(&pod.0.metadata, (name, None)).await?;
        }
        Ok(Done::after_write(is_complete))
    }

    /// Writes the value of a SidecarSet into the condition of a Pod. Returns false if others keep changing the Pod.
    async fn tell(&self, pod: &Metadata, (name, value): (&str, Option<bool>)) -> Result<bool, Failure> {
        let Metadata { namespace, name: pod_name, uid, .. } = pod;
        let exists = |known: &str| self.is_there(known);
        let mut current = self.pods.injected(namespace, pod_name);
        for _ in 0..TRIES {
            let Some(seen) = current.filter(|seen| seen.0.metadata.uid == *uid) else { return Ok(true) };
            let step = upgradable::step(&seen.0, (name, value), exists, self.context.clock.now());
            let step = step.map_err(|error: Unreadable| Failure::new(error.to_string()))?;
            let Some(step) = step else { return Ok(true) };
            if self.effects.settle(&step, "whether its sidecars can be upgraded").await? {
                return Ok(true);
            }
            let api = injected::of_namespace(&self.context.client, namespace);
            let read = read::one(&api, pod_name).await.map_err(|problem| {
                let text = format!("could not read Pod \"{namespace}/{pod_name}\": {problem}");
                Failure { retry_after: problem.retry_after(), text }
            })?;
            current = read.and_then(InjectedPod::from_object).map(Arc::new);
        }
        Ok(false)
    }
}

/// Returns the parts of a Pod that an Event needs.
pub(super) fn object(pod: &Metadata) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "resourceVersion": pod.resource_version,
        },
    })
}

fn unpatchable(pod: &Pod, reasons: &[Reason]) -> Failure {
    let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let Metadata { namespace, name, .. } = &pod.metadata;
    Failure::new(format!("Pod \"{namespace}/{name}\" cannot be upgraded: {}", texts.join("; ")))
}
