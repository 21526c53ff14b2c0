//! Warnings about SidecarSets that ask for what the version of the cluster does not have (FIELD-4).

use std::collections::BTreeSet;

use pillion_admission::settings::Settings;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_sidecarset::newer::{Asked, Shortfall, shortfalls};

use super::Everything;
use crate::report::{Finding, OptionalRule};
use crate::subject::Subject;

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
        let found = all.iter().flat_map(|settings| {
            let asked = Asked { native_sidecars: settings.native_sidecars, rollouts: Some(&settings.rollouts) };
            warnings(subject, asked, cluster)
        });
        // Several settings ask for the same.
        let mut paths = BTreeSet::new();
        found.filter(|finding| paths.insert(finding.path.clone())).collect::<Vec<_>>()
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
