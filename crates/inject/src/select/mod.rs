//! Which `SidecarSet`s a Pod gets, and in which revision (section 4, 5.1).

pub mod draw;
pub mod revision;

use std::collections::BTreeSet;

use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::{Failure, Lookup, ObjectRef};
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::unique;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Namespaces};
use serde_json::Value;

/// A Pod that looks for its `SidecarSet`s.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The Pod.
    pub pod: Pod<'a>,
    /// Its namespace: its own, else the request's, else `default` (P-3).
    pub namespace: &'a str,
    /// The request's uid, from which Partial revisions are drawn (M-4).
    pub uid: &'a str,
}

/// What selection may ask.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The ControllerRevisions of the settings.
    pub revisions: &'a [ControllerRevision],
    /// Where others are looked up.
    pub system_namespace: &'a str,
    /// The cluster.
    pub lookup: &'a dyn Lookup,
}

/// The most SidecarSets that one Pod gets. Each is read, hashed and compared with the Pod (`serviceaccounts.md` E18).
const SETS_MAX: usize = 500;

/// The `SidecarSet`s in effect, in the order of injection: those bound to the namespace by name, then the
/// cluster-wide ones, each group by name. Bases with a matching canary are left out (P-8).
///
/// Beside them all reasons why it cannot be said of others: selectors that cannot be parsed, a Namespace or a revision
/// that cannot be read, two sets of one name, as the settings and the cluster may have them. Where there are any,
/// the Pod is to be refused; the sets are there to name what else is wrong.
pub fn select(sets: &[CompiledSet<'_>], query: Query<'_>, sources: Sources<'_>) -> (Vec<SidecarSet>, Vec<Reason>) {
    let mut reasons = Vec::new();
    let mut bases = BTreeSet::new();
    let mut matched: Vec<&CompiledSet<'_>> = Vec::new();
    for set in sets {
        match is_match(set, query, sources.lookup) {
            Ok(true) => matched.push(set),
            Ok(false) => {}
            Err(more) => {
                // It might match: nothing that is wrong with its base is certain.
                bases.extend(set.canary_of);
                reasons.extend(more);
            }
        }
    }
    matched.sort_by(|one, other| {
        let rank = |set: &CompiledSet<'_>| !set.is_bound_to(query.namespace);
        rank(one).cmp(&rank(other)).then_with(|| one.name.cmp(other.name))
    });

    let first_of_name = unique::are_first(matched.iter().map(|set| set.name));
    for (set, is_first) in matched.iter().zip(first_of_name) {
        if !is_first {
            reasons.push(
                Reason::forbidden(
                    "metadata.name",
                    "two SidecarSets of this name match the Pod".to_owned(),
                    "remove it from the policy's settings, or rename one of them",
                )
                .about(set.name),
            );
        }
    }

    if matched.len() > SETS_MAX {
        reasons.push(Reason::forbidden(
            "metadata.labels",
            format!("{} SidecarSets match the Pod; a Pod gets at most {SETS_MAX}", matched.len()),
            "narrow the selectors of the SidecarSets",
        ));
        return (Vec::new(), reasons);
    }

    let mut suitable = Vec::with_capacity(matched.len());
    for set in matched {
        bases.extend(set.canary_of);
        match revision::suitable(set.open(), query, sources) {
            Ok(set) => suitable.push(set),
            Err(reason) => reasons.push(reason),
        }
    }
    suitable.retain(|set| !bases.contains(set.name()));
    (suitable, reasons)
}

/// Whether a set matches a Pod (P-4 to P-6), canaries or not. Labels come first: they cost nothing, a Namespace may cost
/// a look-up.
///
/// # Errors
/// The Namespace could not be read, or the selector cannot be parsed.
pub fn is_match(set: &CompiledSet<'_>, query: Query<'_>, lookup: &dyn Lookup) -> Result<bool, Vec<Reason>> {
    if set.paused || !set.is_candidate(query.namespace) {
        return Ok(false);
    }
    if set.selector.as_ref().is_ok_and(|selector| !selector.selects(query.pod.labels())) {
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

/// Whether Pods of this namespace can get the set, whatever their labels.
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
        Namespaces::Matching(selector) => match namespace_labels(namespace, lookup)? {
            None => Ok(false),
            Some(labels) => Ok(selector.matches_labels(Some(&labels))),
        },
    }
}

/// The labels of a Namespace; `None` where it does not exist.
pub fn namespace_labels(namespace: &str, lookup: &dyn Lookup) -> Result<Option<Object>, Failure> {
    let object = ObjectRef { api_version: "v1", kind: "Namespace", namespace: None, name: namespace.to_owned() };
    let Some(found) = lookup.get(&object)? else { return Ok(None) };
    // An answer that is not that Namespace says nothing about its labels.
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
