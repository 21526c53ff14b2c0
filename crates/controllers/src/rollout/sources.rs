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
use pillion_bundle::Memo;
use pillion_bundle::config_map::{BUNDLE, SHARDS, checksum_in, shards};
use pillion_bundle::source::{BundleSource, ConfigMapName};
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::bundle::{belongs, current, stored};
use pillion_rollout::history::Revision;
use pillion_runtime::bundled;
use pillion_runtime::context::{Clock, Context};
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Change, Facets, Projection, Watch, Watched};
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
    /// The time of the bundle is written again and again, and the shards before are forgotten.
    fn differences(&self, next: &Self) -> Facets {
        let is_same = |key| json::at(&self.0, &["data", key]) == json::at(&next.0, &["data", key]);
        if [BUNDLE, SHARDS].into_iter().all(is_same) { Facets::empty() } else { Facets::CONTENT }
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
    memo: Arc<Memo>,
    bundled: Mutex<Option<ReadBundle>>,
}

/// The SidecarSets of the bundle, and what they were read from.
struct ReadBundle {
    /// The count of changes.
    count: u64,
    config_maps: Vec<Arc<Value>>,
    sets: SidecarSets,
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
        if let (Some(maps), Some(at)) = (&config_maps, &place.bundle) {
            wakes.on(maps, Facets::CONTENT, of_readers(at.name.clone()));
        }
        wakes.on(&revisions, Facets::CONTENT, |change| {
            let groups = change.before.iter().chain(&change.after).flat_map(|revision| revision.groups());
            Keys::Many(groups.collect())
        });
        let waits_for_caches = place.is_cached && context.recorder.is_none();
        let (clock, memo) = (context.clock.clone(), Arc::clone(&context.bundle_memo));
        Self { place, config_maps, revisions, clock, waits_for_caches, memo, bundled: Mutex::default() }
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
        let mut known = self.bundled.lock();
        if let Some(known) = known.as_ref().filter(|known| known.count == count) {
            return Some(Arc::clone(&known.sets));
        }
        let maps: Vec<Arc<Value>> = maps.all().iter().map(|map| Arc::clone(&map.0)).collect();
        let config_maps: Vec<Arc<Value>> = current(at, &maps).into_iter().map(Arc::clone).collect();
        let sets = match known.take() {
            Some(known) if known.config_maps.iter().map(Arc::as_ptr).eq(config_maps.iter().map(Arc::as_ptr)) => {
                known.sets
            }
            before => {
                let before = before.map(|before| before.sets).unwrap_or_default();
                Arc::new(self.dated(stored(at, &config_maps, &self.memo), &before))
            }
        };
        *known = Some(ReadBundle { count, config_maps, sets: Arc::clone(&sets) });
        Some(sets)
    }

    /// Returns these SidecarSets, each with the time since when its version is known.
    fn dated(
        &self,
        sets: Vec<SidecarSet>,
        before: &BTreeMap<String, (SidecarSet, Timestamp)>,
    ) -> BTreeMap<String, (SidecarSet, Timestamp)> {
        let now = self.clock.now();
        let since = |set: &SidecarSet| {
            let known = before.get(set.name()).filter(|(known, _)| known.hash() == set.hash());
            known.map_or(now, |(_, since)| *since)
        };
        let named = |set: SidecarSet| {
            let since = since(&set);
            (set.name().to_owned(), (set, since))
        };
        sets.into_iter().map(named).collect()
    }
}

/// Returns the keys to wake for each change of a ConfigMap of the bundle with this index: every key if readers of the
/// bundle see the change. A new bundle of many shards is a hundred writes, and the last one is that of the index.
fn of_readers(index: String) -> impl Fn(&Change<ConfigMap>) -> Keys<String> + Send + Sync + 'static {
    let named = Mutex::new(BTreeSet::new());
    move |change| {
        let mut named = named.lock();
        let is_seen = if let Some(checksum) = checksum_in(&change.name, &index) {
            named.contains(checksum)
        } else {
            let shards = change.after.as_ref().and_then(|index| shards(&index.0).ok()).unwrap_or_default();
            *named = shards.into_iter().map(str::to_owned).collect();
            true
        };
        if is_seen { Keys::All } else { Keys::None }
    }
}

/// Returns the names of the SidecarSets of the settings; `None` if they cannot be read.
pub(super) fn of_settings(settings: &Settings) -> Option<BTreeSet<String>> {
    let sets = settings.all_sidecar_sets().ok()?;
    Some(sets.iter().map(|set| json::text(set.as_value(), &["metadata", "name"]).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(name: &str, data: Option<Value>) -> Change<ConfigMap> {
        let after = data.map(|data| Arc::new(ConfigMap(Arc::new(json!({"data": data})))));
        Change { namespace: "pillion".to_owned(), name: name.to_owned(), before: None, after }
    }

    /// A new bundle is written shard by shard before its index, and the shards before are deleted after it.
    #[test]
    fn set1_only_changes_that_readers_of_the_bundle_see_wake_rollouts() {
        let [old, new] = ["a", "b"].map(|digit| digit.repeat(32));
        let (of_old, of_new) = (format!("sets-{old}"), format!("sets-{new}"));
        let keys = of_readers("sets".to_owned());
        assert_eq!(keys(&change("sets", Some(json!({"shards": old})))), Keys::All, "the index");
        assert_eq!(keys(&change(&of_new, Some(json!({"bundle": "text"})))), Keys::None, "no index names it");
        assert_eq!(keys(&change("sets", Some(json!({"shards": new})))), Keys::All, "the index names it");
        assert_eq!(keys(&change(&of_old, None)), Keys::None, "no index names it any more");
        assert_eq!(keys(&change(&of_new, None)), Keys::All, "somebody deletes a shard that readers need");
        assert_eq!(keys(&change(&of_new, Some(json!({"bundle": "text"})))), Keys::All, "it is there again");
    }
}
