//! A Pod, or the Pods that a workload will create, reduced to the fields that decide about identities.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pillion_identity::{names, tokens};
use pillion_kubernetes::json;
use pillion_plan::pod_fields::{Container, PodSpec, Volume};
use pillion_sidecarset::names as stored;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::{Facets, Projection};
use super::kept::Kept;
use super::slim::Slim;

/// A Pod, or the Pods that a workload will create.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// `Pod`, `Deployment`, ...
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// A Pod with only the fields that decide about identities: labels, `serviceAccountName`,
    /// `automountServiceAccountToken`, and the volumes with further tokens, with the containers that mount them
    /// (TOK-0). Most Pods of a workload share one.
    pub pod: Kept,
    /// The Secrets with tokens of sidecars that the Pod mounts, ascending.
    pub token_secrets: Vec<String>,
    /// The versions of SidecarSets with which the Pod was injected according to its annotation, each as a
    /// [`Subject::mark`]. Empty for workloads.
    pub injected: Vec<u64>,
    /// Whether the Pod has terminated. Always false for workloads.
    pub is_finished: bool,
    /// A hash of what all other fields are made from, except the status. 0 for workloads.
    pub made_from: u64,
}

/// The keys of that hash. They differ between processes, so nobody can make two Pods that have the same.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Projection for Subject {
    fn differences(&self, next: &Self) -> Facets {
        let mut facets = Facets::empty();
        if self.made_from != 0 && self.made_from == next.made_from {
            facets.set(Facets::IDENTITY, self.is_finished != next.is_finished);
            return facets;
        }
        facets.set(
            Facets::IDENTITY,
            self.uid != next.uid
                || self.is_finished != next.is_finished
                || self.pod != next.pod
                || self.token_secrets != next.token_secrets,
        );
        facets.set(Facets::INJECTION, self.injected != next.injected);
        facets
    }
}

/// The fields that are read from a Pod.
pub type PodObject = Slim<PodSpec, PodStatus>;
/// The fields that are read from a workload.
pub type WorkloadObject = Slim<WorkloadSpec, NoStatus>;

/// The fields that are read from `status` of a Pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PodStatus {
    phase: Option<String>,
}

/// The status of a workload, of which nothing is read.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct NoStatus {}

