//! Whether the Pods that a workload creates get the version: dry runs (ROLL-67).

use std::collections::BTreeMap;

use kube::Api;
use kube::api::DynamicObject;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::pod::Pod;
use pillion_rollout::target::Target;
use pillion_rollout::template;
use serde_json::Value;

use super::{Rollout, SidecarSetRollout, State};
use crate::controller::Controller as _;
use crate::problem::WriteProblem;
use crate::{read, store};

/// How long an answer counts, in seconds: that new Pods get the version, that they do not, and that it is not known.
const GETS: i64 = 300;
const LACKS: i64 = 600;
const UNKNOWN: i64 = 60;

/// The answers, by UID of the workload. They are about one version, and one state of the SidecarSet.
#[derive(Default)]
pub(super) struct Answers {
    about: (String, i64, Value),
    all: BTreeMap<String, Answer>,
}

struct Answer {
    until: Timestamp,
    /// Why new Pods do not get the version, or are not known to; `None` if they get it.
    why: Option<String>,
    /// What people were told about it.
    told: Option<String>,
}

impl Answers {
    /// Forgets what is not about this version and this state of the SidecarSet, and what is too old.
    pub(super) fn keep(&mut self, target: &Target<'_>, object: &Value, now: Timestamp) {
        let generation = json::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
        // New Pods get the version of the bundle, which follows the SidecarSet in its own time.
        let strategy = target.version.spec(&["injectionStrategy"]).cloned().unwrap_or_default();
        let about = (target.hash().to_owned(), generation, strategy);
        if self.about != about {
            *self = Self { about, all: BTreeMap::new() };
        }
        self.all.retain(|_, answer| answer.until > now);
    }

    /// Returns the answer about the workload of a Pod: `Ok` if new Pods get the version. `None` if it is not known yet.
    pub(super) fn about(&self, pod: &Pod) -> Option<Result<(), &str>> {
        let answer = self.all.get(pod.owner_uid()?)?;
        Some(answer.why.as_deref().map_or(Ok(()), Err))
    }

    /// Returns what people were told.
    pub(super) fn told(&self) -> impl Iterator<Item = String> {
        self.all.values().filter_map(|answer| answer.told.clone())
    }

    /// Returns the workloads whose new Pods do not get the version, each with the reason.
    pub(super) fn negative(&self) -> BTreeMap<String, String> {
        let all = self.all.iter();
        all.filter_map(|(uid, answer)| Some((uid.clone(), answer.why.clone()?))).collect()
    }
}

/// What a workload is in the cluster; `None` if it is gone.
pub(super) type Workload = Result<Option<Value>, WriteProblem>;

impl SidecarSetRollout {
    /// Reads a workload.
    pub(super) async fn workload(&self, namespace: &str, (api_version, kind): (&str, &str), name: &str) -> Workload {
        let resource = store::resource(api_version, kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.context.client.clone(), namespace, &resource);
        let found = read::one(&api, name).await?;
        Ok(found.map(|object| store::whole(object, api_version, kind)))
    }

    /// Asks the API server whether a new Pod of the workload of this Pod gets the version, unless that is known already.
    /// Returns whether it does.
    pub(super) async fn is_injected(&self, rollout: &Rollout<'_>, pod: &Pod, state: &mut State) -> bool {
        if let Some(known) = state.evictions.answers.about(pod) {
            return known.is_ok();
        }
        let Some(owner) = pod.metadata.owner.as_deref() else { return false };
        let (kind, name, set) = (&owner.kind, &owner.name, rollout.target.name());
        let namespace = &pod.metadata.namespace;
        let answer = self.ask(rollout, pod).await;
        let now = self.context.clock.now().0;
        let mut told = None;
        let (why, lasts) = match answer {
            Ok(Ok(())) => (None, GETS),
            Ok(Err(why)) => (Some(why), LACKS),
            Err(problem) => {
                let what = format!("whether new Pods of {kind} \"{namespace}/{name}\" get SidecarSet \"{set}\"");
                // The problem may name a Pod, whose name differs each time.
                if state.journal.is_news(&what) {
                    tracing::warn!(controller = Self::NAME, "{what} is not known: {problem}");
                    let text = format!("{what} is not known, so none is evicted: {problem}");
                    self.context.events.warning(rollout.object, "Recreate", "DryRunFailed", text).await;
                }
                self.effects.problem(Some(namespace), format!("{what} is not known: {problem}"));
                told = Some(what);
                (Some(format!("whether new Pods of its {kind} get the sidecar is not known: {problem}")), UNKNOWN)
            }
        };
        let is_injected = why.is_none();
        let until = Timestamp(now.saturating_add(lasts));
        state.evictions.answers.all.insert(owner.uid.clone(), Answer { until, why, told });
        is_injected
    }

    /// Runs the creation of a Pod of the workload, without creating it.
    async fn ask(&self, rollout: &Rollout<'_>, pod: &Pod) -> Result<Result<(), String>, String> {
        let Some(owner) = pod.metadata.owner.as_deref() else { return Ok(Err("it has no controller".to_owned())) };
        let (kind, name) = (owner.kind.as_str(), owner.name.as_str());
        let there = self.workload(&pod.metadata.namespace, (&owner.api_version, kind), name).await;
        let there = there.map_err(|problem| format!("could not read {kind} \"{name}\": {problem}"))?;
        let is_it = |workload: &Value| json::text(workload, &["metadata", "uid"]) == owner.uid;
        let Some(workload) = there.filter(is_it) else { return Ok(Err(format!("its {kind} is gone"))) };
        let Some(new) = template::pod(&workload) else { return Ok(Err(format!("its {kind} has no Pod template"))) };
        let stored = self.effects.dry_run(&new).await.map_err(|error| error.to_string())?;
        Ok(template::check(&rollout.target, &stored))
    }
}
