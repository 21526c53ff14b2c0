//! The observed state of the cluster. Watches list in pages and keep only the parts of objects that controllers need.
//!
//! [`Store`] has the objects that several controllers need; a watch of them starts when the first controller asks for
//! it. A controller watches other objects with [`Store::keep`]. Every write of this process goes into the tables at
//! once ([`Store::written`]), so no plan is made from a state that is known to be outdated.
//!
//! A watch without a store is run by [`keep`]. If its client listens for signs of life ([`listening`]), the table says until
//! which moment it is complete.

mod account;
mod change;
mod kept;
mod kinds;
mod namespace;
mod progress;
mod sidecar_set;
mod signs;
mod slim;
mod subject;
mod table;
mod watch;

#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use pillion_kubernetes::json;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use account::Account;
pub use change::{Change, Facets, Projection};
pub use kept::Kept;
pub use namespace::Namespace;
pub use progress::{Progress, Report};
pub use sidecar_set::SidecarSetObject;
pub use signs::{NoAnswer, listening};
pub use slim::Slim;
pub use subject::{PodObject, Subject, WorkloadObject};
pub use table::Table;
pub use watch::{Watch, Watched, failed_request, keep};

use progress::Registry;
use watch::{Absorb, Absorbing};

/// The tables that take the objects of a kind after a write.
type AbsorbingTables = HashMap<Cow<'static, str>, Vec<Arc<dyn Absorb>>>;

