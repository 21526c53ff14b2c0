//! Tells people which SidecarSets ask for what the cluster's version of Kubernetes does not have (FIELD-5): a condition,
//! and an Event on the SidecarSet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_plan::bundle::{KUBERNETES_TOO_OLD, too_old, too_old_condition};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller as _, Failure};
use serde_json::Value;
use tokio::time::timeout;

use super::BundleKeeper;

/// The action in Events.
const ACTION: &str = "CompareVersions";
/// How often the API server is asked for its version, in seconds: people update it while the controller runs.
const INTERVAL: i64 = 600;
/// How long its answer may take. Nothing depends on it but this report.
const ANSWER: Duration = Duration::from_secs(5);

/// The version of the cluster, and the results of comparing SidecarSets with it.
#[derive(Default)]
pub(super) struct VersionReports {
    version: Option<KubernetesVersion>,
    /// When to ask again.
    ask_at: Timestamp,
    /// The settings with which the SidecarSets were compared.
    settings: Option<Arc<Settings>>,
    /// The last result for each SidecarSet, by name. Its condition is written.
    compared: BTreeMap<String, Compared>,
    /// Whether a condition could not be written.
    has_failed: bool,
}

/// The result of comparing a SidecarSet with the version of the cluster.
struct Compared {
    /// The `resourceVersion` that was compared: a thousand SidecarSets are not decoded again when one changes.
    resource_version: String,
    /// The message of the condition; `None` if the cluster has everything.
    problem: Option<String>,
}

impl VersionReports {
    /// Whether there may be something to tell although nothing has changed.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.has_failed || now >= self.ask_at
    }

    /// Writes the conditions that change, and the Events that are new.
    ///
    /// # Errors
    /// A condition could not be written. It is new again the next time.
    pub(super) async fn report(&mut self, context: &Context, sidecar_sets: &[Arc<Value>]) -> Result<(), Failure> {
        let before = self.version;
        self.ask(context).await;
        let Some(version) = self.version else { return Ok(()) };
        let settings = context.settings();
        let is_same_question =
            before == self.version && self.settings.as_ref().is_some_and(|known| Arc::ptr_eq(known, &settings));
        self.settings = Some(Arc::clone(&settings));
        let mut last = std::mem::take(&mut self.compared);
        let mut failed = None;
        for object in sidecar_sets {
            let text = |key| json::text(object, &["metadata", key]);
            let (name, resource_version) = (text("name"), text("resourceVersion"));
            let before = last.remove(name);
            if is_same_question && before.as_ref().is_some_and(|last| last.resource_version == resource_version) {
                self.compared.extend(before.map(|last| (name.to_owned(), last)));
                continue;
            }
            let problem = too_old(object, &settings, version);
            // Before the first look, an earlier process may have written the condition.
            let is_new = before.is_none_or(|last| last.problem != problem);
            if is_new && let Err(failure) = write(context, object, problem.as_deref()).await {
                failed = Some(failure.after(failed));
                continue;
            }
            let resource_version = resource_version.to_owned();
            self.compared.insert(name.to_owned(), Compared { resource_version, problem });
        }
        self.has_failed = failed.is_some();
        failed.map_or(Ok(()), Err)
    }

    /// Returns reports that know the version, and do not ask again before a time.
    #[cfg(test)]
    pub(super) fn with_version(version: KubernetesVersion, ask_at: Timestamp) -> Self {
        Self { version: Some(version), ask_at, ..Self::default() }
    }

    /// Asks the API server for its version, if it is time. Without an answer, the version known before counts.
    async fn ask(&mut self, context: &Context) {
        let now = context.clock.now();
        if now < self.ask_at {
            return;
        }
        self.ask_at = Timestamp(now.0.saturating_add(INTERVAL));
        match timeout(ANSWER, context.client.apiserver_version()).await {
            Ok(Ok(answer)) => self.version = KubernetesVersion::new(&answer.major, &answer.minor).or(self.version),
            Ok(Err(error)) => tracing::debug!(%error, "the API server does not tell its version"),
            Err(_) => tracing::debug!("the API server does not tell its version in time"),
        }
    }
}

/// Writes the condition of a SidecarSet, if its status does not have it yet, and tells people then.
async fn write(context: &Context, object: &Value, problem: Option<&str>) -> Result<(), Failure> {
    let name = json::text(object, &["metadata", "name"]);
    let current = context.store.sidecar_sets().get("", name);
    let current = current.as_ref().map_or(object, |current| &*current.0);
    let Some(step) = too_old_condition(current, problem, context.clock.now()) else { return Ok(()) };
    let effects = context.effects(BundleKeeper::NAME);
    // The definition of OpenKruise keeps no conditions; there, people get the Event alone.
    effects.condition(&step, KUBERNETES_TOO_OLD).await?;
    if let Some(problem) = problem {
        effects.problem(None, format!("SidecarSet \"{name}\": {problem}"));
        tracing::warn!(sidecar_set = name, reason = KUBERNETES_TOO_OLD, "{problem}");
        context.events.warning(object, ACTION, KUBERNETES_TOO_OLD, problem.to_owned()).await;
    }
    Ok(())
}
