//! Warnings about SidecarSets that ask for what the version of the cluster does not have (FIELD-4).

use pillion_admission::settings::Settings;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_sidecarset::newer::{Asked, Shortfall, shortfalls};

use super::Everything;
use crate::commands::check::subject::Subject;
use crate::report::{Finding, OptionalRule};

/// Returns warnings about the SidecarSets of the settings, and about those in files of their own or in the cluster, which
/// are rolled out, too.
pub(super) fn too_old(everything: &Everything<'_>, cluster: KubernetesVersion) -> Vec<Finding> {
    let Everything { settings, sets, .. } = *everything;
    let defaults = Settings::default();
    let of_settings = settings.iter().flat_map(|judged| {
        let asked = Asked { native_sidecars: judged.settings.native_sidecars, rollouts: None };
        judged.subjects.iter().flat_map(move |subject| warnings(subject, asked, cluster))
    });
    let mut all: Vec<&Settings> = settings.iter().map(|judged| &judged.settings).collect();
    if all.is_empty() {
        all.push(&defaults);
    }
    let beside = sets.iter().flat_map(|subject| {
        let mut found: Vec<Finding> = Vec::new();
        for settings in &all {
            let asked = Asked { native_sidecars: settings.native_sidecars, rollouts: Some(&settings.rollouts) };
            let is_known = |new: &Finding, found: &[Finding]| found.iter().any(|one| one.path == new.path);
            for finding in warnings(subject, asked, cluster) {
                if !is_known(&finding, &found) {
                    found.push(finding);
                }
            }
        }
        found
    });
    of_settings.chain(beside).collect()
}

fn warnings<'a>(
    subject: &'a Subject<'a>,
    asked: Asked<'_>,
    cluster: KubernetesVersion,
) -> impl Iterator<Item = Finding> + 'a {
    let warning = |Shortfall { path, message, remedy, .. }| {
        subject.spot.warning(&path, message, remedy).with_rule(OptionalRule::KubernetesVersion)
    };
    shortfalls(&subject.set, asked, cluster).into_iter().map(warning)
}
