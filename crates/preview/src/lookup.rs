//! Inputs of the rules for commands that apply them outside the module.

use pillion_admission::pod::{Context, PodRequest};
use pillion_admission::request::Request;
use pillion_admission::settings::Settings;
use pillion_host::{Cluster, ClusterError, ResourceRequest};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{self, Answer, Failure, Lookup, ObjectRef};
use pillion_kubernetes::time::Timestamp;

/// Answers look-ups of the rules in the same way as those of the module.
#[derive(Clone, Copy)]
pub struct Answers<'a>(pub &'a dyn Cluster);

impl Lookup for Answers<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        let request = ResourceRequest {
            api_version: object.api_version.to_owned(),
            kind: object.kind.to_owned(),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            disable_cache: true,
            field_masks: None,
        };
        match self.0.get(&request) {
            Ok(bytes) => json::parse(&bytes).map(Some).map_err(|_| Failure::Unavailable),
            Err(ClusterError::NotFound) => Ok(None),
            Err(ClusterError::NotGranted) => Err(Failure::Forbidden),
            Err(ClusterError::Failed(text)) => lookup::classify(&text),
        }
    }
}

/// Returns the context for judging a Pod by these settings. The time is zero: nothing that commands read depends on it.
pub fn context<'a>(settings: &'a Settings, lookup: &'a dyn Lookup) -> Context<'a> {
    Context { settings, sidecar_sets: &settings.sidecar_sets, lookup, now: Timestamp(0) }
}

/// Returns the Pod of a request.
pub fn pod_request(request: &Request) -> PodRequest<'_> {
    PodRequest { uid: &request.uid, namespace: &request.namespace, object: &request.object }
}
