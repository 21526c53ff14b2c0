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
    /// The namespace selector names other namespaces.
    OtherNamespace,
    /// A label of the Namespace is not what the namespace selector asks for.
    NamespaceLabel,
    /// There is no such Namespace, so nobody knows its labels.
    NamespaceNotFound,
    /// The namespace selector cannot be parsed, and so selects nothing.
    NamespaceSelectorInvalid,
    /// The selector is empty or absent, and so selects nothing.
    SelectorEmpty,
    /// A label of the Pod is not what the selector asks for.
    PodLabel,
    /// A canary of this `SidecarSet` matches the Pod and takes its place.
    Canary,
    /// Refused: the selector cannot be parsed.
    SelectorInvalid,
    /// Refused: the Namespace could not be read.
    NamespaceUnreadable,
    /// Refused: the stored revision is not there or not usable.
    Revision,
    /// Refused: the update strategy does not say which revision the Pod gets.
    UpdateStrategy,
    /// Refused: an annotation of the Pod cannot be merged with the `SidecarSet`'s.
    AnnotationMerge,
    /// Refused: the Pod's record of earlier injections cannot be read.
    Records,
    /// Refused: a container has the name of another.
    NameTaken,
    /// Refused: the resources of a sidecar cannot be computed.
    ResourcesPolicy,
    /// Refused: the identity that a SidecarSet asks for cannot be understood, is not allowed, or contradicts others.
    Identity,
    /// Refused: a ServiceAccount could not be read.
    ServiceAccountUnreadable,
    /// Refused: a merged ServiceAccount is not ready, or is for others than this Pod's SidecarSets.
    MergedServiceAccount,
    /// Refused: a container reaches for a token that is not its own, or has something else where its token belongs.
    Token,
    /// Refused: the Pod cannot be decoded.
    Undecodable,
    /// The Pod only shows what a kubelet runs already.
    MirrorPod,
    /// The policy judges Pods that others have injected.
    Asserting,
    /// The policy's own manifest keeps it from being asked, or from changing anything; Kubewarden's rules, not ours.
    Policy,
}

impl Kind {
    /// The kind of a reason to refuse, which its field tells.
    pub fn of(reason: &outcome::Reason) -> Self {
        let field = reason.field.as_str();
        let kinds = [
            ("spec.namespaceSelector", Self::NamespaceUnreadable),
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

    /// The name.
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
            Self::SelectorInvalid => "SelectorInvalid",
            Self::NamespaceUnreadable => "NamespaceUnreadable",
            Self::Revision => "Revision",
            Self::UpdateStrategy => "UpdateStrategy",
            Self::AnnotationMerge => "AnnotationMerge",
            Self::Records => "Records",
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
        }
    }

    /// The statement of the specification that makes the rule; `docs/compatibility.md` uses the same ids. Empty where
    /// no rule was asked.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Undecodable | Self::Policy => "",
            Self::MirrorPod => "A1-9",
            Self::Identity => "A4",
            Self::ServiceAccountUnreadable => "V3",
            Self::MergedServiceAccount => "G5",
            Self::Token => "B2",
            Self::Asserting => "B10",
            Self::PodNotActive => "P-2",
            Self::OtherNamespace => "P-4",
            Self::Paused
            | Self::NamespaceLabel
            | Self::NamespaceNotFound
            | Self::NamespaceSelectorInvalid
            | Self::NamespaceUnreadable
            | Self::SelectorEmpty
            | Self::SelectorInvalid
            | Self::PodLabel => "P-6",
            Self::Canary => "P-8",
            Self::Revision => "M-2",
            Self::UpdateStrategy => "M-4",
            Self::AnnotationMerge => "M-11",
            Self::Records => "M-13",
            Self::NameTaken => "Q-4",
            Self::ResourcesPolicy => "M-14",
        }
    }
}

/// One reason. Printed as `<path>: <problem>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of reason it is.
    pub kind: Kind,
    /// The field of the `SidecarSet`, or of the Pod where it is about no `SidecarSet`.
    pub path: String,
    /// What that field asks for, as `kubectl -l` writes it where it is a selector; empty where it asks for nothing.
    pub wanted: String,
    /// What is there instead; absent where nothing is.
    pub found: Option<String>,
    /// What is wrong, in words. Lower case but for names, no full stop.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl From<&outcome::Reason> for Finding {
    fn from(reason: &outcome::Reason) -> Self {
        Self {
            kind: Kind::of(reason),
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
