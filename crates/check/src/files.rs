//! Look-ups in the files of the command.

use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Answer, Failure, Lookup, ObjectRef};
use serde_json::Value;

use super::documents::Document;

/// The cluster, as the files describe it. Objects outside the files are unavailable, not missing.
pub struct Files<'a>(pub &'a [Document]);

impl Lookup for Files<'_> {
    fn get(&self, object: &ObjectRef) -> Answer {
        let is_it = |value: &Value| {
            let namespace = json::text(value, &["metadata", "namespace"]);
            json::text(value, &["apiVersion"]) == object.api_version
                && json::text(value, &["kind"]) == object.kind
                && json::text(value, &["metadata", "name"]) == object.name
                && (namespace.is_empty() || object.namespace.as_deref() == Some(namespace))
        };
        let found = self.0.iter().map(|document| &document.manifest.value).find(|value| is_it(value));
        found.cloned().map(Some).ok_or(Failure::Unavailable)
    }
}
