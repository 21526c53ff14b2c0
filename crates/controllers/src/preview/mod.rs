//! Previews what the controllers do: `pillion plan`.
//!
//! A preview runs the controllers' own reconciliations, each key once, on a [`Simulation`] of the cluster. That shows
//! the cluster, the objects in manifests, or the cluster as it would be with them; it records the writes and applies
//! them in memory. Nothing is ever written to the cluster.

mod bundle;
mod difference;
mod kubelets;
mod manifest;
mod rounds;
mod tape;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::demand::Prepared;
use pillion_runtime::context::{Clock, Context};
use pillion_runtime::effects::Recorder as _;
use pillion_runtime::sets::Sets;
use pillion_runtime::store::Store;
use pillion_simulation::{Simulation, Situation};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use self::bundle::Found;
pub use self::manifest::problem;
use self::rounds::{Rounds, recording};
use self::tape::Tape;
use crate::registry::{Name, Options};

/// The time limit for the cluster to list everything.
const PATIENCE: Duration = Duration::from_mins(2);
/// The interval between checks for failed watches.
const LOOK: Duration = Duration::from_millis(200);

/// The time between two rounds, in seconds: longer than a controller keeps a status back.
const A_WAVE: i64 = 10;

/// What to preview.
#[derive(Clone)]
pub struct Question<'a> {
    /// The controllers.
    pub names: &'a BTreeSet<Name>,
    /// Their options.
    pub options: Options,
    /// The policy's settings.
    pub settings: Arc<Settings>,
    /// The clock.
    pub clock: Clock,
    /// How many further rounds to show, each on the result of the one before. They end early if nothing changes. Between
    /// two rounds, containers with a new image restart.
    pub waves: u32,
    /// The SidecarSet whose keys are reconciled; `None` for all keys.
    pub sidecar_set: Option<&'a str>,
    /// Whether the cluster has a controller of its own that keeps the bundle. The others then find the bundle as that
    /// controller would leave it, even if `bundle` is not among `names`.
    pub bundle_is_kept: bool,
}

/// What the controllers would do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// What exactly one reconciliation of each key does.
    pub first: Wave,
    /// What the reconciliations after it do, round by round.
    pub waves: Vec<Wave>,
    /// What stays as it is after the last round, and why: Pods that a rollout leaves alone.
    pub never: Vec<Remark>,
}

/// What one reconciliation of each key does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wave {
    /// The writes, in their order.
    pub changes: Vec<Change>,
    /// The Events.
    pub events: Vec<Event>,
    /// Problems: work that cannot be done, or that needs attention.
    pub problems: Vec<Remark>,
    /// Work that is due later if nothing changes until then.
    pub later: Vec<Remark>,
    /// How far the rollouts are, in the order in which they were looked at.
    pub rollouts: Vec<Rollout>,
    /// What stays as it is, and why.
    never: Vec<Remark>,
    /// Whether a token was requested that is not written yet.
    has_token: bool,
}

/// How far the rollout of a SidecarSet is, and what a round does for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The SidecarSet.
    pub sidecar_set: String,
    /// All its Pods.
    pub pods: usize,
    /// The Pods that had the version before the round.
    pub updated: usize,
    /// The Pods that get the version in the round.
    pub now: usize,
    /// The Pods that keep their version for as long as nothing else changes.
    pub kept: usize,
    /// The progress before the round, as the status of the SidecarSet says it.
    pub message: String,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The controller.
    pub controller: Name,
    /// The kind of write.
    pub verb: Verb,
    /// The object.
    pub object: ObjectRef,
    /// The purpose, in a few words.
    pub why: String,
    /// The whole object before; `None` if it is new. Values of Secrets are left out.
    pub before: Option<Arc<Value>>,
    /// The whole object after; `None` if it is gone. Values of Secrets are left out.
    pub after: Option<Arc<Value>>,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// The object is created.
    Create,
    /// The object is changed.
    Change,
    /// The object is deleted.
    Delete,
    /// The Pod is evicted.
    Evict,
    /// A token is requested and written into the object.
    Mint,
}

