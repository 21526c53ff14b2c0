//! Whether the Pods that a workload creates get the version, as dry runs show (ROLL-67).

use std::collections::BTreeMap;

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

use crate::pod::Pod;
use crate::target::RolloutTarget;

/// How long an answer counts, in seconds: that new Pods get the version, that they do not, and that it is not known.
const GETS: i64 = 300;
const LACKS: i64 = 600;
const UNKNOWN: i64 = 60;

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
    /// What is not known.
    unknown: Option<String>,
}

impl DryRuns {
    /// Forgets what is not about this version and this state of the SidecarSet, and what is too old.
    pub fn keep(&mut self, target: &RolloutTarget<'_>, object: &Value, now: Timestamp) {
        let generation = json::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
        // New Pods get the version of the bundle, which follows the SidecarSet in its own time.
        let strategy = target.version.spec(&["injectionStrategy"]).cloned().unwrap_or_default();
        let about = (target.hash().to_owned(), generation, strategy);
        if self.about != about {
            *self = Self { about, all: BTreeMap::new() };
        }
        self.all.retain(|_, noted| noted.until > now);
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
                let unknown =
                    format!("whether new Pods of {kind} \"{namespace}/{name}\" get SidecarSet \"{sidecar_set}\"");
                (Some(why), UNKNOWN, Some(unknown))
            }
        };
        let noted = Noted { until: Timestamp(now.0.saturating_add(lasts)), why, unknown: unknown.clone() };
        self.all.insert(owner.uid.clone(), noted);
        unknown
    }

    /// Whether new Pods of the workload of a Pod get the version; `None` if that must be asked.
    pub fn gets_version(&self, pod: &Pod) -> Option<bool> {
        Some(self.all.get(pod.owner_uid()?)?.why.is_none())
    }

    /// Returns what is not known.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.all.values().filter_map(|noted| noted.unknown.as_deref())
    }

    /// Returns the workloads whose new Pods do not get the version, each with the reason.
    pub fn not_injected(&self) -> BTreeMap<String, String> {
        let all = self.all.iter();
        all.filter_map(|(uid, noted)| Some((uid.clone(), noted.why.clone()?))).collect()
    }
}
