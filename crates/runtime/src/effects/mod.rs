//! The effects of the controllers on the cluster: every write and every Event goes through here.
//!
//! A write is a [`Step`] of a plan, and the reason for it. [`Effects`] sends it, puts the answer into the store, so that
//! the next plan sees it, and tells the [`Recorder`] of a preview.

mod events;
mod journal;
mod send;

use std::sync::Arc;

use kube::Client;
use pillion_kubernetes::json;
use pillion_plan::{Step, condition};
use serde_json::{Value, json};

pub use events::Events;
pub use journal::Journal;
pub use send::{FIELD_MANAGER, PATIENCE};

use crate::problem::{WriteError, WriteProblem};
use crate::store::Store;
use send::{Answer, StepTarget};

/// Follows what a controller does, for a preview.
pub trait Recorder: Send + Sync {
    /// A write was carried out; `why` tells its purpose in a few words.
    fn wrote(&self, controller: &'static str, why: &str);
    /// Some work cannot be done, or needs attention. `text` is a sentence without a full stop.
    fn problem(&self, controller: &'static str, namespace: Option<&str>, text: String);
    /// Some work is due later if nothing changes until then.
    fn later(&self, controller: &'static str, namespace: Option<&str>, text: String);
    /// Something stays as it is for as long as nothing changes.
    fn never(&self, controller: &'static str, namespace: Option<&str>, text: String);
    /// A round of a rollout is complete.
    fn rolled_out(&self, rolled_out: RolledOut<'_>);
}

/// A round of the rollout of a SidecarSet.
#[derive(Clone, Copy, Debug)]
pub struct RolledOut<'a> {
    /// The SidecarSet.
    pub sidecar_set: &'a str,
    /// The number of its Pods.
    pub pods: usize,
    /// The number of Pods that had the version before the round.
    pub updated: usize,
    /// The number of Pods that keep their version for as long as nothing changes.
    pub kept: usize,
    /// The Pods that the round chose, by namespace and name.
    pub chosen: &'a [(&'a str, &'a str)],
    /// The progress before the round.
    pub message: &'a str,
}

/// The effects of one controller on the cluster. Cloning it is cheap.
#[derive(Clone)]
pub struct Effects {
    pub(crate) controller: &'static str,
    pub(crate) client: Client,
    pub(crate) store: Arc<Store>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
}

impl Effects {
    /// Returns the client, for reads that a write depends on.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Carries out one step, whose purpose is `why`. Returns the object after the write; `None` if it is gone, and for
    /// an eviction. For [`Step::RequestToken`], returns the TokenRequest with its status.
    ///
    /// # Errors
    /// [`WriteError`]. Deleting or evicting an object that is gone is no error.
    pub async fn carry_out(&self, step: &Step, why: &str) -> Result<Option<Value>, WriteError> {
        let answer = send::send(&self.client, step).await?;
        if let Some(recorder) = &self.recorder {
            recorder.wrote(self.controller, why);
        }
        match answer {
            Answer::Object(object) => {
                if is_gone(&object) {
                    self.store.deleted(&object);
                } else {
                    self.store.written(&object);
                }
                Ok(Some(object))
            }
            Answer::Gone(uid) => {
                let StepTarget { api_version, kind, namespace, name } = StepTarget::from_step(step);
                let metadata = json!({"namespace": namespace.unwrap_or_default(), "name": name, "uid": uid});
                self.store.deleted(&json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}));
                Ok(None)
            }
            Answer::Evicted => Ok(None),
            Answer::Token(request) => Ok(Some(request)),
        }
    }

    /// Carries out a step that another client may have made superfluous: then the watch shows that as a change, and the
    /// next plan covers it. Returns whether the step was carried out.
    ///
    /// # Errors
    /// As [`Effects::carry_out`], but it is no error if another client was faster.
    pub async fn settle(&self, step: &Step, why: &str) -> Result<bool, WriteError> {
        match self.carry_out(step, why).await {
            Ok(_) => Ok(true),
            Err(error) if error.problem.is_overtaken() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a condition of a SidecarSet. Returns whether the API server keeps conditions: the
    /// CustomResourceDefinition of OpenKruise drops them, or requires counts of Pods beside them.
    ///
    /// # Errors
    /// As [`Effects::carry_out`]. [`WriteProblem::Conflict`] if the SidecarSet has changed.
    pub async fn condition(&self, step: &Step, type_: &str) -> Result<bool, WriteError> {
        match self.carry_out(step, "people see it in the status").await {
            Ok(stored) => Ok(condition::find(&stored.unwrap_or_default(), type_).is_some()),
            Err(WriteError { problem: WriteProblem::Invalid(_), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks the API server what it would store for a new object (`dryRun=All`): it runs admission and stores nothing.
    ///
    /// # Errors
    /// [`WriteError`]: the object would be refused, or the API server does not tell.
    pub async fn dry_run(&self, object: &Value) -> Result<Value, WriteError> {
        send::dry_run(&self.client, object).await
    }

    /// Reports work that cannot be done, or that needs attention, to a preview.
    pub fn problem(&self, namespace: Option<&str>, text: impl Into<String>) {
        if let Some(recorder) = &self.recorder {
            recorder.problem(self.controller, namespace, text.into());
        }
    }

    /// Whether a preview listens.
    pub fn is_preview(&self) -> bool {
        self.recorder.is_some()
    }

    /// Reports to a preview that something stays as it is.
    pub fn never(&self, namespace: Option<&str>, text: impl Into<String>) {
        if let Some(recorder) = &self.recorder {
            recorder.never(self.controller, namespace, text.into());
        }
    }

    /// Reports a round of a rollout to a preview.
    pub fn rolled_out(&self, rolled_out: RolledOut<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.rolled_out(rolled_out);
        }
    }

    /// Reports work that is due later to a preview.
    pub fn later(&self, namespace: Option<&str>, text: impl Into<String>) {
        if let Some(recorder) = &self.recorder {
            recorder.later(self.controller, namespace, text.into());
        }
    }
}

/// Whether an object after a write is the last one of an object that is being deleted: nothing keeps it any more.
fn is_gone(object: &Value) -> bool {
    let grace = json::at(object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    json::is_terminating(object)
        && json::items(object, &["metadata", "finalizers"]).is_empty()
        && grace.unwrap_or_default() == 0
}

#[cfg(test)]
mod tests {
    use pillion_kubernetes::lookup::ObjectRef;
    use pillion_kubernetes::time::Timestamp;
    use pillion_simulation::{Simulation, Situation};
    use rstest::rstest;

    use super::*;
    use crate::context::Context;

    #[rstest]
    #[case::alive(json!({}), false)]
    #[case::without_finalizers(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), true)]
    #[case::with_finalizers(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}), false)]
    #[case::pod_that_ends(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}), false)]
    #[case::pod_that_has_ended(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}), true)]
    fn the_last_finalizer_takes_the_object_with_it(#[case] metadata: Value, #[case] expected: bool) {
        assert_eq!(is_gone(&json!({"metadata": metadata})), expected);
    }

    #[tokio::test]
    async fn another_pod_of_the_same_name_is_not_evicted() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "new"},
            "spec": {"containers": []}
        });
        let situation = Situation { manifests: vec![pod], ..Situation::default() };
        let simulation = Simulation::new(&situation, None, || Timestamp(0)).await.expect("a simulation");
        let context = Context::new(simulation.client(), tokio::sync::watch::channel(Arc::default()).1);
        let object =
            ObjectRef { api_version: "v1", kind: "Pod", namespace: Some("shop".to_owned()), name: "web".to_owned() };
        let evict = |uid: &str| Step::Evict { object: object.clone(), uid: uid.to_owned() };
        let effects = context.effects("test");
        let refused = effects.carry_out(&evict("old"), "").await.expect_err("it is another Pod");
        assert_eq!(refused.problem, WriteProblem::Conflict);
        assert_eq!(effects.carry_out(&evict("new"), "").await.expect("it is evicted"), None);
        assert_eq!(effects.carry_out(&evict("new"), "").await.expect("it is gone"), None);
    }
}
