//! Reports why a Pod waits for a token: Events on the Pod, and on a workload that needs the token.

use std::sync::Arc;

use pillion_plan::credential::Credential;
use pillion_plan::sidecar_tokens::{Foreign, Lack};
use pillion_runtime::effects::Events;
use pillion_runtime::problem::{WriteError, WriteProblem};
use pillion_runtime::store::Subject;
use serde_json::json;

use super::requests::TOKEN_REQUEST;

/// The reason of the Event about lifetimes that the API server shortened. It is no trouble: the tokens are there.
pub(super) const SHORTENED: &str = "TokenLifetimeShortened";

/// Why there is no token, or not every token.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The plan cannot provide a token.
    Lack(Lack),
    /// A Secret of that name exists and is not Pillion's.
    Foreign(Foreign),
    /// An audience of the SidecarSet is one of the API server (AUD-7).
    ApiServerAudience(String),
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
    pub(super) fn from_error(error: &WriteError) -> Option<Self> {
        match &error.problem {
            WriteProblem::Forbidden(_) => {
                let (resource, verb) = match (&*error.kind, error.verb) {
                    (kind, _) if kind.starts_with(TOKEN_REQUEST) => ("serviceaccounts/token", "create"),
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
            Self::Lack(Lack::AudienceNotAllowed(_)) => "TokenAudienceNotAllowed",
            Self::ApiServerAudience(_) => "TokenAudienceOfApiServer",
            Self::Lack(Lack::SecretTerminating) => "TokenSecretTerminating",
            Self::Foreign(_) => "TokenSecretNotOurs",
            Self::NotGiven => "TokenNamespaceNotGiven",
            Self::NotListed(_) => "TokenSecretsNotListed",
            Self::Forbidden(_) => "TokenForbidden",
            Self::Invalid(_) => "TokenInvalid",
        }
    }

    /// Returns the text for people.
    pub(super) fn note(&self, credential: &Credential) -> String {
        let why = match self {
            Self::Lack(lack) => lack.to_string(),
            Self::Foreign(foreign) => {
                format!(
                    "Pillion did not create the Secret of this name, and does not change it: {foreign}; delete or rename it"
                )
            }
            Self::ApiServerAudience(audience) => format!(
                "the audience \"{audience}\" is one of the API server; remove it from spec.serviceAccountTokens of the SidecarSet and use the file \"token\", and add it to serviceAccounts.apiServerAudiences"
            ),
            Self::NotGiven => "the controller may not keep tokens in this namespace".to_owned(),
            Self::NotListed(why) => format!("the Secrets cannot be watched: {why}"),
            Self::Forbidden(why) | Self::Invalid(why) => why.clone(),
        };
        let what = match self {
            Self::Lack(Lack::AudienceNotAllowed(_)) => "fewer tokens",
            _ => "no token",
        };
        format!("{what} of {credential}{} (Secret \"{}\"): {why}", isolated(credential), credential.secret())
    }
}

/// Returns the text about lifetimes that the API server shortened.
pub(super) fn shortened(credential: &Credential, texts: &[String]) -> String {
    let texts = texts.join(", ");
    format!(
        "the API server shortened lifetimes of tokens of {credential}{}: {texts}; lower expirationSeconds, or raise --service-account-max-token-expiration of the API server",
        isolated(credential)
    )
}

/// Sidecars of any SidecarSet may share a Secret.
fn isolated(credential: &Credential) -> &'static str {
    if credential.sidecar_set.is_none() { " for isolated sidecars" } else { "" }
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
    #[case::token_for_an_audience(
        "create",
        "TokenRequest for the audience \"vault\" of",
        "resources: [\"serviceaccounts/token\"], verbs: [\"create\"]"
    )]
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

        let trouble = Trouble::from_error(&error).unwrap();

        let note = trouble.note(&Credential::shared("logs"));
        assert!(note.contains(rule) && note.contains(kind), "{note}");
        assert_eq!(trouble.reason(), "TokenForbidden");
    }

    #[rstest]
    #[case::missing(
        Trouble::Lack(Lack::Missing),
        "no token of ServiceAccount \"logs\" for SidecarSet \"agent\" (Secret \"sidecarset-token-"
    )]
    #[case::not_allowed(Trouble::Lack(Lack::AudienceNotAllowed("why".to_owned())), "fewer tokens of ServiceAccount \"logs\"")]
    #[case::of_the_api_server(Trouble::ApiServerAudience("kubernetes".to_owned()), "serviceAccounts.apiServerAudiences")]
    fn aud7_a_note_names_account_set_and_remedy(#[case] trouble: Trouble, #[case] part: &str) {
        let note = trouble.note(&Credential::own("logs", "agent"));
        assert!(note.contains(part), "{note}");
    }
}
