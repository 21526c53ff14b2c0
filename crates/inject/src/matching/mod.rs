//! Selects the `SidecarSet`s for a Pod, and their revisions (docs/spec/matching.md).

pub mod chosen_revision;
pub mod draw;
pub mod opt_out;
pub mod overrides;
pub mod precedence;

use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::{self, Failure, Lookup};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::names;
use pillion_sidecarset::native::{self, NativeSidecars};
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::requested_revision::RevisionIndex;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Namespaces};
use pillion_sidecarset::sidecar_set::weight::{self, SIDECARS_MAX};
use serde_json::Value;

use self::chosen_revision::There;
use self::opt_out::OptedOut;
use self::overrides::Overrides;
use self::precedence::LeftOut;

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

/// What selection reads besides the Pod.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The ControllerRevisions of the settings.
    pub revisions: &'a [ControllerRevision],
    /// The namespace in which other ControllerRevisions are looked up.
    pub system_namespace: &'a str,
    /// The lookup of objects of the cluster.
    pub lookup: &'a dyn Lookup,
    /// The setting `nativeSidecars` (NAT-1).
    pub native_sidecars: NativeSidecars,
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
    /// The matching SidecarSets that the Pod or its Namespace asks to leave out (OPT-2).
    pub opted_out: Vec<OptedOut>,
    /// What the Pod and its Namespace change in `sets` (OVR-4). The sets have it.
    pub overrides: Overrides,
    /// All reasons to refuse the Pod: a selector or an annotation that cannot be parsed, a Namespace or a revision that
    /// cannot be read, or two sets with one name (DIFF-4).
    pub reasons: Vec<Reason>,
}

/// Selects the `SidecarSet`s in effect: those of the settings before those of the cluster (TRUST-5), in each group those
/// bound to the namespace before the cluster-wide ones, and these by name. Bases with a matching canary are left out
/// (MATCH-8), and so are those that the Pod or its Namespace may leave out, and does (OPT-2). The sets have what the Pod
/// and its Namespace override in them (OVR-8).
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
    let matched = precedence::standing(matched, (&mut selection.left_out, &mut selection.reasons));
    bases.extend(matched.iter().filter_map(|set| set.canary_of));
    match opt_out::opted_out(&matched, query, sources.lookup) {
        Ok(opted_out) => selection.opted_out = opted_out,
        Err(reason) => selection.reasons.push(reason),
    }
    let opted_out = &selection.opted_out;
    let matched: Vec<_> = matched.into_iter().filter(|set| opt_out::leaving_out(opted_out, set).is_none()).collect();
    if matched.len() > SETS_MAX {
        selection.reasons.push(Reason::forbidden(
            "metadata.labels",
            format!("{} SidecarSets match the Pod; a Pod gets at most {SETS_MAX}", matched.len()),
            "narrow the selectors of the SidecarSets",
        ));
        return selection;
    }
    let known = RevisionIndex::new(sources.revisions, sources.system_namespace);
    let there = There::from_pod(query.pod);
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
                match in_pod(suitable, query.pod, sources.native_sidecars) {
                    Ok(set) => selection.sets.push(set),
                    Err(reason) => selection.reasons.push(reason),
                }
            }
            Ok(_) => {}
            Err(reason) => selection.reasons.push(reason),
        }
    }
    match overrides::apply(&mut selection.sets, query, sources.lookup) {
        Ok(overrides) => selection.overrides = overrides,
        Err(reasons) => selection.reasons.extend(reasons),
    }
    selection
}

/// Returns a set in the form in which the Pod gets it: with its containers as native sidecars, if it asks for that
/// (NAT-2).
fn in_pod(set: SidecarSet, pod: Pod<'_>, setting: NativeSidecars) -> Result<SidecarSet, Reason> {
    match NativeSidecars::from_sidecar_set(&set, setting) {
        Ok(asked) if asked.apply(pod.ends()) => Ok(native::converted(set)),
        Ok(_) => Ok(set),
        Err(error) => {
            let problem = format!("{}: {}", error.cause.as_str(), error.detail);
            Err(Reason::forbidden(error.path, problem, "correct the annotation").about(set.name()))
        }
    }
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
            return Err(vec![unreadable_namespace("spec.namespaceSelector", query, failure).about(set.name)]);
        }
    }
    let Err(errors) = &set.selector else { return Ok(true) };
    let reason = |error: FieldError| {
        let problem = format!("{}: {}", error.cause.as_str(), error.detail);
        Reason::forbidden(error.path, problem, "correct the selector").about(set.name)
    };
    Err(errors.iter().cloned().map(|error| reason(error.below("spec.selector"))).collect())
}

/// Returns the names of those of the matching sets that a Pod gets: they are in effect beside the others
/// ([`precedence::in_effect`]), and neither the Pod nor its Namespace leaves them out.
///
/// # Errors
/// The Namespace could not be read.
pub fn names_of_injected<'s>(
    matched: &[&CompiledSet<'s>],
    query: Query<'_>,
    lookup: &dyn Lookup,
) -> Result<BTreeSet<&'s str>, Reason> {
    let in_effect = precedence::in_effect(matched);
    let standing: Vec<_> = matched.iter().copied().filter(|set| in_effect.contains(set.name)).collect();
    let opted_out = opt_out::opted_out(&standing, query, lookup)?;
    Ok(standing.iter().filter(|set| opt_out::leaving_out(&opted_out, set).is_none()).map(|set| set.name).collect())
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
    let Some(found) = lookup::namespace(namespace, lookup)? else { return Ok(None) };
    match json::at(&found, &["metadata", "labels"]) {
        None | Some(Value::Null) => Ok(Some(Object::new())),
        Some(Value::Object(labels)) => Ok(Some(labels.clone())),
        Some(_) => Err(Failure::Unavailable),
    }
}

/// Returns the reason to refuse a Pod whose Namespace could not be read for a field of a set.
fn unreadable_namespace(field: &str, query: Query<'_>, failure: Failure) -> Reason {
    Reason::unreadable(field, &format!("Namespace \"{}\"", query.namespace), &failure, ("v1", "Namespace"))
}

#[cfg(test)]
mod tests;
