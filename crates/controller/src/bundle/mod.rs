//! Keeps the cluster's SidecarSets, compiled, in the ConfigMap from which the policy reads them (SET-1).
//!
//! [`pillion_plan::bundle`] decides what to write. If a process stops halfway (a shard without its index, an index
//! whose old shards still exist), the next process completes the work.

mod delay;
mod preview;
mod say;
mod sources;
mod written;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pillion_admission::settings::Settings;
use pillion_bundle::config_map::TEXT_MAX;
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::bundle::{self as planning, BundleInput, Obstacle, Place, Plan};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

pub(crate) use self::preview::preview;

use self::delay::Delays;
use self::say::Said;
use self::sources::{Inputs, Sources};
use self::written::Written;
use crate::backoff::Backoff;
use crate::context::Context;
use crate::watch::{Change, SIDECAR_SET, SIDECAR_SET_STATUS};
use crate::write::{self, WriteError};

/// The controller's name, in metrics and logs.
const CONTROLLER: &str = "bundle";
/// The kind of a change of the bundle's contents.
const CHANGE: &str = "Bundle";
/// The maximum number of plans in one go: a plan that creates an object is made again. More rounds would mean that
/// another writer keeps undoing the changes.
const ROUNDS: usize = 4;
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(1) };

/// The controller's options.
#[derive(Clone)]
pub struct Options {
    /// The maximum length of the bundle text in one ConfigMap, in bytes.
    pub max: usize,
    /// How long to wait for further changes after a change: they often come in bursts.
    pub debounce: Duration,
    /// The interval between checks of the clock.
    pub tick: Duration,
    /// Receives the problem with the bundle, if there is one.
    pub health: Health,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max: TEXT_MAX,
            debounce: Duration::from_millis(200),
            tick: Duration::from_secs(5),
            health: Health::default(),
        }
    }
}

/// The problem with the bundle, for readiness. An invalid SidecarSet is not a problem.
#[derive(Clone, Default)]
pub struct Health(Arc<RwLock<Option<String>>>);

