//! Selects the `SidecarSet`s for a Pod, and their revisions (docs/spec/matching.md).

pub mod chosen_revision;
pub mod draw;

use std::collections::BTreeSet;
use std::fmt;

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::{Failure, Lookup, ObjectRef};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::requested_revision::Known;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Namespaces};
use pillion_sidecarset::sidecar_set::weight::{self, SIDECARS_MAX};
use serde_json::Value;

use self::chosen_revision::There;

/// The Pod and the request for which `SidecarSet`s are selected.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The Pod.
    pub pod: Pod<'a>,
    /// The namespace of the Pod: that in its metadata, else that of the request, else `default` (MATCH-3).
    pub namespace: &'a str,
    /// The request's uid, the seed for the choice of Partial revisions (INJ-4).
    pub uid: &'a str,
}

/// The sources of objects that selection reads.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The ControllerRevisions of the settings.
    pub revisions: &'a [ControllerRevision],
    /// The namespace in which other ControllerRevisions are looked up.
    pub system_namespace: &'a str,
    /// The lookup of objects of the cluster.
    pub lookup: &'a dyn Lookup,
}

/// The most SidecarSets that one Pod gets. Each is read, hashed and compared with the Pod (E18).
const SETS_MAX: usize = 250;

/// The `SidecarSet`s for a Pod.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Those in effect, in the order of injection (MATCH-7). If there are reasons to refuse the Pod, they only serve to
    /// find further problems.
    pub sets: Vec<SidecarSet>,
    /// SidecarSets of the cluster that give way to one of the settings (TRUST-3, TRUST-4).
    pub left_out: Vec<LeftOut>,
    /// All reasons to refuse the Pod: a selector that cannot be parsed, a Namespace or a revision that cannot be read, or
    /// two sets with one name (DIFF-4).
    pub reasons: Vec<Reason>,
}

/// A `SidecarSet` of the cluster that matches a Pod and gives way to one of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The name of the set.
    pub sidecar_set: String,
    /// The reason.
    pub why: GivesWay,
}

/// Why a `SidecarSet` of the cluster gives way to one of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivesWay {
    /// The set of the settings has the same name (TRUST-3).
    Name,
    /// The set of the settings is its base, of which it is a canary (TRUST-4).
    Base(String),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.sidecar_set;
        match &self.why {
            GivesWay::Name => write!(
                f,
                "SidecarSet \"{name}\" of the cluster is left out: the policy's settings have a SidecarSet of this name; \
                 rename or delete it"
            ),
            GivesWay::Base(base) => write!(
                f,
                "SidecarSet \"{name}\" of the cluster is left out: its base \"{base}\" is a SidecarSet of the policy's \
                 settings, which only a canary of the settings replaces"
            ),
        }
    }
}

/// Whether `canary` takes the place of `base` where both match (MATCH-8). A canary of the cluster never replaces a set of
/// the settings (TRUST-4).
pub fn replaces(canary: &CompiledSet<'_>, base: &CompiledSet<'_>) -> bool {
    canary.canary_of == Some(base.name) && (canary.is_of_settings() || !base.is_of_settings())
}

/// Returns why a set gives way, if it does. `of_settings` are the names of the sets of the settings that match the Pod.
fn gives_way(set: &CompiledSet<'_>, of_settings: &BTreeSet<&str>) -> Option<GivesWay> {
    if set.is_of_settings() {
        return None;
    }
    if of_settings.contains(set.name) {
        return Some(GivesWay::Name);
    }
    set.canary_of.filter(|base| of_settings.contains(base)).map(|base| GivesWay::Base(base.to_owned()))
}

fn names_of_settings<'s>(matched: &[&CompiledSet<'s>]) -> BTreeSet<&'s str> {
    matched.iter().filter(|set| set.is_of_settings()).map(|set| set.name).collect()
}

/// Returns the names of those of the matching sets that are in effect: they neither give way nor have a canary.
pub fn in_effect<'s>(matched: &[&CompiledSet<'s>]) -> BTreeSet<&'s str> {
    let of_settings = names_of_settings(matched);
    let standing = || matched.iter().filter(|set| gives_way(set, &of_settings).is_none());
    let bases: BTreeSet<&str> = standing().filter_map(|set| set.canary_of).collect();
    standing().map(|set| set.name).filter(|name| !bases.contains(name)).collect()
}

