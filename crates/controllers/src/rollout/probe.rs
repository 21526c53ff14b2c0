//! Whether the Pods that a workload creates get the version: dry runs (ROLL-67).

use std::collections::BTreeMap;

use kube::Api;
use kube::api::DynamicObject;
use pillion_kubernetes::json;
use pillion_rollout::dry_runs::DryRun;
use pillion_rollout::pod::Pod;
use pillion_rollout::template;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::{read, store};
use serde_json::Value;

use super::{Rollout, RolloutState, SidecarSetRollout};

/// The most workloads that one round asks about.
pub(super) const QUESTIONS: usize = 16;

/// The name of a workload.
#[derive(Clone, Copy)]
pub(super) struct WorkloadRef<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// What a workload is in the cluster; `None` if it is gone.
pub(super) type Workload = Result<Option<Value>, WriteProblem>;

impl SidecarSetRollout {
    /// Reads a workload.
    pub(super) async fn workload(&self, workload: WorkloadRef<'_>) -> Workload {
        let WorkloadRef { api_version, kind, namespace, name } = workload;
        let resource = store::resource(api_version, kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.context.client.clone(), namespace, &resource);
        let found = read::one(&api, name).await?;
        Ok(found.map(|object| store::whole(object, api_version, kind)))
    }

    /// Asks the API server whether a new Pod of the workload of this Pod gets the version, unless that is known already.
    /// Returns whether it does.
    pub(super) async fn is_injected(&self, rollout: &Rollout<'_>, pod: &Pod, state: &mut RolloutState) -> bool {
        if let Some(known) = state.evictions.dry_runs.gets_version(pod) {
            return known;
        }
        self.ask_and_note(rollout, pod, state).await
    }

    /// Asks again about the workloads whose dry runs failed, if they are due, before the round decides. So the status does
    /// not change in between. `pods` are the Pods of the workloads. Returns how many workloads it asked about.
    pub(super) async fn ask_again<'a>(
        &self,
        rollout: &Rollout<'_>,
        pods: impl Iterator<Item = &'a Pod>,
        state: &mut RolloutState,
    ) -> usize {
        let due = state.evictions.dry_runs.due(self.context.clock.now());
        if due.is_empty() {
            return 0;
        }
        let pods: BTreeMap<&str, &Pod> = pods.filter_map(|pod| Some((pod.owner_uid()?, pod))).collect();
        for uid in due.iter().take(QUESTIONS) {
            if let Some(pod) = pods.get(uid.as_str()) {
                self.ask_and_note(rollout, pod, state).await;
            } else {
                state.evictions.dry_runs.forget(uid);
            }
        }
        due.len().min(QUESTIONS)
    }

    async fn ask_and_note(&self, rollout: &Rollout<'_>, pod: &Pod, state: &mut RolloutState) -> bool {
        let result = self.ask(rollout, pod).await;
        let now = self.context.clock.now();
        let unknown = state.evictions.dry_runs.note(rollout.target.name(), pod, &result, now);
        if let (DryRun::Unknown(problem), Some(what)) = (&result, unknown) {
            // The problem may name a Pod, whose name differs each time.
            if state.journal.is_news(&what) {
                tracing::warn!(controller = Self::NAME, "{what} is not known: {problem}");
                let text = format!("{what} is not known, so none is evicted: {problem}");
                self.context.events.warning(rollout.object, "Recreate", "DryRunFailed", text).await;
            }
            self.effects.problem(Some(&pod.metadata.namespace), format!("{what} is not known: {problem}"));
        }
        result == DryRun::GetsVersion
    }

    /// Runs the creation of a Pod of the workload, without creating it.
    async fn ask(&self, rollout: &Rollout<'_>, pod: &Pod) -> DryRun {
        let lacks = |why: String| DryRun::LacksVersion(why);
        let Some(owner) = pod.metadata.owner.as_deref() else { return lacks("it has no controller".to_owned()) };
        let (kind, name) = (owner.kind.as_str(), owner.name.as_str());
        let workload = WorkloadRef { api_version: &owner.api_version, kind, namespace: &pod.metadata.namespace, name };
        let workload = match self.workload(workload).await {
            Ok(there) => there.filter(|workload| json::text(workload, &["metadata", "uid"]) == owner.uid),
            Err(problem) => return DryRun::Unknown(format!("could not read {kind} \"{name}\": {problem}")),
        };
        let Some(workload) = workload else { return lacks(format!("its {kind} is gone")) };
        let Some(new) = template::pod(&workload) else { return lacks(format!("its {kind} has no Pod template")) };
        match self.effects.dry_run(&new).await {
            Ok(stored) => template::check(&rollout.target, &stored).map_or_else(lacks, |()| DryRun::GetsVersion),
            Err(error) => DryRun::Unknown(error.to_string()),
        }
    }
}