impl Health {
    /// Returns the current problem.
    pub fn problem(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, problem: Option<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// Why the bundle is not in its wanted state.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error("could not read ControllerRevision \"{name}\": {problem}")]
    Revision { name: String, problem: write::WriteProblem },
    #[error("the plan was not made: {0}")]
    Planning(#[from] tokio::task::JoinError),
    #[error("another client keeps changing the ConfigMaps of the bundle")]
    Quarrel,
}

/// The settings that decide which objects to watch. If they change, all watches start again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Where {
    at: ConfigMapName,
    system_namespace: String,
    reads_whitelist: bool,
}

impl Where {
    fn of(settings: &Settings) -> Option<Self> {
        Some(Self {
            at: settings.bundle_source.config_map.clone()?,
            system_namespace: settings.system_namespace.clone(),
            reads_whitelist: settings.patch_pod_metadata_whitelist.is_none(),
        })
    }
}

/// Works for as long as it is polled. Without a `bundleRef` in the settings, waits for one.
pub async fn run(context: Context, options: Options) {
    let mut settings = context.settings.clone();
    loop {
        let place = Where::of(&settings.borrow_and_update());
        let Some(place) = place else {
            tracing::warn!(controller = CONTROLLER, "the settings have no bundleRef, so there is nothing to keep");
            options.health.set(None);
            if context.cluster.bundled.none() {
                tell(&context);
            }
            changed(&mut settings).await;
            continue;
        };
        Keeper::new(&context, &options, place).work(&mut settings).await;
    }
}

/// Announces the change to the controllers that prepare the identities of Pods.
fn tell(context: &Context) {
    // This fails only if there is no subscriber yet.
    let _ = context.cluster.notify().send(Change { kind: CHANGE, namespace: None });
}

/// Waits for other settings. Waits for ever if the settings can no longer change.
async fn changed(settings: &mut watch::Receiver<Arc<Settings>>) {
    if settings.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Keeps one bundle.
struct Keeper {
    context: Context,
    options: Options,
    place: Where,
    sources: Sources,
    written: Written,
    said: Said,
    delays: Delays,
    /// The inputs for which the bundle was last correct.
    done: Option<Inputs>,
    /// When the bundle must be checked even if nothing changes.
    look_again: Timestamp,
    failures: u32,
    retry: Option<Instant>,
}

impl Keeper {
    fn new(context: &Context, options: &Options, place: Where) -> Self {
        Self {
            sources: Sources::watch(context, &place),
            written: Written::default(),
            said: Said::default(),
            delays: Delays::default(),
            done: None,
            look_again: Timestamp::default(),
            failures: 0,
            retry: None,
            context: context.clone(),
            options: options.clone(),
            place,
        }
    }

    /// Works until the settings name another place for the bundle.
    async fn work(mut self, settings: &mut watch::Receiver<Arc<Settings>>) {
        let mut changes = self.context.cluster.changes();
        if !self.listed(settings).await {
            return;
        }
        loop {
            let current = Arc::clone(&settings.borrow_and_update());
            if Where::of(&current).as_ref() != Some(&self.place) {
                return;
            }
            self.reconcile(&current).await;
            self.wait(&mut changes, settings).await;
        }
    }

    /// Waits until everything was listed. Returns false if the settings change first.
    async fn listed(&self, settings: &mut watch::Receiver<Arc<Settings>>) -> bool {
        let listed = async {
            self.context.cluster.sidecar_sets.listed().await;
            self.sources.listed().await;
        };
        tokio::select! {
            () = listed => true,
            () = changed(settings) => false,
        }
    }

    /// Waits until something may have to be done.
    async fn wait(&mut self, changes: &mut broadcast::Receiver<Change>, settings: &mut watch::Receiver<Arc<Settings>>) {
        loop {
            let is_concerned = tokio::select! {
                change = changes.recv() => match change {
                    Ok(change) => self.notice(&change),
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                () = changed(settings) => true,
                () = sleep(self.options.tick) => false,
            };
            if is_concerned {
                break;
            }
            let is_due = self.context.clock.now() >= self.look_again;
            if self.retry.map_or(is_due, |retry| Instant::now() >= retry) {
                return;
            }
        }
        sleep(self.options.debounce).await;
        while let Ok(change) = changes.try_recv() {
            self.notice(&change);
        }
    }

    /// Whether a change may affect the bundle.
    fn notice(&mut self, change: &Change) -> bool {
        match change.kind {
            SIDECAR_SET => self.delays.edited(),
            SIDECAR_SET_STATUS | sources::REVISION => {}
            sources::CONFIG_MAP => {
                let namespaces = [&self.place.at.namespace, &self.place.system_namespace];
                return change.namespace.as_ref().is_none_or(|namespace| namespaces.contains(&namespace));
            }
            "Pod" => {
                self.delays.look(&self.context, change.namespace.as_deref());
                return false;
            }
            _ => return false,
        }
        true
    }

    async fn reconcile(&mut self, settings: &Arc<Settings>) {
        let started = Instant::now();
        let result = match self.bring(settings).await {
            Ok(false) => return,
            Ok(true) => {
                (self.failures, self.retry) = (0, None);
                self.options.health.set(None);
                "ok"
            }
            Err(failure) => {
                self.fail(&failure).await;
                "error"
            }
        };
        self.context.metrics.reconciled(CONTROLLER, result, started.elapsed());
        self.publish(settings).await;
    }

    /// Publishes the SidecarSets that the bundle holds now, even if they are not the wanted ones.
    async fn publish(&mut self, settings: &Arc<Settings>) {
        let config_maps = self.sources.inputs(&self.context, settings, &mut self.written).config_maps;
        let at = self.place.at.clone();
        let stored = tokio::task::spawn_blocking(move || planning::stored(&at, &config_maps)).await;
        if stored.is_ok_and(|sets| self.context.cluster.bundled.put(sets)) {
            tell(&self.context);
        }
    }

    async fn fail(&mut self, failure: &Failure) {
        let delay = BACKOFF.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.done = None;
        self.retry = Some(Instant::now() + delay);
        tracing::warn!(controller = CONTROLLER, error = %failure, "the bundle is not as it should be");
        if let Failure::Obstacle(Obstacle::Foreign { name, .. }) = failure
            && let Some(object) = self.sources.config_map(name)
        {
            self.context.events.warning(&object, "KeepBundle", "NotABundle", failure.to_string()).await;
        }
        self.options.health.set(Some(failure.to_string()));
    }

    /// Brings the bundle to its wanted state. Returns `false` if nothing has changed since the last time.
    async fn bring(&mut self, settings: &Arc<Settings>) -> Result<bool, Failure> {
        for _ in 0..ROUNDS {
            let mut inputs = self.sources.inputs(&self.context, settings, &mut self.written);
            let is_due = self.context.clock.now() >= self.look_again;
            if !is_due && self.done.as_ref() == Some(&inputs) {
                return Ok(false);
            }
            let plan = self.plan(&inputs).await?;
            if let Some(obstacle) = plan.obstacle {
                return Err(obstacle.into());
            }
            for step in &plan.steps {
                let answer = write::carry_out(&self.context.client, step).await?;
                self.written.note(step, answer, &mut inputs.config_maps);
            }
            if plan.steps.iter().all(|step| !matches!(step, Step::Create(_))) {
                self.finish(&plan, &inputs).await;
                self.done = Some(inputs);
                return Ok(true);
            }
        }
        Err(Failure::Quarrel)
    }

    /// Makes the plan on a separate thread: compiling a thousand SidecarSets takes a while.
    async fn plan(&mut self, inputs: &Inputs) -> Result<Plan, Failure> {
        let wanted = planning::wanted_revisions(&inputs.sidecar_sets, &inputs.revisions(), &inputs.settings);
        let revisions = self.sources.with_data(inputs, &wanted).await?;
        let (inputs, at) = (inputs.clone(), self.place.at.clone());
        let (now, max) = (self.context.clock.now(), self.options.max);
        let planned = tokio::task::spawn_blocking(move || {
            planning::plan(BundleInput {
                at: &at,
                sidecar_sets: &inputs.sidecar_sets,
                revisions: &revisions,
                config_maps: &inputs.config_maps,
                whitelist: inputs.whitelist.as_deref(),
                settings: &inputs.settings,
                now,
                max,
            })
        });
        Ok(planned.await?)
    }

    /// Reports the result once the bundle is in its wanted state.
    async fn finish(&mut self, plan: &Plan, inputs: &Inputs) {
        let refused = plan.verdicts.iter().filter(|verdict| verdict.place != Place::In).count();
        self.context.metrics.bundle(plan.length, refused);
        self.look_again = plan.look_again;
        let is_written = plan.steps.iter().any(|step| matches!(step, Step::Apply(_)));
        self.delays.written(&self.context, &plan.verdicts, is_written);
        if is_written {
            let (sets, bytes) = (plan.verdicts.len(), plan.length);
            tracing::info!(controller = CONTROLLER, sets, refused, bytes, "the bundle was written");
        }
        self.said.say(&self.context, &plan.verdicts, &inputs.sidecar_sets).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked here, and not only at the place that spawns it.
    #[test]
    fn it_can_be_moved_between_threads() {
        fn is_send<F: Future + Send>(_: fn(Context, Options) -> F) {}
        is_send(run);
    }
}
