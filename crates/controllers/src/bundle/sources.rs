//! The inputs of the bundle other than the SidecarSets.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision as RevisionObject;
use k8s_openapi::api::core::v1::ConfigMap as ConfigMapObject;
use kube::Api;
use pillion_admission::settings::Settings;
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::json;
use pillion_plan::bundle::belongs;
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Watch, Watched};
use pillion_runtime::wakes::{Keys, Wakes};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use serde_json::Value;

use super::BundleKeeper;

/// The settings that decide which objects to watch. If they change, the watches start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchSettings {
    pub(super) at: ConfigMapName,
    system_namespace: String,
    reads_whitelist: bool,
}

impl WatchSettings {
    /// Returns the place that the settings name, if they name one.
    pub(super) fn from_settings(settings: &Settings) -> Option<Self> {
        Some(Self {
            at: settings.bundle_source.config_map.clone()?,
            system_namespace: settings.system_namespace.clone(),
            reads_whitelist: settings.patch_pod_metadata_whitelist.is_none(),
        })
    }
}

/// A ConfigMap: the whole object without `managedFields`.
struct ConfigMap(Arc<Value>);

impl Projection for ConfigMap {
    fn differences(&self, next: &Self) -> Facets {
        if self.0 == next.0 { Facets::empty() } else { Facets::CONTENT }
    }
}

/// A ControllerRevision of a SidecarSet.
struct Revision {
    /// The revision without `data`.
    head: ControllerRevision,
    /// Its `data` as JSON text, which takes less memory than the value.
    data: Box<str>,
}

impl Revision {
    fn from_object(revision: RevisionObject) -> Option<Self> {
        let data = revision.data.map(|data| data.0).unwrap_or_default().to_string().into_boxed_str();
        let metadata = kube::api::ObjectMeta { managed_fields: None, ..revision.metadata };
        let head = RevisionObject { data: None, metadata, revision: revision.revision };
        let head = ControllerRevision::decode(serde_json::to_value(head).ok()?).ok()?;
        Some(Self { head, data })
    }

    /// Returns the revision with its `data`.
    fn whole(&self) -> Option<ControllerRevision> {
        let mut whole = self.head.as_value().clone();
        whole.as_object_mut()?.insert("data".to_owned(), serde_json::from_str(&self.data).ok()?);
        ControllerRevision::decode(whole).ok()
    }
}

impl Projection for Revision {
    fn differences(&self, next: &Self) -> Facets {
        let is_same = self.head.as_value() == next.head.as_value();
        if is_same { Facets::empty() } else { Facets::CONTENT }
    }
}

/// The parts of a SidecarSet that the bundle contains. The revision is one: Pods record with which they were injected
/// (INJ-6).
pub(super) const IN_BUNDLE: Facets = Facets::CONTENT.union(Facets::REVISION);

/// All inputs of a plan.
#[derive(Clone)]
pub(super) struct Inputs {
    pub(super) sidecar_sets: Vec<Arc<Value>>,
    pub(super) config_maps: Vec<Arc<Value>>,
    pub(super) whitelist: Option<Arc<Value>>,
    pub(super) settings: Arc<Settings>,
    /// Numbers that differ once what the bundle has of a SidecarSet, the whitelist or a revision has changed.
    versions: [u64; 3],
}

impl Inputs {
    /// Takes the ConfigMap as it is after a step, or removes it.
    pub(super) fn written(&mut self, name: &str, object: Option<Value>) {
        self.config_maps.retain(|known| json::text(known, &["metadata", "name"]) != name);
        self.config_maps.extend(object.map(Arc::new));
        self.config_maps
            .sort_by(|one, other| json::text(one, &["metadata", "name"]).cmp(json::text(other, &["metadata", "name"])));
    }
}

/// ConfigMaps are equal if their UIDs and resource versions are.
impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        fn versions(objects: &[Arc<Value>]) -> impl Iterator<Item = [&str; 2]> {
            objects.iter().map(|object| ["uid", "resourceVersion"].map(|key| json::text(object, &["metadata", key])))
        }
        Arc::ptr_eq(&self.settings, &other.settings)
            && self.versions == other.versions
            && versions(&self.config_maps).eq(versions(&other.config_maps))
    }
}

/// The watches of one bundle. They end when this is dropped.
pub(super) struct Sources {
    pub(super) place: WatchSettings,
    config_maps: Watched<ConfigMap>,
    revisions: Watched<Revision>,
    whitelist: Option<Watched<ConfigMap>>,
}

