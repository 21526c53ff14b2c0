//! The inputs of the bundle other than the SidecarSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision as RevisionObject;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pillion_admission::settings::Settings;
use pillion_kubernetes::json;
use pillion_plan::bundle::belongs;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use serde_json::Value;

use super::written::Written;
use super::{CONTROLLER, Failure, Where};
use crate::context::Context;
use crate::watch::{Own, Watch};
use crate::write::WriteProblem;

/// The kinds that this module watches, as named in changes.
pub(super) const CONFIG_MAP: &str = "ConfigMap";
pub(super) const REVISION: &str = "ControllerRevision";

/// All inputs of a plan.
#[derive(Clone)]
pub(super) struct Inputs {
    pub(super) sidecar_sets: Vec<Arc<Value>>,
    pub(super) config_maps: Vec<Arc<Value>>,
    pub(super) whitelist: Option<Arc<Value>>,
    pub(super) settings: Arc<Settings>,
    revisions: Vec<Arc<ControllerRevision>>,
}

impl Inputs {
    /// Returns the ControllerRevisions, without `data`.
    pub(super) fn revisions(&self) -> Vec<ControllerRevision> {
        self.revisions.iter().map(|revision| ControllerRevision::clone(revision)).collect()
    }
}

/// Objects are equal if their UIDs and resource versions are.
impl PartialEq for Inputs {
    fn eq(&self, other: &Self) -> bool {
        fn version(object: &Value) -> [&str; 2] {
            ["uid", "resourceVersion"].map(|key| json::text(object, &["metadata", key]))
        }
        let are_same = |one: &[Arc<Value>], other: &[Arc<Value>]| {
            one.iter().map(|object| version(object)).eq(other.iter().map(|object| version(object)))
        };
        Arc::ptr_eq(&self.settings, &other.settings)
            && are_same(&self.sidecar_sets, &other.sidecar_sets)
            && are_same(&self.config_maps, &other.config_maps)
            && self.whitelist.as_deref().map(version) == other.whitelist.as_deref().map(version)
            && self
                .revisions
                .iter()
                .map(|revision| version(revision.as_value()))
                .eq(other.revisions.iter().map(|revision| version(revision.as_value())))
    }
}

/// The watches of one bundle. They end when this is dropped.
pub(super) struct Sources {
    namespace: String,
    config_maps: Own<Value>,
    revisions: Own<ControllerRevision>,
    whitelist: Option<Own<Value>>,
    api: Api<RevisionObject>,
    /// The data of the ControllerRevisions that some SidecarSet asks for, by UID. The data of a revision never changes.
    data: BTreeMap<String, Value>,
}

impl Sources {
    pub(super) fn watch(context: &Context, place: &Where) -> Self {
        let (client, cluster) = (&context.client, &context.cluster);
        let api = Api::<ConfigMap>::namespaced(client.clone(), &place.at.namespace);
        let index = place.at.name.clone();
        let of_bundle = move |map: ConfigMap| {
            let is_it = map.metadata.name.as_ref().is_some_and(|name| belongs(&index, name));
            if is_it { value(map) } else { None }
        };
        let config_maps = cluster.keep(CONTROLLER, Watch::new(api, CONFIG_MAP), of_bundle);

        let whitelist = place.reads_whitelist.then(|| {
            let api = Api::<ConfigMap>::namespaced(client.clone(), &place.system_namespace);
            let selector = format!("metadata.name={}", names::WHITELIST_CONFIG_MAP);
            cluster.keep(CONTROLLER, Watch::new(api, CONFIG_MAP).fields(&selector), value)
        });

        let api = Api::<RevisionObject>::namespaced(client.clone(), &place.system_namespace);
        let head = |revision: RevisionObject| {
            let metadata = kube::api::ObjectMeta { managed_fields: None, ..revision.metadata };
            let head = RevisionObject { data: None, metadata, revision: revision.revision };
            ControllerRevision::decode(serde_json::to_value(head).ok()?).ok()
        };
        let watch = Watch::new(api.clone(), REVISION).labels(names::SIDECAR_SET_NAME_LABEL);
        let revisions = cluster.keep(CONTROLLER, watch, head);

        let namespace = place.at.namespace.clone();
        Self { namespace, config_maps, revisions, whitelist, api, data: BTreeMap::new() }
    }

    /// Waits until everything was listed.
    pub(super) async fn listed(&self) {
        self.config_maps.listed().await;
        self.revisions.listed().await;
        if let Some(whitelist) = &self.whitelist {
            whitelist.listed().await;
        }
    }

    /// Returns one of the ConfigMaps as the watch has shown it.
    pub(super) fn config_map(&self, name: &str) -> Option<Arc<Value>> {
        self.config_maps.get(&self.namespace, name)
    }

    /// Returns the current inputs.
    pub(super) fn inputs(&self, context: &Context, settings: &Arc<Settings>, written: &mut Written) -> Inputs {
        Inputs {
            sidecar_sets: context.cluster.sidecar_sets.all(),
            config_maps: written.over(self.config_maps.all()),
            whitelist: self.whitelist.as_ref().and_then(|whitelist| whitelist.all().into_iter().next()),
            settings: Arc::clone(settings),
            revisions: self.revisions.all(),
        }
    }

    /// Returns the ControllerRevisions, those in `wanted` with their data. A wanted revision that is gone is left out.
    pub(super) async fn with_data(
        &mut self,
        inputs: &Inputs,
        wanted: &[String],
    ) -> Result<Vec<ControllerRevision>, Failure> {
        let mut revisions = Vec::with_capacity(inputs.revisions.len());
        let mut used = BTreeMap::new();
        for head in &inputs.revisions {
            if !wanted.iter().any(|name| name == head.name()) {
                revisions.push(ControllerRevision::clone(head));
                continue;
            }
            let uid = json::text(head.as_value(), &["metadata", "uid"]);
            let data = match self.data.remove(uid) {
                Some(data) => Some(data),
                None => self.read(head.name(), uid).await?,
            };
            let Some(data) = data else { continue };
            let mut whole = head.as_value().clone();
            if let Some(whole) = whole.as_object_mut() {
                whole.insert("data".to_owned(), data.clone());
            }
            used.insert(uid.to_owned(), data);
            revisions.extend(ControllerRevision::decode(whole));
        }
        self.data = used;
        Ok(revisions)
    }

    async fn read(&self, name: &str, uid: &str) -> Result<Option<Value>, Failure> {
        let problem = match self.api.get_opt(name).await {
            Ok(found) => {
                let found = found.filter(|found| found.metadata.uid.as_deref() == Some(uid));
                return Ok(found.map(|found| found.data.map(|data| data.0).unwrap_or_default()));
            }
            Err(error) => WriteProblem::of(&error),
        };
        Err(Failure::Revision { name: name.to_owned(), problem })
    }
}

fn value(map: ConfigMap) -> Option<Value> {
    let metadata = kube::api::ObjectMeta { managed_fields: None, ..map.metadata };
    serde_json::to_value(ConfigMap { metadata, ..map }).ok()
}
