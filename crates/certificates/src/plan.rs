//! Plans the changes to the kept certificates, so that the API server can always verify the served one.
//!
//! The plan is a pure function of the Secret's contents, the contents of the `caBundle`s over time, and the time. Its
//! rules:
//!
//! 1. A server certificate is renewed when a third of its life is left, or when it lacks a name.
//! 2. A new authority is introduced when a third of the life of the signing one is left. First it is only trusted:
//!    every `caBundle` holds it beside the old one. It signs only after every `caBundle` has held it for
//!    [`Lifetimes::settle`]. Until then the old one goes on signing.
//! 3. An authority that no longer signs is trusted until everything that it signed has expired.
//! 4. Unusable contents (damaged, expired, keys lost) are replaced: in the same order while there is a good certificate
//!    to serve, at once if there is none.

use std::collections::BTreeMap;

use crate::authority::Lifetimes;
use crate::names::ServerNames;
use crate::time::Time;
use crate::x509::{Id, Validity};

/// A trusted authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trusted {
    pub(crate) id: Id,
    pub(crate) validity: Validity,
    /// When the last certificate that it signed expires; `None` while it signs.
    pub(crate) retired_until: Option<Time>,
}

/// A server certificate that has its key and was signed by a trusted authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) issuer: Id,
    pub(crate) validity: Validity,
    pub(crate) names: ServerNames,
}

/// The contents of the Secret without keys. An authority is `signing` or `next` only if its key is present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthorityState {
    pub(crate) trusted: Vec<Trusted>,
    pub(crate) signing: Option<Id>,
    pub(crate) next: Option<Id>,
    pub(crate) server: Option<Server>,
    /// Whether there were further, unusable contents.
    pub(crate) damaged: bool,
}

/// A change of the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Create an authority that signs from now on.
    Create,
    /// Create an authority that is trusted from now on, and signs later.
    Introduce,
    /// Let the next authority sign.
    Promote,
    /// Create a server certificate for these names.
    Issue(ServerNames),
    /// Remember until when an authority that no longer signs is needed.
    Retire(Id, Time),
    /// Stop trusting an authority.
    Forget(Id),
    /// Rewrite the Secret without its unusable contents.
    Tidy,
}

/// For each authority that every `caBundle` holds: since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrustObservations {
    since: BTreeMap<Id, Time>,
}

impl TrustObservations {
    /// Records the authorities that all bundles hold now; `None` if a bundle could not be read.
    pub(crate) fn note(&mut self, everywhere: Option<Vec<Id>>, now: Time) {
        let everywhere = everywhere.unwrap_or_default();
        // If the clock was set back, the observation starts anew, so that it does not seem longer than it is.
        self.since.retain(|id, since| everywhere.contains(id) && *since <= now);
        for id in everywhere {
            self.since.entry(id).or_insert(now);
        }
    }

    fn settled(&self, id: Id, now: Time, life: &Lifetimes) -> bool {
        self.since.get(&id).is_some_and(|since| *since + life.settle <= now)
    }
}

/// Returns the necessary changes, in order, for one write; none if all is well.
pub(crate) fn plan(
    state: &AuthorityState,
    seen: &TrustObservations,
    wanted: &ServerNames,
    now: Time,
    life: &Lifetimes,
) -> Vec<Change> {
    let validity = |id: Id| state.trusted.iter().find(|it| it.id == id).map(|it| it.validity);
    let usable = |id: &Id| validity(*id).is_some_and(|validity| validity.holds(now));
    let signing = state.signing.filter(usable);
    let next = state.next.filter(usable);
    let server = state.server.as_ref().filter(|server| server.validity.holds(now) && usable(&server.issuer));
    let settled = |id: Id| seen.settled(id, now, life);

    let mut changes = Vec::new();
    // The signing authority after these changes; `None` if that is a new one.
    let mut signer = signing;
    match (signing, next) {
        (None, None) if server.is_some() => changes.push(Change::Introduce),
        (None, None) => changes.extend([Change::Create, Change::Issue(wanted.clone())]),
        (None, Some(next)) if server.is_some() && !settled(next) => {}
        (Some(_), Some(next)) if !settled(next) => {}
        (_, Some(next)) => {
            changes.extend([Change::Promote, Change::Issue(wanted.clone())]);
            signer = Some(next);
        }
        (Some(signing), None) => {
            if validity(signing).is_some_and(|validity| due(validity, life.authority, now)) {
                changes.push(Change::Introduce);
            }
        }
    }
    let issued = changes.iter().any(|change| matches!(change, Change::Issue(_)));
    if let Some(signing) = signer.filter(|_| !issued) {
        let until = validity(signing).map_or(now, |validity| validity.until);
        changes.extend(issue(server, wanted, (signing, until, settled(signing)), now, life));
    }
    changes.extend(farewells(state, signer, server, now, life));
    if changes.is_empty() && state.damaged {
        changes.push(Change::Tidy);
    }
    changes
}

/// Whether at most a third of `life` is left, counted back from the end of validity, however long the actual life.
fn due(validity: Validity, life: std::time::Duration, now: Time) -> bool {
    validity.until - life / 3 <= now
}

/// Returns the change that issues a server certificate, if one is needed.
fn issue(
    server: Option<&Server>,
    wanted: &ServerNames,
    (signing, signing_until, settled): (Id, Time, bool),
    now: Time,
    life: &Lifetimes,
) -> Option<Change> {
    let Some(server) = server else { return Some(Change::Issue(wanted.clone())) };
    // The certificate of an authority that no longer signs is kept until every `caBundle` holds the signing one.
    let other = server.issuer != signing;
    if other && !settled {
        return None;
    }
    if !server.names.cover(wanted) {
        // The old names stay: otherwise replicas with different configurations would remove each other's names forever.
        return Some(Change::Issue(wanted.with(&server.names)));
    }
    // If both certificates would end with the authority, a new one gains nothing.
    let renew =
        due(server.validity, life.server, now) && (now + life.server).min(signing_until) > server.validity.until;
    (other || renew).then(|| Change::Issue(wanted.clone()))
}

/// Returns the changes for authorities that are not needed any more, or only until a known time.
fn farewells<'a>(
    state: &'a AuthorityState,
    signer: Option<Id>,
    server: Option<&'a Server>,
    now: Time,
    life: &'a Lifetimes,
) -> impl Iterator<Item = Change> + 'a {
    state.trusted.iter().filter_map(move |authority| {
        let Trusted { id, validity, retired_until } = *authority;
        if validity.until <= now {
            return Some(Change::Forget(id));
        }
        if [signer, state.next].contains(&Some(id)) {
            return None;
        }
        let last = server.filter(|server| server.issuer == id).map(|server| server.validity.until);
        match retired_until {
            None => Some(Change::Retire(id, (now + life.server).max(last.unwrap_or(now)).min(validity.until))),
            Some(until) if until <= now && last.is_none() => Some(Change::Forget(id)),
            Some(_) => None,
        }
    })
}
