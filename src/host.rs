//! Access to the cluster through the policy server.

use kubewarden_policy_sdk::Error;
use kubewarden_policy_sdk::host_capabilities::kubernetes::{
    CanIRequest, GetResourceRequest, ResourceAttributes, SubjectAccessReview, can_i, get_resource,
};
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::json::Bounded;
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef, classify};
use serde_json::Value;

/// The host's `kubernetes` capability.
pub struct Host;

impl Lookup for Host {
    fn get(&self, object: &ObjectRef) -> Answer {
        read(object, true)
    }

    fn get_cached(&self, object: &ObjectRef) -> Answer {
        read(object, false)
    }
}

fn read(object: &ObjectRef, disable_cache: bool) -> Answer {
    match get_resource(&resource_request(object, disable_cache)) {
        Ok(Bounded(found @ Value::Object(_))) => Ok(Some(found)),
        Ok(_) => Err(Failure::Unavailable),
        Err(error) => answer_to(&error),
    }
}

impl Authorizer for Host {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        let status = can_i(review_request(question)).map_err(|error| match answer_to(&error) {
            Err(Failure::Forbidden) => {
                "grant the policy server `create` on subjectaccessreviews, and under Kubewarden list kubernetes/can_i in \
                 the policy's hostCapabilities"
            }
            _ => "try again",
        })?;
        Ok(status.allowed && status.denied != Some(true))
    }
}

/// Returns the answer that an error of the SDK means. Only the host's own error text tells more than "unavailable".
fn answer_to(error: &Error) -> Answer {
    match error {
        Error::HostCall { source, .. } => classify(&source.to_string()),
        _ => Err(Failure::Unavailable),
    }
}

fn review_request(question: &Question) -> CanIRequest {
    let (resource, subresource) = question.atom.resource_and_subresource();
    let unless_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    CanIRequest {
        subject_access_review: SubjectAccessReview {
            user: question.user.clone(),
            groups: Some(question.groups.clone()),
            resource_attributes: ResourceAttributes {
                group: Some(question.atom.group.clone()),
                name: question.atom.name.as_deref().and_then(unless_empty),
                namespace: unless_empty(&question.namespace),
                resource: resource.to_owned(),
                subresource: unless_empty(subresource),
                verb: question.atom.verb.clone(),
                version: None,
            },
        },
        // The host's cache would keep a revoked permission for five seconds (ESC-2).
        disable_cache: true,
    }
}

/// Returns the request for an object.
///
/// The host's cache holds one lock for all keys while it asks the API server, so lookups of different objects wait for
/// each other, and absent objects are never cached. Its answers are also up to five seconds old, so the policy could miss
/// a new label of a Namespace, and Pods would lack a sidecar. So only [`Lookup::get_cached`] uses it.
fn resource_request(object: &ObjectRef, disable_cache: bool) -> GetResourceRequest {
    GetResourceRequest {
        api_version: object.api_version.to_owned(),
        kind: object.kind.to_owned(),
        name: object.name.clone(),
        namespace: object.namespace.clone(),
        disable_cache,
        // Masks do not shorten `metadata`, and of the other kinds, all large fields are needed.
        field_masks: None,
    }
}

#[cfg(test)]
mod tests {
    use pillion_kubernetes::rbac::Atom;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::everywhere("", None, "pods", (None, None, "pods", None))]
    #[case::one_object("shop", Some("a"), "deployments/scale", (Some("shop"), Some("a"), "deployments", Some("scale")))]
    fn esc2_questions_are_asked_anew_each_time(
        #[case] namespace: &str,
        #[case] name: Option<&str>,
        #[case] resource: &str,
        #[case] expected: (Option<&str>, Option<&str>, &str, Option<&str>),
    ) {
        let question = Question {
            user: "ann".to_owned(),
            groups: vec!["dev".to_owned()],
            namespace: namespace.to_owned(),
            atom: Atom::new("apps", resource, name, "get"),
        };
        let request = review_request(&question);
        assert!(request.disable_cache);
        let review = request.subject_access_review;
        assert_eq!((review.user.as_str(), review.groups), ("ann", Some(vec!["dev".to_owned()])));
        let asked = review.resource_attributes;
        assert_eq!((asked.group.as_deref(), asked.verb.as_str()), (Some("apps"), "get"));
        let about = (asked.namespace.as_deref(), asked.name.as_deref(), &*asked.resource, asked.subresource.as_deref());
        assert_eq!(about, expected);
    }

    #[test]
    fn match6_objects_are_read_past_the_hosts_cache() {
        let object = ObjectRef {
            api_version: "apps/v1",
            kind: "ControllerRevision",
            namespace: Some("apps".to_owned()),
            name: "r".to_owned(),
        };
        let request = resource_request(&object, true);
        assert!(request.disable_cache && request.field_masks.is_none());
        assert_eq!((&*request.api_version, &*request.kind, &*request.name), ("apps/v1", "ControllerRevision", "r"));
        assert_eq!(request.namespace.as_deref(), Some("apps"));
    }

    #[rstest]
    #[case::absent("Cannot find v1/Namespace named 'x' inside of namespace 'None'", Ok(None))]
    #[case::forbidden("namespaces \"x\" is forbidden", Err(Failure::Forbidden))]
    fn match6_errors_of_the_host_are_told_apart(#[case] text: &str, #[case] answer: Answer) {
        let error = Error::HostCall { operation: "kubernetes.get_resource".to_owned(), source: text.into() };
        assert_eq!(answer_to(&error), answer);
    }

    #[test]
    fn match6_an_answer_that_cannot_be_read_says_nothing() {
        let source = serde_json::from_str::<Value>("timeout").unwrap_err();
        let error = Error::Deserialization { context: "forbidden".to_owned(), source };
        assert_eq!(answer_to(&error), Err(Failure::Unavailable));
    }
}
