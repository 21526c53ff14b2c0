//! The setting `serviceAccounts` (SET-5 to SET-8).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

pub use crate::allowed::Allowed;
use crate::audience::AudienceToken;
use crate::glob::Glob;
use crate::running::Guards;
use pillion_kubernetes::rbac::{self, Atom};
use pillion_kubernetes::text::{Name, User, all_checked, checked};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
#[cfg(feature = "schema")]
use serde::Serialize;
use serde::de::Deserializer;

use super::drivers::Drivers;
use super::token_container_rules::TokenContainerRules;
use super::workload_identity::CloudWebhook;
use crate::deny_permissions;
#[cfg(feature = "schema")]
use crate::deny_permissions::DeniedRule;

/// CSI drivers that are known not to request tokens of the Pods that mount their volumes (E19): the manifests that
/// their projects install have no `tokenRequests` and no value that adds it, and their code does not read
/// `csi.storage.k8s.io/serviceAccount.tokens`.
///
/// * `nfs.csi.k8s.io`: <https://github.com/kubernetes-csi/csi-driver-nfs/blob/master/deploy/csi-nfs-driverinfo.yaml>
/// * `smb.csi.k8s.io`: <https://github.com/kubernetes-csi/csi-driver-smb/blob/master/deploy/csi-smb-driver.yaml>
///
/// The list omits drivers that can be installed with `tokenRequests`, such as `secrets-store.csi.k8s.io` and
/// `csi.cert-manager.io` (`app.driver.useTokenRequest`). It also omits `csi.spiffe.io`, which requests no token but
/// provides an identity.
pub(crate) const TRUSTED_CSI_DRIVERS: [&str; 2] = ["nfs.csi.k8s.io", "smb.csi.k8s.io"];

/// The system namespaces: those of the control plane, of OpenKruise, of Pillion, and of Kubewarden in its three
/// distributions (its own charts, Rancher's, SUSE's).
///
/// This is the only list of them. `serviceAccounts.protectedNamespaces` has it by default. The rendered policies for
/// Pods leave these namespaces out, in `pillion manifest`, the chart and the kustomizations. A namespace that is left out
/// has to be protected: no twin asserts there who holds a token (SET-6).
pub const SYSTEM_NAMESPACES: [&str; 8] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kruise-system",
    "pillion-system",
    "kubewarden",
    "cattle-kubewarden-system",
    "suse-sec-adm-controller",
];

/// The audiences that API servers accept by default: the issuer of kubeadm and of most distributions, and the names of
/// the Service `kubernetes`.
const API_SERVER_AUDIENCES: [&str; 5] = [
    "https://kubernetes.default",
    "https://kubernetes.default.*",
    "kubernetes.default",
    "kubernetes.default.*",
    "kubernetes",
];

/// What happens if an identity cannot be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
pub enum Otherwise {
    /// The Pod is refused.
    #[default]
    Deny,
    /// The sidecars are injected without the identity, with a warning.
    Skip,
}

/// What happens to a Pod that has a ServiceAccount of its own (IDC-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
pub enum OnAppAccount {
    /// The Pod keeps its account, and the sidecars get none, with a warning.
    #[default]
    Keep,
    /// The Pod is refused.
    Deny,
    /// The Pod keeps its account, and the sidecars get theirs as in mode `Isolate`.
    Isolate,
}

/// What happens if others in a Pod can read the token of a sidecar (TOK-16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
pub enum Exposure {
    /// The Pod, or the ephemeral container, is accepted with a warning.
    #[default]
    Warn,
    /// It is refused.
    Deny,
}

/// What happens to Secrets with tokens that do not expire, and to containers that are added to a running Pod (E7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
pub enum Judgement {
    /// They are accepted.
    Allow,
    /// They are accepted with a warning.
    Warn,
    /// They are refused.
    Deny,
}

/// What happens to an ephemeral container that could get a sidecar's token.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
enum Reaction {
    /// The container is refused.
    Deny,
    /// The container is accepted with a warning.
    Warn,
}

impl From<Reaction> for Judgement {
    fn from(reaction: Reaction) -> Self {
        match reaction {
            Reaction::Deny => Self::Deny,
            Reaction::Warn => Self::Warn,
        }
    }
}

fn reaction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Judgement, D::Error> {
    Reaction::deserialize(deserializer).map(Into::into)
}