/// The objects of the cluster that the controllers of this process have asked for.
pub struct Store {
    client: Client,
    registry: Registry,
    /// There may be hundreds of one kind, such as one for each namespace.
    absorbing: Mutex<AbsorbingTables>,
    namespaces: OnceLock<Watched<Namespace>>,
    sidecar_sets: OnceLock<Watched<SidecarSetObject>>,
    workloads: OnceLock<Vec<Watched<Subject>>>,
    accounts: OnceLock<Watched<Account>>,
    shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Store {
    /// Returns a store that watches nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            registry: Registry::default(),
            absorbing: Mutex::default(),
            namespaces: OnceLock::new(),
            sidecar_sets: OnceLock::new(),
            workloads: OnceLock::new(),
            accounts: OnceLock::new(),
            shared: Mutex::default(),
        }
    }

    /// Returns the Namespaces.
    ///
    /// # Panics
    /// Outside a tokio runtime, as all functions here that start a watch.
    pub fn namespaces(&self) -> &Watched<Namespace> {
        self.namespaces.get_or_init(|| {
            let api = Api::<NamespaceObject>::all(self.client.clone());
            self.keep_shared(Watch::new(api, "Namespace"), Namespace::from_object)
        })
    }

    /// Returns the SidecarSets, in v1alpha1 if the API server serves that, otherwise in v1beta1.
    pub fn sidecar_sets(&self) -> &Watched<SidecarSetObject> {
        self.sidecar_sets.get_or_init(|| {
            let (client, table) = (self.client.clone(), Arc::new(Table::default()));
            self.registry.add("SidecarSet".to_owned(), false, table.progress());
            // Each version could be the one that is watched.
            for version in kinds::SIDECAR_SET_VERSIONS {
                let api = Api::<DynamicObject>::all_with(client.clone(), &resource(version, "SidecarSet"));
                self.absorb(&Watch::new(api, "SidecarSet"), &table, Arc::new(SidecarSetObject::from_object));
            }
            let kept = Arc::clone(&table);
            let task = tokio::spawn(async move {
                let watch = kinds::sidecar_sets(&client, &kept).await;
                keep(watch, kept, SidecarSetObject::from_object).await;
            });
            Watched::new(table, task.abort_handle())
        })
    }

    /// Returns the workloads, by kind, with the Pods that they will create. Workloads that another workload controls are
    /// left out.
    pub fn workloads(&self) -> &[Watched<Subject>] {
        self.workloads.get_or_init(|| {
            let kept = kinds::WORKLOADS.iter().map(|kind| {
                let table = Arc::new(Table::default());
                self.registry.add(kind.kind.to_owned(), false, table.progress());
                let task = tokio::spawn(kinds::workloads(self.client.clone(), kind, Arc::clone(&table)));
                Watched::new(table, task.abort_handle())
            });
            kept.collect()
        })
    }

    /// Returns the ServiceAccounts.
    pub fn accounts(&self) -> &Watched<Account> {
        self.accounts.get_or_init(|| {
            let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource("v1", "ServiceAccount"));
            self.keep_shared(Watch::new(api, "ServiceAccount"), |account| Some(Account::from_object(account)))
        })
    }

    /// Starts a watch for one controller and keeps the result of `see` for each object; objects for which `see` returns
    /// `None` are not kept. The process is not ready until everything was listed, nor while the watch fails.
    pub fn keep<K, T>(
        &self,
        controller: &str,
        watch: Watch<K>,
        see: impl Fn(K) -> Option<T> + Send + Sync + 'static,
    ) -> Watched<T>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Projection,
    {
        let place = watch.api.namespace().map(|namespace| format!(" of namespace \"{namespace}\"")).unwrap_or_default();
        self.start(format!("{controller}: {}{place}", watch.kind), watch, Arc::default(), see)
    }

    /// Starts a watch for all controllers. Otherwise as [`Self::keep`].
    pub fn keep_shared<K, T>(&self, watch: Watch<K>, see: impl Fn(K) -> Option<T> + Send + Sync + 'static) -> Watched<T>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Projection,
    {
        self.start(watch.kind.clone().into_owned(), watch, Arc::default(), see)
    }

    /// The same. `see` also gets what is kept of an earlier version of the object, if it is known.
    pub fn keep_shared_with_earlier<K, T>(
        &self,
        watch: Watch<K>,
        see: impl Fn(K, Option<&T>) -> Option<T> + Send + Sync + 'static,
    ) -> Watched<T>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Projection,
    {
        let table: Arc<Table<T>> = Arc::default();
        let known = Arc::downgrade(&table);
        let with_earlier = move |object: K| {
            let place = (object.meta().namespace.as_deref(), object.meta().name.as_deref());
            let earlier = known.upgrade();
            let earlier = earlier.and_then(|known| known.get(place.0.unwrap_or_default(), place.1.unwrap_or_default()));
            see(object, earlier.as_deref())
        };
        self.start(watch.kind.clone().into_owned(), watch, table, with_earlier)
    }

    /// Returns what several controllers share, such as a watch. The first one that asks makes it.
    pub fn shared<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.shared.lock();
        let known = shared.get(&TypeId::of::<T>()).cloned().and_then(|known| known.downcast().ok());
        known.unwrap_or_else(|| {
            let new = Arc::new(make());
            shared.insert(TypeId::of::<T>(), Arc::clone(&new) as Arc<dyn Any + Send + Sync>);
            new
        })
    }

    fn start<K, T>(
        &self,
        name: String,
        watch: Watch<K>,
        table: Arc<Table<T>>,
        see: impl Fn(K) -> Option<T> + Send + Sync + 'static,
    ) -> Watched<T>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
        T: Projection,
    {
        let see = Arc::new(see);
        self.registry.add(name, watch.is_one_of_many, table.progress());
        self.absorb(&watch, &table, Arc::clone(&see));
        let task = tokio::spawn(keep(watch, Arc::clone(&table), move |object| see(object)));
        Watched::new(table, task.abort_handle())
    }

    fn absorb<K, T, See>(&self, watch: &Watch<K>, table: &Arc<Table<T>>, see: Arc<See>)
    where
        K: Resource + DeserializeOwned + 'static,
        T: Projection,
        See: Fn(K) -> Option<T> + Send + Sync + 'static,
    {
        let absorbing: Absorbing<K, T, See> =
            Absorbing { table: Arc::downgrade(table), selection: watch.selection(), see, kind: PhantomData };
        self.absorbing.lock().entry(watch.kind.clone()).or_default().push(Arc::new(absorbing));
    }

    /// Takes an object as it is after a write of this process.
    pub fn written(&self, object: &Value) {
        self.each_of_kind(object, |table| table.written(object));
    }

    /// Takes note that this process has deleted an object: `apiVersion`, `kind` and `metadata` with name, namespace and
    /// UID.
    pub fn deleted(&self, object: &Value) {
        self.each_of_kind(object, |table| table.deleted(object));
    }

    /// Calls a function with every table of an object's kind. Drops those for which it returns false.
    fn each_of_kind(&self, object: &Value, is_there: impl Fn(&dyn Absorb) -> bool) {
        let kind = json::text(object, &["kind"]);
        let all = self.absorbing.lock().get(kind).cloned().unwrap_or_default();
        let gone = all.iter().filter(|table| !is_there(&***table)).count();
        if gone > 0
            && let Some(kept) = self.absorbing.lock().get_mut(kind)
        {
            kept.retain(|table| table.is_there());
        }
    }

    /// Registers something else that a controller must see before the process is ready. It counts until the result is
    /// dropped.
    pub fn progress(&self, name: String) -> Progress {
        let progress = Progress::default();
        self.registry.add(name, false, &progress);
        progress
    }

    /// Registers something of which people are told, but which does not affect readiness. It counts until the result is
    /// dropped.
    pub fn remark(&self, name: String) -> Progress {
        let progress = Progress::default();
        self.registry.add(name, true, &progress);
        progress
    }

    /// Reports the watches that are incomplete or have failed.
    pub fn report(&self) -> Report {
        self.registry.report()
    }

    /// Returns the watches that have failed, each with the reason.
    pub fn failures(&self) -> Vec<String> {
        self.registry.failures()
    }
}

/// Returns the resource of a kind. The plurals of all kinds that controllers use are regular.
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Returns the whole object without `managedFields`. Sets `apiVersion` and `kind`, which the API server omits in lists.
pub fn whole(mut object: DynamicObject, api_version: &str, kind: &str) -> Value {
    object.metadata.managed_fields = None;
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
    }
    object
}
