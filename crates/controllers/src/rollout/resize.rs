//! Resizes of Pods (ROLL-65): the mark that one has begun, cpu and memory through the subresource `resize`, and images
//! and records when the kubelet has carried it out.

use kube::core::Request;
use pillion_kubernetes::outcome::Reason;
use pillion_plan::Step;
use pillion_rollout::method::Obstacle;
use pillion_rollout::pod::{Metadata, Pod};
use pillion_rollout::resize;
use pillion_rollout::unwritten::{NO_RESIZE, Unresized, Unwritten};
use pillion_rollout::upgrade::images_precede_resize;
use pillion_runtime::controller::{Controller as _, Failure};
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read;
use serde_json::Value;

use super::metrics::Outcome;
use super::round::{Part, Written};
use super::{Rollout, RolloutState, SidecarSetRollout};

/// The answer of the API server to the resize of a Pod.
pub(super) enum Sent {
    Done,
    /// Another client changed the Pod at the same time, or it is gone.
    Overtaken,
    /// The API server refuses the resize.
    Refused(String),
}

impl SidecarSetRollout {
    /// Takes the next step of the resize of a Pod. The Pod is read first: what a watch keeps of it has no amounts.
    pub(super) async fn resize_one(
        &self,
        rollout: &Rollout<'_>,
        pod: &Pod,
        revision: &str,
        state: &mut RolloutState,
    ) -> Result<Written, Failure> {
        let Some(mut object) = self.whole(&pod.metadata).await? else { return Ok(Written::Overtaken) };
        let planned = match resize::plan(&rollout.target, &object) {
            Ok(planned) => planned,
            Err(reasons) => return self.refuse(rollout, &object, &texts(&reasons)).await,
        };
        if let Some(begin) = planned.begin {
            match self.effects.carry_out(&begin, "its resize begins").await {
                Ok(stored) => object = stored.unwrap_or(object),
                Err(error) if error.problem.is_overtaken() => return Ok(Written::Overtaken),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(step) = planned.resize {
            return match self.send(rollout, &object, &step).await? {
                Sent::Done => Ok(Written::Done),
                Sent::Overtaken => Ok(Written::Overtaken),
                Sent::Refused(problem) => self.refuse(rollout, &object, &problem).await,
            };
        }
        let seen = decoded(&object)?;
        let part = if resize::is_complete(&rollout.target, &seen) {
            Part::AfterResize
        } else if images_precede_resize(&rollout.target, &seen) {
            Part::Images
        } else {
            return Ok(Written::Done);
        };
        self.upgrade_one(rollout, &seen, part, revision, state).await
    }

    /// Asks the API server to resize a Pod, and counts the answer.
    pub(super) async fn send(&self, rollout: &Rollout<'_>, object: &Value, step: &Step) -> Result<Sent, Failure> {
        let set = rollout.resource.name();
        let seen = decoded(object)?;
        let Metadata { namespace, name, .. } = &seen.metadata;
        let Err(error) = self.effects.carry_out(step, "new cpu and memory").await else {
            self.metrics.wrote(set, Outcome::Resized);
            tracing::info!(controller = Self::NAME, sidecar_set = set, namespace, pod = name, "resized");
            return Ok(Sent::Done);
        };
        let refusal = match Unresized::from(&error.problem) {
            Unresized::Refused(text) => text,
            Unresized::NotFound if self.whole(&seen.metadata).await?.is_some() => NO_RESIZE.to_owned(),
            Unresized::NotFound | Unresized::Other(Unwritten::Overtaken) => {
                self.metrics.wrote(set, Outcome::Overtaken);
                return Ok(Sent::Overtaken);
            }
            Unresized::Other(Unwritten::Failed { .. }) => {
                self.metrics.wrote(set, Outcome::Failed);
                return Err(error.into());
            }
        };
        self.metrics.wrote(set, Outcome::Refused);
        Ok(Sent::Refused(refusal))
    }

    /// Records in a Pod why it is not resized. The next round reports it.
    async fn refuse(&self, rollout: &Rollout<'_>, object: &Value, problem: &str) -> Result<Written, Failure> {
        let step = resize::refuse(&rollout.target, &decoded(object)?, problem);
        let is_written = self.effects.settle(&step, "its resize is refused").await?;
        Ok(if is_written { Written::Done } else { Written::Overtaken })
    }

    /// Reads the whole Pod from the API server; `None` if it is gone.
    pub(super) async fn whole(&self, pod: &Metadata) -> Result<Option<Value>, Failure> {
        let Metadata { namespace, name, uid, .. } = pod;
        let failed = |problem: WriteProblem| Failure {
            retry_after: problem.retry_after(),
            text: format!("could not read Pod \"{namespace}/{name}\": {problem}"),
        };
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
        let request = request.get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| failed(WriteProblem::Invalid(error.to_string())))?;
        match read::in_time(self.context.client.request::<Value>(request)).await {
            Ok(object) => Ok(Some(object).filter(|object| decoded(object).is_ok_and(|pod| pod.metadata.uid == *uid))),
            Err(WriteProblem::NotFound) => Ok(None),
            Err(problem) => Err(failed(problem)),
        }
    }

    /// Tells people once why the resizes of Pods cannot be carried out.
    pub(super) async fn tell_failed_resizes(&self, rollout: &Rollout<'_>, pods: &[usize], state: &mut RolloutState) {
        let refused = pods.iter().filter_map(|position| {
            let pod = &rollout.pods.get(*position)?.0;
            match rollout.target.upgrade_method(pod).err()? {
                it @ (Obstacle::ResizeRefused { .. } | Obstacle::ResizeInfeasible { .. }) => {
                    Some((pod, it.to_string()))
                }
                _ => None,
            }
        });
        let failing = rollout.pods.iter().filter_map(|pod| {
            let error = resize::error(&rollout.target, &pod.0)?;
            Some((&pod.0, format!("its resize fails, and the kubelet tries again: {error}")))
        });
        let failed: Vec<(&Pod, String)> = refused.chain(failing).collect();
        let Some((pod, obstacle)) = failed.first() else { return };
        let Metadata { namespace, name, .. } = &pod.metadata;
        let more = match failed.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" ({more} more Pods are not resized)"),
        };
        let text = format!("Pod \"{namespace}/{name}\" is not upgraded: {obstacle}{more}");
        if state.journal.is_news(&text) {
            self.context.events.warning(rollout.object, "Upgrade", "ResizeFailed", text).await;
        }
    }
}

pub(super) fn decoded(object: &Value) -> Result<Pod, Failure> {
    Pod::decode(object).map_err(|error| Failure::new(format!("a Pod could not be read: {error}")))
}

pub(super) fn texts(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
