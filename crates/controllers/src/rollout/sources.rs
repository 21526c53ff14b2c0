//! What rollouts depend on besides SidecarSets and Pods: the bundle, and the stored revisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision as RevisionObject;
use k8s_openapi::api::core::v1::ConfigMap as ConfigMapObject;
use kube::Api;
use kube::api::ObjectMeta;
use parking_lot::Mutex;
use pillion_admission::settings::Settings;
use pillion_bundle::source::{BundleSource, ConfigMapName};
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::bundle::{belongs, stored};
use pillion_rollout::history::Revision;
use pillion_runtime::bundled;
use pillion_runtime::context::{Clock, Context};
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Watch, Watched};
use pillion_runtime::wakes::{Keys, Wakes};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::SidecarSetRollout;

/// The settings that decide which objects to watch. If they change, the watches start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchSettings {
    bundle: Option<ConfigMapName>,
    is_cached: bool,
    pub(super) system_namespace: String,
}

impl WatchSettings {
    pub(super) fn from_settings(settings: &Settings) -> Self {
        let BundleSource { config_map, is_cached, .. } = &settings.bundle_source;
        Self { bundle: config_map.clone(), is_cached: *is_cached, system_namespace: settings.system_namespace.clone() }
    }
}

/// A ConfigMap of the bundle: the whole object without `managedFields`.
struct ConfigMap(Arc<Value>);

impl Projection for ConfigMap {
    /// The time of the bundle is written again and again.
    fn differences(&self, next: &Self) -> Facets {
        if self.0.get("data") == next.0.get("data") { Facets::empty() } else { Facets::CONTENT }
    }
}

/// A ControllerRevision of a SidecarSet.
pub(super) struct StoredRevision(pub(super) Revision);

impl StoredRevision {
    fn from_object(revision: RevisionObject) -> Option<Self> {
        let metadata = ObjectMeta { managed_fields: None, ..revision.metadata };
        let object = serde_json::to_value(RevisionObject { metadata, ..revision }).ok()?;
        Some(Self(Revision::from_controller_revision(&ControllerRevision::decode(object).ok()?)))
    }
}

impl Projection for StoredRevision {
    fn differences(&self, next: &Self) -> Facets {
        if self.0 == next.0 { Facets::empty() } else { Facets::CONTENT }
    }

    fn groups(&self) -> BTreeSet<String> {
        self.0.head.label(names::SIDECAR_SET_NAME_LABEL).map(str::to_owned).into_iter().collect()
    }
}

/// The version of a SidecarSet that new Pods get.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Version {
    /// This one, with its defaults and hashes.
    Known(SidecarSet),
    /// This time passes before every policy server has the version in the bundle.
    Unsettled(Duration),
    /// None: the settings have a SidecarSet of this name, which is never rolled out.
    OfSettings,
    /// None: the bundle does not contain the SidecarSet.
    NotInBundle,
}

/// SidecarSets of the bundle by name, each with the time since when it is known.
type SidecarSets = Arc<BTreeMap<String, (SidecarSet, Timestamp)>>;

/// The watches. They end when this is dropped.
pub(super) struct Sources {
    pub(super) place: WatchSettings,
    config_maps: Option<Watched<ConfigMap>>,
    pub(super) revisions: Watched<StoredRevision>,
    clock: Clock,
    /// Whether policy servers may have a former bundle for a while. A preview shows what follows when that has passed.
    waits_for_caches: bool,
    /// The SidecarSets of the bundle, and the count of changes for which they were read.
    bundled: Mutex<Option<(u64, SidecarSets)>>,
}

