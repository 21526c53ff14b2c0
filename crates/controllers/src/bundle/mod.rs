//! Keeps the cluster's SidecarSets, compiled, in the ConfigMap from which the policy reads them (SET-1).
//!
//! [`pillion_plan::bundle`] decides what to write. If a process stops halfway (a shard without its index, an index
//! whose old shards still exist), the next process completes the work.

mod kubernetes;
pub(crate) mod metrics;
mod report;
mod sources;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pillion_bundle::config_map::TEXT_MAX;
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::bundle::{self as planning, BundleInput, BundlePlace, Obstacle, Plan, Verdict};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure, Pace};
use pillion_runtime::effects::Effects;
use pillion_runtime::problem::WriteError;
use pillion_runtime::rights::{self, KEEP, READ, Right, Scope, Situation, WATCH};
use pillion_runtime::store::Progress;
use pillion_runtime::wakes::{Keys, Wakes};
use tokio::time::{Instant, timeout};

use self::kubernetes::VersionReports;
use self::metrics::BundleMetrics;
use self::report::ReportedVerdicts;
use self::sources::{IN_BUNDLE, Inputs, Sources, WatchSettings};
use crate::pods;

/// The maximum number of plans in one go: a plan that creates an object is made again. More rounds would mean that
/// another writer keeps undoing the changes.
const ROUNDS: usize = 4;
/// How long a reconciliation waits for lists before it starts again.
const LISTING: Duration = Duration::from_secs(2);

/// A plan that took at least this long is not made again at once: thousands of SidecarSets that change one after the other,
/// as when each gets its first revision, would keep a core busy.
const LONG_PLAN: Duration = Duration::from_millis(250);
/// How many times as long as such a plan took passes before the next one.
const PAUSE: u32 = 4;

/// The controller's options.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The maximum length of the bundle text in one ConfigMap, in bytes.
    pub max: usize,
    /// How long to wait for further changes after a change: they often come in bursts.
    pub gather: Duration,
    /// The interval between checks of the clock.
    pub tick: Duration,
    /// Whether the bundle also has the SidecarSets of the settings.
    pub with_settings: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { max: TEXT_MAX, gather: Duration::from_millis(200), tick: Duration::from_secs(5), with_settings: false }
    }
}

/// Why the bundle is not in its wanted state.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error("the plan was not made: {0}")]
    Planning(#[from] tokio::task::JoinError),
    #[error("another client keeps changing the ConfigMaps of the bundle")]
    Quarrel,
}

/// The key of the controller: there is one bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole;

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bundle")
    }
}

/// The controller. Without a `bundleRef` in the settings, it waits for one.
pub struct BundleKeeper {
    context: Context,
    effects: Effects,
    options: Options,
    metrics: BundleMetrics,
    progress: Progress,
    wakes: Wakes<Whole>,
    /// The watches of the bundle that the settings name.
    sources: Mutex<Option<Arc<Sources>>>,
}

/// The bundle is in its wanted state.
struct BundleOutcome {
    /// Whether something has changed since the last time.
    has_changed: bool,
    /// Whether the conditions of the SidecarSets say so.
    reported: Result<(), Failure>,
}

/// What is remembered about the bundle.
#[derive(Default)]
pub struct BundleKeeperState {
    reported: ReportedVerdicts,
    versions: VersionReports,
    /// The verdicts of which a condition could not be written, or not yet.
    unreported: Vec<Verdict>,
    /// How long it takes until a verdict can be reported that has to wait.
    unsettled: Option<Duration>,
    /// The inputs for which the bundle was last correct.
    done: Option<Inputs>,
    /// When the bundle must be checked even if nothing changes.
    look_again: Timestamp,
    /// Whether people were told that the settings name no bundle.
    is_idle: bool,
    /// When the next plan may be made, after one that took long.
    rests_until: Option<Instant>,
}

