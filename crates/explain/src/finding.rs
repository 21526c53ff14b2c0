//! One reason, for people and for machines.

use std::fmt;

use pillion_identity::declared::{FIELDS, annotation_path, path};
use pillion_kubernetes::outcome::{self, Code};

/// The kinds of reasons. Names are for machines and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The Pod is being deleted.
    PodNotActive,
    /// `injectionStrategy.paused`.
    Paused,
    /// The namespace selector names other namespaces only.
    OtherNamespace,
    /// A label of the Namespace does not meet the namespace selector.
    NamespaceLabel,
    /// The Namespace does not exist, so its labels are unknown.
    NamespaceNotFound,
    /// The namespace selector is invalid, so it selects nothing.
    NamespaceSelectorInvalid,
    /// The selector is empty or absent, so it selects nothing.
    SelectorEmpty,
    /// A label of the Pod does not meet the selector.
    PodLabel,
    /// A canary of this `SidecarSet` matches the Pod and takes its place.
    Canary,
    /// A SidecarSet of the policy's settings has the same name, or is the base of this canary of the cluster.
    GivesWay,
    /// An annotation of the Pod or of its Namespace leaves the `SidecarSet` out, which allows that.
    OptedOut,
    /// Refused: the selector is invalid.
    SelectorInvalid,
    /// Refused: the Namespace could not be read.
    NamespaceUnreadable,
    /// Refused: the stored revision is missing or unusable.
    Revision,
    /// Refused: the update strategy does not determine which revision the Pod gets.
    UpdateStrategy,
    /// Refused: an annotation of the Pod cannot be merged with the `SidecarSet`'s.
    AnnotationMerge,
    /// Refused: the Pod's record of earlier injections cannot be read.
    Records,
    /// Refused: the Pod or its Namespace overrides what the SidecarSet does not allow.
    Override,
    /// Refused: two containers have the same name.
    NameTaken,
    /// Refused: the resources of a sidecar cannot be computed.
    ResourcesPolicy,
    /// Refused: the identity that a SidecarSet asks for is invalid, is not allowed, or contradicts other SidecarSets.
    Identity,
    /// Refused: a ServiceAccount could not be read.
    ServiceAccountUnreadable,
    /// Refused: a merged ServiceAccount is not ready, or stands for SidecarSets other than those of this Pod.
    MergedServiceAccount,
    /// Refused: a container mounts a token that is not its own, or has another mount at the path of its token.
    Token,
    /// Refused: the Pod cannot be decoded.
    Undecodable,
    /// The Pod is the mirror of a static Pod that a kubelet runs already.
    MirrorPod,
    /// The policy has role `Assert`: it judges Pods after injection by another policy.
    Asserting,
    /// The policy's own manifest excludes the request, or does not allow the policy to change it. These are
    /// Kubewarden's rules, not Pillion's.
    Policy,
    /// The webhooks of the cluster leave the Pod out: the API server does not ask the policy about it.
    NotAsked,
}