impl Sources {
    /// Starts the watches. Changes wake `key`.
    pub(super) fn watch<K: Clone + Send + Sync + 'static>(
        context: &Context,
        place: WatchSettings,
        wakes: &Wakes<K>,
        key: &K,
    ) -> Self {
        let (client, store, name) = (&context.client, &context.store, BundleKeeper::NAME);
        let api = Api::<ConfigMapObject>::namespaced(client.clone(), &place.at.namespace);
        let index = place.at.name.clone();
        let of_bundle = move |map: ConfigMapObject| {
            let is_it = map.metadata.name.as_ref().is_some_and(|name| belongs(&index, name));
            if is_it { value(map) } else { None }
        };
        let config_maps = store.keep(name, Watch::new(api, "ConfigMap"), of_bundle);
        let whitelist = place.reads_whitelist.then(|| {
            let api = Api::<ConfigMapObject>::namespaced(client.clone(), &place.system_namespace);
            let watch = Watch::new(api, "ConfigMap").field("metadata.name", names::WHITELIST_CONFIG_MAP);
            store.keep(name, watch, value)
        });
        let api = Api::<RevisionObject>::namespaced(client.clone(), &place.system_namespace);
        let watch = Watch::new(api, "ControllerRevision").label(names::SIDECAR_SET_NAME_LABEL, None);
        let revisions = store.keep(name, watch, Revision::from_object);

        let always = |key: &K| {
            let key = key.clone();
            move || Keys::One(key.clone())
        };
        for maps in std::iter::once(&config_maps).chain(&whitelist) {
            let wake = always(key);
            wakes.on(maps, Facets::CONTENT, move |_| wake());
        }
        let wake = always(key);
        wakes.on(&revisions, Facets::CONTENT, move |_| wake());
        Self { place, config_maps, revisions, whitelist }
    }

    /// Waits until everything was listed.
    pub(super) async fn listed(&self) {
        self.config_maps.listed().await;
        self.revisions.listed().await;
        if let Some(whitelist) = &self.whitelist {
            whitelist.listed().await;
        }
    }

    /// Returns one of the ConfigMaps.
    pub(super) fn config_map(&self, name: &str) -> Option<Arc<Value>> {
        self.config_maps.get(&self.place.at.namespace, name).map(|map| Arc::clone(&map.0))
    }

    /// Returns the current inputs.
    pub(super) fn inputs(&self, context: &Context) -> Inputs {
        let sidecar_sets = context.store.sidecar_sets();
        let whitelist = self.whitelist.as_ref();
        // The numbers first: a change in between is then seen as one more.
        let versions = [
            sidecar_sets.count(IN_BUNDLE),
            whitelist.map_or(0, |whitelist| whitelist.count(Facets::CONTENT)),
            self.revisions.count(Facets::CONTENT),
        ];
        Inputs {
            sidecar_sets: sidecar_sets.all().iter().map(|set| Arc::clone(&set.0)).collect(),
            config_maps: self.config_maps.all().iter().map(|map| Arc::clone(&map.0)).collect(),
            whitelist: whitelist.and_then(|whitelist| Some(Arc::clone(&whitelist.all().first()?.0))),
            settings: context.settings(),
            versions,
        }
    }

    /// Returns the ControllerRevisions without their data.
    pub(super) fn revisions(&self) -> Vec<ControllerRevision> {
        self.revisions.all().iter().map(|revision| revision.head.clone()).collect()
    }

    /// Returns the ControllerRevisions; those in `wanted` have their data.
    pub(super) fn revisions_with_data(&self, wanted: &[String]) -> Vec<ControllerRevision> {
        let is_wanted = |revision: &Revision| wanted.iter().any(|name| name == revision.head.name());
        let all = self.revisions.all();
        let revision = |revision: &Arc<Revision>| {
            if is_wanted(revision) { revision.whole() } else { Some(revision.head.clone()) }
        };
        all.iter().filter_map(revision).collect()
    }
}

fn value(map: ConfigMapObject) -> Option<ConfigMap> {
    let metadata = kube::api::ObjectMeta { managed_fields: None, ..map.metadata };
    serde_json::to_value(ConfigMapObject { metadata, ..map }).ok().map(|map| ConfigMap(Arc::new(map)))
}
