//! The cluster, as the policy server shows it.

use pillion_core::json;
use pillion_core::lookup::{Answer, Failure, Lookup, ObjectRef, classify};
use serde_json::Value;

use crate::wapc;

/// Look-ups through the host's `kubernetes` capability.
pub struct HostLookup;

impl Lookup for HostLookup {
    fn get(&self, object: &ObjectRef) -> Answer {
        match wapc::host_call("kubernetes", "get_resource", &payload(object)) {
            Ok(answer) => match json::parse(&answer) {
                Ok(found @ Value::Object(_)) => Answer::Found(found),
                Ok(_) | Err(_) => Answer::Failed(Failure::Unavailable),
            },
            Err(text) => classify(str::from_utf8(&text).unwrap_or_default()),
        }
    }
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
    use kubewarden_policy_sdk::host_capabilities::kubernetes::GetResourceRequest;

    use super::*;

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
