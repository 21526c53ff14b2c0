//! Explains to people why a Pod gets a `SidecarSet` or not.
//!
//! Admission's own code makes the decision ([`admission::admit`] and [`pillion_inject::matching`]). The code here only
//! finds the reasons. The policy module does not use this crate.
//!
//! It never decides anything itself, and asks no cluster: look-ups are arguments. Start with [`explain`] and
//! [`Explanation`].
#![forbid(unsafe_code)]

pub mod chosen_revision;
pub mod finding;
pub mod identity;
pub mod labels;
mod matching;
pub mod parts;

use pillion_admission::pod::{self as admission, Context, PodRequest};
use pillion_admission::settings::Role;
use pillion_inject::matching::opt_out;
use pillion_inject::matching::precedence::replaces;
use pillion_inject::matching::{Query, Selection};
use pillion_kubernetes::lookup::Memo;
use pillion_kubernetes::outcome::{Outcome, Verdict};
use pillion_sidecarset::overrides::Override;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use self::chosen_revision::Revision;
use self::finding::{Finding, Kind};
use self::identity::{Asked, Identity, PodIdentity};
use self::parts::Parts;

/// The result of admission for a Pod, with the reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The namespace that decides which `SidecarSet`s match.
    pub namespace: String,
    /// Why the Pod is refused or left alone, as far as the reason is not about a single `SidecarSet`.
    pub pod: Vec<Finding>,
    /// The `SidecarSet`s, in the order of injection: those bound to the namespace by name first, then the others, each
    /// group sorted by name. Empty if the Pod cannot be decoded.
    pub sets: Vec<Explained>,
    /// The Pod's identity; absent if all containers get the token as without Pillion, since no `SidecarSet` asks for an
    /// identity, or the feature gate is off, and nothing says which containers get the token.
    pub identity: Option<PodIdentity>,
    /// The answer of admission.
    pub outcome: Outcome,
}

/// The result for one `SidecarSet`.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Its name.
    pub name: String,
    /// The decision on it.
    pub decision: Decision,
    /// The result of its request for an identity; absent if it asks for none or is not in effect.
    pub identity: Option<Identity>,
    /// The overrides of its sidecars, each with its ruling; empty unless the set is injected.
    pub overrides: Vec<Override>,
}

/// The decision on a `SidecarSet`.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The set is injected.
    Injected(Injection),
    /// The set would be injected, but the Pod is refused for another reason.
    Withheld(Match),
    /// The set does not apply to this Pod: all reasons, at least one.
    NotInjected(Vec<Finding>),
    /// The Pod is refused because of this set: all reasons, at least one.
    Refused(Vec<Finding>),
}

/// Why a `SidecarSet` is in effect for a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The selector that selects the Pod, as `kubectl -l` writes it.
    pub selector: String,
    /// The selector that selects its namespace; absent if the set applies to every namespace.
    pub namespace_selector: Option<String>,
    /// The revision.
    pub revision: Revision,
}

/// An injection.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    /// Why the set is in effect.
    pub matched: Match,
    /// The injected parts.
    pub parts: Parts,
}

/// Explains the result of [`admission::admit`] for the same arguments.
pub fn explain(request: PodRequest<'_>, context: Context<'_>) -> Explanation {
    let lookup = Memo::new(context.lookup);
    let context = Context { lookup: &lookup, ..context };
    let outcome = admission::admit(request, context);
    let Ok(pod) = Pod::decode(request.object) else {
        let pod = general(&outcome);
        let namespace = request.namespace.to_owned();
        return Explanation { namespace, pod, sets: Vec::new(), identity: None, outcome };
    };
    let query = Query { pod, namespace: request.namespace_of(pod), uid: request.uid };
    let inactive = matching::inactive(pod);
    let (mut sets, mut identity) = sets(query, Asked::new(request, query), context, &outcome);
    if let Some(finding) = &inactive {
        identity = None;
        for set in &mut sets {
            set.decision = Decision::NotInjected(vec![finding.clone()]);
            set.identity = None;
        }
    }
    if context.settings.role == Role::Assert {
        // The result of an injection says nothing about a Pod that was not injected.
        for set in sets.iter_mut().filter(|set| matches!(set.decision, Decision::NotInjected(_))) {
            set.identity = None;
        }
        identity = identity.filter(|_| sets.iter().any(|set| set.identity.is_some()));
    }
    let pod = inactive.into_iter().chain(general(&outcome)).collect();
    Explanation { namespace: query.namespace.to_owned(), pod, sets, identity, outcome }
}

/// Returns the reasons to refuse that name no `SidecarSet`.
fn general(outcome: &Outcome) -> Vec<Finding> {
    reasons(outcome, None)
}

/// Returns the reasons to refuse that name this `SidecarSet`, or none if `set` is `None`.
fn reasons(outcome: &Outcome, set: Option<&str>) -> Vec<Finding> {
    let Verdict::Refused(refusal) = &outcome.verdict else { return Vec::new() };
    refusal.reasons().filter(|reason| reason.sidecar_set.as_deref() == set).map(Finding::from).collect()
}

