//! The kinds of findings, for formats that want each finding to have one.

use clap::ValueEnum;
use pillion_kubernetes::field::Cause;

use super::{Finding, Severity};

/// A kind of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The id in reports. It never changes.
    pub id: &'static str,
    /// The meaning of a finding of this kind: one sentence.
    pub means: &'static str,
    /// The remedy: one sentence.
    pub help: &'static str,
}

/// A kind of warnings with an id of its own, which `pillion check --disable` turns off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OptionalRule {
    /// A HorizontalPodAutoscaler stops scaling, since an injected container has no request.
    MissingRequest,
    /// A ResourceQuota refuses Pods, since an injected container lacks a request or a limit.
    ResourceQuota,
    /// The cluster autoscaler keeps a node because of an injected volume.
    LocalVolume,
    /// A subject of the cluster's RBAC can get at the identities of sidecars.
    IdentityAccess,
    /// A SidecarSet asks for what the cluster's version of Kubernetes does not have.
    KubernetesVersion,
}

impl OptionalRule {
    /// Returns the id in reports, which is the value of the option, too.
    pub const fn id(self) -> &'static str {
        self.rule().id
    }

    const fn rule(self) -> Rule {
        match self {
            Self::MissingRequest => rule(
                "missing-request",
                "A HorizontalPodAutoscaler stops scaling, since an injected container has no request.",
                "Set the request that the message names.",
            ),
            Self::ResourceQuota => rule(
                "resource-quota",
                "A ResourceQuota refuses Pods, since an injected container lacks a request or a limit.",
                "Set the requests and limits that the message names.",
            ),
            Self::LocalVolume => rule(
                "local-volume",
                "The cluster autoscaler keeps a node because of an injected volume.",
                "Patch the annotation that the message names, if the data of the volume may be lost.",
            ),
            Self::IdentityAccess => rule(
                "identity-access",
                "A subject of the cluster's RBAC can get at the identities of sidecars.",
                "Take the rights away that the message names, or accept that this subject holds the identities.",
            ),
            Self::KubernetesVersion => rule(
                "kubernetes-version",
                "A SidecarSet asks for what the cluster's version of Kubernetes does not have.",
                "Update the cluster to the version that the message names, or remove the field.",
            ),
        }
    }
}

/// The page that explains errors of fields.
pub(super) const HELP: &str = "https://github.com/pillion/pillion/blob/main/docs/reference/messages.md";

const UNREADABLE: Rule = Rule {
    id: "unreadable",
    means: "A file cannot be read.",
    help: "Correct the file. A chart or a kustomization has to be rendered first.",
};
const UNINTENDED: Rule = Rule {
    id: "unintended",
    means: "The policy accepts the input, and its effect is probably not intended.",
    help: "Read the message, which says what happens and how to change it.",
};
const OF_CAUSES: [(Cause, Rule); 9] = [
    (Cause::Required, rule("required-value", "A value is missing.", "Add the field.")),
    (
        Cause::Invalid,
        rule(
            "invalid-value",
            "A value is malformed, not allowed here, or of another JSON type.",
            "Correct the value as the message says.",
        ),
    ),
    (
        Cause::NotSupported,
        rule("unsupported-value", "A value is not one of those that there are.", "Write one that the message lists."),
    ),
    (Cause::Duplicate, rule("duplicate-value", "A value is there twice and must be unique.", "Remove or rename one.")),
    (
        Cause::NotFound,
        rule("not-found", "A value names something that is not there.", "Correct the name, or add what it names."),
    ),
    (
        Cause::Forbidden,
        rule("forbidden", "A value is well formed and may not be set here.", "Do what the message says."),
    ),
    (Cause::TooLong, rule("too-long", "A value is too long.", "Shorten it.")),
    (Cause::TooMany, rule("too-many", "A list has too many items.", "Remove some.")),
    (Cause::Unknown, rule("unknown-field", "There is no such field.", "Correct the name of the field.")),
];
/// A rule of the policy that is no error of a field.
const REFUSED: Rule = Rule {
    id: "refused",
    means: "A rule of the policy or of the API server refuses it.",
    help: "Do what the message says.",
};

const fn rule(id: &'static str, means: &'static str, help: &'static str) -> Rule {
    Rule { id, means, help }
}

/// Returns all kinds.
pub(super) fn all() -> impl Iterator<Item = Rule> {
    let optional = OptionalRule::value_variants().iter().map(|optional| optional.rule());
    OF_CAUSES.into_iter().map(|(_, rule)| rule).chain([REFUSED, UNINTENDED, UNREADABLE]).chain(optional)
}

/// Returns the kind of a finding.
pub(super) fn rule_for(finding: &Finding) -> Rule {
    let has_cause = |cause: Cause| finding.message.starts_with(cause.as_str());
    let of_cause = OF_CAUSES.into_iter().find(|(cause, _)| has_cause(*cause)).map(|(_, rule)| rule);
    match (finding.severity, of_cause) {
        (Severity::Warning, _) => finding.rule.map_or(UNINTENDED, OptionalRule::rule),
        (Severity::Error, Some(rule)) => rule,
        // An error of a document has no field.
        (Severity::Error, None) if finding.path.is_empty() && finding.sidecar_set.is_empty() => UNREADABLE,
        (Severity::Error, None) => REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_rule_is_the_value_of_the_option() {
        for rule in OptionalRule::value_variants() {
            assert_eq!(rule.to_possible_value().unwrap().get_name(), rule.id());
        }
    }
}