/// The setting `serviceAccounts`. [`Default`] is what `{}` decodes to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
#[allow(clippy::struct_excessive_bools, reason = "they are independent settings")]
pub struct Rules {
    /// If the list is not empty, a SidecarSet may only name an account that the `names` of an entry match, and a Pod only
    /// gets it in a namespace that the `namespaces` of that entry match. Globs of `*` and `?`.
    // IDV-5
    pub allowed: Vec<Allowed>,
    /// Globs of the audiences for which a SidecarSet may ask for tokens (`spec.serviceAccountTokens`). The list is empty
    /// by default, so no SidecarSet may.
    // AUD-5
    pub allowed_audiences: Vec<Glob>,
    /// Globs of the audiences that the API server itself accepts (`--api-audiences`, else its issuer). No SidecarSet may
    /// ask for a token with such an audience: its containers have a token for the API server already. Your list
    /// replaces this one.
    // AUD-5
    pub api_server_audiences: Vec<Glob>,
    /// The longest lifetime that a SidecarSet may ask for in `spec.serviceAccountTokens`, in seconds. `null` means that
    /// only the API server limits it.
    // AUD-5
    pub max_token_expiration_seconds: Option<u64>,
    /// A Pod in one of these namespaces is refused if a SidecarSet that matches it names an account. A SidecarSet that
    /// names one of these namespaces is refused; one that may match them gets a warning. Your list replaces this one.
    // E1
    #[serde(deserialize_with = "all_checked::<_, Name, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Name>"))]
    pub protected_namespaces: Vec<String>,
    /// If the account does not exist or is being deleted: refuse the Pod, or inject without the identity, with a
    /// warning.
    // IDV-3, SAP-11
    pub on_missing: Otherwise,
    /// If SidecarSets want different accounts for one Pod, and not all of them merge: refuse the Pod, or inject without
    /// the identities, with a warning.
    // IDP-7
    pub on_conflict: Otherwise,
    /// Everybody who may write SidecarSets in the cluster is trusted alike: SidecarSets with the behaviour `Merge` share a
    /// merged account although they do not name each other in `spec.serviceAccountPartners`. Whoever writes one then gets
    /// the permissions of all others that match the same Pods, those of the settings included.
    // TRUST-2
    pub merge_cluster_sets: bool,
    /// If the Pod has an account of its own: keep it and inject without the identity, with a warning; refuse the Pod;
    /// or treat the SidecarSets as in mode `Isolate`.
    // IDC-3, TOK-0
    #[serde(rename = "onAppServiceAccount")]
    pub on_app_account: OnAppAccount,
    /// SidecarSets may have the mode `Pod`, in which the app gets the permissions of the sidecar.
    // E3
    pub allow_pod_mode: bool,
    /// Refuse a SidecarSet, instead of warning, if its account does not exist in a namespace that it names. At most 8
    /// namespaces are checked.
    // IDC-1
    pub strict_existence: bool,
    /// The account `default` cannot be deleted, except in a namespace that is being deleted.
    // RUN-7
    pub protect_default: bool,
    /// An account that a SidecarSet of the settings or of the bundle names for its namespace cannot be deleted.
    // MRG-8
    pub protect_in_use: bool,
    /// The author of any SidecarSet must be allowed to create Pods in every namespace that it can match.
    pub require_create_pods: bool,
    /// Permissions that no SidecarSet may grant, whoever writes it, and that no account which a SidecarSet names may
    /// hold. Your list replaces this one.
    // ESC-4; see [`Rules::denied`]
    #[serde(deserialize_with = "deny_permissions::atoms")]
    #[cfg_attr(feature = "schema", schemars(
        with = "Vec<DeniedRule>", extend("default" = rbac::denied_rules())
    ))]
    pub deny_permissions: Option<Vec<Atom>>,
    /// What happens to new Secrets of the type `kubernetes.io/service-account-token`, whose tokens do not expire. A Secret
    /// for an account that is merged, does not exist or has another UID is refused in any case.
    // RUN-7
    pub legacy_token_secrets: Judgement,
    /// Globs of `namespace/name` of Secrets that `legacyTokenSecrets` does not apply to.
    pub legacy_token_exempt: Vec<Glob>,
    /// What happens to an ephemeral container that could get a sidecar's token.
    // E7
    #[serde(deserialize_with = "reaction")]
    #[cfg_attr(feature = "schema", schemars(with = "Reaction"))]
    pub ephemeral_containers: Judgement,
    /// What happens if others in a Pod can read the token of a sidecar: through `shareProcessNamespace` or `hostPID`, from
    /// a container or an ephemeral container that is privileged or has the capability `SYS_ADMIN`, `SYS_PTRACE` or `ALL`,
    /// or because a volume of the Pod replaces one that such a sidecar uses.
    // TOK-16
    pub exposure: Exposure,
    /// The only user who may create, change and delete merged ServiceAccounts, Roles and RoleBindings.
    #[serde(deserialize_with = "checked::<_, User>")]
    #[cfg_attr(feature = "schema", schemars(with = "User"))]
    pub controller_user: String,
    /// Users who may write the ConfigMap `kube-root-ca.crt` of a namespace, besides kube-controller-manager and
    /// `controllerUser`. Sidecars trust the API server whose authority this ConfigMap contains.
    // E25
    #[serde(deserialize_with = "all_checked::<_, User, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<User>"))]
    pub root_ca_publishers: Vec<String>,
    /// CSI drivers that request no token of the Pods that mount their volumes (`CSIDriver.spec.tokenRequests`). An
    /// inline volume of any other driver counts as a token of the Pod's account. Your list replaces this one.
    // E19
    #[serde(deserialize_with = "all_checked::<_, Name, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Name>"))]
    pub trusted_csi_drivers: Drivers,
    /// Webhooks for workload identity that mount a token of the Pod's ServiceAccount into every container. The policy adds
    /// the containers that get a token of their own in mode `Isolate` to the annotation of the Pod with which this webhook
    /// leaves containers out.
    // TOK-15
    pub skip_containers: Vec<CloudWebhook>,
    /// Which containers get the token of their Pod's ServiceAccount, where the annotation `pillion.dev/token-containers` of
    /// the Pod does not say it. By default, all do.
    // TCN-2
    pub token_containers: TokenContainerRules,
    /// Guards of Pods that run already. Each is off by default, and has a policy or webhook of its own.
    // AFT-1
    pub guards: Guards,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            allowed_audiences: Vec::new(),
            api_server_audiences: API_SERVER_AUDIENCES.iter().filter_map(|glob| glob.parse().ok()).collect(),
            max_token_expiration_seconds: None,
            protected_namespaces: SYSTEM_NAMESPACES.map(str::to_owned).into(),
            on_missing: Otherwise::Deny,
            on_conflict: Otherwise::Deny,
            merge_cluster_sets: false,
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
            exposure: Exposure::Warn,
            controller_user: "system:serviceaccount:pillion-system:pillion-controller".to_owned(),
            root_ca_publishers: Vec::new(),
            trusted_csi_drivers: TRUSTED_CSI_DRIVERS.map(str::to_owned).into(),
            skip_containers: Vec::new(),
            token_containers: TokenContainerRules::default(),
            guards: Guards::default(),
        }
    }
}

