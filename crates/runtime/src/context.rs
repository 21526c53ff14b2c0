//! The shared context of all controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use kube::Client;
use pillion_admission::settings::Settings;
use pillion_bundle::Memo;
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
    /// The bundles that were compiled and the SidecarSets that were decoded from them, once for all controllers.
    pub bundle_memo: Arc<Memo>,
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
            bundle_memo: Arc::default(),
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

    /// Wakes every key when those of [`Self::sidecar_sets`] change that can affect an identity. While a bundle is kept, its
    /// contents count. An edit of a SidecarSet then counts when it is in the bundle.
    pub fn wake_for_sidecar_sets<K: Send + 'static>(&self, wakes: &Wakes<K>) {
        let bundled = Arc::clone(&self.bundled);
        // Whether something else has woken the keys since the bundle was compared last.
        let is_woken = Arc::new(AtomicBool::new(false));
        let wakes_all = Arc::clone(&is_woken);
        wakes.on(self.store.sidecar_sets(), Facets::CONTENT, move |change| {
            let is_edit = change.before.is_some() && change.after.is_some();
            if is_edit && bundled.is_kept() {
                return Keys::None;
            }
            wakes_all.store(true, Ordering::Relaxed);
            Keys::All
        });
        let (context, mut before) = (self.clone(), self.sidecar_sets());
        wakes.follow_if(self.bundled.changes(), move || {
            let now = context.sidecar_sets();
            let before = std::mem::replace(&mut before, Arc::clone(&now));
            is_woken.swap(false, Ordering::Relaxed) || !now.give_the_same_identities_as(&before)
        });
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillion_sidecarset::sidecar_set::SidecarSet;
    use pillion_simulation::{Simulation, Situation};
    use serde_json::{Value, json};
    use tokio::time::timeout;

    use super::*;

    fn set(name: &str, image: &str, identity: &Value) -> SidecarSet {
        let mut spec =
            json!({"selector": {"matchLabels": {"app": name}}, "containers": [{"name": "c", "image": image}]});
        for (key, value) in identity.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        SidecarSet::from_decoded(json!({"metadata": {"name": name}, "spec": spec}))
    }

    /// A new image of a SidecarSet without an identity changes no identity: tens of thousands of namespaces sleep on.
    #[tokio::test]
    async fn mrg1_what_changes_no_identity_in_the_bundle_wakes_nothing() {
        let simulation = Simulation::new(&Situation::default(), None, || Timestamp(0)).await.expect("a simulation");
        let (_settings, receiver) = watch::channel(Arc::default());
        let context = Context::new(simulation.client(), receiver);
        let (wakes, mut keys) = Wakes::<String>::new();
        let plain = |image| set("logs", image, &json!({}));
        let own =
            |account| set("vault", "v:1", &json!({"serviceAccountName": account, "serviceAccountMode": "Isolate"}));
        context.bundled.put(vec![plain("l:1"), own("vault")]);
        context.wake_for_sidecar_sets(&wakes);
        let mut wakes_all = async |sets: Vec<SidecarSet>| {
            assert!(context.bundled.put(sets), "it is new");
            timeout(Duration::from_millis(50), keys.recv()).await.ok().flatten() == Some(Keys::All)
        };
        assert!(!wakes_all(vec![plain("l:2"), own("vault")]).await, "another image");
        assert!(wakes_all(vec![plain("l:2"), own("safe")]).await, "another account");
        assert!(wakes_all(vec![own("safe")]).await, "a set is gone");
    }
}
