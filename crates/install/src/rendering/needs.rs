//! The needs of settings: which parts have work to do, and which kinds of objects they read.

use std::collections::{BTreeMap, BTreeSet};

use pillion_admission::settings::Settings;
use pillion_bundle::source::ConfigMapName;
use pillion_identity::declared::Declared;
use pillion_kubernetes::json;
use pillion_sidecarset::opt_out::OptOut;
use pillion_sidecarset::overrides::Rules;
use pillion_sidecarset::requested_revision::RequestedRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::answers::Part;
use super::answers::running::Listed;

/// A kind of object that is read by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// For a `namespaceSelector`, for SidecarSets that a Namespace may leave out (OPT-3), for the containers that get the
    /// token (TCN-2), and before the policy refuses to delete an object of a namespace.
    Namespace,
    /// For the whitelist of `patchPodMetadata`, and for bundles.
    ConfigMap,
    /// For revisions of SidecarSets.
    ControllerRevision,
    /// For the accounts of sidecars and of token Secrets.
    ServiceAccount,
    /// For connections to running Pods.
    Pod,
    /// For merged accounts.
    Role,
    /// For merged accounts.
    RoleBinding,
}

impl Read {
    /// Returns `apiVersion` and kind.
    pub fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Namespace => ("v1", "Namespace"),
            Self::ConfigMap => ("v1", "ConfigMap"),
            Self::ControllerRevision => ("apps/v1", "ControllerRevision"),
            Self::ServiceAccount => ("v1", "ServiceAccount"),
            Self::Pod => ("v1", "Pod"),
            Self::Role => ("rbac.authorization.k8s.io/v1", "Role"),
            Self::RoleBinding => ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        }
    }
}

/// The needs of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The parts that have work to do, each with the kinds that it reads.
    pub parts: BTreeMap<Part, BTreeSet<Read>>,
    /// Whether the policy asks what authors of SidecarSets and their ServiceAccounts may do.
    pub asks_authors: bool,
    /// Whether SidecarSets may have identities.
    pub has_identities: bool,
    /// The namespace of the whitelist and the revisions.
    pub system_namespace: String,
    /// Whether the whitelist is read from the cluster because the settings have none.
    pub reads_whitelist: bool,
    /// The ConfigMap of `bundleRef`.
    pub bundle: Option<ConfigMapName>,
    /// What match conditions contain.
    pub listed: Listed,
}

impl Needs {
    /// Whether a part of the policy changes objects, so that there is a mutating webhook.
    pub fn has_mutating(&self) -> bool {
        self.parts.keys().any(|part| part.mutates())
    }

    /// Whether a part of the policy only refuses, so that there is a validating webhook.
    pub fn has_validating(&self) -> bool {
        self.parts.keys().any(|part| !part.mutates())
    }

