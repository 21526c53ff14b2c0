//! The cluster, as the policy server shows it.

use pillion_core::json;
use pillion_core::lookup::{Answer, Failure, Lookup, ObjectRef, classify};
use pillion_core::service_account::author::{Authorizer, Question};
use serde_json::Value;

/// Calls `operation` of the host's `kubernetes` capability; the error is the host's text.
fn call(operation: &str, payload: &str) -> Result<Vec<u8>, String> {
    wapc_guest::host_call("kubewarden", "kubernetes", operation, payload.as_bytes()).map_err(|error| error.to_string())
}

/// The host's `kubernetes` capability.
pub struct Host;

impl Lookup for Host {
    fn get(&self, object: &ObjectRef) -> Answer {
        match call("get_resource", &payload(object)) {
            Ok(answer) => match json::parse(&answer) {
                Ok(found @ Value::Object(_)) => Ok(Some(found)),
                Ok(_) | Err(_) => Err(Failure::Unavailable),
            },
            Err(text) => classify(&text),
        }
    }
}

impl Authorizer for Host {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        let answer = call("can_i", &review(question)).map_err(|text| match classify(&text) {
            Err(Failure::Forbidden) => {
                "grant the policy server `create` on subjectaccessreviews, and under Kubewarden list kubernetes/can_i \
                     in the policy's hostCapabilities"
            }
            _ => "try again",
        })?;
        let status = json::parse(&answer).unwrap_or_default();
        Ok(json::flag(&status, &["allowed"]) && !json::flag(&status, &["denied"]))
    }
}

/// The payload of `can_i`: what the SDK's `CanIRequest` looks like as JSON.
fn review(question: &Question) -> String {
    let (resource, subresource) = question.atom.resource_and_subresource();
    let optional = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
    let mut groups = Vec::new();
    for group in &question.groups {
        groups.push(Value::from(group.as_str()));
    }
    let attributes = json::object_of([
        ("group", Value::from(question.atom.group.as_str())),
        ("name", optional(question.atom.name.as_deref().unwrap_or_default())),
        ("namespace", optional(&question.namespace)),
        ("resource", Value::from(resource)),
        ("subresource", optional(subresource)),
        ("verb", Value::from(question.atom.verb.as_str())),
        ("version", Value::Null),
    ]);
    let review = json::object_of([
        ("groups", Value::Array(groups)),
        ("resource_attributes", attributes),
        ("user", Value::from(question.user.as_str())),
    ]);
    // Rights that were taken away five seconds ago are none (`serviceaccounts.md` P2).
    json::shown(&json::object_of([("subject_access_review", review), ("disable_cache", Value::Bool(true))]))
}

/// The payload of `get_resource`: what the SDK's `GetResourceRequest` looks like as JSON.
fn payload(object: &ObjectRef) -> String {
    let namespace = object.namespace.as_ref().map_or(Value::Null, |namespace| Value::from(namespace.as_str()));
    let request = json::object_of([
        ("api_version", Value::from(object.api_version)),
        ("kind", Value::from(object.kind)),
        ("name", Value::from(object.name.as_str())),
        ("namespace", namespace),
        // The host's cache holds one lock over all its keys while it asks the API server, so look-ups of different
        // objects queue up behind each other, and absent objects are never cached. Its answers are up to five seconds
        // old, too: long enough for a Namespace's new label to be missed, and a sidecar with it.
        ("disable_cache", Value::Bool(true)),
        // Masks do not touch `metadata`, and of the other kinds everything that is large is needed.
        ("field_masks", Value::Null),
    ]);
    json::shown(&request)
}

#[cfg(test)]
mod tests {
    use kubewarden_policy_sdk::host_capabilities::kubernetes::{
        CanIRequest, GetResourceRequest, ResourceAttributes, SubjectAccessReview,
    };
    use pillion_core::service_account::permissions::Atom;

    use super::*;

    #[test]
    fn p2_questions_have_the_shape_that_the_sdk_gives_them() {
        for (namespace, name, resource) in [("", None, "pods"), ("apps", Some("a"), "deployments/scale")] {
            let atom = Atom {
                group: "apps".to_owned(),
                resource: resource.to_owned(),
                name: name.map(str::to_owned),
                verb: "get".to_owned(),
            };
            let question = Question {
                user: "ann".to_owned(),
                groups: vec!["dev".to_owned()],
                namespace: namespace.to_owned(),
                atom,
            };
            let (resource, subresource) =
                resource.split_once('/').map_or((resource, None), |(one, two)| (one, Some(two)));
            let expected = CanIRequest {
                subject_access_review: SubjectAccessReview {
                    user: "ann".to_owned(),
                    groups: Some(vec!["dev".to_owned()]),
                    resource_attributes: ResourceAttributes {
                        group: Some("apps".to_owned()),
                        name: name.map(str::to_owned),
                        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
                        resource: resource.to_owned(),
                        subresource: subresource.map(str::to_owned),
                        verb: "get".to_owned(),
                        version: None,
                    },
                },
                disable_cache: true,
            };
            let sent: Value = serde_json::from_str(&review(&question)).unwrap();
            assert_eq!(sent, serde_json::to_value(&expected).unwrap());
        }
    }

    #[test]
    fn requests_have_the_shape_that_the_sdk_gives_them() {
        for namespace in [None, Some("apps".to_owned())] {
            let object =
                ObjectRef { api_version: "apps/v1", kind: "ControllerRevision", namespace, name: "r".to_owned() };
            let expected = GetResourceRequest {
                api_version: object.api_version.to_owned(),
                kind: object.kind.to_owned(),
                name: object.name.clone(),
                namespace: object.namespace.clone(),
                disable_cache: true,
                field_masks: None,
            };
            let sent: Value = serde_json::from_str(&payload(&object)).unwrap();
            assert_eq!(sent, serde_json::to_value(&expected).unwrap());
        }
    }
}
