//! The shared context of all controllers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kube::Client;
use pillion_admission::settings::Settings;
use pillion_bundle::Opened;
use pillion_kubernetes::time::Timestamp;
use tokio::sync::watch;

use crate::bundled::Bundled;
use crate::effects::{Effects, Events, Recorder};
use crate::metrics::Metrics;
use crate::sets::{Cached, Sets, Sources};
use crate::store::{Facets, Store};
use crate::wakes::{Keys, Wakes};

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
    /// The observed state of the cluster.
    pub store: Arc<Store>,
    /// The policy's settings, always the newest that could be read.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// Events on objects, for people.
    pub events: Events,
    /// Metrics of the controllers.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
    /// Follows the writes, for a preview.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// The SidecarSets of the bundle that this process keeps.
    pub bundled: Arc<Bundled>,
    /// The bundles that were opened before, once for all controllers.
    pub opened: Arc<Opened>,
    /// The SidecarSets of the cluster and the settings, decoded once for all controllers.
    pub sets: Arc<Cached>,
}

impl Context {
    /// Returns a context that watches nothing yet. Its metrics do not count the requests of `client`, its Events name no
    /// instance, and its clock is the system's. To change a part, use `Context { clock, ..Context::new(…) }`.
    pub fn new(client: Client, settings: watch::Receiver<Arc<Settings>>) -> Self {
        Self {
            store: Arc::new(Store::new(client.clone())),
            settings,
            events: Events::new(client.clone(), None),
            metrics: Arc::new(Metrics::new()),
            clock: Clock::system(),
            recorder: None,
            bundled: Arc::default(),
            opened: Arc::default(),
            sets: Arc::default(),
            client,
        }
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    /// Returns the current SidecarSets.
    pub fn sidecar_sets(&self) -> Arc<Sets> {
        let resources = self.store.sidecar_sets();
        let version = resources.count(Facets::CONTENT);
        self.sets.get(Sources { settings: self.settings(), bundled: self.bundled.sets(), version }, || resources.all())
    }

    /// Wakes every key when the SidecarSets change that [`Self::sidecar_sets`] returns. While a bundle is kept, its
    /// contents count. An edit of a SidecarSet then counts when it is in the bundle.
    pub fn wake_for_sidecar_sets<K: Send + 'static>(&self, wakes: &Wakes<K>) {
        let bundled = Arc::clone(&self.bundled);
        wakes.on(self.store.sidecar_sets(), Facets::CONTENT, move |change| {
            let is_edit = change.before.is_some() && change.after.is_some();
            if is_edit && bundled.is_kept() { Keys::None } else { Keys::All }
        });
        wakes.follow(self.bundled.changes());
    }

    /// Returns the effects of a controller on the cluster.
    pub fn effects(&self, controller: &'static str) -> Effects {
        Effects {
            controller,
            client: self.client.clone(),
            store: Arc::clone(&self.store),
            recorder: self.recorder.clone(),
        }
    }
}
