//! What a Secret with tokens is for.

use std::fmt;

use pillion_identity::decision::Asking;
use pillion_identity::names;

/// The account whose tokens a Secret holds, and the SidecarSet that has the Secret for itself, if that set has tokens
/// for other audiences (AUD-3). Other sets that name the account share a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credential {
    /// The name of the ServiceAccount.
    pub account: String,
    /// The name of the SidecarSet that has the Secret for itself.
    pub sidecar_set: Option<String>,
}

impl Credential {
    /// Returns the credential that all sets share which name an account and have no tokens for other audiences.
    pub fn shared(account: &str) -> Self {
        Self { account: account.to_owned(), sidecar_set: None }
    }

    /// Returns the credential that a set has for itself.
    pub fn own(account: &str, sidecar_set: &str) -> Self {
        Self { account: account.to_owned(), sidecar_set: Some(sidecar_set.to_owned()) }
    }

    /// Returns the credential of a set that is isolated.
    pub(crate) fn from_asking(set: &Asking) -> Self {
        if set.declared.tokens.is_empty() {
            Self::shared(&set.account)
        } else {
            Self::own(&set.account, &set.sidecar_set)
        }
    }

    /// Returns the name of the Secret (TOK-1, AUD-4).
    pub fn secret(&self) -> String {
        names::token_secret(&names::credential(&self.account, self.sidecar_set.as_deref()))
    }
}

/// `ServiceAccount "logs"`, and for which SidecarSet, if it is for one.
impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount \"{}\"", self.account)?;
        match &self.sidecar_set {
            Some(set) => write!(f, " for SidecarSet \"{set}\""),
            None => Ok(()),
        }
    }
}
