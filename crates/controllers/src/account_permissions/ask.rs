//! Questions to the API server about what a ServiceAccount may do.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use pillion_kubernetes::authorizer::Author;
use pillion_plan::account_permissions::Question;
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read::in_time;

/// Asks a question (ESC-2: no answer is cached).
///
/// # Errors
/// The API server does not answer, or does not allow the question.
pub(super) async fn allows(client: &Client, question: &Question) -> Result<bool, WriteProblem> {
    let review = SubjectAccessReview { spec: spec(question), ..SubjectAccessReview::default() };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = in_time(api.create(&PostParams::default(), &review)).await?;
    let status = answer.status.ok_or_else(|| WriteProblem::Failed("the answer has no status".to_owned()))?;
    match status.evaluation_error.filter(|_| !status.allowed) {
        Some(error) => Err(WriteProblem::Failed(error)),
        None => Ok(status.allowed),
    }
}

/// Returns the SubjectAccessReview for a question.
pub(super) fn spec(question: &Question) -> SubjectAccessReviewSpec {
    let Question { account, namespace, atom, .. } = question;
    let Author { user, groups } = Author::service_account(&account.namespace, &account.name);
    let (resource, subresource) = atom.resource_and_subresource();
    let attributes = ResourceAttributes {
        namespace: Some(namespace.clone()),
        group: Some(atom.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        verb: Some(atom.verb.clone()),
        ..ResourceAttributes::default()
    };
    SubjectAccessReviewSpec {
        user: Some(user),
        groups: Some(groups),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    }
}
