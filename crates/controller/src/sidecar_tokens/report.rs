//! Reports why a Pod waits for a token: Events on the Pod, and on a workload that needs the token.

use std::sync::Arc;

use pillion_plan::sidecar_tokens::{Foreign, Lack};
use serde_json::json;

use crate::effects::Events;
use crate::problem::{WriteError, WriteProblem};
use crate::store::Subject;

/// Why there is no token.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The plan cannot provide a token.
    Lack(Lack),
    /// A Secret of that name exists and is not Pillion's.
    Foreign(Foreign),
    /// The namespace is not among those whose Secrets the controller may read.
    NotGiven,
    /// The Secrets cannot be listed. Holds the reason.
    NotListed(String),
    /// The controller lacks a permission. Holds the missing rule.
    Forbidden(String),
    /// The API server rejects the request as invalid.
    Invalid(String),
}

impl Trouble {
    /// Returns the trouble behind an error; `None` for errors that pass by themselves.
    pub(super) fn of(error: &WriteError) -> Option<Self> {
        match &error.problem {
            WriteProblem::Forbidden(_) => {
                let (resource, verb) = match (&*error.kind, error.verb) {
                    ("TokenRequest", _) => ("serviceaccounts/token", "create"),
                    ("Pod", verb) => ("pods", verb),
                    (_, verb) => ("secrets", verb),
                };
                Some(Self::Forbidden(format!(
                    "{error}; it needs the rule {{apiGroups: [\"\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}"
                )))
            }
            WriteProblem::Invalid(_) => Some(Self::Invalid(error.to_string())),
            _ => None,
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Lack(Lack::Missing) => "ServiceAccountMissing",
            Self::Lack(Lack::Terminating) => "ServiceAccountTerminating",
            Self::Lack(Lack::NotAllowed) => "ServiceAccountNotAllowed",
            Self::Lack(Lack::SecretTerminating) => "TokenSecretTerminating",
            Self::Foreign(_) => "TokenSecretNotOurs",
            Self::NotGiven => "TokenNamespaceNotGiven",
            Self::NotListed(_) => "TokenSecretsNotListed",
            Self::Forbidden(_) => "TokenForbidden",
            Self::Invalid(_) => "TokenInvalid",
        }
    }

    /// Returns the text for people.
    pub(super) fn note(&self, account: &str) -> String {
        let secret = pillion_identity::names::token_secret(account);
        let why = match self {
            Self::Lack(lack) => lack.to_string(),
            Self::Foreign(foreign) => {
                format!(
                    "Pillion did not create the Secret of this name, and does not change it: {foreign}; delete or rename it"
                )
            }
            Self::NotGiven => "the controller may not keep tokens in this namespace".to_owned(),
            Self::NotListed(why) => format!("the Secrets cannot be watched: {why}"),
            Self::Forbidden(why) | Self::Invalid(why) => why.clone(),
        };
        format!("no token of ServiceAccount \"{account}\" for isolated sidecars (Secret \"{secret}\"): {why}")
    }
}

pub(super) async fn publish(events: &Events, who: &[Arc<Subject>], reason: &str, note: &str) {
    for Subject { kind, namespace, name, uid, .. } in who.iter().map(AsRef::as_ref) {
        let metadata = json!({"namespace": namespace, "name": name, "uid": uid});
        let object = json!({"apiVersion": api_version(kind), "kind": kind, "metadata": metadata});
        events.warning(&object, "MintToken", reason, note.to_owned()).await;
    }
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Pod" => "v1",
        "Job" | "CronJob" => "batch/v1",
        "CloneSet" => "apps.kruise.io/v1alpha1",
        _ => "apps/v1",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::token("create", "TokenRequest", "resources: [\"serviceaccounts/token\"], verbs: [\"create\"]")]
    #[case::secret("patch", "Secret", "resources: [\"secrets\"], verbs: [\"patch\"]")]
    #[case::pods("list", "Pod", "resources: [\"pods\"], verbs: [\"list\"]")]
    fn esc6_a_missing_right_is_told_with_the_rule_that_gives_it(
        #[case] verb: &'static str,
        #[case] kind: &str,
        #[case] rule: &str,
    ) {
        let problem = WriteProblem::Forbidden("it is forbidden".to_owned());
        let error =
            WriteError { verb, kind: kind.into(), namespace: Some("n".to_owned()), name: "x".to_owned(), problem };

        let trouble = Trouble::of(&error).unwrap();

        assert!(trouble.note("logs").contains(rule), "{}", trouble.note("logs"));
        assert_eq!(trouble.reason(), "TokenForbidden");
    }
}
