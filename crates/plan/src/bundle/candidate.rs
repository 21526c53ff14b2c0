//! Turns a SidecarSet of the cluster into its form in the bundle.

use std::collections::{BTreeMap, BTreeSet};

use pillion_admission::settings::Settings;
use pillion_kubernetes::field::{FieldError, joined};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Answer, Lookup, NoObjects, ObjectRef};
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::requested_revision::{RequestedRevision, find, newest_two};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use pillion_sidecarset::upgrades::Upgrades;
use pillion_sidecarset::validation::{LookupErrors, injection, whitelist};
use serde_json::{Value, json};

use super::BundleInput;
use crate::failure::{self, Back, FAILED};
use crate::restored::restored;

/// The annotation with `kubectl apply`'s copy of the manifest. It is as long as the manifest and has no effect on Pods.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The fields of the metadata that affect injection.
const METADATA: [&str; 4] = ["annotations", "labels", "name", "uid"];
/// The fields of the object that affect injection.
const OBJECT: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];

/// A SidecarSet of the cluster.
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) uid: String,
    /// `metadata.creationTimestamp`. Its text order is the order of the times.
    pub(super) created: String,
    /// The set in its form in the bundle.
    pub(super) set: SidecarSet,
    /// Why it has the contents of an earlier revision, if it has (ROLL-62).
    pub(super) back: Option<String>,
    /// The errors that can be found without looking at other sets.
    pub(super) errors: Vec<FieldError>,
}

/// Returns a candidate for each SidecarSet of the cluster.
pub(super) fn all(seen: BundleInput<'_>) -> Vec<Candidate> {
    let revisions = revisions(seen.settings, seen.revisions);
    let stored = BySet::new(seen.revisions);
    seen.sidecar_sets.iter().map(|object| candidate(object, &revisions, &stored, seen)).collect()
}

/// The ControllerRevisions of the cluster by the names of their SidecarSets. Thousands of SidecarSets have a multiple of
/// revisions.
struct BySet<'a>(BTreeMap<&'a str, Vec<&'a ControllerRevision>>);

impl<'a> BySet<'a> {
    fn new(revisions: &'a [ControllerRevision]) -> Self {
        let mut by_set: BTreeMap<&str, Vec<&ControllerRevision>> = BTreeMap::new();
        for revision in revisions {
            if let Some(name) = revision.label(names::SIDECAR_SET_NAME_LABEL) {
                by_set.entry(name).or_default().push(revision);
            }
        }
        Self(by_set)
    }

    /// Returns the revisions of a SidecarSet, the newest last.
    fn ascending(&self, set: &SidecarSet) -> Vec<&'a ControllerRevision> {
        failure::ascending(set, self.0.get(set.name()).into_iter().flatten().copied())
    }
}

/// Returns `sidecarSets` of the settings in their form in the bundle: without fields that no Pod gets, each with the
/// revision that it asks for, if the settings have that, and with its origin, which the policy cannot know otherwise
/// (TRUST-1). The policy looks for other revisions itself.
pub(super) fn of_settings(seen: BundleInput<'_>) -> Vec<SidecarSet> {
    let revisions = &seen.settings.controller_revisions;
    let sets = seen.settings.sidecar_sets.iter().map(|set| slim(prepared(set)).with_origin(set.origin()));
    sets.map(|set| with_revision(set, revisions, seen).0).collect()
}

fn candidate(object: &Value, revisions: &[ControllerRevision], stored: &BySet<'_>, seen: BundleInput<'_>) -> Candidate {
    let text = |key: &str| json::text(object, &["metadata", key]).to_owned();
    let (name, uid, created) = (text("name"), text("uid"), text("creationTimestamp"));
    let decoded = decode(object.clone()).map(|decoded| prepared(&slim(decoded.into_sidecar_set())));
    match decoded.and_then(|set| Ok((in_force(&set, stored, seen.settings)?, set))) {
        Ok((None, set)) => {
            let (set, errors) = with_revision(set, revisions, seen);
            Candidate { name, uid, created, set, back: None, errors }
        }
        Ok((Some(InForce { set, failed, text }), _)) => {
            // A draw between two versions must not choose the one that has failed.
            let is_previous = RequestedRevision::from_sidecar_set(&set) == Some(RequestedRevision::Previous);
            let is_left = |revision: &&ControllerRevision| !is_previous || revision.name() != failed;
            let revisions: Vec<ControllerRevision> = revisions.iter().filter(is_left).cloned().collect();
            let (set, errors) = with_revision(set, &revisions, seen);
            Candidate { name, uid, created, set, back: Some(text), errors }
        }
        Err(errors) => Candidate { name, uid, created, set: SidecarSet::from_decoded(Value::Null), back: None, errors },
    }
}

/// A SidecarSet with the contents of an earlier revision, because a newer one has failed.
struct InForce {
    set: SidecarSet,
    /// The name of the revision that has failed.
    failed: String,
    text: String,
}

/// Returns the set with the contents of the revision that is in force, if it is not the latest one (ROLL-62).
///
/// # Errors
/// The revision cannot be read.
fn in_force(set: &SidecarSet, stored: &BySet<'_>, settings: &Settings) -> Result<Option<InForce>, Vec<FieldError>> {
    let ascending = stored.ascending(set);
    let Some(back) = Back::find(set, upgrades(set, settings), &ascending) else { return Ok(None) };
    let text = back.text();
    let (failed, set) = (back.failed.name().to_owned(), restored(set, back.restored)?);
    Ok(Some(InForce { set, failed, text }))
}

