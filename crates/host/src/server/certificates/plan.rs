//! What has to change now, so that the API server can always verify what is served.
//!
//! A pure function of what is kept, what the `caBundle`s were seen to hold, and the time. Its rules:
//!
//! 1. A server certificate is renewed when a third of its life is left, or when it lacks a name.
//! 2. A new authority is introduced when a third of the life of the signing one is left. It is trusted first (it
//!    stands in every `caBundle` beside the old one) and signs only when it has been seen there for
//!    [`Lifetimes::settle`]. Until then the old one goes on signing.
//! 3. An authority that signs no longer is trusted until what it has signed has expired.
//! 4. What cannot be used any more (damaged, expired, keys lost) is replaced: in the same order while there is a good
//!    certificate to serve, at once where there is none.

use std::collections::BTreeMap;

use super::authority::Lifetimes;
use super::names::ServerNames;
use super::time::Time;
use super::x509::{Id, Validity};

/// An authority that is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trusted {
    pub(super) id: Id,
    pub(super) validity: Validity,
    /// When the last certificate that it signed expires; unknown while it signs.
    pub(super) retired_until: Option<Time>,
}

/// A server certificate that has its key and was signed by a trusted authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) issuer: Id,
    pub(super) validity: Validity,
    pub(super) names: ServerNames,
}

/// What is kept, without keys. Roles are held only by authorities whose key is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) trusted: Vec<Trusted>,
    pub(super) signing: Option<Id>,
    pub(super) next: Option<Id>,
    pub(super) server: Option<Server>,
    /// Whether there was more that could not be used.
    pub(super) damaged: bool,
}

/// A change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Make an authority that signs from now on.
    Create,
    /// Make an authority that is trusted from now on, and signs later.
    Introduce,
    /// Let the next authority sign.
    Promote,
    /// Make a server certificate for these names.
    Issue(ServerNames),
    /// Remember until when an authority that signs no longer is needed.
    Retire(Id, Time),
    /// Trust an authority no longer.
    Forget(Id),
    /// Write down what can be used, without the rest.
    Tidy,
}

/// Since when every `caBundle` has been seen to hold which authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    since: BTreeMap<Id, Time>,
}

impl Seen {
    /// Notes what all bundles hold now; nothing is known where one of them could not be read.
    pub(super) fn note(&mut self, everywhere: Option<Vec<Id>>, now: Time) {
        let everywhere = everywhere.unwrap_or_default();
        // A clock that was set back must not make a moment of a minute.
        self.since.retain(|id, since| everywhere.contains(id) && *since <= now);
        for id in everywhere {
            self.since.entry(id).or_insert(now);
        }
    }

    fn settled(&self, id: Id, now: Time, life: &Lifetimes) -> bool {
        self.since.get(&id).is_some_and(|since| *since + life.settle <= now)
    }
}

/// What has to change now; nothing where all is well. The changes are for one write, in this order.
pub(super) fn plan(state: &State, seen: &Seen, wanted: &ServerNames, now: Time, life: &Lifetimes) -> Vec<Change> {
    let validity = |id: Id| state.trusted.iter().find(|it| it.id == id).map(|it| it.validity);
    let usable = |id: &Id| validity(*id).is_some_and(|validity| validity.holds(now));
    let signing = state.signing.filter(usable);
    let next = state.next.filter(usable);
    let server = state.server.as_ref().filter(|server| server.validity.holds(now) && usable(&server.issuer));
    let settled = |id: Id| seen.settled(id, now, life);

    let mut changes = Vec::new();
    // Who signs after these changes; nothing while that is a new one.
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

/// Whether a third of a life is left. What was made with a longer life counts from its end as well.
fn due(validity: Validity, life: std::time::Duration, now: Time) -> bool {
    validity.until - life / 3 <= now
}

/// The server certificate that is missing, where one is.
fn issue(
    server: Option<&Server>,
    wanted: &ServerNames,
    (signing, signing_until, settled): (Id, Time, bool),
    now: Time,
    life: &Lifetimes,
) -> Option<Change> {
    let Some(server) = server else { return Some(Change::Issue(wanted.clone())) };
    // A certificate of an authority that signs no longer is kept until everybody trusts the one that does.
    let other = server.issuer != signing;
    if other && !settled {
        return None;
    }
    if !server.names.cover(wanted) {
        // Replicas of two configurations would take each other's names away, again and again.
        return Some(Change::Issue(wanted.with(&server.names)));
    }
    // Where the end of the authority is the end of both, a new one gains nothing.
    let renew =
        due(server.validity, life.server, now) && (now + life.server).min(signing_until) > server.validity.until;
    (other || renew).then(|| Change::Issue(wanted.clone()))
}

/// Authorities that are no longer needed, or will not be from some time on.
fn farewells<'a>(
    state: &'a State,
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