/// Selects the `SidecarSet`s in effect: those of the settings before those of the cluster (TRUST-5), in each group those
/// bound to the namespace before the cluster-wide ones, and these by name. Bases with a matching canary are left out
/// (MATCH-8).
pub fn select(sets: &[CompiledSet<'_>], query: Query<'_>, sources: Sources<'_>) -> Selection {
    let mut selection = Selection::default();
    let mut bases = BTreeSet::new();
    let mut matched: Vec<&CompiledSet<'_>> = Vec::new();
    for set in sets {
        match is_match(set, query, sources.lookup) {
            Ok(true) => matched.push(set),
            Ok(false) => {}
            Err(reasons) => {
                // The canary might match, so leave its base out: it may not be in effect.
                bases.extend(set.canary_of);
                selection.reasons.extend(reasons);
            }
        }
    }
    matched.sort_by_key(|set| (set.origin, !set.is_bound_to(query.namespace), set.name));
    let matched = without_those_that_give_way(matched, &mut selection);
    if matched.len() > SETS_MAX {
        selection.reasons.push(Reason::forbidden(
            "metadata.labels",
            format!("{} SidecarSets match the Pod; a Pod gets at most {SETS_MAX}", matched.len()),
            "narrow the selectors of the SidecarSets",
        ));
        return selection;
    }
    bases.extend(matched.iter().filter_map(|set| set.canary_of));
    let known = Known::of(sources.revisions, sources.system_namespace);
    let there = There::of(query.pod);
    let mut sidecars = 0_usize;
    for set in matched {
        match chosen_revision::suitable(set.open(), query, (&known, sources.lookup), &there) {
            Ok(suitable) if !bases.contains(set.name) => {
                sidecars += weight::sidecars(&suitable);
                // The sets after it are not even hashed.
                if sidecars > SIDECARS_MAX {
                    selection.reasons.push(too_many_sidecars(set.name));
                    break;
                }
                selection.sets.push(suitable);
            }
            Ok(_) => {}
            Err(reason) => selection.reasons.push(reason),
        }
    }
    selection
}

/// Returns the reason why a Pod does not get the sidecars of this set, nor those of the sets after it.
fn too_many_sidecars(set: &str) -> Reason {
    let problem = format!(
        "with those of this SidecarSet, the Pod would get more than {SIDECARS_MAX} containers and init containers of \
         SidecarSets"
    );
    Reason::forbidden(
        "spec.containers",
        problem,
        "narrow the selectors of the SidecarSets, or give them fewer containers",
    )
    .about(set)
}

/// Returns the matching sets without those of the cluster that give way to one of the settings. Two sets of one name and
/// one origin are a reason to refuse the Pod.
fn without_those_that_give_way<'a, 's>(
    matched: Vec<&'a CompiledSet<'s>>,
    selection: &mut Selection,
) -> Vec<&'a CompiledSet<'s>> {
    let of_settings = names_of_settings(&matched);
    let (mut names, mut left) = (BTreeSet::new(), Vec::with_capacity(matched.len()));
    for set in matched {
        if let Some(why) = gives_way(set, &of_settings) {
            selection.left_out.push(LeftOut { sidecar_set: set.name.to_owned(), why });
            continue;
        }
        if !names.insert(set.name) {
            selection.reasons.push(
                Reason::forbidden(
                    "metadata.name",
                    "two SidecarSets of this name match the Pod".to_owned(),
                    "remove it from the policy's settings, or rename one of them",
                )
                .about(set.name),
            );
        }
        left.push(set);
    }
    left
}

/// Whether a set matches a Pod (MATCH-4 to MATCH-6), regardless of canaries. Checks labels first, because the Namespace
/// may need a lookup.
///
/// # Errors
/// The Namespace could not be read, or the selector cannot be parsed.
pub fn is_match(set: &CompiledSet<'_>, query: Query<'_>, lookup: &dyn Lookup) -> Result<bool, Vec<Reason>> {
    if !set.may_match(query.namespace, query.pod.labels()) {
        return Ok(false);
    }
    match is_in_namespace(set, query.namespace, lookup) {
        Ok(true) => {}
        Ok(false) => return Ok(false),
        Err(failure) => {
            let what = format!("Namespace \"{}\"", query.namespace);
            let reason = Reason::unreadable("spec.namespaceSelector", &what, &failure, ("v1", "Namespace"));
            return Err(vec![reason.about(set.name)]);
        }
    }
    let Err(errors) = &set.selector else { return Ok(true) };
    let reason = |error: FieldError| {
        let problem = format!("{}: {}", error.cause.as_str(), error.detail);
        Reason::forbidden(error.path, problem, "correct the selector").about(set.name)
    };
    Err(errors.iter().cloned().map(|error| reason(error.below("spec.selector"))).collect())
}

/// Whether Pods of this namespace can get the set, regardless of their labels.
///
/// # Errors
/// The Namespace could not be read.
pub fn can_be_in(set: &CompiledSet<'_>, namespace: &str, lookup: &dyn Lookup) -> Result<bool, Failure> {
    Ok(set.is_candidate(namespace) && is_in_namespace(set, namespace, lookup)?)
}

fn is_in_namespace(set: &CompiledSet<'_>, namespace: &str, lookup: &dyn Lookup) -> Result<bool, Failure> {
    match &set.namespaces {
        Namespaces::All => Ok(true),
        Namespaces::None => Ok(false),
        Namespaces::Matching(selector) => match namespace_labels(selector, namespace, lookup)? {
            None => Ok(false),
            Some(labels) => Ok(selector.matches_labels(Some(&labels))),
        },
    }
}

/// Returns the labels of a Namespace that a selector may read, or `None` if the Namespace does not exist.
///
/// A selector that reads only `kubernetes.io/metadata.name` needs no lookup (MATCH-6). The API server sets this label of
/// each Namespace to the name of the Namespace, and refuses changes of the label (KEP-2161).
///
/// # Errors
/// The Namespace could not be read.
pub fn namespace_labels(
    selector: &Selector<'_>,
    namespace: &str,
    lookup: &dyn Lookup,
) -> Result<Option<Object>, Failure> {
    let name = names::NAMESPACE_NAME_LABEL;
    if selector.requirements().iter().all(|requirement| requirement.key == name) {
        let mut labels = Object::new();
        labels.insert(name.to_owned(), namespace.into());
        return Ok(Some(labels));
    }
    let object = ObjectRef { api_version: "v1", kind: "Namespace", namespace: None, name: namespace.to_owned() };
    let Some(found) = lookup.get(&object)? else { return Ok(None) };
    // An answer with another name is not this Namespace.
    if json::text(&found, &["metadata", "name"]) != namespace {
        return Err(Failure::Unavailable);
    }
    match json::at(&found, &["metadata", "labels"]) {
        None | Some(Value::Null) => Ok(Some(Object::new())),
        Some(Value::Object(labels)) => Ok(Some(labels.clone())),
        Some(_) => Err(Failure::Unavailable),
    }
}

#[cfg(test)]
mod tests;
