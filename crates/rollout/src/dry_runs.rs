//! Whether the Pods that a workload creates get the version, as dry runs show (ROLL-67).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use crate::pod::Pod;
use crate::target::RolloutTarget;

/// How long an answer counts, in seconds: that new Pods get the version, and that they do not.
const GETS: i64 = 300;
const LACKS: i64 = 600;
/// How long to wait after a dry run that failed, in seconds: twice as long after each further failure, up to the longest.
const FIRST_RETRY: i64 = 2;
const LONGEST_RETRY: i64 = 60;

/// What a dry run shows about new Pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// They get the version.
    GetsVersion,
    /// They do not, for this reason.
    LacksVersion(String),
    /// It is not known whether they do, for this reason.
    Unknown(String),
}

/// The results, by UID of the workload. They are about one version, and one state of the SidecarSet.
#[derive(Debug, Default)]
pub struct DryRuns {
    about: (String, i64, Value),
    all: BTreeMap<String, Noted>,
}

#[derive(Debug)]
struct Noted {
    until: Timestamp,
    /// Why new Pods do not get the version, or are not known to; `None` if they get it.
    why: Option<String>,
    unknown: Option<Question>,
}

/// A question that the last dry run has not answered.
#[derive(Debug)]
struct Question {
    text: String,
    /// How long to wait until it is asked again, in seconds.
    wait: i64,
}

impl DryRuns {
    /// Forgets what is not about this version and this state of the SidecarSet, and answers that are too old.
    pub fn keep(&mut self, target: &RolloutTarget<'_>, object: &Value, now: Timestamp) {
        let generation = json::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
        // New Pods get the version of the bundle, which follows the SidecarSet in its own time.
        let strategy = target.version.spec(&["injectionStrategy"]).cloned().unwrap_or_default();
        let about = (target.hash().to_owned(), generation, strategy);
        if self.about != about {
            *self = Self { about, all: BTreeMap::new() };
        }
        self.all.retain(|_, noted| noted.until > now || noted.unknown.is_some());
    }

    /// Takes note of the result for the workload of a Pod. If it is not known whether new Pods get the version, returns
    /// the question, as people are told it.
    pub fn note(&mut self, sidecar_set: &str, pod: &Pod, result: &DryRun, now: Timestamp) -> Option<String> {
        let owner = pod.metadata.owner.as_deref()?;
        let (kind, namespace, name) = (&owner.kind, &pod.metadata.namespace, &owner.name);
        let (why, lasts, unknown) = match result {
            DryRun::GetsVersion => (None, GETS, None),
            DryRun::LacksVersion(why) => (Some(why.clone()), LACKS, None),
            DryRun::Unknown(problem) => {
                let why = format!("whether new Pods of its {kind} get the sidecar is not known: {problem}");
                let text =
                    format!("whether new Pods of {kind} \"{namespace}/{name}\" get SidecarSet \"{sidecar_set}\"");
                let before = self.all.get(&owner.uid).and_then(|noted| noted.unknown.as_ref());
                let wait = before.map_or(FIRST_RETRY, |before| before.wait.saturating_mul(2).min(LONGEST_RETRY));
                (Some(why), wait, Some(Question { text, wait }))
            }
        };
        let told = unknown.as_ref().map(|question| question.text.clone());
        let noted = Noted { until: Timestamp(now.0.saturating_add(lasts)), why, unknown };
        self.all.insert(owner.uid.clone(), noted);
        told
    }

    /// Whether new Pods of the workload of a Pod get the version; `None` if that must be asked.
    pub fn gets_version(&self, pod: &Pod) -> Option<bool> {
        Some(self.all.get(pod.owner_uid()?)?.why.is_none())
    }

    /// Returns the questions that dry runs have not answered.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.all.values().filter_map(|noted| Some(noted.unknown.as_ref()?.text.as_str()))
    }

    /// Returns the workloads, by UID, whose dry runs failed and are due again.
    pub fn due(&self, now: Timestamp) -> BTreeSet<String> {
        let due = self.all.iter().filter(|(_, noted)| noted.unknown.is_some() && noted.until <= now);
        due.map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns in how many seconds the next dry run that failed is due again, at least one; `None` if none failed.
    pub fn next_try(&self, now: Timestamp) -> Option<u64> {
        let failed = self.all.values().filter(|noted| noted.unknown.is_some());
        failed.map(|noted| u64::try_from(noted.until.0.saturating_sub(now.0)).unwrap_or_default().max(1)).min()
    }

    /// Forgets a workload.
    pub fn forget(&mut self, uid: &str) {
        self.all.remove(uid);
    }

    /// Returns the workloads whose new Pods do not get the version, each with the reason.
    pub fn not_injected(&self) -> BTreeMap<String, String> {
        let all = self.all.iter();
        all.filter_map(|(uid, noted)| Some((uid.clone(), noted.why.clone()?))).collect()
    }
}