/// The fields that are read from `spec` of a workload.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    template: Option<Template>,
    /// The template of a `CronJob`.
    job_template: Option<JobTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct JobTemplate {
    spec: Option<JobSpec>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct JobSpec {
    template: Option<Template>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Template {
    metadata: Option<ObjectMeta>,
    spec: Option<PodSpec>,
}

impl Subject {
    /// Returns the subject of a Pod. `earlier` is as in [`Self::of_parts`].
    pub fn of_pod(pod: &PodObject, earlier: Option<&Arc<Self>>) -> Arc<Self> {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        Self::of_parts(&pod.metadata, &pod.spec, phase.unwrap_or_default(), earlier)
    }

    /// Returns the subject of a Pod in this phase. `earlier` is that of an earlier version of the Pod, if it is known:
    /// statuses change all the time, and all else is only read again if it has changed.
    pub fn of_parts(metadata: &ObjectMeta, spec: &PodSpec, phase: &str, earlier: Option<&Arc<Self>>) -> Arc<Self> {
        let is_finished = matches!(phase, "Succeeded" | "Failed");
        let hashes = metadata.annotations.as_ref().and_then(|annotations| annotations.get(stored::HASH));
        let made_from =
            KEYS.hash_one((&metadata.uid, &metadata.namespace, &metadata.name, &metadata.labels, hashes, spec));
        if let Some(earlier) = earlier.filter(|earlier| earlier.made_from == made_from) {
            if earlier.is_finished == is_finished {
                return Arc::clone(earlier);
            }
            return Arc::new(Self { is_finished, ..Self::clone(earlier) });
        }
        let of_pod = Self::new("Pod", metadata, metadata.labels.as_ref(), spec);
        Arc::new(Self { injected: injected(hashes), is_finished, made_from, ..of_pod })
    }

    /// Returns a hash of a SidecarSet's name and hash that identifies the version in eight bytes. There may be many
    /// Pods, so the texts themselves would take too much memory.
    pub fn mark(sidecar_set: &str, hash: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (sidecar_set, hash).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns `None` for a workload that another workload controls: that one counts instead.
    pub(super) fn of_workload(kind: &'static str, workload: WorkloadObject) -> Option<Self> {
        let owners = workload.metadata.owner_references.as_deref().unwrap_or_default();
        if owners.iter().any(|owner| owner.controller == Some(true)) {
            return None;
        }
        let WorkloadSpec { template, job_template } = workload.spec;
        let template = template.or_else(|| job_template?.spec?.template)?;
        let labels = template.metadata.and_then(|metadata| metadata.labels);
        Some(Self::new(kind, &workload.metadata, labels.as_ref(), &template.spec.unwrap_or_default()))
    }

    fn new(
        kind: &'static str,
        metadata: &ObjectMeta,
        labels: Option<&BTreeMap<String, String>>,
        spec: &PodSpec,
    ) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let namespace = text(&metadata.namespace);
        let mut pod = json!({
            "metadata": {"namespace": namespace, "labels": labels.cloned().unwrap_or_default()},
            "spec": {
                "serviceAccountName": spec.service_account_name.as_deref().unwrap_or_default(),
                "automountServiceAccountToken": spec.automount_service_account_token
            }
        });
        if let (Some((containers, volumes)), Some(fields)) =
            (further_tokens(spec), pod.pointer_mut("/spec").and_then(Value::as_object_mut))
        {
            fields.insert("containers".to_owned(), containers);
            fields.insert("volumes".to_owned(), volumes);
        }
        let secrets = spec.volumes.iter().flatten().flat_map(Volume::secrets);
        let mut token_secrets: Vec<String> =
            secrets.filter(|name| name.starts_with(names::TOKEN_SECRET_PREFIX)).map(str::to_owned).collect();
        token_secrets.sort_unstable();
        token_secrets.dedup();
        let (name, uid) = (text(&metadata.name), text(&metadata.uid));
        Self {
            kind,
            namespace,
            name,
            uid,
            pod: Kept::from(&pod),
            token_secrets,
            injected: Vec::new(),
            is_finished: false,
            made_from: 0,
        }
    }
}

/// Returns the volumes that contain or may contain tokens of the Pod's account (E19), and the containers that use any
/// of them. Returns `None` for nearly every Pod: most have only the automounted volume, mounted at its usual path.
fn further_tokens(spec: &PodSpec) -> Option<(Value, Value)> {
    let volumes: Vec<&Volume> = spec.volumes.iter().flatten().filter(|volume| volume.may_hold_a_token()).collect();
    if volumes.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    let uses = |container: &&Container| {
        container.volume_mounts.iter().flatten().any(|mount| names.contains(mount.name.as_str()))
    };
    let mounting: Vec<&Container> =
        spec.init_containers.iter().chain(&spec.containers).flatten().filter(uses).collect();
    let pod = json!({"spec": {"containers": mounting, "volumes": volumes}});
    // The trusted drivers are a setting, which is not known here, so no driver is trusted.
    let trusted = pillion_identity::drivers::Drivers::new();
    let further = tokens::further_token(&pod, &tokens::Volumes::from_pod(&pod, &trusted), &BTreeSet::new());
    further.map(|_| (json!(mounting), json!(volumes)))
}

/// Reads a Pod's annotation of hashes, a JSON object keyed by names of SidecarSets.
fn injected(hashes: Option<&String>) -> Vec<u64> {
    let records: BTreeMap<String, Value> = hashes.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    records.iter().map(|(name, record)| Subject::mark(name, json::text(record, &["hash"]))).collect()
}
