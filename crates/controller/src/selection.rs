//! The controllers to run: `--controllers`, in the syntax of kube-controller-manager.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// Merged ServiceAccounts (MRG-1).
    MergedServiceAccounts,
    /// Tokens for isolated sidecars (TOK-5).
    SidecarTokens,
    /// The cluster's SidecarSets for the policy (SET-1).
    Bundle,
    /// ServiceAccounts called `default` (ACC-1).
    ServiceAccount,
    /// Token Secrets (TKN-1).
    ServiceAccountToken,
    /// ConfigMaps called `kube-root-ca.crt`.
    RootCaPublisher,
    /// Unused token Secrets (CLN-2).
    LegacyTokenCleaner,
}

/// All controllers.
pub const ALL: [Name; 7] = [
    Name::MergedServiceAccounts,
    Name::SidecarTokens,
    Name::Bundle,
    Name::ServiceAccount,
    Name::ServiceAccountToken,
    Name::RootCaPublisher,
    Name::LegacyTokenCleaner,
];

impl Name {
    /// Returns the name as in `--controllers`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MergedServiceAccounts => "merged-serviceaccounts",
            Self::SidecarTokens => "sidecar-tokens",
            Self::Bundle => "bundle",
            Self::ServiceAccount => "serviceaccount",
            Self::ServiceAccountToken => "serviceaccount-token",
            Self::RootCaPublisher => "root-ca-publisher",
            Self::LegacyTokenCleaner => "legacy-token-cleaner",
        }
    }

    /// Whether `*` includes this controller. In nearly every cluster, kube-controller-manager does the work of the
    /// others.
    pub const fn is_on_by_default(self) -> bool {
        matches!(self, Self::MergedServiceAccounts | Self::SidecarTokens | Self::Bundle)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One item of `--controllers`: `*`, `<name>` or `-<name>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The controllers that are on by default.
    Default,
    /// Run this controller.
    On(Name),
    /// Do not run this controller.
    Off(Name),
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Default);
        }
        let (is_on, name) = text.strip_prefix('-').map_or((true, text), |name| (false, name));
        let Some(name) = ALL.into_iter().find(|known| known.as_str() == name) else {
            let known: Vec<&str> = ALL.iter().map(|name| name.as_str()).collect();
            return Err(format!("no controller has this name; there are {}", known.join(", ")));
        };
        Ok(if is_on { Self::On(name) } else { Self::Off(name) })
    }
}

/// Returns the controllers to run. A controller that is turned off stays off. Without items, those that are on by
/// default run.
pub fn chosen(items: &[Item]) -> BTreeSet<Name> {
    let is = |item: Item| items.contains(&item);
    let by_default = items.is_empty() || is(Item::Default);
    ALL.into_iter()
        .filter(|name| (is(Item::On(*name)) || (by_default && name.is_on_by_default())) && !is(Item::Off(*name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_is_said("", "merged-serviceaccounts,sidecar-tokens,bundle")]
    #[case::star("*", "merged-serviceaccounts,sidecar-tokens,bundle")]
    #[case::one("bundle", "bundle")]
    #[case::one_more("*,serviceaccount", "merged-serviceaccounts,sidecar-tokens,bundle,serviceaccount")]
    #[case::one_less("*,-bundle", "merged-serviceaccounts,sidecar-tokens")]
    #[case::off_wins("bundle,-bundle", "")]
    fn controllers_are_chosen(#[case] items: &str, #[case] running: &str) {
        let items: Result<Vec<Item>, String> =
            items.split(',').filter(|item| !item.is_empty()).map(str::parse).collect();
        let names: Vec<_> = chosen(&items.expect("items")).into_iter().map(Name::as_str).collect();
        assert_eq!(names.join(","), running);
    }

    #[test]
    fn an_unknown_controller_is_refused_with_those_that_there_are() {
        let error = "-tokens".parse::<Item>().expect_err("no controller");
        assert!(error.contains("sidecar-tokens"), "{error}");
    }
}
