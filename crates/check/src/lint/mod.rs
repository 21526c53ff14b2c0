//! Warnings about input that the policy accepts and that is probably unintended.

mod access;
mod admission;
mod bundle_ref;
mod controllers;
mod cost;
mod kubernetes;
mod local_volumes;
mod matching;
mod own_account;
mod pods;
mod policy;
mod requests;
mod rights;
mod rollout;
mod size;
mod stored;
mod volumes;

use std::collections::BTreeMap;

use pillion_documents::manifest::Manifest;
use pillion_install::unread;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_sidecarset::sidecar_set::origin::Origin;
use serde_json::Value;

pub use self::access::Access;
pub use self::bundle_ref::is_missing as lacks_bundle_ref;
pub use self::cost::is_costly_in_a_policy;
pub use self::own_account::compare as compare_accounts;
pub use self::pods::{Selection, created as created_pods, namespace as namespace_of};
pub use self::policy::admits_sets;
use super::documents::{Document, Role};
use super::files::Files;
use super::identity;
use super::settings::Judged;
use super::subject::{Spot, Subject};
use crate::report::Finding;

/// The complete input.
pub struct Everything<'a> {
    /// The documents of all files.
    pub documents: &'a [Document],
    /// All settings, including those of policies.
    pub settings: &'a [Judged<'a>],
    /// The places of all `SidecarSet`s, including undecodable ones.
    pub spots: &'a [Spot<'a>],
    /// `SidecarSet`s in files of their own.
    pub sets: &'a [Subject<'a>],
    /// Existing objects.
    pub before: &'a [Manifest],
    /// The Pods of the documents that get each `SidecarSet`.
    pub selections: Selections<'a>,
    /// The version of the cluster, if one was asked.
    pub kubernetes: Option<KubernetesVersion>,
}

/// The Pods that get each `SidecarSet`, by the place of the `SidecarSet`.
#[derive(Clone, Copy)]
pub struct Selections<'a> {
    /// One for each of the settings.
    pub of_settings: &'a [Selection<'a>],
    /// For the `SidecarSet`s in files of their own.
    pub of_files: &'a Selection<'a>,
}

/// Returns warnings about fields of a `SidecarSet` that nothing reads. The object may be undecodable.
pub fn unknown(spot: &Spot<'_>) -> Vec<Finding> {
    unread::of_set(spot.manifest, &spot.base, spot.raw).into_iter().map(|unread| spot.unread(unread)).collect()
}

/// Returns all warnings.
pub fn all(everything: &Everything<'_>) -> Vec<Finding> {
    let Everything { documents, settings, spots, sets, before, selections, kubernetes } = *everything;
    let namespaces: Vec<&Value> = documents
        .iter()
        .filter(|document| document.role == Role::Namespace)
        .map(|document| &document.manifest.value)
        .collect();
    let mut findings: Vec<Finding> = spots.iter().flat_map(unknown).collect();
    for selection in selections.of_settings.iter().chain([selections.of_files]) {
        let group = selection.group();
        for subject in group {
            findings.extend(stored::hash(subject));
            findings.extend(matching::not_given(subject, &namespaces));
        }
        findings.extend(matching::hidden_bases(group));
        findings.extend(volumes::shared(group));
        findings.extend(requests::missing(selection, documents));
        findings.extend(local_volumes::kept(selection));
    }
    findings.extend(sets.iter().flat_map(|subject| admission::of_cluster(subject, before, settings)));
    for judged in settings {
        findings.extend(admission::in_settings(judged));
        findings.extend(stored::revisions(judged, &Files(documents)));
        findings.extend(rollout::of_settings(judged));
        findings.extend(identities(judged));
        findings.extend(bundle_ref::kept(judged, documents));
        findings.extend(identity::denials(&judged.spot));
        findings.extend(identity::alike(&judged.spot));
        findings.extend(identity::audiences(&judged.spot));
    }
    let naming = naming(everything);
    findings.extend(naming.iter().flat_map(|subject| rights::not_merged(subject, documents)));
    findings.extend(controllers::without_tokens(&naming, documents));
    findings.extend(policy::check(settings));
    findings.extend(rollout::without_deadline(settings));
    findings.extend(size::of_servers(settings));
    findings.extend(not_injected(sets, settings));
    findings.extend(kubernetes.map(|version| kubernetes::too_old(everything, version)).unwrap_or_default());
    told_once(&mut findings, settings);
    findings
}