fn sets(
    query: Query<'_>,
    asked: Asked<'_>,
    context: Context<'_>,
    outcome: &Outcome,
) -> (Vec<Explained>, Option<PodIdentity>) {
    let compiled: Vec<CompiledSet<'_>> = context.sidecar_sets.iter().map(CompiledSet::new).collect();
    let sources = context.sources();
    let Selection { sets: effective, left_out, opted_out, overrides, .. } =
        pillion_inject::matching::select(&compiled, query, sources);
    let (pod_identity, identities) = identity::explain(asked, context, &effective, outcome);
    let mut all: Vec<Candidate<'_>> = compiled
        .iter()
        .zip(context.sidecar_sets)
        .map(|(compiled, manifest)| {
            let mut blockers = matching::blockers(compiled, manifest, query, context.lookup);
            if blockers.is_empty()
                && !compiled.is_of_settings()
                && let Some(left_out) = left_out.iter().find(|left_out| left_out.sidecar_set == compiled.name)
            {
                blockers.push(matching::gives_way(compiled.name, &left_out.why));
            }
            let opted_out = opt_out::leaving_out(&opted_out, compiled).map(matching::opted_out);
            Candidate { compiled, manifest, blockers, opted_out }
        })
        .collect();
    all.sort_by(|one, other| {
        let rank = |candidate: &Candidate<'_>| {
            let set = candidate.compiled;
            (set.origin, !set.is_bound_to(query.namespace))
        };
        rank(one).cmp(&rank(other)).then_with(|| one.compiled.name.cmp(other.compiled.name))
    });
    let after = match &outcome.verdict {
        Verdict::Mutated(object) => object,
        Verdict::Unchanged | Verdict::Refused(_) => query.pod.as_value(),
    };
    let overridden = |name: &str| {
        let of_set = overrides.of_sidecars.iter().filter(|one| one.sidecar_set == name);
        of_set.map(|one| one.of.clone()).collect()
    };
    let explained = |candidate: &Candidate<'_>| {
        let name = candidate.compiled.name;
        let decision = decision(candidate, &all, &effective, query, (context.settings.role, outcome, after));
        let is_injected = matches!(decision, Decision::Injected(_));
        Explained {
            name: name.to_owned(),
            decision,
            identity: identities.get(name).cloned(),
            overrides: if is_injected { overridden(name) } else { Vec::new() },
        }
    };
    (all.iter().map(explained).collect(), pod_identity)
}

/// A `SidecarSet` and the reasons why it does not match.
struct Candidate<'a> {
    compiled: &'a CompiledSet<'a>,
    manifest: &'a SidecarSet,
    blockers: Vec<Finding>,
    /// The Pod or its Namespace leaves it out.
    opted_out: Option<Finding>,
}

fn decision(
    candidate: &Candidate<'_>,
    all: &[Candidate<'_>],
    effective: &[SidecarSet],
    query: Query<'_>,
    (role, outcome, after): (Role, &Outcome, &Value),
) -> Decision {
    let name = candidate.compiled.name;
    let refused = reasons(outcome, Some(name));
    if !refused.is_empty() {
        return Decision::Refused(refused);
    }
    let is_it = |set: &&SidecarSet| set.name() == name && set.origin() == candidate.compiled.origin;
    let Some(set) = effective.iter().find(is_it) else {
        let mut findings = candidate.blockers.clone();
        if findings.is_empty() {
            findings.extend(candidate.opted_out.clone());
        }
        if findings.is_empty() {
            let canaries =
                all.iter().filter(|other| replaces(other.compiled, candidate.compiled) && other.blockers.is_empty());
            findings.extend(canaries.map(|canary| matching::canary(name, canary.compiled.name)));
        }
        return Decision::NotInjected(findings);
    };
    let (selector, namespace_selector) = matching::selects(candidate.manifest);
    let revision = chosen_revision::choice(&candidate.compiled.open(), set, query);
    let matched = Match { selector, namespace_selector, revision };
    match (&outcome.verdict, Pod::decode(after)) {
        (Verdict::Unchanged | Verdict::Mutated(_), Ok(after)) => {
            let parts = parts::compare(set, query.pod, after);
            if role == Role::Assert && !parts.are_there() {
                return Decision::NotInjected(vec![asserting()]);
            }
            Decision::Injected(Injection { matched, parts })
        }
        _ => Decision::Withheld(matched),
    }
}

/// Returns why a matching set is not injected by a policy with role `Assert`.
fn asserting() -> Finding {
    Finding {
        kind: Kind::Asserting,
        path: "role".to_owned(),
        wanted: "Inject".to_owned(),
        found: Some("Assert".to_owned()),
        problem: "this policy judges Pods after injection, and injects nothing".to_owned(),
        remedy: "have another policy inject, one without role Assert".to_owned(),
    }
}

#[cfg(test)]
mod identities;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
