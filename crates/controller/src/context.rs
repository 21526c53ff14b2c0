//! The shared context of all controllers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kube::Client;
use pillion_admission::settings::Settings;
use pillion_kubernetes::time::Timestamp;
use tokio::sync::watch;

use crate::events::Events;
use crate::metrics::Metrics;
use crate::sets::{Sets, Sources};
use crate::watch::{Cluster, Wanted};

/// The source of the time. Tests use their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns the clock of the system.
    pub fn system() -> Self {
        Self::new(|| {
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
        })
    }

    /// Returns a clock that calls this function.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// The shared context of all controllers. Cloning it is cheap.
#[derive(Clone)]
pub struct Context {
    /// The client of the API server.
    pub client: Client,
    /// The watches that the controllers share.
    pub cluster: Arc<Cluster>,
    /// The policy's settings, always the newest that could be read.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// Events on objects, for people.
    pub events: Events,
    /// Metrics of the controllers.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
}

impl Context {
    /// Returns a context with its own watches of the `wanted` objects, which start at once. Its metrics do not count
    /// the requests of `client`, its Events name no instance, and its clock is the system's. To change a part, use
    /// `Context { clock, ..Context::new(…) }`.
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

    /// Returns the current SidecarSets.
    pub fn sets(&self) -> Arc<Sets> {
        self.cluster.sets.get(Sources {
            settings: self.settings.borrow().clone(),
            resources: self.cluster.sidecar_sets.all(),
            bundled: self.cluster.bundled.sets(),
        })
    }
}
