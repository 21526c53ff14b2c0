//! Resizes that follow the app (ROLL-70): one request to the subresource `resize`, and a record if it is refused.

use std::collections::BTreeSet;

use pillion_rollout::follow::{self, Follow, Following};
use pillion_rollout::method::Obstacle;
use pillion_rollout::pod::resize::Asked;
use pillion_rollout::pod::{Metadata, Pod};
use pillion_runtime::controller::{Done, Failure};
use pillion_runtime::effects::FIELD_MANAGER;
use serde_json::Value;

use super::resize::{Sent, decoded, texts};
use super::round::Written;
use super::{Rollout, RolloutState, SidecarSetRollout};

impl SidecarSetRollout {
    /// Resizes the sidecars of these Pods, and tells people about those whose resize cannot be carried out. The first error
    /// ends the round.
    pub(super) async fn follow(
        &self,
        rollout: &Rollout<'_>,
        following: &Following,
        state: &mut RolloutState,
    ) -> Result<Done, Failure> {
        self.tell_not_following(rollout, &following.failed, state).await;
        let mut is_complete = true;
        for pod in following.due.iter().filter_map(|position| rollout.pods.get(*position)) {
            if self.rival.is_at_work().is_some() {
                return Ok(Done::after_write(false));
            }
            match self.follow_one(rollout, &pod.0, state).await? {
                Written::Done => {}
                Written::Overtaken => is_complete = false,
            }
        }
        Ok(Done::after_write(is_complete))
    }

    /// Resizes the sidecars of a Pod. The Pod is read first: who sized its containers before stands in its managed fields,
    /// which no watch keeps.
    async fn follow_one(&self, rollout: &Rollout<'_>, pod: &Pod, state: &mut RolloutState) -> Result<Written, Failure> {
        let Some(mut object) = self.whole(&pod.metadata).await? else { return Ok(Written::Overtaken) };
        let Some((asked, planned)) = follow::plan(&rollout.target, &object, FIELD_MANAGER) else {
            return Ok(Written::Overtaken);
        };
        let Follow { forget, resize } = match planned {
            Ok(follow) => follow,
            Err(reasons) => return self.refuse_to_follow(rollout, &object, &asked, &texts(&reasons)).await,
        };
        if let Some(forget) = forget {
            match self.effects.carry_out(&forget, "its containers have other cpu and memory").await {
                Ok(stored) => object = stored.unwrap_or(object),
                Err(error) if error.problem.is_overtaken() => return Ok(Written::Overtaken),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(resize) = resize {
            match self.send(rollout, &object, &resize).await? {
                Sent::Done => {}
                Sent::Overtaken => return Ok(Written::Overtaken),
                Sent::Refused(problem) => return self.refuse_to_follow(rollout, &object, &asked, &problem).await,
            }
        }
        // A refusal is remembered by its record alone, so that whoever removes it is heard.
        state.asked.insert(pod.metadata.uid.clone(), asked);
        Ok(Written::Done)
    }

    /// Records in a Pod why its sidecars do not follow. The next round reports it.
    async fn refuse_to_follow(
        &self,
        rollout: &Rollout<'_>,
        object: &Value,
        asked: &Asked,
        problem: &str,
    ) -> Result<Written, Failure> {
        let step = follow::refuse(&rollout.target, &decoded(object)?, asked, problem);
        let is_written = self.effects.settle(&step, "its resize is refused").await?;
        Ok(if is_written { Written::Done } else { Written::Overtaken })
    }

    /// Tells people once which Pod does not follow, and why.
    async fn tell_not_following(&self, rollout: &Rollout<'_>, failed: &[(usize, Obstacle)], state: &mut RolloutState) {
        let Some((position, obstacle)) = failed.first() else { return };
        let Some(pod) = rollout.pods.get(*position) else { return };
        let Metadata { namespace, name, .. } = &pod.0.metadata;
        let more = match failed.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" ({more} more Pods are not resized)"),
        };
        let text = format!(
            "the sidecars of Pod \"{namespace}/{name}\" do not follow the cpu and memory of its containers: \
             {obstacle}{more}"
        );
        if state.journal.is_news(&text) {
            self.context.events.warning(rollout.object, "Upgrade", "ResizeFailed", text).await;
        }
    }

    /// Forgets the comparisons with Pods that are gone.
    pub(super) fn forget_asked(state: &mut RolloutState, pods: &[&Pod]) {
        if !state.asked.is_empty() {
            let known: BTreeSet<&str> = pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
            state.asked.retain(|uid, _| known.contains(uid.as_str()));
        }
    }
}
