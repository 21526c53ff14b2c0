//! The identities that the sidecars of a Pod ask for and get (`serviceaccounts.md` A4).

use super::declared::Declared;

/// A SidecarSet that is injected into the Pod and names an account.
#[derive(Clone, Debug, PartialEq)]
pub struct Asking {
    /// The SidecarSet.
    pub sidecar_set: String,
    /// The account.
    pub account: String,
    /// What the set says about it.
    pub declared: Declared,
}

/// How the owners of an account get its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The kubelet's, of the account that the Pod runs under.
    OfPod,
    /// The controller's, from a Secret (B1).
    OfSecret,
}

/// A SidecarSet gets an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The SidecarSet.
    pub sidecar_set: String,
    /// The account whose token its containers mount.
    pub account: String,
    /// Where the token comes from.
    pub token: Token,
}

/// What happens to the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The account that the Pod runs under from now on, where it changes.
    pub account: Option<String>,
    /// Whether everybody but the owners loses the automounted token (mode `SidecarsOnly`).
    pub hides_token: bool,
    /// The account that the Pod runs under, where only the owners may hold its token.
    pub private: Option<String>,
    /// Who mounts a token of their own.
    pub grants: Vec<Grant>,
    /// SidecarSets whose containers get the token of the Pod's account from the API server, as the app does.
    pub automounted: Vec<String>,
    /// SidecarSets that stay without an identity because the settings say so (`onMissing`, `onConflict`), and why.
    pub skipped: Vec<(String, String)>,
    /// SidecarSets that stay without an identity because the Pod keeps its own (`onAppServiceAccount`), and why.
    pub kept: Vec<(String, String)>,
}
