//! What a cluster allows (`serviceaccounts.md` G, Settings `serviceAccounts`).

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::permissions::{self, Atom};
use super::tokens::Drivers;

/// CSI drivers that are known not to ask for tokens of the Pods that mount their volumes (E19): the manifests that their
/// projects install have no `tokenRequests` and no value that adds it, and their code reads no
/// `csi.storage.k8s.io/serviceAccount.tokens`.
///
/// * `nfs.csi.k8s.io`: <https://github.com/kubernetes-csi/csi-driver-nfs/blob/master/deploy/csi-nfs-driverinfo.yaml>
/// * `smb.csi.k8s.io`: <https://github.com/kubernetes-csi/csi-driver-smb/blob/master/deploy/csi-smb-driver.yaml>
///
/// Not among them are drivers that can be installed with `tokenRequests`, such as `secrets-store.csi.k8s.io` and
/// `csi.cert-manager.io` (`app.driver.useTokenRequest`), and `csi.spiffe.io`, which asks for no token and gives an
/// identity.
pub const TRUSTED_CSI_DRIVERS: [&str; 2] = ["nfs.csi.k8s.io", "smb.csi.k8s.io"];

/// What happens where an identity cannot be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// The Pod is refused.
    #[default]
    Deny,
    /// The sidecars are injected without the identity.
    Skip,
}

/// What happens to a Pod that has a ServiceAccount of its own (A5-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAppAccount {
    /// It keeps its account, and the sidecars get none.
    #[default]
    Keep,
    /// It is refused.
    Deny,
    /// It keeps its account, and the sidecars get theirs as in mode `Isolate`.
    Isolate,
}

/// What a container that is added to a running Pod may do (E7), and tokens of the old kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing is said.
    Allow,
    /// It is let through with a warning.
    Warn,
    /// It is refused.
    Deny,
}

/// An entry of `allowed`: globs of namespaces and of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Namespaces of Pods.
    pub namespaces: Vec<String>,
    /// Names of ServiceAccounts.
    pub names: Vec<String>,
}

/// The setting `serviceAccounts`. [`Default`] is what `{}` decodes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent settings")]
pub struct Rules {
    /// When not empty, nothing else may be injected (V5).
    pub allowed: Vec<Allowed>,
    /// Where no Pod gets an identity (E1).
    pub protected_namespaces: Vec<String>,
    /// The account is not there, or is on its way out (V3, A1-11).
    pub on_missing: Otherwise,
    /// Two accounts for one Pod that may not be merged (A4).
    pub on_conflict: Otherwise,
    /// The Pod has an account of its own (A5-3, B0).
    pub on_app_account: OnAppAccount,
    /// Whether mode `Pod` may be used (E3).
    pub allow_pod_mode: bool,
    /// Whether a SidecarSet is refused that names an account which is not there yet (A5-1).
    pub strict_existence: bool,
    /// Whether `default` may not be deleted in active namespaces (C4).
    pub protect_default: bool,
    /// Whether an account in use may not be deleted (G8).
    pub protect_in_use: bool,
    /// Whether the author of a SidecarSet must be allowed to create Pods where it can match.
    pub require_create_pods: bool,
    /// What nobody may grant (P4), unless it is what nobody may grant by default; see [`Rules::denied`].
    pub deny_permissions: Option<Vec<Atom>>,
    /// New token Secrets of the old kind (C4).
    pub legacy_token_secrets: Judgement,
    /// `namespace/name` globs that this does not concern.
    pub legacy_token_exempt: Vec<String>,
    /// Ephemeral containers that reach for a sidecar's token (E7).
    pub ephemeral_containers: Judgement,
    /// Who may write merged objects.
    pub controller_user: String,
    /// CSI drivers whose inline volumes give nobody the Pod's account (E19).
    pub trusted_csi_drivers: Drivers,
}

