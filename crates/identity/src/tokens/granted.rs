//! The containers of a decision, and the tokens that they get.

use std::collections::{BTreeMap, BTreeSet};

use super::Owners;
use super::held::shown;
use crate::audience::AudienceToken;
use crate::decision::{Decision, Narrowed, Token};
use crate::names;

/// The token of an account that containers mount through one volume: that of all SidecarSets which name the account, or
/// that of one SidecarSet with tokens for other audiences (AUD-3).
#[derive(Clone, Debug)]
pub struct Credential<'a> {
    /// The name of the account.
    pub account: &'a str,
    /// What the name of the Secret is derived from ([`credential`](crate::decision::Grant::credential)).
    pub id: String,
    /// The name of the volume through which the owners get the token.
    pub volume: String,
    /// Where the token comes from.
    pub token: Token,
    /// The tokens for other audiences.
    pub audiences: &'a [AudienceToken],
    /// The names of the containers that mount the volume.
    pub owners: BTreeSet<&'a str>,
}

/// The credentials that a decision grants, with their owners.
#[derive(Clone, Debug, Default)]
pub struct Granted<'a> {
    by_volume: BTreeMap<String, Credential<'a>>,
    /// The accounts with their volumes: the order in which a Pod gets the volumes.
    order: BTreeSet<(&'a str, String)>,
    /// The volumes that each container mounts.
    by_container: BTreeMap<&'a str, BTreeSet<String>>,
    /// A Pod that gives the token of its own account to some of its containers alone.
    narrowed: Option<&'a Narrowed>,
    /// The containers that this Pod gives it to.
    own: BTreeSet<&'a str>,
}

impl<'a> Granted<'a> {
    /// Collects what `decision` grants to the containers of each set.
    pub fn new(decision: &'a Decision, owners: &'a Owners) -> Self {
        let mut granted = Self { narrowed: decision.narrowed.as_ref(), ..Self::default() };
        for grant in &decision.grants {
            let volume = decision.volume_of(grant);
            let credential = granted.by_volume.entry(volume.clone()).or_insert_with(|| Credential {
                account: &grant.account,
                id: grant.credential(),
                volume: volume.clone(),
                token: grant.token,
                audiences: &grant.audiences,
                owners: BTreeSet::new(),
            });
            granted.order.insert((credential.account, volume.clone()));
            let containers = owners.get(&grant.sidecar_set).into_iter().flatten().map(String::as_str);
            for container in containers {
                credential.owners.insert(container);
                granted.by_container.entry(container).or_default().insert(volume.clone());
            }
        }
        if let Some(narrowed) = &decision.narrowed {
            granted.add_own(narrowed);
        }
        granted
    }

    /// Adds the containers that get the token of the Pod's own account (TCN-4).
    fn add_own(&mut self, narrowed: &'a Narrowed) {
        if narrowed.containers.is_empty() {
            return;
        }
        let id = names::credential(&narrowed.account, None);
        let volume = names::token_volume_of_pod(&narrowed.account);
        let credential = self.by_volume.entry(volume.clone()).or_insert_with(|| Credential {
            account: &narrowed.account,
            id,
            volume: volume.clone(),
            token: Token::OfPod,
            audiences: &[],
            owners: BTreeSet::new(),
        });
        self.order.insert((credential.account, volume.clone()));
        for container in &narrowed.containers {
            self.own.insert(container);
            credential.owners.insert(container);
            self.by_container.entry(container).or_default().insert(volume.clone());
        }
    }

    /// Returns the decision about the token of the Pod's own account, if not all containers get it.
    pub fn narrowed(&self) -> Option<&'a Narrowed> {
        self.narrowed
    }

    /// Returns what a container is called in a message: `sidecar "agent"`, or `container "app"`.
    pub fn call(&self, container: &str) -> String {
        let kind = if self.own.contains(container) { "container" } else { "sidecar" };
        format!("{kind} {}", shown(container))
    }

    /// Returns the credentials, by account.
    pub fn credentials(&self) -> impl Iterator<Item = &Credential<'a>> {
        self.order.iter().filter_map(|(_, volume)| self.of_volume(volume))
    }

    /// Returns the credentials of this account.
    pub fn of_account(&self, account: &str) -> impl Iterator<Item = &Credential<'a>> {
        self.credentials().filter(move |credential| credential.account == account)
    }

    /// Returns the credential in the volume of this name.
    pub fn of_volume(&self, volume: &str) -> Option<&Credential<'a>> {
        self.by_volume.get(volume)
    }

    /// Returns the credentials that a container gets. More than one is a conflict of SidecarSets.
    pub fn of_container(&self, container: &str) -> impl Iterator<Item = &Credential<'a>> {
        self.by_container.get(container).into_iter().flatten().filter_map(|volume| self.of_volume(volume))
    }

    /// Whether a container may mount the volume of this name.
    pub fn owns(&self, container: &str, volume: &str) -> bool {
        self.of_volume(volume).is_some_and(|credential| credential.owners.contains(container))
    }
}