    /// Returns the needs of `settings`, which were decoded from `raw`. `any`: also include the needs of any other
    /// SidecarSets.
    ///
    /// # Errors
    /// If the bundle in the settings is damaged.
    pub fn from_settings(raw: &Value, settings: &Settings, any: bool) -> anyhow::Result<Self> {
        let bundle = settings.bundle_source.config_map.as_ref();
        let sets = settings.all_sidecar_sets()?;
        // The content of a bundle in the cluster is unknown, so assume any SidecarSets.
        let sets = Sets { known: &sets, settings, any: any || bundle.is_some() };
        let has_identities = settings.gates.service_account_injection;
        let reads_whitelist = settings.patch_pod_metadata_whitelist.is_none();
        let rules = &settings.service_accounts;
        let is_kept = json::at(raw, &["serviceAccounts", "legacyTokenSecrets"]).is_some_and(|value| !value.is_null());

        let mut parts = BTreeMap::new();
        let mut part = |part: Part, is_needed: bool, reads: &[(Read, bool)]| {
            if is_needed {
                let mut reads: BTreeSet<Read> =
                    reads.iter().filter(|(_, is_read)| *is_read).map(|(of, _)| *of).collect();
                let knows_sets =
                    !matches!(part, Part::Images | Part::TokenRequests | Part::TokenSecrets | Part::Shoots);
                if knows_sets && bundle.is_some() {
                    reads.insert(Read::ConfigMap);
                }
                parts.insert(part, reads);
            }
        };
        let for_pods = [
            (Read::Namespace, sets.any(reads_namespace) || rules.token_containers.namespaces),
            (Read::ControllerRevision, sets.any(|set| sets.names_a_revision_elsewhere(set))),
            (Read::ServiceAccount, has_identities && sets.any(|set| declared(set).service_account.is_some())),
            (Read::Role, has_identities && sets.may_merge()),
            (Read::RoleBinding, has_identities && sets.may_merge()),
        ];
        part(Part::Pods, true, &for_pods);
        // The annotation of a Pod counts with the gate off, too, but alone it renders no twin.
        let limits_tokens = has_identities || rules.token_containers.is_set();
        part(Part::Assert, limits_tokens, &for_pods);
        let for_sets = [
            (Read::ConfigMap, reads_whitelist),
            (Read::ControllerRevision, true),
            (Read::ServiceAccount, has_identities),
        ];
        part(Part::Sidecarsets, true, &for_sets);
        part(Part::Guards, limits_tokens || rules.protect_default, &[(Read::Namespace, true)]);
        part(Part::Exec, rules.guards.exec, &[(Read::Pod, true)]);
        part(Part::Images, rules.guards.images, &[]);
        part(Part::TokenRequests, rules.guards.token_requests, &[]);
        part(Part::TokenSecrets, has_identities || is_kept, &[(Read::ServiceAccount, true)]);
        part(Part::Shoots, settings.shoots.enabled, &[]);
        Ok(Self {
            parts,
            asks_authors: has_identities || rules.require_create_pods,
            has_identities,
            system_namespace: settings.system_namespace.clone(),
            reads_whitelist,
            bundle: bundle.cloned(),
            listed: Listed::from_rules(rules),
        })
    }

    /// Removes some parts.
    #[must_use]
    pub fn without(mut self, parts: &[Part]) -> Self {
        self.parts.retain(|part, _| !parts.contains(part));
        self.asks_authors &= self.has(Part::Sidecarsets);
        self.reads_whitelist &= self.has(Part::Sidecarsets);
        self
    }

    /// Whether the part has work to do.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains_key(&part)
    }

    /// Whether any part reads objects of this kind.
    pub fn reads(&self, read: Read) -> bool {
        self.parts.values().any(|reads| reads.contains(&read))
    }
}

/// The SidecarSets that may be injected.
struct Sets<'a> {
    known: &'a [SidecarSet],
    settings: &'a Settings,
    /// Whether there may be other SidecarSets than the known ones.
    any: bool,
}

impl Sets<'_> {
    fn any(&self, is_it: impl Fn(&SidecarSet) -> bool) -> bool {
        self.any || self.known.iter().any(is_it)
    }

    /// Whether accounts may be merged, which takes at least two.
    fn may_merge(&self) -> bool {
        self.any || self.known.iter().filter(|set| merges(set)).count() > 1
    }

    /// Whether the set names a revision that neither the bundle nor the settings have.
    fn names_a_revision_elsewhere(&self, set: &SidecarSet) -> bool {
        if set.revision().is_some() {
            return false;
        }
        match RequestedRevision::from_sidecar_set(set) {
            Some(RequestedRevision::Name(name)) => {
                !self.settings.controller_revisions.iter().any(|revision| revision.name() == name)
            }
            _ => false,
        }
    }
}

/// Returns the identity that a set declares. An invalid declaration counts as none: other code reports it.
pub(super) fn declared(set: &SidecarSet) -> Declared {
    Declared::from_sidecar_set(set).unwrap_or_default()
}

fn reads_namespace(set: &SidecarSet) -> bool {
    set.spec(&["namespaceSelector"]).is_some() || OptOut::is_allowed_by(set) || Rules::read_namespaces(set)
}

fn merges(set: &SidecarSet) -> bool {
    declared(set).merges()
}
