//! The Pods of a restart, as the cluster has them.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::anyhow;
use pillion_cluster::{Kind, Refusal, Writer};
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::owner::recreates;
use pillion_rollout::pod::{Phase, Pod};
use pillion_rollout::restart::Member;
use pillion_rollout::target::Strategy;
use pillion_rollout::{order, scatter};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::Args;

/// The most namespaces whose Pods are listed one by one.
const FEW: usize = 8;
/// The annotation of the Pods of a kubelet's own manifests.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Which Pods a restart is about.
pub struct Scope<'a> {
    set: &'a SidecarSet,
    strategy: Strategy<'a>,
    /// The labels of the Pods, as kubectl takes them.
    labels: String,
    /// The namespaces of the Pods; `None` for all.
    namespaces: Option<BTreeSet<String>>,
    /// The hash of the version in force, if only Pods without it are restarted.
    pub hash: Option<String>,
}

/// The controller of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// A Pod that the SidecarSet selects.
pub struct Found {
    pub pod: Pod,
    pub controller: Option<Controller>,
    /// Why it is never evicted.
    why: Option<Why>,
}

/// Why a Pod is never evicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The SidecarSet was not injected.
    #[error("it has none of the sidecars")]
    NoSidecars,
    /// It is one of the kubelet's own.
    #[error("the kubelet runs it from a file of its node")]
    Mirror,
    /// It has no controller.
    #[error("it has no controller, so it would be lost")]
    Bare,
    /// Its controller does not create it anew.
    #[error("its {0} does not create it anew, or its work would be lost")]
    Controller(String),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod/{} in namespace {}", self.pod.metadata.name, self.pod.metadata.namespace)
    }
}

/// The Pods at one moment, in the order of the restart. Both lists have the same positions.
pub struct Scene {
    pub found: Vec<Found>,
    pub members: Vec<Member>,
}

impl Scene {
    /// Returns the number of Pods that the restart is for.
    pub fn due(&self) -> usize {
        self.members.iter().filter(|member| member.is_due && member.is_alive).count()
    }

    /// Returns the Pods that have the sidecars and are never evicted.
    pub fn skipped(&self) -> impl Iterator<Item = (&Found, &Why)> {
        let active = self.found.iter().filter(|found| found.pod.is_active());
        active.filter_map(|found| Some((found, found.why.as_ref().filter(|why| **why != Why::NoSidecars)?)))
    }

    /// Returns the number of Pods without the sidecars.
    pub fn without_sidecars(&self) -> usize {
        self.found.iter().filter(|found| found.pod.is_active() && found.why == Some(Why::NoSidecars)).count()
    }
}

impl<'a> Scope<'a> {
    /// Returns the scope of a restart. `set` is the decoded `object`. Given the namespace of the revisions, only outdated
    /// Pods are restarted.
    pub async fn read(
        args: &Args,
        writer: &Writer,
        set: &'a SidecarSet,
        object: &Value,
        system_namespace: Option<&str>,
    ) -> anyhow::Result<Self> {
        let none = Value::Null;
        let selector = Selector::parse(set.spec(&["selector"]).unwrap_or(&none))
            .map_err(|errors| anyhow!("SidecarSet {}: spec.selector: {}", args.sidecar_set.0, joined(&errors)))?;
        let labels = [selector.to_string(), args.selector.clone()];
        let labels: Vec<&str> = labels.iter().map(String::as_str).filter(|labels| !labels.is_empty()).collect();
        let hash = match system_namespace {
            Some(namespace) => Some(hash_in_force(writer, set, object, namespace).await?),
            None => None,
        };
        let namespaces = namespaces(args, writer, set).await?;
        Ok(Self {
            set,
            strategy: Strategy::from_sidecar_set(set.as_value()),
            labels: labels.join(","),
            namespaces,
            hash,
        })
    }

    /// Looks at the Pods. The restart is for those that were created before `time`.
    pub async fn look(&self, writer: &Writer, time: Timestamp) -> anyhow::Result<Scene> {
        const POD: Kind<'_> = Kind("v1", "Pod");
        let mut objects = Vec::new();
        match &self.namespaces {
            Some(few) if few.len() <= FEW => {
                for namespace in few {
                    objects.extend(writer.list(POD, Some(namespace), &self.labels).await?.unwrap_or_default());
                }
            }
            _ => objects = writer.list(POD, None, &self.labels).await?.unwrap_or_default(),
        }
        let mut found = Vec::new();
        for object in objects {
            let namespace = json::text(&object, &["metadata", "namespace"]);
            if self.namespaces.as_ref().is_none_or(|namespaces| namespaces.contains(namespace)) {
                found.push(self.found(&object)?);
            }
        }
        Ok(self.sorted(found, time))
    }