impl Default for Rules {
    fn default() -> Self {
        let protected = ["kube-system", "kube-public", "kube-node-lease", "pillion-system", "kubewarden"];
        Self {
            allowed: Vec::new(),
            protected_namespaces: protected.map(str::to_owned).into(),
            on_missing: Otherwise::Deny,
            on_conflict: Otherwise::Deny,
            on_app_account: OnAppAccount::Keep,
            allow_pod_mode: false,
            strict_existence: false,
            protect_default: false,
            protect_in_use: false,
            require_create_pods: false,
            deny_permissions: None,
            legacy_token_secrets: Judgement::Warn,
            legacy_token_exempt: Vec::new(),
            ephemeral_containers: Judgement::Deny,
            controller_user: "system:serviceaccount:pillion-system:pillion-controller".to_owned(),
            trusted_csi_drivers: TRUSTED_CSI_DRIVERS.map(str::to_owned).into(),
        }
    }
}

impl Rules {
    /// What nobody may grant (P4).
    pub fn denied(&self) -> Cow<'_, [Atom]> {
        self.deny_permissions.as_deref().map_or_else(|| permissions::denied_by_default().into(), Cow::Borrowed)
    }

    /// E1: whether no Pod of this namespace gets an identity.
    pub fn protects(&self, namespace: &str) -> bool {
        self.protected_namespaces.iter().any(|protected| protected == namespace)
    }

    /// V5: whether this account may be injected into Pods of this namespace.
    pub fn allows(&self, namespace: &str, account: &str) -> bool {
        let any = |globs: &[String], text| globs.iter().any(|glob| matches(glob, text));
        self.allowed.is_empty()
            || self.allowed.iter().any(|entry| any(&entry.namespaces, namespace) && any(&entry.names, account))
    }

    /// V5: those of the namespaces in which this account may be injected; none if a comparison of all with all globs would
    /// take more than [`EFFORT_MAX`] (E18).
    pub fn allowed_namespaces<'a>(&self, account: &str, namespaces: &[&'a str]) -> Option<BTreeSet<&'a str>> {
        if self.allowed.is_empty() {
            return Some(namespaces.iter().copied().collect());
        }
        let is_for = |entry: &&Allowed| entry.names.iter().any(|glob| matches(glob, account));
        let texts = self.allowed.iter().filter(is_for).flat_map(|entry| &entry.namespaces).map(String::as_str);
        let (globs, names): (Vec<&str>, Vec<&str>) = texts.partition(|text| text.contains(['*', '?']));
        let [globs, names] = [globs, names].map(BTreeSet::from_iter);
        let bytes: usize = namespaces.iter().map(|text| text.len()).sum();
        if bytes.saturating_mul(globs.iter().map(|glob| glob.len()).sum()) > EFFORT_MAX {
            return None;
        }
        let is_allowed =
            |namespace: &&str| names.contains(namespace) || globs.iter().any(|glob| matches(glob, namespace));
        Some(namespaces.iter().copied().filter(is_allowed).collect())
    }

    /// V5: whether there can be a namespace in which this account may be injected.
    pub fn allows_anywhere(&self, account: &str) -> bool {
        self.allowed.is_empty()
            || self.allowed.iter().any(|entry| entry.names.iter().any(|glob| matches(glob, account)))
    }

    /// Whether the rules for old tokens leave this Secret alone.
    pub fn exempts(&self, namespace: &str, secret: &str) -> bool {
        let name = format!("{namespace}/{secret}");
        self.legacy_token_exempt.iter().any(|glob| matches(glob, &name))
    }
}

/// The longest glob, and the longest text that one matches, in bytes: a namespace, a slash and a name are less.
pub const GLOB_MAX: usize = 512;

/// How much comparing namespaces with globs may take: bytes of the ones times bytes of the others.
const EFFORT_MAX: usize = 8_000_000;

