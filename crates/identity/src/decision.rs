//! The identities that the sidecars of a Pod request and get (IDP-7).

use super::audience::AudienceToken;
use super::declared::Declared;
use super::names;
use super::partners::{Origin, Side};

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

/// The identities of a Pod and its sidecars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The new account of the Pod, if it changes.
    pub account: Option<String>,
    /// Whether all containers but the owners lose the automounted token (mode `SidecarsOnly`).
    pub hides_token: bool,
    /// The account that the Pod runs under, if only the owners may hold its token.
    pub private: Option<String>,
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
    /// the twin would take the Pod for one that ran under the account before.
    pub fn volume_of(&self, grant: &Grant) -> String {
        let mut id = grant.credential();
        let is_private = self.private.as_ref() == Some(&grant.account);
        if grant.token == Token::OfPod && !grant.audiences.is_empty() && !is_private {
            id.push('\n');
        }
        names::token_volume(&id)
    }
}
