//! One namespace after the other: whatever changes, the namespace that it is in is compared anew with what should be.
//!
//! A plan that finds nothing to do sends nothing, so looking at every namespace costs memory and time of this process
//! alone.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::controller::{Action, Config, ReconcileReason, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt as _};
use pillion_plan::Step;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::watch::{Change, NAMESPACE};
use crate::write::{WriteError, carry_out};

/// Changes often come in swarms.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How many namespaces are compared at once. Nearly all of the time of one that needs something is waiting: before the API
/// server writes a Role or a RoleBinding, it waits up to 100 ms for its own caches. It sends nobody away with so few: its
/// defaults have room for ten times as many.
const CONCURRENCY: u16 = 32;
/// For one namespace, and for what is as small.
pub(crate) const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(5) };

/// How a namespace is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// As it should be, as far as can be seen; a change brings it back.
    Settled,
    /// To be looked at again after this time, even if nothing changes.
    LookAgain(Duration),
}

/// A controller that works namespace by namespace.
pub struct ByNamespace<F> {
    /// Its name, in metrics and logs.
    pub controller: &'static str,
    /// Whether a change concerns it.
    pub is_concerned: fn(&Change) -> bool,
    /// Compares a namespace, and writes what differs.
    pub reconcile: F,
}

/// Carries out the only step that a namespace needs, where it needs one. What somebody else did first is no failure:
/// it is a change, and is seen as one.
///
/// # Errors
/// [`WriteError`].
pub async fn settle(client: &Client, step: Option<Step>) -> Result<Done, WriteError> {
    if let Some(step) = step
        && let Err(error) = carry_out(client, &step).await
        && !error.problem.is_overtaken()
    {
        return Err(error);
    }
    Ok(Done::Settled)
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

impl<F> ByNamespace<F> {
    /// Works for as long as it is polled: every namespace at the start, and then where something changes. Failures are
    /// tried again, each time later.
    pub async fn run<Fut, E>(self, context: Context)
    where
        F: Fn(Arc<Namespace>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Done, E>> + Send,
        E: Display,
    {
        let Self { controller, is_concerned, reconcile } = self;
        let changes = context.cluster.changes();
        context.cluster.listed().await;
        let store = context.cluster.namespaces.clone();
        let (reconcile, metrics) = (Arc::new(reconcile), Arc::clone(&context.metrics));
        let failures = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
        let of_gone = Arc::clone(&failures);
        let forget = move |namespace: &str| {
            of_gone.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace);
        };
        let queue = requests(store.clone(), changes, is_concerned, forget);
        let failed_before = Arc::clone(&failures);
        let look = move |namespace: Arc<Namespace>, _: Arc<()>| {
            let (reconcile, metrics) = (Arc::clone(&reconcile), Arc::clone(&metrics));
            let failures = Arc::clone(&failures);
            Box::pin(async move {
                let (started, name) = (Instant::now(), namespace.name_any());
                let done = reconcile(namespace).await;
                let result = if done.is_ok() { "ok" } else { "error" };
                metrics.reconciled(controller, result, started.elapsed());
                match done {
                    Ok(done) => {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                        Ok(match done {
                            Done::Settled => Action::await_change(),
                            Done::LookAgain(after) => Action::requeue(after),
                        })
                    }
                    Err(error) => {
                        tracing::warn!(controller, namespace = name, %error, "reconciliation");
                        Err(Failure(error.to_string()))
                    }
                }
            })
        };
        let later = move |namespace: Arc<Namespace>, _: &Failure, _: Arc<()>| {
            let mut failures = failed_before.lock().unwrap_or_else(PoisonError::into_inner);
            let count = failures.entry(namespace.name_any()).or_default();
            let delay = BACKOFF.after(*count);
            *count = count.saturating_add(1);
            Action::requeue(delay)
        };
        let config = Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY);
        // A namespace that is gone by now has nothing to be compared.
        applier(look, later, Arc::new(()), store, queue, config).for_each(|_| async {}).await;
    }
}

/// Every namespace at first, then those in which something changes; `forget` is told of one that is gone.
fn requests(
    store: Store<Namespace>,
    changes: broadcast::Receiver<Change>,
    is_concerned: fn(&Change) -> bool,
    forget: impl Fn(&str) + Clone + Send,
) -> impl Stream<Item = Result<ReconcileRequest<Namespace>, Failure>> + Send {
    let all = |store: &Store<Namespace>| {
        store.state().iter().map(|namespace| request(&namespace.name_any())).collect::<Vec<_>>()
    };
    let first = stream::iter(all(&store));
    let then = stream::unfold(changes, move |mut changes| {
        let (store, forget) = (store.clone(), forget.clone());
        async move {
            loop {
                let requests = match changes.recv().await {
                    Ok(change) if !is_concerned(&change) => continue,
                    Ok(Change { kind: NAMESPACE, namespace: Some(namespace) })
                        if store.get(&ObjectRef::new(&namespace)).is_none() =>
                    {
                        forget(&namespace);
                        continue;
                    }
                    Ok(Change { namespace: Some(namespace), .. }) => vec![request(&namespace)],
                    // So many that some were not kept: any namespace may be among them.
                    Ok(Change { namespace: None, .. }) | Err(RecvError::Lagged(_)) => all(&store),
                    Err(RecvError::Closed) => return None,
                };
                return Some((stream::iter(requests), changes));
            }
        }
    });
    first.chain(then.flatten()).map(Ok)
}

fn request(namespace: &str) -> ReconcileRequest<Namespace> {
    ReconcileRequest { obj_ref: ObjectRef::new(namespace), reason: ReconcileReason::Unknown }
}
