//! The metrics of the bundle, among them how long it takes until an edit of a SidecarSet takes effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::bundle::{BundlePlace, Verdict};
use pillion_runtime::metrics::Metrics;
use pillion_runtime::store::{Facets, Store, Subject};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;

use crate::pods::Pods;

/// How long to wait for the first Pod that is injected with a version.
const PATIENCE: Duration = Duration::from_hours(1);

/// The bundle in a ConfigMap: `pillion-system/pillion-bundle`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    config_map: String,
}

impl Of {
    fn at(at: &ConfigMapName) -> Self {
        Self { config_map: format!("{}/{}", at.namespace, at.name) }
    }
}

/// The metrics of the bundle. Clones share their values.
#[derive(Clone)]
pub(crate) struct BundleMetrics {
    delay: Histogram,
    first_injection: Histogram,
    bytes: Gauge,
    refused: Gauge,
    /// Has one value while there is a bundle to keep.
    correct: Family<Of, Gauge>,
    edits: Arc<Mutex<Edits>>,
}

/// Edits that have not taken effect yet.
#[derive(Default)]
struct Edits {
    /// The time of the first edit that is not in the bundle yet.
    edited: Option<Instant>,
    /// The hashes of the SidecarSets in the bundle, by name; `None` before the first plan.
    hashes: Option<BTreeMap<String, String>>,
    /// The versions in the bundle with which no Pod has been seen, as [`Subject::mark`], each with the time of its
    /// edit.
    awaited: BTreeMap<u64, Instant>,
}

impl BundleMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let delay = Histogram::new(exponential_buckets(0.05, 2.0, 14));
        let first_injection = Histogram::new(exponential_buckets(0.05, 2.0, 17));
        let (bytes, refused, correct) = (Gauge::default(), Gauge::default(), Family::default());
        metrics.register(|registry| {
            let help = "From a change of a SidecarSet until it is in the bundle";
            registry.register_with_unit("bundle_delay", help, Unit::Seconds, delay.clone());
            let help = "From a change of a SidecarSet until the first Pod is seen that was injected with it";
            registry.register_with_unit("first_injection_delay", help, Unit::Seconds, first_injection.clone());
            registry.register_with_unit("bundle", "The length of the bundle", Unit::Bytes, bytes.clone());
            let help =
                "SidecarSets that are left out of the bundle, or kept in it as they were, since they are not valid";
            registry.register("bundle_refused_sidecarsets", help, refused.clone());
            let help = "When the bundle was last seen or made correct, or the controller began to keep it, in seconds since 1970";
            registry.register_with_unit("bundle_correct_timestamp", help, Unit::Seconds, Family::clone(&correct));
        });
        Self { delay, first_injection, bytes, refused, correct, edits: Arc::default() }
    }

    /// Records that there is a bundle to keep. Its time begins now if it is not known.
    pub(crate) fn keeps(&self, at: &ConfigMapName, now: Timestamp) {
        let of = Of::at(at);
        if self.correct.get(&of).is_none() {
            self.correct.clear();
            self.correct.get_or_create(&of).set(now.0);
        }
    }

    /// Records that there is no bundle to keep.
    pub(crate) fn idle(&self) {
        self.correct.clear();
        self.bytes.set(0);
        self.refused.set(0);
    }

    /// Follows the edits of SidecarSets, and the versions with which Pods are injected.
    pub(crate) fn follow(&self, store: &Store, pods: &Pods) {
        let metrics = self.clone();
        store.sidecar_sets().subscribe(move |change| {
            if change.facets().contains(Facets::CONTENT) {
                metrics.edits().edited.get_or_insert_with(Instant::now);
            }
        });
        let metrics = self.clone();
        pods.table().subscribe(move |change| {
            if change.facets().contains(Facets::INJECTION)
                && let Some(pod) = &change.after
            {
                metrics.injected(&pod.subject);
            }
        });
    }

    /// Records that a Pod with these versions was seen.
    fn injected(&self, pod: &Subject) {
        let mut edits = self.edits();
        for mark in &pod.injected {
            if let Some(edited) = edits.awaited.remove(mark) {
                self.first_injection.observe(edited.elapsed().as_secs_f64());
            }
        }
    }

    /// Records that the bundle is correct and has this length in bytes; `is_written` tells whether it had to be written.
    pub(crate) fn written(
        &self,
        at: &ConfigMapName,
        verdicts: &[Verdict],
        length: usize,
        is_written: bool,
        now: Timestamp,
    ) {
        self.correct.get_or_create(&Of::at(at)).set(now.0);
        let refused = verdicts.iter().filter(|verdict| verdict.place != BundlePlace::In).count();
        self.bytes.set(i64::try_from(length).unwrap_or(i64::MAX));
        self.refused.set(i64::try_from(refused).unwrap_or(i64::MAX));
        let mut edits = self.edits();
        let edited = edits.edited.take();
        let hashes: BTreeMap<String, String> = verdicts
            .iter()
            .filter(|verdict| verdict.place != BundlePlace::Out)
            .map(|verdict| (verdict.name.clone(), verdict.hash.clone()))
            .collect();
        edits.awaited.retain(|_, since| since.elapsed() < PATIENCE);
        if let (Some(edited), true, Some(before)) = (edited, is_written, edits.hashes.take()) {
            self.delay.observe(edited.elapsed().as_secs_f64());
            let news = hashes.iter().filter(|(name, hash)| before.get(*name) != Some(*hash));
            edits.awaited.extend(news.map(|(name, hash)| (Subject::mark(name, hash), edited)));
        }
        edits.hashes = Some(hashes);
    }

    fn edits(&self) -> MutexGuard<'_, Edits> {
        self.edits.lock()
    }
}
