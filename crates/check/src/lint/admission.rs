//! Warnings of admission, with their places.

use pillion_documents::manifest::Manifest;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode};
use pillion_sidecarset::upgrades::RolloutSettings;
use pillion_sidecarset::warnings::{Rule, Warning, Written, about_values};

use crate::report::Finding;
use crate::settings::Judged;
use crate::subject::Subject;

/// Returns warnings about the values of a `SidecarSet` of settings. It is never updated nor rolled out there.
pub(super) fn in_settings<'a>(judged: &'a Judged<'_>) -> impl Iterator<Item = Finding> + 'a {
    judged.subjects.iter().flat_map(|subject| values(subject, None, &[], std::slice::from_ref(judged)))
}

/// Returns warnings about the values of a `SidecarSet` in a file of its own, as an update of the one in `before`.
pub(super) fn of_cluster(subject: &Subject<'_>, before: &[Manifest], settings: &[Judged<'_>]) -> Vec<Finding> {
    let mut rollouts: Vec<RolloutSettings> = settings.iter().map(|judged| judged.settings.rollouts.clone()).collect();
    if rollouts.is_empty() {
        rollouts.push(RolloutSettings::default());
    }
    values(subject, earlier(subject, before).as_ref(), &rollouts, settings)
}

fn values(
    subject: &Subject<'_>,
    old: Option<&SidecarSet>,
    rollouts: &[RolloutSettings],
    settings: &[Judged<'_>],
) -> Vec<Finding> {
    let written = Written { object: subject.written.object(), version: subject.written.version(), old, rollouts };
    let is_early = !settings.is_empty() && settings.iter().all(come_before_openkruise);
    let is_meant = |warning: &&Warning| !is_early || warning.rule != Rule::LaunchPriority;
    about_values(&written).iter().filter(is_meant).map(|warning| subject.spot.admission_warning(warning)).collect()
}

/// Whether these are settings of a policy whose webhook configuration, `clusterwide-…`, sorts before OpenKruise's. The
/// module does not know whether Kubewarden or `pillion serve` runs it (WARN-8).
fn come_before_openkruise(judged: &Judged<'_>) -> bool {
    judged.are_of_policy() && json::text(&judged.spot.manifest.value, &["kind"]).starts_with("ClusterAdmissionPolicy")
}

/// Returns the `SidecarSet` of the same name among existing objects, in either version.
fn earlier(subject: &Subject<'_>, before: &[Manifest]) -> Option<SidecarSet> {
    let is_it = |old: &&Manifest| {
        json::text(&old.value, &["kind"]) == "SidecarSet"
            && json::text(&old.value, &["metadata", "name"]) == subject.spot.sidecar_set
    };
    before.iter().filter(is_it).find_map(|old| decode(old.value.clone()).ok()).map(Decoded::into_sidecar_set)
}
