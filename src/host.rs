//! The cluster, as the policy server shows it.

use kubewarden_policy_sdk::Error;
use kubewarden_policy_sdk::host_capabilities::kubernetes::{GetResourceRequest, get_resource};
use pillion_core::lookup::{Answer, Failure, Lookup, ObjectRef, classify};
use serde_json::Value;

/// Look-ups through the host's `kubernetes` capability.
pub struct HostLookup;

impl Lookup for HostLookup {
    fn get(&self, object: &ObjectRef) -> Answer {
        let request = GetResourceRequest {
            api_version: object.api_version.to_owned(),
            kind: object.kind.to_owned(),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            // The host's cache holds one lock over all its keys while it asks the API server, so look-ups of
            // different objects queue up behind each other, and absent objects are never cached. Its answers are up
            // to five seconds old, too: long enough for a Namespace's new label to be missed, and a sidecar with it.
            disable_cache: true,
            // Masks do not touch `metadata`, and of the other kinds everything that is large is needed.
            field_masks: None,
        };
        match get_resource::<Value>(&request) {
            Ok(found @ Value::Object(_)) => Answer::Found(found),
            Err(Error::HostCall { source, .. }) => classify(&source.to_string()),
            Ok(_) | Err(_) => Answer::Failed(Failure::Unavailable),
        }
    }
}
