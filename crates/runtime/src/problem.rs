//! Problems with requests to the API server.

use std::time::Duration;

use kube::core::Status;
pub use pillion_plan::problem::WriteProblem;

/// Why a step was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} {kind} \"{}{name}\": {problem}", .namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default())]
pub struct WriteError {
    /// `create`, `apply`, `patch`, `delete`, `evict`.
    pub verb: &'static str,
    /// The kind of the object.
    pub kind: Box<str>,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The problem.
    pub problem: WriteProblem,
}

/// Classifies an error of the client. Texts come from the API server and contain no values of Secrets.
pub(crate) fn classify(error: &kube::Error) -> WriteProblem {
    let kube::Error::Api(status) = error else { return WriteProblem::Failed(error.to_string()) };
    classify_status(status)
}

/// Classifies a refusal of the API server.
pub(crate) fn classify_status(status: &Status) -> WriteProblem {
    let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let cause = |reason: &str| {
        status.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    };
    match (status.code, status.reason.as_str()) {
        (409, "AlreadyExists") => WriteProblem::AlreadyExists,
        (409, _) => WriteProblem::Conflict,
        (404, _) => WriteProblem::NotFound,
        (403, _) if cause("NamespaceTerminating") => WriteProblem::NamespaceTerminating,
        // The API server has no reason code for this.
        (403, _) if status.message.contains("attempting to grant RBAC permissions not currently held") => {
            WriteProblem::Escalation(status.message.clone())
        }
        (403, _) => WriteProblem::Forbidden(status.message.clone()),
        (429, _) if cause("DisruptionBudget") => WriteProblem::Held {
            message: about_budget(status).into(),
            after: (after > 0).then(|| Duration::from_secs(after.into())),
        },
        // The API server has no reason code for this.
        (500, _) if status.message.contains("more than one PodDisruptionBudget") => {
            WriteProblem::SeveralBudgets(status.message.trim_end_matches('.').to_owned())
        }
        (429 | 500..600, _) if after > 0 => {
            WriteProblem::Later { message: status.message.clone(), after: Duration::from_secs(after.into()) }
        }
        // Another object has this name now. For some writes, the API server calls that a change of the UID.
        (422, _) if is_about_uid(status) => WriteProblem::Conflict,
        (400 | 422, _) => WriteProblem::Invalid(status.message.clone()),
        _ => WriteProblem::Failed(status.message.clone()),
    }
}

/// Returns which PodDisruptionBudget forbids an eviction, and why.
fn about_budget(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let texts: Vec<&str> = causes.map(|cause| cause.message.as_str()).filter(|text| !text.is_empty()).collect();
    let text = if texts.is_empty() { status.message.clone() } else { texts.join("; ") };
    text.trim_end_matches('.').to_owned()
}

/// Whether an object is refused because its UID is another one than in the request, and for nothing else.
fn is_about_uid(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    !causes.is_empty() && causes.iter().all(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn status(code: u16, reason: &str, retry_after_seconds: u32) -> kube::Error {
        let details = serde_json::from_value(serde_json::json!({"retryAfterSeconds": retry_after_seconds}));
        kube::Error::Api(Box::new(Status { code, details: details.ok(), ..Status::failure("no", reason) }))
    }

    #[rstest]
    #[case::too_many_requests(429, 7, Some(7))]
    #[case::not_ready(503, 1, Some(1))]
    #[case::without_a_time(429, 0, None)]
    #[case::invalid(422, 7, None)]
    fn the_api_server_says_when_to_come_back(#[case] code: u16, #[case] after: u32, #[case] expected: Option<u64>) {
        let problem = classify(&status(code, "Any", after));
        assert_eq!(problem.retry_after().map(|after| after.as_secs()), expected);
    }

    #[rstest]
    #[case::exists(409, "AlreadyExists", true)]
    #[case::changed(409, "Conflict", true)]
    #[case::gone(404, "NotFound", true)]
    #[case::forbidden(403, "Forbidden", false)]
    #[case::invalid(422, "Invalid", false)]
    #[case::broken(500, "InternalError", false)]
    fn another_client_may_be_faster(#[case] code: u16, #[case] reason: &str, #[case] expected: bool) {
        assert_eq!(classify(&status(code, reason, 0)).is_overtaken(), expected);
    }

    #[rstest]
    #[case::held(429, "no", &["DisruptionBudget"], 0, WriteProblem::Held { message: "the budget needs 3".into(), after: None })]
    #[case::held_with_a_time(
        429, "no", &["DisruptionBudget"], 10,
        WriteProblem::Held { message: "the budget needs 3".into(), after: Some(Duration::from_secs(10)) }
    )]
    #[case::overloaded(429, "no", &[], 7, WriteProblem::Later { message: "no".to_owned(), after: Duration::from_secs(7) })]
    #[case::several(
        500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", &[], 0,
        WriteProblem::SeveralBudgets(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support".to_owned()
        )
    )]
    #[case::broken(500, "no", &[], 0, WriteProblem::Failed("no".to_owned()))]
    fn roll66_answers_to_an_eviction(
        #[case] code: u16,
        #[case] message: &str,
        #[case] causes: &[&str],
        #[case] after: u32,
        #[case] expected: WriteProblem,
    ) {
        let causes: Vec<_> = causes
            .iter()
            .map(|reason| serde_json::json!({"reason": reason, "message": "the budget needs 3"}))
            .collect();
        let details = serde_json::json!({"causes": causes, "retryAfterSeconds": after});
        let details = Some(serde_json::from_value(details).expect("details"));
        let status = Status { code, details, ..Status::failure(message, "Any") };
        assert_eq!(classify(&kube::Error::Api(Box::new(status))), expected);
    }

    #[rstest]
    #[case::uid(&["metadata.uid"], WriteProblem::Conflict)]
    #[case::more(&["metadata.uid", "rules"], WriteProblem::Invalid("no".to_owned()))]
    #[case::other(&["rules"], WriteProblem::Invalid("no".to_owned()))]
    fn another_object_of_the_same_name_is_a_conflict(#[case] fields: &[&str], #[case] expected: WriteProblem) {
        let causes: Vec<_> = fields.iter().map(|field| serde_json::json!({"field": field})).collect();
        let details = serde_json::from_value(serde_json::json!({"causes": causes})).expect("details");
        let status = Status { code: 422, details: Some(details), ..Status::failure("no", "Invalid") };
        assert_eq!(classify(&kube::Error::Api(Box::new(status))), expected);
    }
}