impl Kind {
    /// Returns the kind of a reason to refuse, which follows from its field.
    pub fn from_reason(reason: &outcome::Reason) -> Self {
        let field = reason.field.as_str();
        let kinds = [
            ("spec.namespaceSelector", Self::NamespaceUnreadable),
            ("metadata.annotations[pillion.dev/opt-out]", Self::NamespaceUnreadable),
            ("metadata.annotations[pillion.dev/overrides]", Self::NamespaceUnreadable),
            ("metadata.annotations[overrides.pillion.dev/", Self::Override),
            ("metadata.annotations[sidecar.istio.io/", Self::Override),
            ("spec.selector", Self::SelectorInvalid),
            ("spec.injectionStrategy", Self::Revision),
            ("spec.updateStrategy", Self::UpdateStrategy),
            ("spec.patchPodMetadata", Self::AnnotationMerge),
        ];
        if reason.sidecar_set.is_none() {
            return match field {
                _ if reason.code == Code::Undecodable => Self::Undecodable,
                "spec.serviceAccountName" => Self::MergedServiceAccount,
                _ if field.starts_with("spec") => Self::Token,
                _ => Self::Records,
            };
        }
        if FIELDS.iter().any(|known| reason.field == path(*known) || reason.field == annotation_path(*known))
            || field.starts_with("spec.serviceAccountPermissions[")
        {
            let unreadable = reason.code == Code::Unavailable;
            return if unreadable { Self::ServiceAccountUnreadable } else { Self::Identity };
        }
        if let Some((_, kind)) = kinds.iter().find(|(prefix, _)| field.starts_with(prefix)) {
            return *kind;
        }
        if field.contains("].resourcesPolicy") { Self::ResourcesPolicy } else { Self::NameTaken }
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PodNotActive => "PodNotActive",
            Self::Paused => "Paused",
            Self::OtherNamespace => "OtherNamespace",
            Self::NamespaceLabel => "NamespaceLabel",
            Self::NamespaceNotFound => "NamespaceNotFound",
            Self::NamespaceSelectorInvalid => "NamespaceSelectorInvalid",
            Self::SelectorEmpty => "SelectorEmpty",
            Self::PodLabel => "PodLabel",
            Self::Canary => "Canary",
            Self::GivesWay => "GivesWay",
            Self::OptedOut => "OptedOut",
            Self::SelectorInvalid => "SelectorInvalid",
            Self::NamespaceUnreadable => "NamespaceUnreadable",
            Self::Revision => "Revision",
            Self::UpdateStrategy => "UpdateStrategy",
            Self::AnnotationMerge => "AnnotationMerge",
            Self::Records => "Records",
            Self::Override => "Override",
            Self::NameTaken => "NameTaken",
            Self::ResourcesPolicy => "ResourcesPolicy",
            Self::Identity => "Identity",
            Self::ServiceAccountUnreadable => "ServiceAccountUnreadable",
            Self::MergedServiceAccount => "MergedServiceAccount",
            Self::Token => "Token",
            Self::Undecodable => "Undecodable",
            Self::MirrorPod => "MirrorPod",
            Self::Asserting => "Asserting",
            Self::Policy => "Policy",
            Self::NotAsked => "NotAsked",
        }
    }

    /// Returns the statement of the specification that makes the rule; `docs/compatibility.md` uses the same ids. Empty
    /// if no rule was involved.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Undecodable | Self::Policy | Self::NotAsked => "",
            Self::MirrorPod => "SAP-9",
            Self::Identity => "IDP-7",
            Self::ServiceAccountUnreadable => "IDV-3",
            Self::MergedServiceAccount => "MRG-5",
            Self::Token => "TOK-2",
            Self::Asserting => "TOK-10",
            Self::PodNotActive => "MATCH-2",
            Self::OtherNamespace => "MATCH-4",
            Self::Paused
            | Self::NamespaceLabel
            | Self::NamespaceNotFound
            | Self::NamespaceSelectorInvalid
            | Self::NamespaceUnreadable
            | Self::SelectorEmpty
            | Self::SelectorInvalid
            | Self::PodLabel => "MATCH-6",
            Self::Canary => "MATCH-8",
            Self::GivesWay => "TRUST-3",
            Self::OptedOut => "OPT-2",
            Self::Revision => "INJ-2",
            Self::UpdateStrategy => "INJ-4",
            Self::AnnotationMerge => "INJ-11",
            Self::Records => "INJ-13",
            Self::Override => "OVR-6",
            Self::NameTaken => "DIFF-4",
            Self::ResourcesPolicy => "INJ-14",
        }
    }
}

/// One reason. Printed as `<path>: <problem>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the reason.
    pub kind: Kind,
    /// The field of the `SidecarSet`, or of the Pod if the reason concerns no `SidecarSet`.
    pub path: String,
    /// The requirement in that field, in the syntax of `kubectl -l` if it is a selector; empty if there is none.
    pub wanted: String,
    /// The value found instead; absent if there is none.
    pub found: Option<String>,
    /// The problem, in words. Lower case except for names, without a full stop.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

impl From<&outcome::Reason> for Finding {
    fn from(reason: &outcome::Reason) -> Self {
        Self {
            kind: Kind::from_reason(reason),
            path: reason.field.clone(),
            wanted: String::new(),
            found: None,
            problem: reason.problem.clone(),
            remedy: reason.remedy.clone(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)
    }
}
