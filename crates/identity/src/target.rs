//! The account that SidecarSets give to a Pod together (IDP-7, TRUST-2, TRUST-6).

use std::collections::BTreeSet;

use super::decision::Asking;
use super::declared::{Mode, OnConflict};
use super::names;
use super::partners::Origin;
use super::rules::{Otherwise, Rules};

/// The account that SidecarSets give to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedAccount {
    /// There are no such sets.
    Nobody,
    /// All sets name the same account (IDP-7: k sets with the same name do not conflict).
    Account(String),
    /// The sets name different accounts, all of them merge, and every two of them trust each other.
    Merged(String),
    /// The sets name different accounts, and may not share one (IDP-1, TRUST-2).
    Conflict,
}

impl SharedAccount {
    /// Returns the account of sets that are not in mode `Isolate`.
    pub fn choose(sets: &[&Asking], rules: &Rules) -> Self {
        let Some(first) = sets.first() else { return Self::Nobody };
        if sets.iter().all(|set| set.account == first.account) {
            return Self::Account(first.account.clone());
        }
        if sets.iter().any(|set| set.declared.on_conflict == OnConflict::Refuse) || !trust_each_other(sets, rules) {
            return Self::Conflict;
        }
        let names: Vec<&str> = sets.iter().map(|set| set.sidecar_set.as_str()).collect();
        Self::Merged(names::merged(&names))
    }

    /// Returns the name of the account, if there is one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Account(name) | Self::Merged(name) => Some(name),
            Self::Nobody | Self::Conflict => None,
        }
    }
}

/// TRUST-2: whether every two of these sets trust each other ([`Side::trusts`](super::partners::Side::trusts)).
///
/// Each set's partners are put into a set first: a hundred partners times a hundred thousand pairs would be too many
/// comparisons (E18).
fn trust_each_other(sets: &[&Asking], rules: &Rules) -> bool {
    let is_of_settings = |set: &Asking| set.origin == Origin::Settings;
    if rules.merge_cluster_sets || sets.iter().all(|set| is_of_settings(set)) {
        return true;
    }
    let partners: Vec<BTreeSet<&str>> =
        sets.iter().map(|set| set.declared.partners.iter().map(String::as_str).collect()).collect();
    let names_others = |(one, partners): (&&Asking, &BTreeSet<&str>)| {
        sets.iter().all(|other| {
            one.sidecar_set == other.sidecar_set
                || (is_of_settings(one) && is_of_settings(other))
                || partners.contains(other.sidecar_set.as_str())
        })
    };
    sets.iter().zip(&partners).all(names_others)
}

/// The sets of a Pod that share its account.
#[derive(Clone, Debug)]
pub struct Shares<'a> {
    /// The sets that get the account, in their order; all of them if [`Self::target`] is a conflict and the Pod is
    /// refused.
    pub sets: Vec<&'a Asking>,
    /// The account.
    pub target: SharedAccount,
    /// The sets that conflict and get no identity (`onConflict: Skip`), in their order.
    pub skipped: Vec<&'a Asking>,
}

impl<'a> Shares<'a> {
    /// Decides about sets that are not in mode `Isolate`.
    ///
    /// If sets conflict and `onConflict` is `Skip`, none of them gets an identity, with one exception: the sets of the
    /// settings keep theirs if they agree among themselves. Otherwise a SidecarSet of the cluster could take the
    /// identity of a mandatory sidecar away (TRUST-6).
    pub fn new(sets: Vec<&'a Asking>, rules: &Rules) -> Self {
        let target = SharedAccount::choose(&sets, rules);
        if target != SharedAccount::Conflict || rules.on_conflict == Otherwise::Deny {
            return Self { sets, target, skipped: Vec::new() };
        }
        let of_settings: Vec<&Asking> = sets.iter().copied().filter(|set| set.origin == Origin::Settings).collect();
        let target = match SharedAccount::choose(&of_settings, rules) {
            SharedAccount::Nobody => SharedAccount::Conflict,
            target => target,
        };
        let gets_it = |set: &Asking| match &target {
            SharedAccount::Conflict | SharedAccount::Nobody => false,
            SharedAccount::Account(name) => set.origin == Origin::Settings || set.account == *name,
            SharedAccount::Merged(_) => set.origin == Origin::Settings,
        };
        let (sets, skipped) = sets.into_iter().partition(|set| gets_it(set));
        Self { sets, target, skipped }
    }
}

