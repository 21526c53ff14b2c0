//! The record of evictions: the workloads that have not replaced evicted Pods yet (ROLL-66).
//!
//! An evicted Pod vanishes, and its replacement appears in its own time, so Pods alone do not tell how many are missing.
//! The record says how many Pods each workload should have. It is written into the ControllerRevision before the first
//! eviction that it covers. A process that starts anew reads it, so it knows about each eviction of the one before it.

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_plan::Step;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::history::Revision;
use crate::pod::Pod;

/// The annotation of a ControllerRevision with the record.
pub const EVICTED: &str = "pillion.dev/evicted";
/// The most workloads in a record. The annotations of an object have 256 KiB.
const MOST: usize = 400;

/// The workloads from which Pods were evicted, by UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Evicted(BTreeMap<String, Workload>);

/// A workload that creates evicted Pods anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// `apps/v1`, ...
    pub api_version: String,
    /// `ReplicaSet`, ...
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many Pods it should have.
    pub pods: usize,
}

impl Evicted {
    /// Returns what the revisions of a SidecarSet record, together. A record that cannot be read is empty.
    pub fn from_revisions<'a>(revisions: impl IntoIterator<Item = &'a Revision>) -> Self {
        let mut all = Self::default();
        for revision in revisions {
            let read: Self = serde_json::from_str(revision.head.annotation(EVICTED)).unwrap_or_default();
            for (uid, workload) in read.0 {
                let known = all.0.entry(uid).or_insert_with(|| workload.clone());
                known.pods = known.pods.max(workload.pods);
            }
        }
        all
    }

    /// Returns the workloads that have fewer Pods than they should, each with its UID and the number of missing Pods.
    /// `active` returns how many Pods the workload with a UID has.
    pub fn missing<'a>(
        &'a self,
        active: impl Fn(&str) -> usize + 'a,
    ) -> impl Iterator<Item = (&'a str, &'a Workload, usize)> {
        self.0.iter().filter_map(move |(uid, workload)| {
            let missing = workload.pods.saturating_sub(active(uid));
            (missing > 0).then_some((uid.as_str(), workload, missing))
        })
    }

    /// Leaves out the workloads that have all their Pods.
    pub fn prune(&mut self, active: impl Fn(&str) -> usize) {
        self.0.retain(|uid, workload| workload.pods > active(uid));
    }

    /// Takes note that a workload should not have more Pods than this: it was scaled down, or is gone.
    pub fn lower(&mut self, uid: &str, wanted: usize) {
        if let Some(workload) = self.0.get_mut(uid) {
            workload.pods = workload.pods.min(wanted);
        }
    }

    /// Takes note that a Pod will be evicted from its workload, which has `active` Pods now. Returns false if the record
    /// is full, or if the Pod has no workload: then it must not be evicted.
    pub fn add(&mut self, pod: &Pod, active: usize) -> bool {
        let Some(owner) = pod.metadata.owner.as_deref() else { return false };
        if self.0.len() >= MOST && !self.0.contains_key(&owner.uid) {
            return false;
        }
        let workload = self.0.entry(owner.uid.clone()).or_insert_with(|| Workload {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: pod.metadata.namespace.clone(),
            name: owner.name.clone(),
            pods: active,
        });
        workload.pods = workload.pods.max(active);
        true
    }

    /// Returns the steps that make this the record of a SidecarSet: first into the latest revision, then out of the
    /// others.
    pub fn steps<'a>(&self, latest: &str, revisions: impl IntoIterator<Item = &'a Revision>) -> Vec<Step> {
        let text = if self.0.is_empty() { None } else { serde_json::to_string(self).ok() };
        let (newest, others): (Vec<&Revision>, Vec<&Revision>) =
            revisions.into_iter().partition(|revision| revision.name() == latest);
        let stored = |revision: &Revision| revision.head.annotation(EVICTED).to_owned();
        let written = newest.into_iter().filter(|revision| stored(revision) != text.as_deref().unwrap_or_default());
        let written = written.map(|revision| revision.annotate(EVICTED, text.as_deref()));
        let removed = others.into_iter().filter(|revision| !stored(revision).is_empty());
        written.chain(removed.map(|revision| revision.annotate(EVICTED, None))).collect()
    }
}

/// Returns how many Pods a workload wants: the number in its `spec`, or for a `DaemonSet` the number of nodes. A workload that
/// is being deleted wants none. Returns `None` if that is not known yet.
pub fn wanted(workload: &Value) -> Option<usize> {
    if json::is_terminating(workload) {
        return Some(0);
    }
    let number = |path: &[&str]| json::at(workload, path).and_then(Value::as_u64);
    let wanted = match json::text(workload, &["kind"]) {
        "DaemonSet" => number(&["status", "desiredNumberScheduled"])?,
        _ => number(&["spec", "replicas"]).unwrap_or(1),
    };
    usize::try_from(wanted).ok()
}