fn upgrades(set: &SidecarSet, settings: &Settings) -> Upgrades {
    Upgrades::from_sidecar_set(set, &settings.rollouts).0
}

/// Removes the fields that change although the SidecarSet does not, such as Pod counts, versions and field owners: they
/// must not change the bundle. The name of the latest revision is the only part of the status that affects Pods.
fn slim(set: SidecarSet) -> SidecarSet {
    let mut object = set.into_value();
    let latest = json::text(&object, &["status", "latestRevision"]).to_owned();
    if let Some(object) = object.as_object_mut() {
        object.retain(|key, _| OBJECT.contains(&key.as_str()));
        if !latest.is_empty() {
            object.insert("status".to_owned(), json!({"latestRevision": latest}));
        }
        if let Some(metadata) = json::object_mut(object, "metadata") {
            metadata.retain(|key, _| METADATA.contains(&key.as_str()));
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove(LAST_APPLIED);
            }
        }
    }
    SidecarSet::from_decoded(object)
}

/// Adds the stored revision that the set asks for (REV-9, DIFF-11). The lookup is the same as at the set's admission.
fn with_revision(
    set: SidecarSet,
    revisions: &[ControllerRevision],
    seen: BundleInput<'_>,
) -> (SidecarSet, Vec<FieldError>) {
    let lookup = OnlyWhitelist(seen.whitelist);
    let mut findings = LookupErrors::default();
    let system = seen.settings.system_namespace.as_str();
    injection::check_revision(&set, revisions, system, &lookup, &mut findings);
    let inline = seen.settings.patch_pod_metadata_whitelist.as_ref();
    whitelist::check(&set, seen.settings.gates, inline, system, &lookup, &mut findings);
    let find = |selection| find(&set, selection, revisions, system, &lookup).ok().flatten();
    let found = RequestedRevision::from_sidecar_set(&set).and_then(find);
    let mut errors = findings.invalid;
    errors.append(&mut findings.unavailable);
    (if let Some(found) = found { set.with_revision(&found) } else { set }, errors)
}

/// Returns the names of the ControllerRevisions of the cluster whose `data` is needed but missing in `revisions`,
/// ascending.
pub fn wanted_revisions(
    sidecar_sets: &[std::sync::Arc<Value>],
    revisions: &[ControllerRevision],
    settings: &Settings,
) -> Vec<String> {
    let all = self::revisions(settings, revisions);
    let restored = restored_revisions(sidecar_sets, revisions, settings);
    let asks = |object: &&std::sync::Arc<Value>| {
        json::at(object, &["spec", "injectionStrategy", "revision"]).is_some_and(|revision| !revision.is_null())
    };
    let mut names: Vec<String> = sidecar_sets
        .iter()
        .filter(asks)
        .filter_map(|object| {
            let set = decode(Value::clone(object)).ok()?.into_sidecar_set();
            Some(match RequestedRevision::from_sidecar_set(&set)? {
                // Which of them has other data than the SidecarSet is known when they are read.
                RequestedRevision::Previous => {
                    newest_two(&set, &all.iter().collect::<Vec<_>>()).into_iter().flatten().cloned().collect()
                }
                named => find(&set, named, &all, &settings.system_namespace, &NoObjects).ok()?.into_iter().collect(),
            })
        })
        .flat_map(|found: Vec<ControllerRevision>| found)
        .chain(restored)
        .filter(|found| found.data().is_none())
        .map(|found| found.name().to_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the revisions that are in force instead of newer ones that have failed.
fn restored_revisions(
    sidecar_sets: &[std::sync::Arc<Value>],
    revisions: &[ControllerRevision],
    settings: &Settings,
) -> Vec<ControllerRevision> {
    let failed = revisions.iter().filter(|revision| !revision.annotation(FAILED).is_empty());
    let names: BTreeSet<&str> = failed.filter_map(|revision| revision.label(names::SIDECAR_SET_NAME_LABEL)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let stored = BySet::new(revisions);
    let objects = sidecar_sets.iter().filter(|object| names.contains(json::text(object, &["metadata", "name"])));
    let of_set = |object: &std::sync::Arc<Value>| {
        let set = prepared(&decode(Value::clone(object)).ok()?.into_sidecar_set());
        let ascending = stored.ascending(&set);
        Back::find(&set, upgrades(&set, settings), &ascending).map(|back| back.restored.clone())
    };
    objects.filter_map(of_set).collect()
}

/// Returns all ControllerRevisions. Those of the settings come first, as in the policy.
fn revisions(settings: &Settings, of_cluster: &[ControllerRevision]) -> Vec<ControllerRevision> {
    settings.controller_revisions.iter().chain(of_cluster).cloned().collect()
}

/// A cluster with only the observed whitelist ConfigMap.
struct OnlyWhitelist<'a>(Option<&'a Value>);

impl Lookup for OnlyWhitelist<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        let is_whitelist = object.kind == "ConfigMap" && object.name == names::WHITELIST_CONFIG_MAP;
        Ok(self.0.filter(|_| is_whitelist).cloned())
    }
}

/// Formats the errors of a SidecarSet in one line.
pub(super) fn shown(errors: &[FieldError]) -> String {
    joined(errors)
}