    fn found(&self, object: &Value) -> anyhow::Result<Found> {
        let name = || json::text(object, &["metadata", "name"]).to_owned();
        let pod = Pod::decode(object).map_err(|error| anyhow!("Pod {} cannot be read: {error}", name()))?;
        let owners = json::items(object, &["metadata", "ownerReferences"]).iter();
        let controller = owners.clone().find(|owner| json::flag(owner, &["controller"])).map(|owner| {
            let text = |key: &str| json::text(owner, &[key]).to_owned();
            Controller { api_version: text("apiVersion"), kind: text("kind"), name: text("name"), uid: text("uid") }
        });
        let is_injected = pod.injected().any(|name| name == self.set.name());
        let is_mirror = !pod.annotation(MIRROR).is_empty();
        let why = match &controller {
            _ if !is_injected => Some(Why::NoSidecars),
            _ if is_mirror => Some(Why::Mirror),
            None => Some(Why::Bare),
            Some(Controller { api_version, kind, .. }) if !recreates(api_version, kind) => {
                Some(Why::Controller(kind.clone()))
            }
            Some(_) => None,
        };
        Ok(Found { pod, controller, why })
    }

    /// Returns the Pods in the order of the restart: that of upgrades.
    fn sorted(&self, found: Vec<Found>, time: Timestamp) -> Scene {
        let pods: Vec<&Pod> = found.iter().map(|found| &found.pod).collect();
        let sorted = order::sort(&pods, &self.strategy.priority, (0..pods.len()).collect());
        let sorted = scatter::scatter(&self.strategy.scatter, &pods, sorted);
        let mut found: Vec<Option<Found>> = found.into_iter().map(Some).collect();
        let found: Vec<Found> = sorted.into_iter().filter_map(|position| found.get_mut(position)?.take()).collect();
        let members = found.iter().map(|found| self.member(found, time)).collect();
        Scene { found, members }
    }

    fn member(&self, found: &Found, time: Timestamp) -> Member {
        let Found { pod, controller, why } = found;
        let owner = controller.as_ref().filter(|one| recreates(&one.api_version, &one.kind));
        let is_old = pod.metadata.creation_timestamp.is_none_or(|created| created.0 < time);
        Member {
            uid: pod.metadata.uid.clone(),
            owner: owner.map(|owner| owner.uid.clone()),
            is_alive: pod.is_active(),
            is_ready: pod.is_active() && pod.state.phase == Phase::Running && pod.state.is_ready,
            is_due: why.is_none() && is_old && !self.has_version(pod),
        }
    }

    /// Whether a Pod need not be restarted, because only Pods without the version in force are.
    pub fn has_version(&self, pod: &Pod) -> bool {
        let Some(hash) = &self.hash else { return false };
        pod.records().get(self.set.name()).is_some_and(|record| record.hash == *hash)
    }
}

/// Returns the hash of the version in force. If the controller has seen the SidecarSet as it is, the status names the
/// revision; else, and without a status, it is the SidecarSet's own.
async fn hash_in_force(
    writer: &Writer,
    set: &SidecarSet,
    object: &Value,
    system_namespace: &str,
) -> anyhow::Result<String> {
    let number = |path: &[&str]| json::at(object, path).and_then(Value::as_i64);
    let is_seen = number(&["status", "observedGeneration"]) == number(&["metadata", "generation"]);
    let latest = json::text(object, &["status", "latestRevision"]);
    if !latest.is_empty() && is_seen {
        let kind = Kind("apps/v1", "ControllerRevision");
        let revision = writer.get(kind, Some(system_namespace), latest).await?;
        let hash = revision.map(|revision| json::text(&revision, &["metadata", "annotations", names::HASH]).to_owned());
        if let Some(hash) = hash.filter(|hash| !hash.is_empty()) {
            return Ok(hash);
        }
    }
    let none = || Refusal(format!("SidecarSet {} has no hash, so it is not known which Pods are outdated", set.name()));
    Some(set.hash()).filter(|hash| !hash.is_empty()).map(str::to_owned).ok_or_else(none).map_err(Into::into)
}

/// Returns the namespaces of the Pods; `None` for all.
async fn namespaces(args: &Args, writer: &Writer, set: &SidecarSet) -> anyhow::Result<Option<BTreeSet<String>>> {
    const NAMESPACE: Kind<'_> = Kind("v1", "Namespace");
    let Some(selector) = set.spec(&["namespaceSelector"]).filter(|selector| !selector.is_null()) else {
        return Ok(args.namespace.clone().map(|name| BTreeSet::from([name])));
    };
    let selector = Selector::parse(selector)
        .map_err(|errors| anyhow!("SidecarSet {}: spec.namespaceSelector: {}", args.sidecar_set.0, joined(&errors)))?;
    let is_selected = |namespace: &Value| selector.matches_labels(json::object(namespace, &["metadata", "labels"]));
    if let Some(name) = &args.namespace {
        let found = writer.get(NAMESPACE, None, name).await?;
        let found = found.ok_or_else(|| anyhow!("Namespace {name} does not exist in the cluster"))?;
        if !is_selected(&found) {
            return Err(Refusal(format!("SidecarSet {} does not select namespace {name}", args.sidecar_set.0)).into());
        }
        return Ok(Some(BTreeSet::from([name.clone()])));
    }
    let all = writer.list(NAMESPACE, None, "").await?.unwrap_or_default();
    let name = |namespace: &Value| json::text(namespace, &["metadata", "name"]).to_owned();
    Ok(Some(all.iter().filter(|namespace| is_selected(namespace)).map(name).collect()))
}