impl Sources {
    /// Starts the watches. Changes wake the SidecarSets that they concern.
    pub(super) fn watch(context: &Context, place: WatchSettings, wakes: &Wakes<String>) -> Self {
        let (client, store, name) = (&context.client, &context.store, SidecarSetRollout::NAME);
        let config_maps = place.bundle.as_ref().map(|at| {
            let api = Api::<ConfigMapObject>::namespaced(client.clone(), &at.namespace);
            let index = at.name.clone();
            let of_bundle = move |map: ConfigMapObject| {
                let metadata = ObjectMeta { managed_fields: None, ..map.metadata };
                let is_it = metadata.name.as_ref().is_some_and(|name| belongs(&index, name));
                let map = ConfigMapObject { metadata, ..map };
                if is_it { serde_json::to_value(map).ok().map(|map| ConfigMap(Arc::new(map))) } else { None }
            };
            store.keep(name, Watch::new(api, "ConfigMap"), of_bundle)
        });
        let api = Api::<RevisionObject>::namespaced(client.clone(), &place.system_namespace);
        let watch = Watch::new(api, "ControllerRevision").label(names::SIDECAR_SET_NAME_LABEL, None);
        let revisions = store.keep(name, watch, StoredRevision::from_object);
        if let Some(maps) = &config_maps {
            wakes.on(maps, Facets::CONTENT, |_| Keys::All);
        }
        wakes.on(&revisions, Facets::CONTENT, |change| {
            let groups = change.before.iter().chain(&change.after).flat_map(|revision| revision.groups());
            Keys::Many(groups.collect())
        });
        let waits_for_caches = place.is_cached && context.recorder.is_none();
        let clock = context.clock.clone();
        Self { place, config_maps, revisions, clock, waits_for_caches, bundled: Mutex::default() }
    }

    /// Waits until everything was listed.
    pub(super) async fn listed(&self) {
        self.revisions.listed().await;
        if let Some(maps) = &self.config_maps {
            maps.listed().await;
        }
    }

    /// Returns the version of a SidecarSet of the cluster that new Pods get: that of the bundle, if its ConfigMap exists,
    /// otherwise `resource`, the custom resource.
    pub(super) fn version(&self, resource: &SidecarSet) -> Version {
        let Some(bundled) = self.bundled() else { return Version::Known(prepared(resource)) };
        let Some((set, since)) = bundled.get(resource.name()) else { return Version::NotInBundle };
        let left = bundled::unsettled(self.waits_for_caches, *since, self.clock.now());
        left.map_or_else(|| Version::Known(set.clone()), Version::Unsettled)
    }

    /// Whether there is a bundle.
    pub(super) fn has_bundle(&self) -> bool {
        self.bundled().is_some()
    }

    /// Returns the SidecarSets of the bundle; `None` if there is no bundle.
    fn bundled(&self) -> Option<SidecarSets> {
        let (maps, at) = (self.config_maps.as_ref()?, self.place.bundle.as_ref()?);
        maps.get(&at.namespace, &at.name)?;
        // The count first: a change in between is then seen as one more.
        let count = maps.count(Facets::CONTENT);
        let mut read = self.bundled.lock();
        if let Some((_, sets)) = read.as_ref().filter(|(known, _)| *known == count) {
            return Some(Arc::clone(sets));
        }
        let maps: Vec<Arc<Value>> = maps.all().iter().map(|map| Arc::clone(&map.0)).collect();
        let (now, before) = (self.clock.now(), read.take().map(|(_, sets)| sets).unwrap_or_default());
        let since = |set: &SidecarSet| {
            let known = before.get(set.name()).filter(|(known, _)| known.hash() == set.hash());
            known.map_or(now, |(_, since)| *since)
        };
        let named = |set: SidecarSet| {
            let since = since(&set);
            (set.name().to_owned(), (set, since))
        };
        let sets = Arc::new(stored(at, &maps).into_iter().map(named).collect::<BTreeMap<_, _>>());
        *read = Some((count, Arc::clone(&sets)));
        Some(sets)
    }
}

/// Returns the names of the SidecarSets of the settings; `None` if they cannot be read.
pub(super) fn of_settings(settings: &Settings) -> Option<BTreeSet<String>> {
    let sets = settings.all_sidecar_sets().ok()?;
    Some(sets.iter().map(|set| json::text(set.as_value(), &["metadata", "name"]).to_owned()).collect())
}