/// Whether a glob matches a whole text: `*` is any number of characters, `?` is one. Neither may have more than
/// [`GLOB_MAX`] bytes: the work is their product.
pub fn matches(glob: &str, text: &str) -> bool {
    if glob.len().max(text.len()) > GLOB_MAX {
        return false;
    }
    let (mut glob, mut text) = (glob.chars(), text.chars());
    // The last star, and where the text was when it was met: it takes one more character each time.
    let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let at = text.clone();
        match (glob.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = at;
                star = Some((glob.clone(), text.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => {
                let Some((rest, mut resume)) = star.take() else {
                    return false;
                };
                if resume.next().is_none() {
                    return false;
                }
                glob = rest.clone();
                text = resume.clone();
                star = Some((rest, resume));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::literal("logs", "logs", true)]
    #[case::longer("logs", "logs2", false)]
    #[case::shorter("logs", "log", false)]
    #[case::everything("*", "", true)]
    #[case::prefix("team-*", "team-a", true)]
    #[case::nothing_after_the_prefix("team-*", "team-", true)]
    #[case::other_prefix("team-*", "steam-a", false)]
    #[case::suffix("*-agent", "log-agent", true)]
    #[case::suffix_twice("*-agent", "agent-agent", true)]
    #[case::middle("a*b*c", "aXbXbXc", true)]
    #[case::middle_missing("a*b*c", "aXcXb", false)]
    #[case::one("team-?", "team-a", true)]
    #[case::not_two("team-?", "team-ab", false)]
    #[case::not_none("team-?", "team-", false)]
    #[case::stars("**", "x", true)]
    #[case::empty("", "", true)]
    #[case::empty_matches_nothing_else("", "x", false)]
    #[case::no_brackets("[ab]", "a", false)]
    fn v5_globs(#[case] glob: &str, #[case] text: &str, #[case] matched: bool) {
        assert_eq!(matches(glob, text), matched);
    }

    #[test]
    fn v5_an_empty_list_allows_and_another_restricts() {
        let mut rules = Rules::default();
        assert!(rules.allows("web", "log-agent"));
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        rules.allowed = vec![
            Allowed { namespaces: list(&["team-*"]), names: list(&["log-*"]) },
            Allowed { namespaces: list(&["web"]), names: list(&["mesh"]) },
        ];
        assert!(rules.allows("team-a", "log-agent") && rules.allows("web", "mesh"));
        assert!(!rules.allows("web", "log-agent") && !rules.allows("team-a", "mesh"));
    }

    /// Several namespaces get the answer that each gets alone.
    #[rstest]
    #[case::a_glob(&["team-*"], &["team-a", "team-b"])]
    #[case::names(&["web", "team-b"], &["team-b", "web"])]
    #[case::everything(&["*"], &["team-a", "team-b", "web"])]
    #[case::nothing(&["other"], &[])]
    fn v5_several_namespaces_at_once(#[case] globs: &[&str], #[case] expected: &[&str]) {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let other = Allowed { namespaces: list(&["*"]), names: list(&["mesh"]) };
        let rules = Rules {
            allowed: vec![Allowed { namespaces: list(globs), names: list(&["log-*"]) }, other],
            ..Rules::default()
        };
        let all = ["web", "team-a", "team-b"];
        let allowed = rules.allowed_namespaces("log-agent", &all).unwrap();
        assert_eq!(allowed.iter().copied().collect::<Vec<_>>(), expected);
        assert!(all.iter().all(|namespace| allowed.contains(namespace) == rules.allows(namespace, "log-agent")));
        assert_eq!(Rules::default().allowed_namespaces("log-agent", &all), Some(all.into()));
    }

    /// Names are looked up, so that they take no effort; globs are compared with each namespace.
    #[test]
    fn e18_comparing_many_namespaces_with_many_globs_is_refused() {
        let many = |text: &str| (0..1_000).map(|index| format!("{text}{index}")).collect::<Vec<_>>();
        let namespaces = many("namespace-");
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        let allowed = |globs| {
            let allowed = vec![Allowed { namespaces: globs, names: vec!["*".to_owned()] }];
            Rules { allowed, ..Rules::default() }.allowed_namespaces("agent", &namespaces).map(|allowed| allowed.len())
        };
        assert_eq!(allowed(many("namespace-")), Some(1_000));
        assert_eq!(allowed(many("*-")), None);
        assert_eq!(allowed(vec!["*-1*".to_owned()]), Some(111));
    }

    #[test]
    fn e1_system_namespaces_are_protected() {
        let rules = Rules::default();
        assert!(rules.protects("kube-system") && rules.protects("pillion-system") && !rules.protects("default"));
    }

    proptest! {
        #[test]
        fn a_glob_of_stars_and_a_part_of_the_text_matches(before in "[a-c]*", part in "[a-c]*", after in "[a-c]*") {
            let text = format!("{before}{part}{after}");
            let glob = format!("*{part}*");
            prop_assert!(matches(&glob, &text));
        }
    }
}
