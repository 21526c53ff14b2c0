//! What the audit log says about the Pods of a namespace: every version that the API server stored, in order.

use std::collections::BTreeMap;

use crate::support::is_ready;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pillion_testenv::Cluster;
use serde_json::Value;

const CONTROLLER: &str = "system:serviceaccount:pillion-system:pillion-controller-rollout";

/// A version of a Pod that was stored.
pub struct Write {
    pub name: String,
    version: u64,
    /// Whether the request was for the status alone.
    is_status: bool,
    time: Timestamp,
    is_by_controller: bool,
    /// The Pod as it was stored; `None` if it was deleted.
    pub pod: Option<Value>,
}

/// A change of images by the controller.
#[derive(Clone, Debug)]
pub struct Upgrade {
    pub pod: String,
    /// Whether the Pod was available before the change.
    pub was_available: bool,
    /// The images before and after, by container.
    pub images: BTreeMap<String, (String, String)>,
    /// The Pods of the namespace that are not available after the change.
    pub unavailable: Vec<String>,
    /// The other Pods that were unavailable a second before, too, so that the controller knows it.
    pub known_unavailable: Vec<String>,
}

impl Upgrade {
    /// Whether a container gets this image.
    pub fn gives(&self, image: &str) -> bool {
        self.images.values().any(|(_, after)| after == image)
    }
}

/// Returns the writes to the Pods of a namespace, in the order in which they were stored.
pub fn writes(cluster: &Cluster, namespace: &str) -> Vec<Write> {
    let of_namespace = |event: &Value| {
        let object = &event["objectRef"];
        let is_stored = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
        object["resource"] == "pods" && object["namespace"] == namespace && is_stored
    };
    let write = |event: Value| {
        let name = event["objectRef"]["name"].as_str().or(event["responseObject"]["metadata"]["name"].as_str())?;
        let pod = &event["responseObject"];
        let is_deleted = event["verb"] == "delete";
        let version = pod["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        Some(Write {
            name: name.to_owned(),
            version: version?,
            is_status: event["objectRef"]["subresource"] == "status",
            time: event["stageTimestamp"].as_str()?.parse().ok()?,
            is_by_controller: event["user"]["username"] == CONTROLLER,
            pod: (!is_deleted && pod["metadata"]["deletionTimestamp"].is_null()).then(|| pod.clone()),
        })
    };
    let mut writes: Vec<Write> = cluster.audit_log().into_iter().filter(of_namespace).filter_map(write).collect();
    // An answer to a write that changes nothing has the version that is stored. Such writes are those of a status, and the
    // log may have them before the write that stored the version.
    writes.sort_by_key(|write| (write.version, write.is_status));
    writes.dedup_by(|later, earlier| later.version == earlier.version && later.name == earlier.name);
    writes
}

/// Returns the changes of images by the controller. Every image that changed must be that of an injected container, and
/// only the controller changes images.
pub fn upgrades(writes: &[Write]) -> Vec<Upgrade> {
    let mut pods = BTreeMap::<&str, &Value>::new();
    let mut unavailable_since = BTreeMap::<&str, Timestamp>::new();
    let mut upgrades = Vec::new();
    for write in writes {
        let Some(pod) = &write.pod else {
            pods.remove(write.name.as_str());
            unavailable_since.remove(write.name.as_str());
            continue;
        };
        let before = pods.insert(&write.name, pod);
        let images = before.map(|before| changed(before, pod)).unwrap_or_default();
        let was_available = before.is_some_and(is_available);
        if is_available(pod) {
            unavailable_since.remove(write.name.as_str());
        } else {
            unavailable_since.entry(&write.name).or_insert(write.time);
        }
        if images.is_empty() {
            continue;
        }
        assert!(write.is_by_controller, "somebody else changed {images:?} of {}", write.name);
        let unavailable = pods.iter().filter(|(_, pod)| !is_available(pod)).map(|(name, _)| (*name).to_owned());
        let is_known = |(name, since): &(&&str, &Timestamp)| {
            **name != write.name && write.time.duration_since(**since) >= SignedDuration::from_secs(1)
        };
        let known = unavailable_since.iter().filter(is_known).map(|(name, _)| (*name).to_owned());
        let (pod, unavailable, known_unavailable) = (write.name.clone(), unavailable.collect(), known.collect());
        upgrades.push(Upgrade { pod, was_available, images, unavailable, known_unavailable });
    }
    upgrades
}

/// Returns the largest number of Pods that `counts` at the same time.
pub fn most(writes: &[Write], counts: impl Fn(&Value) -> bool) -> usize {
    let mut pods = BTreeMap::<&str, bool>::new();
    let numbers = writes.iter().map(|write| {
        pods.insert(&write.name, write.pod.as_ref().is_some_and(&counts));
        pods.values().filter(|counted| **counted).count()
    });
    numbers.max().unwrap_or_default()
}

/// Returns the images before and after of the containers whose image differs. Nothing else of the spec may differ, except
/// for the resources of a Pod whose resize has begun.
fn changed(before: &Value, after: &Value) -> BTreeMap<String, (String, String)> {
    let (old, new) = (containers(before), containers(after));
    assert_eq!(old.len(), new.len());
    let is_resizing = before["metadata"]["annotations"].get("pillion.dev/sidecarset-resize-state").is_some();
    let mut images = BTreeMap::new();
    for (old, new) in old.iter().zip(new) {
        let (from, to) = (&old["image"], &new["image"]);
        if from != to {
            assert!(is_injected(new), "{new:#}");
            images.insert(text(&new["name"]), (text(from), text(to)));
        }
        let mut same = (*old).clone();
        same["image"] = to.clone();
        if is_resizing {
            same["resources"] = new["resources"].clone();
        }
        assert_eq!(same, *new, "more than the image has changed");
    }
    images
}

fn containers(pod: &Value) -> &[Value] {
    pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn is_injected(container: &Value) -> bool {
    let env = container["env"].as_array();
    env.is_some_and(|env| env.iter().any(|one| one["name"] == "IS_INJECTED" && one["value"] == "true"))
}

/// Whether a Pod is ready, and each injected container runs the image of the spec.
pub fn is_available(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let runs = |container: &Value| {
        statuses.iter().any(|status| status["name"] == container["name"] && status["image"] == container["image"])
    };
    is_ready(pod) && containers(pod).iter().filter(|container| is_injected(container)).all(runs)
}