/// Returns the SidecarSets whose identities count. Nothing is merged, and nothing gets a token, while the gate is off.
fn naming<'a>(everything: &Everything<'a>) -> Vec<&'a Subject<'a>> {
    let Everything { settings, sets, .. } = *everything;
    let is_on = |judged: &&Judged<'_>| judged.settings.gates.service_account_injection;
    let merging = settings.iter().filter(is_on).flat_map(|judged| &judged.subjects);
    let beside = sets.iter().filter(|_| settings.is_empty() || settings.iter().any(|judged| is_on(&judged)));
    merging.chain(beside).collect()
}

/// Returns who can get at the identities of sidecars, by the Roles and bindings among the documents.
pub fn access(everything: &Everything<'_>) -> Access {
    access::find(&naming(everything), everything)
}

/// Removes warnings about a `SidecarSet` of a policy that another policy has, too: policies for different requests are
/// rendered from the same settings.
fn told_once(findings: &mut Vec<Finding>, settings: &[Judged<'_>]) {
    let of_policies = settings.iter().filter(|judged| judged.are_of_policy());
    let spots: Vec<&Spot<'_>> = of_policies.flat_map(|judged| &judged.subjects).map(|subject| &subject.spot).collect();
    let mut told: BTreeMap<(String, String), Vec<&Value>> = BTreeMap::new();
    findings.retain(|finding| {
        let is_below = |spot: &&&Spot<'_>| {
            spot.manifest.source.name == finding.place.source.name
                && spot.manifest.line() <= finding.place.start().line
                && finding.path.strip_prefix(&spot.base).is_some_and(|rest| rest.starts_with('.'))
        };
        // The documents of a file are in its order.
        let Some(spot) = spots.iter().rfind(is_below) else { return true };
        let path = finding.path.get(spot.base.len()..).unwrap_or_default().to_owned();
        let known = told.entry((path, finding.message.clone())).or_default();
        let is_new = !known.contains(&spot.raw);
        if is_new {
            known.push(spot.raw);
        }
        is_new
    });
}

/// Returns warnings about identities in settings; errors in them are among the errors of the settings.
fn identities(judged: &Judged<'_>) -> Vec<Finding> {
    if !judged.settings.gates.service_account_injection {
        return judged.subjects.iter().filter_map(identity::unheeded).collect();
    }
    let members: Vec<_> =
        judged.subjects.iter().map(|subject| identity::Member::new(subject, Origin::Settings)).collect();
    let found = identity::judge(&members, &judged.settings.service_accounts);
    found.iter().flat_map(|(spot, findings)| identity::warnings(spot, findings)).collect()
}

/// Returns warnings about `SidecarSet`s beside policies whose settings lack them, like those of admission. Settings
/// files are exempt: as in `inject`, `SidecarSet`s beside them join them.
fn not_injected(sets: &[Subject<'_>], settings: &[Judged<'_>]) -> Vec<Finding> {
    let is_there = |name: &str| settings.iter().flat_map(|judged| &judged.subjects).any(|own| own.set.name() == name);
    // A controller adds the cluster's SidecarSets to the bundle.
    let is_watched = settings.iter().any(|judged| judged.settings.bundle_source.config_map.is_some());
    let are_of_policies = settings.iter().all(Judged::are_of_policy);
    let is_asked = !settings.is_empty() && are_of_policies && !is_watched;
    let missing = sets.iter().filter(|subject| is_asked && !is_there(subject.set.name()));
    missing
        .map(|subject| {
            subject.spot.warning(
                "metadata.name",
                "these settings do not have this SidecarSet; it will not be injected",
                "add it to sidecarSets",
            )
        })
        .collect()
}