impl Verb {
    /// Returns the verb as text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Evict => "evict",
            Self::Mint => "mint",
        }
    }
}

impl Change {
    /// Returns the fields that a change of an existing object changes, one line per field.
    pub fn differences(&self) -> Vec<String> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) if self.verb == Verb::Change => {
                difference::between(before, after, self.object.kind == "Secret")
            }
            _ => Vec::new(),
        }
    }
}

/// An Event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub type_: String,
    /// The reason, one word.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The reference to the object that it is about.
    pub object: Value,
}

/// A remark for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The controller that it concerns.
    pub controller: Name,
    /// The namespace, if it concerns one.
    pub namespace: Option<String>,
    /// The text, a sentence without a full stop.
    pub text: String,
}

/// Why there is no preview.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreviewError {
    /// An object could not be read.
    #[error("the cluster could not be read: {0}")]
    Unreadable(String),
    /// The cluster did not answer in time.
    #[error("the cluster was not listed within {} s", PATIENCE.as_secs())]
    Silent,
}

/// Returns the ServiceAccounts that SidecarSets name, both those of the settings and those in the manifests.
pub fn named(situation: &Situation, settings: &Settings) -> BTreeSet<String> {
    let is_set = |manifest: &&Value| json::text(manifest, &["kind"]) == "SidecarSet";
    let sets = Sets::union(settings, situation.manifests.iter().filter(is_set));
    sets.prepared.iter().flat_map(Prepared::accounts).map(str::to_owned).collect()
}

/// Returns what these controllers would do in this simulation of a cluster.
///
/// # Errors
/// [`PreviewError`].
pub async fn preview(simulation: Simulation, question: Question<'_>) -> Result<Preview, PreviewError> {
    let Question { names, options, settings, clock, waves, sidecar_set, bundle_is_kept } = question;
    // These settings never change, because the sender is dropped.
    let settings = watch::channel(settings).1;
    let tape = Arc::new(Tape::new(simulation.clone()));
    let passed = Arc::new(AtomicI64::new(0));
    let until_now = Arc::clone(&passed);
    let clock = Clock::new(move || Timestamp(clock.now().0.saturating_add(until_now.load(Relaxed))));
    let context = recording(Context { clock, ..Context::new(simulation.client(), settings) }, &tape);
    let store = Arc::clone(&context.store);
    let rounds = async {
        let mut rounds = Rounds::new(&context, &tape, sidecar_set);
        let is_followed = bundle_is_kept && !names.contains(&Name::Bundle);
        let bundle = if is_followed { bundle::found(&context).await } else { Found::None };
        if let Found::Old(text) = &bundle {
            tape.problem(Name::Bundle.as_str(), None, text.clone());
        }
        rounds.first(names, matches!(bundle, Found::Kept), &options).await;
        let first = tape.take();
        let mut preview = Preview { never: first.never.clone(), first, waves: Vec::new() };
        for _ in 0..waves {
            kubelets::restart(&context.client, &store, preview.waves.last().unwrap_or(&preview.first)).await?;
            tape.skip();
            passed.fetch_add(A_WAVE, Relaxed);
            rounds.next().await;
            let wave = tape.take();
            preview.never.clone_from(&wave.never);
            if wave.changes.is_empty() && wave.events.is_empty() {
                break;
            }
            preview.waves.push(wave);
        }
        Ok(preview)
    };
    tokio::select! {
        preview = rounds => preview,
        problem = hindered(&store) => Err(PreviewError::Unreadable(problem)),
        () = sleep(PATIENCE) => Err(PreviewError::Silent),
    }
}

/// Waits until a watch fails.
async fn hindered(store: &Store) -> String {
    loop {
        sleep(LOOK).await;
        if let Some(problem) = store.failures().into_iter().next() {
            return problem;
        }
    }
}