impl BundleKeeperState {
    /// Takes note of how long a plan took that ends now.
    fn planned(&mut self, took: Duration) {
        self.rests_until = (took >= LONG_PLAN).then(|| Instant::now() + took.saturating_mul(PAUSE));
    }

    /// Returns how long it takes until the next plan may be made.
    fn rest(&self) -> Option<Duration> {
        self.rests_until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

impl Controller for BundleKeeper {
    const NAME: &'static str = "bundle";
    const IS_ON_BY_DEFAULT: bool = true;
    /// The contents of the bundle decide about the identities that Pods need.
    const COMES_FIRST: bool = true;

    type Options = Options;
    type Key = Whole;
    type KeyState = BundleKeeperState;

    async fn start(context: Context, options: Options, wakes: Wakes<Whole>) -> Self {
        let metrics = BundleMetrics::new(&context.metrics);
        metrics.follow(&context.store, &pods::of_identities(&context));
        let progress = context.store.progress(Self::NAME.to_owned());
        context.store.sidecar_sets().listed().await;
        wakes.on(context.store.sidecar_sets(), IN_BUNDLE, |_| Keys::One(Whole));
        wakes.follow(context.settings.clone());
        let (effects, sources) = (context.effects(Self::NAME), Mutex::default());
        Self { context, effects, options, metrics, progress, wakes, sources }
    }

    fn keys(&self) -> Vec<Whole> {
        vec![Whole]
    }

    fn exists(&self, _: &Whole) -> bool {
        true
    }

    async fn reconcile(&self, _: &Whole, state: &mut BundleKeeperState) -> Result<Done, Failure> {
        let Some(sources) = self.sources() else {
            self.metrics.idle();
            self.idle(state);
            return Ok(Done::Settled);
        };
        state.is_idle = false;
        self.metrics.keeps(&sources.place.at, self.context.clock.now());
        if timeout(LISTING, sources.listed()).await.is_err() {
            return Ok(Done::LookAgain(LISTING));
        }
        if let Some(left) = state.rest() {
            return Ok(Done::LookAgain(left));
        }
        let result = match self.bring(&sources, state).await {
            Ok(BundleOutcome { has_changed: true, reported }) => {
                self.progress.done();
                reported.and(self.compare_versions(state).await)
            }
            Ok(BundleOutcome { has_changed: false, reported }) => {
                let is_due = state.versions.is_due(self.context.clock.now());
                let told = if is_due { self.compare_versions(state).await } else { Ok(()) };
                return reported.and(told).map(|()| self.next(state));
            }
            Err(stopped) => {
                state.done = None;
                Err(self.failed(&sources, &stopped).await)
            }
        };
        self.publish(&sources).await;
        result.map(|()| self.next(state))
    }

    fn pace(&self) -> Pace {
        Pace { gather: self.options.gather, longest_delay: Duration::from_mins(1), ..Pace::default() }
    }

    fn rights(situation: &Situation) -> Vec<Right> {
        let maps = "The compiled SidecarSets of the cluster. If there are many, they are in several ConfigMaps, whose \
                    names are not known beforehand.";
        let revisions = "Revisions that SidecarSets ask for, so that the policy need not look them up.";
        let whitelist = "The whitelist of patchPodMetadata, which the settings do not have.";
        let pods = "With which versions of SidecarSets Pods are injected, to measure how long a change takes.";
        let mut all = rights::sidecar_sets();
        all.push(Right::new(Scope::Cluster, "", &["pods"], WATCH, pods));
        all.push(Right::new(Scope::Bundle, "", &["configmaps"], KEEP, maps));
        all.push(Right::new(Scope::System, "apps", &["controllerrevisions"], WATCH, revisions));
        if situation.reads_whitelist {
            let names = &["kruise-configuration"];
            all.push(Right::new(Scope::System, "", &["configmaps"], READ, whitelist).named(names));
        }
        all
    }
}

impl BundleKeeper {
    /// Returns the watches of the bundle that the settings name, if they name one.
    fn sources(&self) -> Option<Arc<Sources>> {
        let mut sources = self.sources.lock();
        let place = WatchSettings::from_settings(&self.context.settings());
        if sources.as_ref().map(|sources| &sources.place) != place.as_ref() {
            // The watches before end first.
            *sources = None;
            *sources = place.map(|place| Arc::new(Sources::watch(&self.context, place, &self.wakes, &Whole)));
        }
        sources.clone()
    }

    /// There is no bundle to keep.
    fn idle(&self, state: &mut BundleKeeperState) {
        if !state.is_idle {
            *state = BundleKeeperState { is_idle: true, ..BundleKeeperState::default() };
            tracing::warn!(controller = Self::NAME, "the settings have no bundleRef, so there is nothing to keep");
        }
        let sets = self.context.store.sidecar_sets().len();
        if sets > 0 {
            let text =
                format!("the settings have no bundleRef, so the policy sees none of the cluster's {sets} SidecarSets");
            self.effects.problem(None, text);
        }
        self.progress.done();
        self.context.bundled.none();
    }

    /// Returns when to look at the bundle again even if nothing changes.
    fn next(&self, state: &BundleKeeperState) -> Done {
        let left = state.look_again.0.saturating_sub(self.context.clock.now().0);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or_default().max(1));
        Done::LookAgain(self.options.tick.min(left).min(state.unsettled.unwrap_or(left)))
    }

    /// Says which SidecarSets ask for more than the cluster has.
    async fn compare_versions(&self, state: &mut BundleKeeperState) -> Result<(), Failure> {
        let BundleKeeperState { versions, done, .. } = state;
        let sidecar_sets = done.as_ref().map(|inputs| inputs.sidecar_sets.as_slice()).unwrap_or_default();
        versions.report(&self.context, sidecar_sets).await
    }

    /// Publishes the SidecarSets that the bundle holds now, even if they are not the wanted ones.
    async fn publish(&self, sources: &Sources) {
        let config_maps = sources.inputs(&self.context).config_maps;
        let (at, memo) = (sources.place.at.clone(), Arc::clone(&self.context.bundle_memo));
        let stored = tokio::task::spawn_blocking(move || planning::stored(&at, &config_maps, &memo)).await;
        if let Ok(sets) = stored {
            self.context.bundled.put(sets);
        }
    }

    async fn failed(&self, sources: &Sources, stopped: &Stopped) -> Failure {
        let namespace = &sources.place.at.namespace;
        self.effects.problem(Some(namespace), stopped.to_string());
        if let Stopped::Obstacle(Obstacle::Foreign { name, .. }) = stopped
            && let Some(object) = sources.config_map(name)
        {
            self.context.events.warning(&object, "KeepBundle", "NotABundle", stopped.to_string()).await;
        }
        self.progress.fail(stopped.to_string());
        let retry_after = if let Stopped::Write(error) = stopped { error.problem.retry_after() } else { None };
        Failure { text: stopped.to_string(), retry_after }
    }

    /// Brings the bundle to its wanted state.
    async fn bring(&self, sources: &Sources, state: &mut BundleKeeperState) -> Result<BundleOutcome, Stopped> {
        for _ in 0..ROUNDS {
            let mut inputs = sources.inputs(&self.context);
            let is_due = self.context.clock.now() >= state.look_again;
            if !is_due && state.done.as_ref() == Some(&inputs) {
                let verdicts = std::mem::take(&mut state.unreported);
                let reported = if verdicts.is_empty() { Ok(()) } else { self.report(verdicts, &inputs, state).await };
                return Ok(BundleOutcome { has_changed: false, reported });
            }
            let started = Instant::now();
            let plan = self.plan(sources, &inputs).await?;
            if !self.effects.is_preview() {
                state.planned(started.elapsed());
            }
            if let Some(obstacle) = plan.obstacle {
                return Err(obstacle.into());
            }
            let within = plan.verdicts.iter().filter(|verdict| verdict.place != BundlePlace::Out).count();
            let why = format!("{within} SidecarSets in {} bytes", plan.length);
            for step in &plan.steps {
                let answer = self.effects.carry_out(step, &why).await?;
                let name = match step {
                    Step::Create(object) | Step::Apply(object) => json::text(object, &["metadata", "name"]),
                    Step::Patch { object, .. }
                    | Step::JsonPatch { object, .. }
                    | Step::Evict { object, .. }
                    | Step::RequestToken { account: object, .. }
                    | Step::Delete { object, .. } => &object.name,
                };
                inputs.written(name, answer);
            }
            if plan.steps.iter().all(|step| !matches!(step, Step::Create(_))) {
                let reported = self.finish(&sources.place.at, &plan, &inputs, state).await;
                state.done = Some(inputs);
                return Ok(BundleOutcome { has_changed: true, reported });
            }
        }
        Err(Stopped::Quarrel)
    }

    /// Makes the plan on a separate thread: compiling a thousand SidecarSets takes a while.
    async fn plan(&self, sources: &Sources, inputs: &Inputs) -> Result<Plan, Stopped> {
        let wanted = planning::wanted_revisions(&inputs.sidecar_sets, &sources.revisions(), &inputs.settings);
        let revisions = sources.revisions_with_data(&wanted);
        let (inputs, at, memo) = (inputs.clone(), sources.place.at.clone(), Arc::clone(&self.context.bundle_memo));
        let (now, max, with_settings) = (self.context.clock.now(), self.options.max, self.options.with_settings);
        let planned = tokio::task::spawn_blocking(move || {
            planning::plan(BundleInput {
                at: &at,
                sidecar_sets: &inputs.sidecar_sets,
                revisions: &revisions,
                config_maps: &inputs.config_maps,
                whitelist: inputs.whitelist.as_deref(),
                settings: &inputs.settings,
                with_settings,
                now,
                max,
                memo: &memo,
            })
        });
        Ok(planned.await?)
    }

    /// Reports the verdicts that are new. Those that could not be written are reported again when the key is retried.
    async fn report(
        &self,
        verdicts: Vec<Verdict>,
        inputs: &Inputs,
        state: &mut BundleKeeperState,
    ) -> Result<(), Failure> {
        let is_cached = self.context.settings().bundle_source.is_cached;
        let reported = state.reported.report(&self.context, &verdicts, &inputs.sidecar_sets, is_cached).await;
        state.unsettled = reported.as_ref().ok().copied().flatten();
        let is_complete = reported.is_ok() && state.unsettled.is_none();
        state.unreported = if is_complete { Vec::new() } else { verdicts };
        reported.map(drop)
    }

    /// Reports the result once the bundle is in its wanted state.
    async fn finish(
        &self,
        at: &ConfigMapName,
        plan: &Plan,
        inputs: &Inputs,
        state: &mut BundleKeeperState,
    ) -> Result<(), Failure> {
        state.look_again = plan.look_again;
        let is_written = plan.steps.iter().any(|step| matches!(step, Step::Apply(_)));
        self.metrics.written(at, &plan.verdicts, plan.length, is_written, self.context.clock.now());
        if is_written {
            let (sets, bytes) = (plan.verdicts.len(), plan.length);
            tracing::info!(controller = Self::NAME, sets, bytes, "the bundle was written");
        }
        for verdict in plan.verdicts.iter().filter(|verdict| verdict.place != BundlePlace::In) {
            let place = if verdict.place == BundlePlace::Kept { "stays as it was" } else { "is left out" };
            self.effects.problem(None, format!("SidecarSet \"{}\" {place}: {}", verdict.name, verdict.message));
        }
        self.report(plan.verdicts.clone(), inputs, state).await
    }
}
