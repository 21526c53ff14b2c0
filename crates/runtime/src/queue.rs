//! The queue of one controller: reconciles each key after the changes that concern it, at most one reconciliation of a
//! key at a time.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::context::Context;
use crate::controller::{Controller, Done, Failure, Pace};
use crate::metrics::Raised;
use crate::wakes::{Keys, Wakes};

/// What the queue knows about a key.
struct Entry<S> {
    state: S,
    failures: u32,
    /// Counts in a metric while the last reconciliation has failed.
    failing: Option<Raised>,
    /// The API server has asked to wait until then.
    not_before: Option<Instant>,
}

impl<S: Default> Default for Entry<S> {
    fn default() -> Self {
        Self { state: S::default(), failures: 0, failing: None, not_before: None }
    }
}

/// A reconciliation that has ended.
struct Ended<C: Controller> {
    key: C::Key,
    entry: Entry<C::KeyState>,
    result: Result<Done, Failure>,
}

/// Starts a controller and runs it for as long as it is polled. Failures are retried with growing delays.
pub async fn run<C: Controller>(context: Context, options: C::Options) {
    let (wakes, keys) = Wakes::new();
    let controller = Arc::new(C::start(context.clone(), options, wakes.clone()).await);
    // The controller is woken by each change from now on, so none is missed.
    wakes.wake(Keys::All);
    let queue = work(&context, Arc::clone(&controller), keys);
    tokio::join!(queue, controller.beside());
}

async fn work<C: Controller>(context: &Context, controller: Arc<C>, mut wakes: mpsc::UnboundedReceiver<Keys<C::Key>>) {
    let Pace { gather, concurrency, first_delay, longest_delay } = controller.pace();
    let backoff = Backoff { first: first_delay, most: longest_delay };
    let (send, requests) = mpsc::unbounded_channel();
    let requests = futures_util::stream::unfold(requests, async |mut requests| {
        requests.recv().await.map(|request| (request, requests))
    });
    let requests = pin!(requests);
    // A debounced scheduler would wait until a key has no changes for some time. Pods that change all the time must not
    // keep a key waiting for ever.
    let mut scheduler = pin!(scheduler(requests));
    // The scheduler holds the other end.
    let schedule = |key: C::Key, run_at: Instant| drop(send.send(ScheduleRequest { message: key, run_at }));
    let mut idle: HashMap<C::Key, Entry<C::KeyState>> = HashMap::new();
    let mut running = FuturesUnordered::new();
    let mut active: HashSet<C::Key> = HashSet::new();
    loop {
        let has_room = active.len() < concurrency;
        let mut due = scheduler.as_mut().hold_unless(|key| has_room && !active.contains(key));
        tokio::select! {
            woken = wakes.recv() => match woken {
                Some(Keys::One(key)) => schedule(key, Instant::now() + gather),
                Some(Keys::Many(keys)) => keys.into_iter().for_each(|key| schedule(key, Instant::now() + gather)),
                Some(Keys::All) => controller.keys().into_iter().for_each(|key| schedule(key, Instant::now() + gather)),
                Some(Keys::None) => {}
                None => return,
            },
            Some(Ended { key, mut entry, result }) = running.next(), if !active.is_empty() => {
                active.remove(&key);
                let after = match result {
                    Ok(done) => {
                        (entry.failures, entry.failing, entry.not_before) = (0, None, None);
                        if let Done::LookAgain(after) = done { Some(after) } else { None }
                    }
                    Err(failure) => {
                        let delay = jittered(backoff.after(entry.failures)).max(failure.retry_after.unwrap_or_default());
                        entry.not_before = failure.retry_after.map(|after| Instant::now() + after);
                        entry.failures = entry.failures.saturating_add(1);
                        entry.failing.get_or_insert_with(|| context.metrics.failing(C::NAME));
                        Some(delay)
                    }
                };
                if controller.exists(&key) {
                    if let Some(after) = after {
                        schedule(key.clone(), Instant::now() + after);
                    }
                    idle.insert(key, entry);
                } else {
                    controller.forget(&key);
                }
            }
            Some(key) = due.next() => {
                if !controller.exists(&key) {
                    if idle.remove(&key).is_some() {
                        controller.forget(&key);
                    }
                    continue;
                }
                let entry = idle.remove(&key).unwrap_or_default();
                if let Some(not_before) = entry.not_before.filter(|time| *time > Instant::now()) {
                    schedule(key.clone(), not_before);
                    idle.insert(key, entry);
                    continue;
                }
                active.insert(key.clone());
                running.push(reconciled(context, Arc::clone(&controller), key, entry));
            }
        }
    }
}

/// Reconciles a key, and measures and logs the result.
fn reconciled<C: Controller>(
    context: &Context,
    controller: Arc<C>,
    key: C::Key,
    mut entry: Entry<C::KeyState>,
) -> impl Future<Output = Ended<C>> {
    let metrics = Arc::clone(&context.metrics);
    async move {
        let started = Instant::now();
        let result = controller.reconcile(&key, &mut entry.state).await;
        metrics.reconciled(C::NAME, if result.is_ok() { "ok" } else { "error" }, started.elapsed());
        if let Err(error) = &result {
            tracing::warn!(controller = C::NAME, %key, %error, "reconciliation");
        }
        Ended { key, entry, result }
    }
}

/// Lengthens a delay by up to a fifth, so that keys that fail together are not retried together.
fn jittered(delay: Duration) -> Duration {
    let fifth = u64::try_from(delay.as_millis() / 5).unwrap_or(u64::MAX).max(1);
    // Every RandomState has keys of its own.
    delay + Duration::from_millis(RandomState::new().hash_one(0) % fifth)
}
