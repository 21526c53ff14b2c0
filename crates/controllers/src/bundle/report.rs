//! Reports on SidecarSets to people: a condition if the CustomResourceDefinition keeps conditions, and Events about
//! problems.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::bundle::{BundlePlace, CONDITION, Verdict, Why, condition};
use pillion_runtime::bundled;
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller as _, Failure};
use serde_json::Value;

use super::BundleKeeper;

/// The maximum number of SidecarSets that are written at the same time.
const CONCURRENCY: usize = 8;
/// The action in Events.
const ACTION: &str = "KeepBundle";

/// The last report on each SidecarSet, by name, with the `generation` that it is about.
#[derive(Default)]
pub(super) struct ReportedVerdicts {
    last: BTreeMap<String, (Value, Verdict)>,
    /// The version of each SidecarSet in the bundle, by name.
    versions: BTreeMap<String, Known>,
    /// Whether the CustomResourceDefinition drops conditions. That of OpenKruise does.
    has_no_conditions: bool,
}

/// A version in the bundle. The hash leaves out what chooses Pods, and the generation what canaries and revisions change.
struct Known {
    hash: String,
    generation: Value,
    /// Since when it is known to be there.
    since: Timestamp,
}

/// The result of writing a condition.
enum Noted {
    /// The status had the condition already.
    Already,
    /// The condition was written.
    Now,
    /// The API server does not keep it.
    Nowhere,
    /// The write failed; it is retried.
    Failed(Failure),
}

impl ReportedVerdicts {
    /// Reports the verdicts that are new. If policy servers cache the bundle (`is_cached`), the verdict that a SidecarSet is
    /// in the bundle waits until no cache has a former bundle, so that each Pod created after the report gets the
    /// SidecarSet. Returns the time until the next waiting verdict can be reported; `None` if none waits.
    ///
    /// # Errors
    /// If a condition could not be written. That verdict is new again the next time.
    pub(super) async fn report(
        &mut self,
        context: &Context,
        verdicts: &[Verdict],
        sidecar_sets: &[Arc<Value>],
        is_cached: bool,
    ) -> Result<Option<Duration>, Failure> {
        let mut last = std::mem::take(&mut self.last);
        let mut news = Vec::new();
        let mut unsettled: Option<Duration> = None;
        let mut versions = std::mem::take(&mut self.versions);
        let by_uid: BTreeMap<&str, &Arc<Value>> =
            sidecar_sets.iter().map(|object| (json::text(object, &["metadata", "uid"]), object)).collect();
        for verdict in verdicts {
            let Some(object) = by_uid.get(verdict.uid.as_str()).copied() else { continue };
            let generation = json::at(object, &["metadata", "generation"]).cloned().unwrap_or_default();
            if verdict.place == BundlePlace::In {
                let known = versions.remove(&verdict.name);
                let known = known.filter(|known| known.hash == verdict.hash && known.generation == generation);
                let new =
                    || Known { hash: verdict.hash.clone(), generation: generation.clone(), since: context.clock.now() };
                self.versions.insert(verdict.name.clone(), known.unwrap_or_else(new));
            }
            let before = last.remove(&verdict.name);
            if before.as_ref().is_some_and(|(of, reported)| *of == generation && reported == verdict) {
                self.last.insert(verdict.name.clone(), (generation, verdict.clone()));
                continue;
            }
            if let Some(left) = self.unsettled(context, object, verdict, is_cached) {
                unsettled = Some(unsettled.map_or(left, |soonest| soonest.min(left)));
                if let Some(before) = before {
                    self.last.insert(verdict.name.clone(), before);
                }
                continue;
            }
            news.push(News {
                context: context.clone(),
                object: Arc::clone(object),
                generation,
                verdict: verdict.clone(),
                before: before.map(|(_, reported)| reported),
                has_conditions: !self.has_no_conditions,
            });
        }
        // A preview shows the same order each time.
        let at_once = if context.recorder.is_some() { 1 } else { CONCURRENCY };
        let reported: Vec<_> = stream::iter(news).map(News::report).buffer_unordered(at_once).collect().await;
        let mut failed = None;
        for (generation, verdict, noted) in reported {
            match noted {
                Noted::Failed(failure) => {
                    failed = Some(failure.after(failed));
                    continue;
                }
                Noted::Nowhere if !self.has_no_conditions => {
                    self.has_no_conditions = true;
                    tracing::info!("the definition of SidecarSets keeps no conditions; there are Events instead");
                }
                Noted::Nowhere | Noted::Already | Noted::Now => {}
            }
            self.last.insert(verdict.name.clone(), (generation, verdict));
        }
        failed.map_or(Ok(unsettled), Err)
    }

    /// Returns how long it takes until every policy server has the version of a verdict, if people wait for it.
    fn unsettled(&self, context: &Context, object: &Value, verdict: &Verdict, is_cached: bool) -> Option<Duration> {
        // A definition that drops conditions gives nobody a condition to wait for. A preview shows the state after the
        // wait.
        let is_awaited = is_cached && !self.has_no_conditions && context.recorder.is_none();
        let known = self.versions.get(&verdict.name)?;
        let left = bundled::unsettled(is_awaited, known.since, context.clock.now())?;
        // An earlier process may have said it.
        condition(object, verdict, context.clock.now()).map(|_| left)
    }
}

/// A new report on one SidecarSet.
struct News {
    context: Context,
    object: Arc<Value>,
    generation: Value,
    verdict: Verdict,
    /// The previous verdict.
    before: Option<Verdict>,
    has_conditions: bool,
}

impl News {
    async fn report(self) -> (Value, Verdict, Noted) {
        let Self { context, object, generation, verdict, before, has_conditions } = self;
        let noted = if has_conditions { note(&context, &object, &verdict).await } else { Noted::Nowhere };
        // If the condition was there before the first report, an earlier process has told people.
        let is_told = before.as_ref().map_or(matches!(noted, Noted::Already), |before| is_same(before, &verdict));
        if !is_told {
            tell(&context, &object, &verdict, before.as_ref()).await;
        }
        (generation, verdict, noted)
    }
}

/// Whether two verdicts tell people the same.
fn is_same(one: &Verdict, other: &Verdict) -> bool {
    (&one.uid, one.place, one.why, &one.message) == (&other.uid, other.place, other.why, &other.message)
}

async fn tell(context: &Context, object: &Value, verdict: &Verdict, before: Option<&Verdict>) {
    let message = verdict.message.clone();
    if verdict.why != Why::Current {
        tracing::warn!(
            sidecar_set = verdict.name,
            reason = verdict.why.as_str(),
            message,
            "not in the bundle as it is"
        );
        context.events.warning(object, ACTION, verdict.why.as_str(), message).await;
    } else if before.is_some_and(|before| before.place != BundlePlace::In) {
        context.events.normal(object, ACTION, CONDITION, message).await;
    }
}

/// Writes the condition, if the status does not have it yet.
async fn note(context: &Context, object: &Value, verdict: &Verdict) -> Noted {
    let current = context.store.sidecar_sets().get("", &verdict.name);
    let object = current.as_ref().map_or(object, |current| &current.0);
    let Some(step) = condition(object, verdict, context.clock.now()) else { return Noted::Already };
    match context.effects(BundleKeeper::NAME).condition(&step, CONDITION).await {
        Ok(true) => Noted::Now,
        Ok(false) => Noted::Nowhere,
        Err(error) => Noted::Failed(error.into()),
    }
}
