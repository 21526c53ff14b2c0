//! Keeps the cluster's SidecarSets, compiled, in the ConfigMap that the policy reads them from (product.md,
//! `settings.bundleRef`).
//!
//! What has to be written is decided by [`pillion_plan::bundle`]. Whatever was done halfway (a shard without its
//! index, an index whose old shards are still there) is completed by whoever starts next.

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
use pillion_plan::bundle::{self as planning, Obstacle, Place, Plan, Seen};
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

/// Its name, in metrics and logs.
const CONTROLLER: &str = "bundle";
/// What is in the bundle, in changes.
const CHANGE: &str = "Bundle";
/// A plan that makes something is made again; this often, in one go. More would be a quarrel with somebody.
const ROUNDS: usize = 4;
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(1) };

/// How it works.
#[derive(Clone)]
pub struct Options {
    /// The longest bundle for one ConfigMap, in bytes.
    pub max: usize,
    /// How long to wait after a change for others: they often come in swarms.
    pub debounce: Duration,
    /// How often to look at the clock.
    pub tick: Duration,
    /// Where it says what keeps the bundle from being right.
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

/// What keeps the bundle from being right, for readiness. A SidecarSet that is not valid does not.
#[derive(Clone, Default)]
pub struct Health(Arc<RwLock<Option<String>>>);

impl Health {
    /// What is wrong now.
    pub fn problem(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, problem: Option<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// Why the bundle is not as it should be.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error("could not read ControllerRevision \"{name}\": {problem}")]
    Revision { name: String, problem: write::Problem },
    #[error("the plan was not made: {0}")]
    Planning(#[from] tokio::task::JoinError),
    #[error("somebody changes the ConfigMaps of the bundle all the time")]
    Quarrel,
}

/// What decides where to look; where it changes, everything is looked at anew.
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

/// Works for as long as it is polled. Without a `bundleRef` in the settings it waits for one.
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

/// Whoever prepares what Pods will need of SidecarSets looks again.
fn tell(context: &Context) {
    // Nobody may be listening yet.
    let _ = context.cluster.notify().send(Change { kind: CHANGE, namespace: None });
}

/// Waits for other settings; for ever, where there will be none.
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
    /// What the bundle was last right for.
    done: Option<Inputs>,
    /// When it has to be looked at even if nothing changes.
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

    /// Works until the settings name another place.
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

    /// Waits until everything was seen; not any longer than until the settings change.
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

    /// Waits until there may be something to do.
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

    /// Whether a change could change the bundle.
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

    /// Says what is in the bundle now, whatever should be.
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

    /// Makes the bundle what it should be; `false` where nothing has changed since it was.
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

    /// The plan, on a thread of its own: compiling a thousand SidecarSets takes a while.
    async fn plan(&mut self, inputs: &Inputs) -> Result<Plan, Failure> {
        let wanted = planning::wanted_revisions(&inputs.sidecar_sets, &inputs.revisions(), &inputs.settings);
        let revisions = self.sources.with_data(inputs, &wanted).await?;
        let (inputs, at) = (inputs.clone(), self.place.at.clone());
        let (now, max) = (self.context.clock.now(), self.options.max);
        let planned = tokio::task::spawn_blocking(move || {
            planning::plan(Seen {
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

    /// What there is to say once the bundle is as it should be.
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

    /// Checked here, and not only where it is started.
    #[test]
    fn it_can_be_moved_between_threads() {
        fn is_send<F: Future + Send>(_: fn(Context, Options) -> F) {}
        is_send(run);
    }
}