/// Whether all containers of a Pod get the account of these sets (IDP-9).
///
/// A set of the cluster cannot hand an account to the app that a set of the settings has for its sidecars alone
/// (TRUST-7).
pub fn is_for_all(shared: &[&Asking]) -> bool {
    let is_kept_private = shared.iter().any(|set| set.origin == Origin::Settings && set.declared.mode != Mode::Pod);
    shared.iter().any(|set| set.declared.mode == Mode::Pod && (set.origin == Origin::Settings || !is_kept_private))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::declared::Declared;

    /// Returns a set with the account of its name. `c` before its partners is one of the cluster, `s` one of the settings.
    fn set(name: &str, partners: &str) -> Asking {
        let (origin, partners) = partners.split_at(1);
        let origin = if origin == "s" { Origin::Settings } else { Origin::Cluster };
        let partners = partners.chars().map(|name| name.to_string()).collect();
        let declared = Declared { on_conflict: OnConflict::Merge, partners, ..Declared::default() };
        Asking { sidecar_set: name.to_owned(), account: format!("account-{name}"), declared, origin }
    }

    #[rstest]
    #[case::of_the_settings(&["s", "s"], true)]
    #[case::of_the_cluster(&["c", "c"], false)]
    #[case::partners(&["cb", "ca"], true)]
    #[case::of_both_origins(&["s", "ca"], false)]
    #[case::partners_of_both_origins(&["sb", "ca"], true)]
    #[case::one_alone_names_the_other(&["cb", "c"], false)]
    #[case::a_chain(&["cb", "cac", "cb"], false)]
    #[case::a_ring(&["cbc", "cac", "cab"], true)]
    #[case::two_of_the_settings_and_a_partner_of_one(&["sc", "s", "ca"], false)]
    #[case::two_of_the_settings_and_a_partner_of_both(&["sc", "sc", "cab"], true)]
    fn trust2_every_two_sets_of_a_merged_account_trust_each_other(#[case] sets: &[&str], #[case] is_merged: bool) {
        let sets: Vec<Asking> = ["a", "b", "c"].iter().zip(sets).map(|(name, partners)| set(name, partners)).collect();
        let sets: Vec<&Asking> = sets.iter().collect();
        let target = SharedAccount::choose(&sets, &Rules::default());
        assert_eq!(matches!(target, SharedAccount::Merged(_)), is_merged, "{target:?}");
        let trusting = Rules { merge_cluster_sets: true, ..Rules::default() };
        assert!(matches!(SharedAccount::choose(&sets, &trusting), SharedAccount::Merged(_)));
    }

    #[test]
    fn trust2_sets_with_one_account_need_no_trust() {
        let sets = [set("a", "s"), Asking { account: "account-a".to_owned(), ..set("b", "c") }];
        let sets: Vec<&Asking> = sets.iter().collect();
        assert_eq!(SharedAccount::choose(&sets, &Rules::default()), SharedAccount::Account("account-a".to_owned()));
    }

    #[rstest]
    #[case::settings_alone_keep_theirs(&["s", "c"], &[], "account-a", &["a"])]
    #[case::one_account_is_shared(&["s", "c"], &["b"], "account-a", &["a", "b"])]
    #[case::and_a_third_goes_without(&["s", "c", "c"], &["b"], "account-a", &["a", "b"])]
    #[case::nobody_of_the_settings(&["c", "c"], &[], "", &[])]
    fn trust6_sets_of_the_settings_keep_their_identity(
        #[case] sets: &[&str],
        #[case] like_a: &[&str],
        #[case] account: &str,
        #[case] keeping: &[&str],
    ) {
        let account_of = |name: &str| if like_a.contains(&name) { "a" } else { name }.to_owned();
        let sets: Vec<Asking> = ["a", "b", "c"]
            .iter()
            .zip(sets)
            .map(|(name, partners)| Asking { account: format!("account-{}", account_of(name)), ..set(name, partners) })
            .collect();
        let rules = Rules { on_conflict: Otherwise::Skip, ..Rules::default() };
        let shares = Shares::new(sets.iter().collect(), &rules);
        assert_eq!(shares.target.name().unwrap_or_default(), account);
        let names = |sets: &[&Asking]| sets.iter().map(|set| set.sidecar_set.clone()).collect::<Vec<_>>();
        assert_eq!(names(&shares.sets), keeping);
        assert_eq!(shares.sets.len() + shares.skipped.len(), sets.len());
    }

    #[rstest]
    #[case::of_the_cluster_alone("c", Mode::SidecarsOnly, "c", true)]
    #[case::beside_a_private_one_of_the_settings("s", Mode::SidecarsOnly, "c", false)]
    #[case::beside_an_open_one_of_the_settings("s", Mode::Pod, "c", true)]
    #[case::of_the_settings("s", Mode::SidecarsOnly, "s", true)]
    fn trust7_the_cluster_does_not_open_an_identity_of_the_settings(
        #[case] first: &str,
        #[case] mode: Mode,
        #[case] second: &str,
        #[case] is_open: bool,
    ) {
        let (mut first, mut second) = (set("a", first), set("b", second));
        first.declared.mode = mode;
        second.declared.mode = Mode::Pod;
        assert_eq!(is_for_all(&[&first, &second]), is_open);
    }
}