/// Why a token for an audience is not allowed (AUD-5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The problem, naming the audience.
    pub problem: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// The limit for comparing namespaces with globs: bytes of the namespaces times bytes of the globs.
const EFFORT_MAX: usize = 8_000_000;

impl Rules {
    /// Returns the permissions that no SidecarSet may grant (ESC-4).
    pub fn denied(&self) -> Cow<'_, [Atom]> {
        self.deny_permissions.as_deref().map_or_else(|| rbac::denied_by_default().into(), Cow::Borrowed)
    }

    /// E1: whether the namespace is protected: sidecars in its Pods get no identity.
    pub fn protects(&self, namespace: &str) -> bool {
        self.protected_namespaces.iter().any(|protected| protected == namespace)
    }

    /// IDV-5: whether this account may be injected into Pods of this namespace.
    pub fn allows(&self, namespace: &str, account: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|entry| entry.has(namespace, account))
    }

    /// IDV-5: returns those of the namespaces in which this account may be injected; `None` if comparing all namespaces
    /// with all globs would exceed [`EFFORT_MAX`] (E18).
    pub(crate) fn allowed_namespaces<'a>(&self, account: &str, namespaces: &[&'a str]) -> Option<BTreeSet<&'a str>> {
        if self.allowed.is_empty() {
            return Some(namespaces.iter().copied().collect());
        }
        let is_for = |entry: &&Allowed| entry.names.iter().any(|glob| glob.matches(account));
        let patterns = self.allowed.iter().filter(is_for).flat_map(|entry| &entry.namespaces);
        let (globs, names): (Vec<&Glob>, Vec<&Glob>) = patterns.partition(|glob| glob.as_str().contains(['*', '?']));
        let globs: BTreeMap<_, _> = globs.into_iter().map(|glob| (glob.as_str(), glob)).collect();
        let names: BTreeSet<_> = names.into_iter().map(Glob::as_str).collect();
        let bytes: usize = namespaces.iter().map(|text| text.len()).sum();
        if bytes.saturating_mul(globs.keys().map(|glob| glob.len()).sum()) > EFFORT_MAX {
            return None;
        }
        let is_allowed =
            |namespace: &&str| names.contains(namespace) || globs.values().any(|glob| glob.matches(namespace));
        Some(namespaces.iter().copied().filter(is_allowed).collect())
    }

    /// IDV-5: whether this account may be injected in some namespace.
    pub(crate) fn allows_anywhere(&self, account: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|entry| entry.names.iter().any(|glob| glob.matches(account)))
    }

    /// AUD-5: returns why no SidecarSet may have this token, if there is a reason.
    pub fn objects_to(&self, token: &AudienceToken) -> Option<Objection> {
        let AudienceToken { audience, expiration_seconds, .. } = token;
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(audience));
        if any(&self.api_server_audiences) {
            return Some(Objection {
                problem: format!("the audience \"{audience}\" is one of the API server"),
                remedy: "remove the entry and use the file \"token\", or correct serviceAccounts.apiServerAudiences",
            });
        }
        if !any(&self.allowed_audiences) {
            return Some(Objection {
                problem: format!("the audience \"{audience}\" is not allowed"),
                remedy: "add it to serviceAccounts.allowedAudiences",
            });
        }
        let most = self.max_token_expiration_seconds.filter(|most| expiration_seconds > most)?;
        Some(Objection {
            problem: format!(
                "the token for \"{audience}\" would live {expiration_seconds} seconds, and {most} are allowed"
            ),
            remedy: "lower expirationSeconds, or raise serviceAccounts.maxTokenExpirationSeconds",
        })
    }

    /// Whether `legacyTokenSecrets` does not apply to this Secret.
    pub(crate) fn exempts(&self, namespace: &str, secret: &str) -> bool {
        let name = format!("{namespace}/{secret}");
        self.legacy_token_exempt.iter().any(|glob| glob.matches(&name))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn set5_idv5_an_empty_list_allows_and_another_restricts() {
        let mut rules = Rules::default();
        assert!(rules.allows("web", "log-agent"));
        rules.allowed = vec![
            Allowed { namespaces: globs(&["team-*"]), names: globs(&["log-*"]) },
            Allowed { namespaces: globs(&["web"]), names: globs(&["mesh"]) },
        ];
        assert!(rules.allows("team-a", "log-agent") && rules.allows("web", "mesh"));
        assert!(!rules.allows("web", "log-agent") && !rules.allows("team-a", "mesh"));
    }

    /// Several namespaces at once give the same answers as one by one.
    #[rstest]
    #[case::a_glob(&["team-*"], &["team-a", "team-b"])]
    #[case::names(&["web", "team-b"], &["team-b", "web"])]
    #[case::everything(&["*"], &["team-a", "team-b", "web"])]
    #[case::nothing(&["other"], &[])]
    fn idv5_several_namespaces_at_once(#[case] namespaces: &[&str], #[case] expected: &[&str]) {
        let other = Allowed { namespaces: globs(&["*"]), names: globs(&["mesh"]) };
        let rules = Rules {
            allowed: vec![Allowed { namespaces: globs(namespaces), names: globs(&["log-*"]) }, other],
            ..Rules::default()
        };
        let all = ["web", "team-a", "team-b"];
        let allowed = rules.allowed_namespaces("log-agent", &all).unwrap();
        assert_eq!(allowed.iter().copied().collect::<Vec<_>>(), expected);
        assert!(all.iter().all(|namespace| allowed.contains(namespace) == rules.allows(namespace, "log-agent")));
        assert_eq!(Rules::default().allowed_namespaces("log-agent", &all), Some(all.into()));
    }

    /// Only globs count towards the limit: literal names are looked up, globs are compared with each namespace.
    #[test]
    fn e18_comparing_many_namespaces_with_many_globs_is_refused() {
        let many = |text: &str| (0..1_000).map(|index| format!("{text}{index}")).collect::<Vec<_>>();
        let namespaces = many("namespace-");
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        let allowed = |texts: Vec<String>| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let allowed = vec![Allowed { namespaces: globs(&texts), names: globs(&["*"]) }];
            Rules { allowed, ..Rules::default() }.allowed_namespaces("agent", &namespaces).map(|allowed| allowed.len())
        };
        assert_eq!(allowed(many("namespace-")), Some(1_000));
        assert_eq!(allowed(many("*-")), None);
        assert_eq!(allowed(vec!["*-1*".to_owned()]), Some(111));
    }

    #[test]
    fn set6_e1_system_namespaces_are_protected() {
        let rules = Rules::default();
        assert!(SYSTEM_NAMESPACES.into_iter().all(|namespace| rules.protects(namespace)));
        assert!(SYSTEM_NAMESPACES.contains(&"kruise-system") && !rules.protects("default"));
    }
}
