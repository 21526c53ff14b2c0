//! The ConfigMaps of `bundleRef`, with only those SidecarSets that match the Pod of a request.
//!
//! The module looks a ConfigMap up and decides whether it may use it: whether it is there, how old it is, whether a shard
//! fits its index. The server only shortens the bundle in the answer. It reads each version of a ConfigMap once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pillion_bundle::catalog::Catalog;
use pillion_bundle::config_map::{self, BUNDLE};
use pillion_bundle::source::ConfigMapName;
use pillion_host::{AccessRequest, Cluster, ClusterError, ListRequest, ResourceRequest};
use serde_json::Value;

use super::known::Known;
use crate::subject::NewPod;

/// The ConfigMaps that requests have read.
pub(super) struct Maps {
    at: ConfigMapName,
    read: Mutex<HashMap<String, Arc<Map>>>,
}

/// A version of a ConfigMap.
struct Map {
    bytes: Arc<[u8]>,
    /// `None` if the ConfigMap has no bundle that can be read.
    parsed: Option<Parsed>,
}

struct Parsed {
    object: Value,
    catalog: Catalog,
    /// The shortened ConfigMap, by the indices of its SidecarSets.
    known: Known<Arc<[u8]>>,
}

impl Maps {
    pub(super) fn new(at: ConfigMapName) -> Self {
        Self { at, read: Mutex::default() }
    }

    pub(super) fn at(&self) -> &ConfigMapName {
        &self.at
    }

    /// Whether this is the ConfigMap of `bundleRef`, or may be one of its shards.
    fn has(&self, resource: &ResourceRequest) -> bool {
        let ResourceRequest { api_version, kind, name, namespace, field_masks, .. } = resource;
        let is_named = name.strip_prefix(&self.at.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let is_here = namespace.as_ref() == Some(&self.at.namespace);
        is_named && is_here && api_version == "v1" && kind == "ConfigMap" && field_masks.is_none()
    }

    /// Returns a ConfigMap with those SidecarSets of its bundle that match the Pod. Returns it as it is if it has no
    /// bundle that can be read: the module says what is wrong with it.
    fn shortened(&self, name: &str, bytes: Arc<[u8]>, pod: &NewPod) -> Arc<[u8]> {
        let map = self.map(name, &bytes);
        map.parsed.as_ref().and_then(|parsed| parsed.for_pod(pod)).unwrap_or(bytes)
    }

    fn map(&self, name: &str, bytes: &Arc<[u8]>) -> Arc<Map> {
        if let Some(map) = self.lock().get(name).filter(|map| Arc::ptr_eq(&map.bytes, bytes) || map.bytes == *bytes) {
            return Arc::clone(map);
        }
        let map = Arc::new(Map { bytes: Arc::clone(bytes), parsed: Parsed::parse(bytes) });
        let mut read = self.lock();
        // Each content of a shard has its own name.
        if let Some(index) = map.parsed.as_ref().filter(|_| name == self.at.name) {
            let kept: HashSet<&str> = config_map::kept_shards(&index.object).collect();
            read.retain(|name, _| config_map::checksum_in(name, &self.at.name).is_some_and(|it| kept.contains(it)));
        }
        read.insert(name.to_owned(), Arc::clone(&map));
        map
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Map>>> {
        self.read.lock()
    }
}

impl Parsed {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let object: Value = serde_json::from_slice(bytes).ok()?;
        let text = String::from_utf8(config_map::text_of(&object).ok()?.to_vec()).ok()?;
        Some(Self { catalog: Catalog::read(text).ok()?, object, known: Known::default() })
    }

    fn for_pod(&self, pod: &NewPod) -> Option<Arc<[u8]>> {
        let sets = self.catalog.matching(&pod.namespace, pod.labels.as_ref());
        self.known.get_or_make(sets, |sets| {
            let mut object = self.object.clone();
            *object.get_mut("data")?.get_mut(BUNDLE)? = self.catalog.bundle_of(sets).ok()?.into();
            serde_json::to_vec(&object).ok().map(Arc::from)
        })
    }
}

/// The cluster as the creation of one Pod sees it.
pub(super) struct Shortened {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) maps: Arc<Maps>,
    pub(super) pod: Arc<NewPod>,
}

impl Cluster for Shortened {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        if !self.maps.has(resource) {
            return self.cluster.get(resource);
        }
        let bytes = match self.cluster.get_at_once(resource) {
            Some(known) => known?,
            None => self.cluster.get(resource)?.into(),
        };
        Ok(self.maps.shortened(&resource.name, bytes, &self.pod).to_vec())
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.cluster.list(request)
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.cluster.can_i(request)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pillion_kubernetes::time::Timestamp;
    use pillion_sidecarset::sidecar_set::SidecarSet;
    use serde_json::json;

    use super::*;

    fn set(name: &str, namespace: &str, image: &str) -> SidecarSet {
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        SidecarSet::from_decoded(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"namespaceSelector": selector, "selector": {}, "containers": [{"name": "a", "image": image}]},
        }))
    }

    #[test]
    fn shards_that_no_index_names_are_forgotten() {
        let at = ConfigMapName { namespace: "pillion-system".to_owned(), name: "sets".to_owned() };
        let maps = Maps::new(at.clone());
        let read = |image: &str| {
            let sets = [set("here", "here", image), set("there", "there", "i:1"), set("away", "away", "i:1")];
            let max = pillion_bundle::write(&sets).len() - 1;
            let mut written = config_map::write(&at, &sets, Timestamp(0), max).unwrap();
            written.reverse();
            let mut names = BTreeSet::new();
            for object in written {
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                maps.map(&name, &serde_json::to_vec(&object).unwrap().into());
                names.insert(name);
            }
            names
        };
        let (first, second) = (read("i:1"), read("i:2"));
        assert!(first != second && first.intersection(&second).count() > 1);
        assert_eq!(maps.lock().keys().cloned().collect::<BTreeSet<_>>(), second);
    }
}
