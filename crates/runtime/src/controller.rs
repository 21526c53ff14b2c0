//! What a controller is. `registry.rs` lists them: a new one is a folder with an implementation of [`Controller`], and
//! one line there.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use crate::context::Context;
use crate::rights::{Right, Situation};
use crate::wakes::Wakes;

/// A key: what a controller reconciles at a time, such as a namespace or a SidecarSet.
pub trait Key: Clone + Debug + Display + Eq + Hash + Ord + Send + Sync + 'static {}

impl<K: Clone + Debug + Display + Eq + Hash + Ord + Send + Sync + 'static> Key for K {}

/// The result of reconciling a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The key is in its wanted state, as far as can be seen. The next change that concerns it wakes it.
    Settled,
    /// The key must be reconciled again after this time, even if nothing changes.
    LookAgain(Duration),
}

/// How long to wait for a change that another client made at the same time, before a key is reconciled without it.
pub const NOT_SEEN_YET: Duration = Duration::from_secs(2);

impl Done {
    /// Returns the result after a write; `is_written` tells whether it was carried out. If another client was faster, the
    /// change usually wakes the key. If nothing has changed after all, only a further look helps.
    pub fn after_write(is_written: bool) -> Self {
        if is_written { Self::Settled } else { Self::LookAgain(NOT_SEEN_YET) }
    }

    /// Joins two results of one reconciliation: the key is reconciled at the earlier time.
    #[must_use]
    pub fn or_sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::LookAgain(one), Self::LookAgain(two)) => Self::LookAgain(one.min(two)),
            (Self::Settled, other) => other,
            (one, Self::Settled) => one,
        }
    }
}

/// Why a key is not in its wanted state. It is retried with growing delays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The reason for people, without secrets.
    pub text: String,
    /// How long the API server asks to wait, if it does.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Returns a failure with this reason.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry_after: None }
    }

    /// Joins the failures of one key: people are told the earlier one, and the longer wait counts.
    #[must_use]
    pub fn after(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(Self { text, retry_after }) => Self { text, retry_after: retry_after.max(self.retry_after) },
            None => self,
        }
    }
}

impl From<crate::problem::WriteError> for Failure {
    fn from(error: crate::problem::WriteError) -> Self {
        Self { retry_after: error.problem.retry_after(), text: error.to_string() }
    }
}

/// How fast keys are reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long to wait for further changes of a key after the first one: they often come in bursts.
    pub gather: Duration,
    /// The number of keys that are reconciled at the same time.
    pub concurrency: usize,
    /// The delay after the first failure of a key. Each further failure doubles it.
    pub first_delay: Duration,
    /// The longest delay after failures.
    pub longest_delay: Duration,
}

impl Default for Pace {
    /// The pace for namespaces. A namespace with changes spends nearly all of its time waiting: before the API server
    /// writes a Role or a RoleBinding, it waits up to 100 ms for its own caches. So few requests are not throttled: the
    /// API server's default limits allow ten times as many.
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(100),
            concurrency: 32,
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_mins(5),
        }
    }
}

/// A controller: it compares what is in the cluster with what should be, one key at a time, and writes the differences.
///
/// A plan without steps sends no requests, so reconciling a key in vain costs only time of this process.
pub trait Controller: Sized + Send + Sync + 'static {
    /// Its name in `--controllers`, in metrics and in logs.
    const NAME: &'static str;
    /// Whether `*` in `--controllers` includes it.
    const IS_ON_BY_DEFAULT: bool;
    /// Whether a preview reconciles it before the others, whose plans depend on its result.
    const COMES_FIRST: bool = false;

    /// Its options.
    type Options: Clone + Send + Sync + 'static;
    /// What it reconciles at a time.
    type Key: Key;
    /// What it remembers about a key. A key that goes takes its state with it.
    type KeyState: Default + Send + 'static;

    /// Starts the watches that it needs, waits until everything was listed, and names the changes that wake it from then
    /// on.
    fn start(context: Context, options: Self::Options, wakes: Wakes<Self::Key>) -> impl Future<Output = Self> + Send;

    /// Returns all keys. They are reconciled at the start, and when a change concerns every key.
    fn keys(&self) -> Vec<Self::Key>;

    /// Whether a key still exists. One that does not is forgotten, with its state.
    fn exists(&self, key: &Self::Key) -> bool;

    /// Whether a key concerns this SidecarSet, for a preview of one SidecarSet.
    fn concerns(&self, _key: &Self::Key, _sidecar_set: &str) -> bool {
        true
    }

    /// Compares a key with its wanted state, and writes the differences. It may be dropped at any point: the next
    /// reconciliation completes the work.
    ///
    /// # Errors
    /// The key is not in its wanted state, and must be retried.
    fn reconcile(
        &self,
        key: &Self::Key,
        state: &mut Self::KeyState,
    ) -> impl Future<Output = Result<Done, Failure>> + Send;

    /// Forgets what is not in the state of a key that is gone.
    fn forget(&self, _key: &Self::Key) {}

    /// Work beside the reconciliations, such as metrics. It is dropped with the controller and need not end.
    fn beside(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Returns how fast keys are reconciled.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// Returns the rights that it needs, each with the reason.
    fn rights(situation: &Situation) -> Vec<Right>;
}
