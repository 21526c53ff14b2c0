//! The identities that the sidecars of a Pod request and get (IDP-7).

use std::collections::BTreeSet;
use std::fmt;

use super::audience::AudienceToken;
use super::declared::Declared;
use super::names;
use super::partners::{Origin, Side};
use super::token_containers::By;

/// A SidecarSet that is injected into the Pod and names an account.
#[derive(Clone, Debug, PartialEq)]
pub struct Asking {
    /// The name of the SidecarSet.
    pub sidecar_set: String,
    /// The name of the account.
    pub account: String,
    /// The identity fields of the set.
    pub declared: Declared,
    /// Whether the set comes from the settings or from the cluster.
    pub origin: Origin,
}

impl Asking {
    /// Returns the set as another one of the same Pod sees it.
    pub fn side(&self) -> Side<'_> {
        Side { name: &self.sidecar_set, declared: &self.declared, origin: self.origin }
    }
}

/// How the owners of an account, the containers of its SidecarSets, get its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// From the kubelet: the token of the account that the Pod runs under.
    OfPod,
    /// From a Secret that the controller fills (TOK-1).
    OfSecret,
}

/// An identity that a SidecarSet gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the SidecarSet.
    pub sidecar_set: String,
    /// The name of the account whose token its containers mount.
    pub account: String,
    /// Where the token comes from.
    pub token: Token,
    /// The tokens for other audiences. A set that has some mounts a volume of its own (AUD-3).
    pub audiences: Vec<AudienceToken>,
}

/// A Pod that gives the token of its own account to some of its containers alone (TCN-4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrowed {
    /// The account that the Pod runs under.
    pub account: String,
    /// Who says which containers get the token.
    pub by: By,
    /// The containers into which Pillion mounts the token, besides those of SidecarSets, in the order of the Pod.
    pub containers: Vec<String>,
    /// The containers that may hold the token and have a mount of their own in its place.
    pub on_their_own: BTreeSet<String>,
    /// The volumes whose tokens are all for other audiences than the API server. Every container may use them.
    pub for_others: BTreeSet<String>,
}

impl Narrowed {
    /// Returns the names of the containers that may hold the token, besides those of SidecarSets.
    pub fn holders(&self) -> BTreeSet<&str> {
        self.containers.iter().chain(&self.on_their_own).map(String::as_str).collect()
    }
}

/// Names the containers that hold the token: `"app", "worker"`, or `no container`.
impl fmt::Display for Narrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holders = self.holders();
        if holders.is_empty() {
            return f.write_str("no container");
        }
        let named: Vec<String> = holders.iter().take(NAMES_MAX).map(|name| format!("{name:?}")).collect();
        f.write_str(&named.join(", "))?;
        match holders.len().saturating_sub(NAMES_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The maximum number of names in a message.
const NAMES_MAX: usize = 8;

/// The identities of a Pod and its sidecars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The new account of the Pod, if it changes.
    pub account: Option<String>,
    /// Whether all containers but the owners lose the automounted token (mode `SidecarsOnly`).
    pub hides_token: bool,
    /// The account that the Pod runs under, if only the owners may hold its token.
    pub private: Option<String>,
    /// Whether a SidecarSet gives the account that the Pod runs under to all containers (mode `Pod`).
    pub is_for_all: bool,
    /// SidecarSets whose containers mount a token that Pillion provides.
    pub grants: Vec<Grant>,
    /// SidecarSets whose containers, like the app, get the token of the Pod's account from the API server.
    pub automounted: Vec<String>,
    /// SidecarSets that get no identity because of the settings `onMissing` and `onConflict`, each with the reason.
    pub skipped: Vec<(String, String)>,
    /// SidecarSets that get no identity because the Pod keeps its own (`onAppServiceAccount`), each with the reason.
    pub kept: Vec<(String, String)>,
    /// SidecarSets that get the identity of a merged account, and so none of their tokens for other audiences (AUD-6).
    pub without_audiences: Vec<String>,
    /// Which containers get the token of the Pod's own account, if not all do (TCN-4).
    pub narrowed: Option<Narrowed>,
}

impl Grant {
    /// Returns what the name of the Secret is derived from ([`names::credential`]): a set with tokens for other audiences
    /// has a Secret of its own (AUD-4).
    pub fn credential(&self) -> String {
        let own = Some(self.sidecar_set.as_str()).filter(|_| !self.audiences.is_empty());
        names::credential(&self.account, own)
    }
}

impl Decision {
    /// Returns the name of the volume through which the containers of a set get their tokens (TOK-1, AUD-4).
    ///
    /// If the app may hold tokens of the account, too, the volume of a set with tokens for other audiences has another
    /// name. Otherwise a webhook could turn automounting on again after the account was given to the sidecars alone, and
    /// the twin would take the Pod for one that ran under the account before. The same holds for all volumes of a Pod that
    /// gives the token of its own account to some containers (TCN-4).
    pub fn volume_of(&self, grant: &Grant) -> String {
        let credential = grant.credential();
        let is_private = self.private.as_ref() == Some(&grant.account);
        let is_own = self.narrowed.is_some() || (!grant.audiences.is_empty() && !is_private);
        if grant.token == Token::OfPod && is_own {
            names::own_token_volume(&credential)
        } else {
            names::token_volume(&credential)
        }
    }

    /// Returns the account that the Pod runs under, if not all of its containers may hold the token.
    pub fn limited_account(&self) -> Option<&str> {
        self.private.as_deref().or_else(|| self.narrowed.as_ref().map(|of| of.account.as_str()))
    }
}
