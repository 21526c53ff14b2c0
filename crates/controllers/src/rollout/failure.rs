//! Rollouts that fail (ROLL-61, ROLL-62): the record on the revision, and what people are told. [`pillion_rollout::failure`]
//! decides.

use std::time::Duration;

use pillion_kubernetes::json;
use pillion_plan::condition;
use pillion_plan::failure::Failed;
use pillion_rollout::decide::RevisionFailure;
use pillion_rollout::failure::RecordChange;
use pillion_rollout::status::{Progress, READY};
use pillion_runtime::controller::{Controller as _, Done, Failure};
use serde_json::Value;

use super::{Rollout, RolloutState, SidecarSetRollout};

/// The action in Events.
const ACTION: &str = "Upgrade";

impl SidecarSetRollout {
    /// Changes the record of a failure on a revision. The next round sees it.
    pub(super) async fn change_record(
        &self,
        rollout: &Rollout<'_>,
        revision: &str,
        change: &RecordChange,
    ) -> Result<Done, Failure> {
        if let Some(Failed { reason, message, .. }) = &change.failure {
            tracing::warn!(
                controller = Self::NAME,
                sidecarset = rollout.resource.name(),
                revision,
                reason = reason.as_str(),
                "the rollout has failed: {message}"
            );
        }
        let is_changed = self.effects.settle(&change.step, change.why).await?;
        Ok(if is_changed { Done::LookAgain(Duration::ZERO) } else { Done::after_write(false) })
    }

    /// Says once that a deadline counts in this process alone.
    pub(super) fn say_that_conditions_are_dropped(&self, object: &Value, state: &mut RolloutState) {
        let name = json::text(object, &["metadata", "name"]);
        let text = format!(
            "the definition of SidecarSets keeps no conditions, so the progress deadline of SidecarSet \"{name}\" counts \
             from the start of this process"
        );
        if !std::mem::replace(&mut state.is_drop_told, true) {
            tracing::warn!(controller = Self::NAME, sidecarset = name, "{text}");
            self.effects.problem(None, text);
        }
    }

    /// Tells people that a rollout has failed, unless the status shows that an earlier process has told them.
    pub(super) async fn tell_failed(
        &self,
        object: &Value,
        failure: &RevisionFailure,
        progress: &Progress,
        state: &mut RolloutState,
    ) {
        let name = json::text(object, &["metadata", "name"]);
        let RevisionFailure { revision, record: Failed { at, reason, .. } } = failure;
        self.effects.problem(None, format!("SidecarSet \"{name}\": {}", progress.message));
        let said =
            condition::find(object, READY).map(|condition| json::text(condition, &["message"])).unwrap_or_default();
        let is_told = [revision, at].into_iter().all(|text| said.contains(text));
        if state.journal.is_news(&format!("{revision} failed at {at}")) && !is_told {
            self.context.events.warning(object, ACTION, reason.as_str(), progress.message.clone()).await;
        }
    }
}
