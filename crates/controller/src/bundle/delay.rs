//! Measures how long it takes until an edit of a SidecarSet takes effect.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pillion_plan::bundle::{Place, Verdict};

use crate::context::Context;
use crate::watch::Subject;

/// How long to wait for the first Pod that is injected with a version.
const PATIENCE: Duration = Duration::from_hours(1);

/// Edits that have not taken effect yet.
#[derive(Default)]
pub(super) struct Delays {
    /// The time of the first edit that is not in the bundle yet.
    edited: Option<Instant>,
    /// The hashes of the SidecarSets in the bundle, by name; `None` before the first plan.
    hashes: Option<BTreeMap<String, String>>,
    /// The versions in the bundle with which no Pod has been seen, as [`Subject::mark`], each with the time of its
    /// edit.
    awaited: BTreeMap<u64, Instant>,
}

impl Delays {
    /// Records that a SidecarSet was edited now.
    pub(super) fn edited(&mut self) {
        self.edited.get_or_insert_with(Instant::now);
    }

    /// Records that the bundle is correct; `is_written` tells whether it had to be written.
    pub(super) fn written(&mut self, context: &Context, verdicts: &[Verdict], is_written: bool) {
        let edited = self.edited.take();
        let hashes: BTreeMap<String, String> = verdicts
            .iter()
            .filter(|verdict| verdict.place != Place::Out)
            .map(|verdict| (verdict.name.clone(), verdict.hash.clone()))
            .collect();
        self.awaited.retain(|_, since| since.elapsed() < PATIENCE);
        if let (Some(edited), true, Some(before)) = (edited, is_written, &self.hashes) {
            context.metrics.bundle_delay(edited.elapsed());
            let news = hashes.iter().filter(|(name, hash)| before.get(*name) != Some(*hash));
            self.awaited.extend(news.map(|(name, hash)| (Subject::mark(name, hash), edited)));
        }
        self.hashes = Some(hashes);
    }

    /// Checks the Pods of a namespace, or of all namespaces, for awaited versions.
    pub(super) fn look(&mut self, context: &Context, namespace: Option<&str>) {
        if self.awaited.is_empty() {
            return;
        }
        let pods = &context.cluster.pods;
        let pods = namespace.map_or_else(|| pods.all(), |namespace| pods.of(namespace));
        let seen: BTreeSet<u64> = pods.iter().flat_map(|pod| pod.injected.iter().copied()).collect();
        self.awaited.retain(|mark, edited| {
            let is_seen = seen.contains(mark);
            if is_seen {
                context.metrics.first_injection(edited.elapsed());
            }
            !is_seen
        });
    }
}
