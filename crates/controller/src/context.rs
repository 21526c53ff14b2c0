//! What every controller is given.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kube::Client;
use pillion_admission::settings::Settings;
use pillion_kubernetes::time::Timestamp;
use tokio::sync::watch;

use crate::events::Events;
use crate::metrics::Metrics;
use crate::watch::{Cluster, Wanted};

/// Where the time comes from. Tests have their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's.
    pub fn system() -> Self {
        Self::new(|| {
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
        })
    }

    /// Any other.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// What every controller is given. Cloning it is cheap.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What is watched for all of them.
    pub cluster: Arc<Cluster>,
    /// The policy's settings, always the newest that could be read.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// For people who look at objects.
    pub events: Events,
    /// For those who look at the controller.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
}

impl Context {
    /// With watches of its own for what is `wanted`, which begin at once; its metrics count nothing of `client`, its
    /// Events name no instance, and its time is the system's. What differs is said with `Context { clock, ..Context::new(…) }`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(client: Client, wanted: Wanted, settings: watch::Receiver<Arc<Settings>>) -> Self {
        Self {
            cluster: Arc::new(Cluster::watch(&client, wanted)),
            settings,
            events: Events::new(client.clone(), None),
            metrics: Arc::new(Metrics::new()),
            clock: Clock::system(),
            client,
        }
    }
}
