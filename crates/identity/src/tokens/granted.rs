//! The containers and accounts of a decision.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::index::index;

use super::Owners;
use crate::decision::{Decision, Token};
use crate::names;

/// An account whose token containers mount.
#[derive(Clone, Debug)]
pub struct Account<'a> {
    /// The name of the account.
    pub name: &'a str,
    /// The name of the volume through which the owners get the token.
    pub volume: String,
    /// Where the token comes from.
    pub token: Token,
    /// The names of the containers that mount the token.
    pub owners: BTreeSet<&'a str>,
}

/// The accounts that a decision grants, with their owners.
#[derive(Clone, Debug, Default)]
pub struct Granted<'a> {
    accounts: BTreeMap<&'a str, Account<'a>>,
    by_volume: BTreeMap<String, &'a str>,
    by_container: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Granted<'a> {
    /// Collects the accounts that `decision` grants to the containers of each set.
    pub fn of(decision: &'a Decision, owners: &'a Owners) -> Self {
        let mut granted = Self::default();
        for grant in &decision.grants {
            let name = grant.account.as_str();
            let account = granted.accounts.entry(name).or_insert_with(|| Account {
                name,
                volume: names::token_volume(name),
                token: grant.token,
                owners: BTreeSet::new(),
            });
            let containers = owners.get(&grant.sidecar_set).into_iter().flatten().map(String::as_str);
            for container in containers {
                account.owners.insert(container);
                granted.by_container.entry(container).or_default().insert(name);
            }
        }
        granted.by_volume = index(granted.accounts.values().map(|account| (account.volume.clone(), account.name)));
        granted
    }

    /// Returns the accounts, by name.
    pub fn accounts(&self) -> impl Iterator<Item = &Account<'a>> {
        self.accounts.values()
    }

    /// Returns the account of this name.
    pub fn account(&self, name: &str) -> Option<&Account<'a>> {
        self.accounts.get(name)
    }

    /// Returns the account whose token the volume of this name holds.
    pub fn of_volume(&self, volume: &str) -> Option<&Account<'a>> {
        self.account(self.by_volume.get(volume)?)
    }

    /// Returns the accounts whose tokens a container gets. More than one is a conflict of SidecarSets.
    pub fn of_container(&self, container: &str) -> impl Iterator<Item = &Account<'a>> {
        self.by_container.get(container).into_iter().flatten().filter_map(|account| self.account(account))
    }

    /// Whether a container may mount the volume of this name.
    pub fn owns(&self, container: &str, volume: &str) -> bool {
        self.of_volume(volume).is_some_and(|account| account.owners.contains(container))
    }
}
