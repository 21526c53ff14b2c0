//! Reconciles namespaces: each change triggers a comparison of its namespace with the wanted state.
//!
//! A plan without steps sends no requests, so comparing every namespace costs only memory and time of this process.

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

/// Changes often come in bursts.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The number of namespaces that are reconciled at the same time. A namespace with changes spends nearly all of its
/// time waiting: before the API server writes a Role or a RoleBinding, it waits up to 100 ms for its own caches. So few
/// requests are not throttled: the API server's default limits allow ten times as many.
const CONCURRENCY: u16 = 32;
/// The delays for one namespace, and for units of similar size.
pub(crate) const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_mins(5) };

/// The result of reconciling a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The namespace is in its wanted state, as far as can be seen. The next change triggers another comparison.
    Settled,
    /// The namespace must be compared again after this time, even if nothing changes.
    LookAgain(Duration),
}

/// A controller that reconciles one namespace at a time.
pub struct ByNamespace<F> {
    /// Its name, in metrics and logs.
    pub controller: &'static str,
    /// Whether a change concerns the controller.
    pub is_concerned: fn(&Change) -> bool,
    /// Compares a namespace with its wanted state, and writes the differences.
    pub reconcile: F,
}

/// Carries out the single step that a namespace needs, if any. It is no failure if another client was faster: the watch
/// shows that as a change.
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
    /// Works for as long as it is polled. Starts with every namespace, then follows changes. Failures are retried with
    /// growing delays.
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
        // The result for a namespace that has been deleted in the meantime is ignored.
        applier(look, later, Arc::new(()), store, queue, config).for_each(|_| async {}).await;
    }
}

/// Returns a request for every namespace, then one for each namespace with a change. Calls `forget` with each namespace
/// that is gone.
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
                    // Some changes were dropped because there were too many, so any namespace may have changed.
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
