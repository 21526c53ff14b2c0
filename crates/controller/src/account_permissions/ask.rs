//! Questions to the API server about what a ServiceAccount may do.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use pillion_kubernetes::authorizer::Author;
use pillion_plan::account_permissions::Question;
use serde_json::{Value, json};

use crate::problem::WriteProblem;
use crate::read::in_time;

/// Asks a question (ESC-2: no answer is cached).
///
/// # Errors
/// The API server does not answer, or does not allow the question.
pub(super) async fn allows(client: &Client, question: &Question) -> Result<bool, WriteProblem> {
    let review = serde_json::from_value(review(question)).map_err(|error| WriteProblem::Failed(error.to_string()))?;
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = in_time(api.create(&PostParams::default(), &review)).await?;
    let status = answer.status.ok_or_else(|| WriteProblem::Failed("the answer has no status".to_owned()))?;
    match status.evaluation_error.filter(|_| !status.allowed) {
        Some(error) => Err(WriteProblem::Failed(error)),
        None => Ok(status.allowed),
    }
}

/// Returns the SubjectAccessReview for a question.
pub(super) fn review(question: &Question) -> Value {
    let author = Author::service_account(&question.account.namespace, &question.account.name);
    let (resource, subresource) = question.atom.resource_and_subresource();
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": author.user, "groups": author.groups,
            "resourceAttributes": {
                "namespace": question.namespace, "group": question.atom.group, "resource": resource,
                "subresource": subresource, "verb": question.atom.verb,
            },
        },
    })
}
