//! Tells people which SidecarSets ask for what the cluster's version of Kubernetes does not have (FIELD-5): a condition,
//! and an Event on the SidecarSet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_plan::bundle::{KUBERNETES_TOO_OLD, too_old, too_old_condition};
use serde_json::Value;
use tokio::time::timeout;

use super::BundleKeeper;
use crate::context::Context;
use crate::controller::{Controller as _, Failure};

/// The action in Events.
const ACTION: &str = "CompareVersions";
/// How often the API server is asked for its version, in seconds: people update it while the controller runs.
const INTERVAL: i64 = 600;
/// How long its answer may take. Nothing depends on it but this report.
const ANSWER: Duration = Duration::from_secs(5);

/// What is known of the version, and what was told.
#[derive(Default)]
pub(super) struct VersionReports {
    version: Option<KubernetesVersion>,
    /// When to ask again.
    ask_at: Timestamp,
    /// The settings with which the SidecarSets were compared.
    settings: Option<Arc<Settings>>,
    /// What was told about each SidecarSet, by name.
    told: BTreeMap<String, Told>,
    /// Whether a condition could not be written.
    has_failed: bool,
}

/// What was told about a SidecarSet.
struct Told {
    /// The `resourceVersion` that was compared: a thousand SidecarSets are not decoded again when one changes.
    of: String,
    /// What it lacks.
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
        let mut last = std::mem::take(&mut self.told);
        let mut failed = None;
        for object in sidecar_sets {
            let text = |key| json::text(object, &["metadata", key]);
            let (name, of) = (text("name"), text("resourceVersion"));
            let before = last.remove(name);
            if is_same_question && before.as_ref().is_some_and(|told| told.of == of) {
                self.told.extend(before.map(|told| (name.to_owned(), told)));
                continue;
            }
            let problem = too_old(object, &settings, version);
            // Before the first look, an earlier process may have written the condition.
            let is_new = before.is_none_or(|told| told.problem != problem);
            if is_new && let Err(failure) = write(context, object, problem.as_deref()).await {
                failed = Some(failure.after(failed));
                continue;
            }
            self.told.insert(name.to_owned(), Told { of: of.to_owned(), problem });
        }
        self.has_failed = failed.is_some();
        failed.map_or(Ok(()), Err)
    }

    /// Returns reports that know the version, and do not ask again before a time.
    #[cfg(test)]
    pub(super) fn of(version: KubernetesVersion, ask_at: Timestamp) -> Self {
        Self { version: Some(version), ask_at, ..Self::default() }
    }

    /// Asks the API server for its version, if it is time. Without an answer, the version known before counts.
    async fn ask(&mut self, context: &Context) {
        let now = context.clock.now();
        if now < self.ask_at {
            return;
        }
        self.ask_at = Timestamp(now.0.saturating_add(INTERVAL));
        let Ok(request) = Request::get("/version").body(Vec::new()) else { return };
        match timeout(ANSWER, context.client.request::<Value>(request)).await {
            Ok(Ok(answer)) => self.version = KubernetesVersion::from_answer(&answer).or(self.version),
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
