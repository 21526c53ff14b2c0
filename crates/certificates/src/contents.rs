//! The contents of the Secret: authorities, the served certificate, and their keys.

use std::collections::{BTreeMap, BTreeSet};

use rustls::pki_types::CertificateDer;

use crate::authority::{self, Lifetimes, MakeError, Pair};
use crate::names::ServerNames;
use crate::pem;
use crate::plan::{AuthorityState, Change, Server, Trusted};
use crate::time::Time;
use crate::x509::{self, Facts, Id};

/// The certificate of an authority and its parsed facts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Authority {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) facts: Facts,
}

/// The certificates and keys of the self-signed source. All parts match each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    /// Every authority that clients should trust, in the order of the bundle.
    pub(crate) trusted: Vec<Authority>,
    /// The authority that signs.
    pub(crate) signing: Option<Pair>,
    /// The authority that will sign once every client trusts it.
    pub(crate) next: Option<Pair>,
    /// The served certificate.
    pub(crate) server: Option<Pair>,
    /// For authorities that no longer sign: the time by which everything that they signed has expired.
    pub(crate) retired: BTreeMap<Id, Time>,
    /// The keys of the Secret whose values are unusable.
    pub(crate) damage: Vec<&'static str>,
}

impl Contents {
    /// Returns the bundle of all trusted authorities for `caBundle`.
    pub(crate) fn bundle(&self) -> String {
        pem::shown(self.trusted.iter().map(|authority| &authority.certificate))
    }

    /// Returns the state without keys.
    pub(crate) fn state(&self) -> AuthorityState {
        let trusted = self.trusted.iter().map(|authority| {
            let Facts { id, validity, .. } = authority.facts;
            Trusted { id, validity, retired_until: self.retired.get(&id).copied() }
        });
        AuthorityState {
            trusted: trusted.collect(),
            signing: self.signing.as_ref().map(|pair| Id::from_certificate(&pair.certificate)),
            next: self.next.as_ref().map(|pair| Id::from_certificate(&pair.certificate)),
            server: self.server.as_ref().and_then(|pair| self.server_state(pair)),
            damaged: !self.damage.is_empty(),
        }
    }

    fn server_state(&self, pair: &Pair) -> Option<Server> {
        let Facts { validity, names, .. } = x509::read(&pair.certificate)?;
        let issuer = self.trusted.iter().find(|authority| x509::signed(&pair.certificate, &authority.certificate));
        Some(Server { issuer: issuer?.facts.id, validity, names })
    }

    /// Returns the contents after the changes of a plan.
    pub(crate) fn after(mut self, changes: &[Change], now: Time, life: &Lifetimes) -> Result<Self, MakeError> {
        for change in changes {
            match change {
                Change::Create => self.signing = Some(self.trust(now, life)?),
                Change::Introduce => self.next = Some(self.trust(now, life)?),
                Change::Promote => self.signing = self.next.take(),
                Change::Issue(names) => self.issue(names, now, life)?,
                Change::Retire(id, until) => {
                    self.retired.insert(*id, *until);
                }
                Change::Forget(id) => self.trusted.retain(|authority| authority.facts.id != *id),
                Change::Tidy => {}
            }
        }
        Ok(self.tidied())
    }

    /// Returns the contents without the parts that match no trusted authority.
    pub(crate) fn tidied(mut self) -> Self {
        let trusted: BTreeSet<Id> = self.trusted.iter().map(|authority| authority.facts.id).collect();
        let is_trusted = |pair: &Pair| trusted.contains(&Id::from_certificate(&pair.certificate));
        self.signing = self.signing.filter(is_trusted);
        self.next = self.next.filter(is_trusted);
        let signers =
            [&self.signing, &self.next].map(|pair| pair.as_ref().map(|pair| Id::from_certificate(&pair.certificate)));
        self.retired.retain(|id, _| trusted.contains(id) && !signers.contains(&Some(*id)));
        self.damage.clear();
        self
    }

    /// Creates an authority and adds it to the trusted ones.
    fn trust(&mut self, now: Time, life: &Lifetimes) -> Result<Pair, MakeError> {
        let pair = authority::create(now, life)?;
        if let Some(facts) = x509::read(&pair.certificate) {
            self.trusted.push(Authority { certificate: pair.certificate.clone(), facts });
        }
        Ok(pair)
    }

    fn issue(&mut self, names: &ServerNames, now: Time, life: &Lifetimes) -> Result<(), MakeError> {
        if let Some(signing) = &self.signing {
            let until = x509::read(&signing.certificate).map_or(now + life.server, |facts| facts.validity.until);
            self.server = Some(authority::issue(signing, until, names, now, life)?);
        }
        Ok(())
    }
}
