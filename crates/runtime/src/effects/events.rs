//! Events on objects, as `kubectl describe` shows them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use pillion_kubernetes::json;
use serde_json::Value;

use super::send::FIELD_MANAGER;

/// The maximum length of a note, in bytes. The API server accepts 1,024.
const NOTE_MAX: usize = 1000;

/// Writes Events. An Event that cannot be written is logged and has no further effect.
#[derive(Clone)]
pub struct Events(Arc<Recorder>);

impl Events {
    /// Returns a writer for this process, which is called `instance` (`POD_NAME`).
    pub fn new(client: Client, instance: Option<String>) -> Self {
        let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance };
        Self(Arc::new(Recorder::new(client, reporter)))
    }

    /// Writes an Event about a success.
    pub async fn normal(&self, object: &Value, action: &str, reason: &str, note: String) {
        self.publish(EventType::Normal, object, action, reason, note).await;
    }

    /// Writes an Event about a problem that needs attention.
    pub async fn warning(&self, object: &Value, action: &str, reason: &str, note: String) {
        self.publish(EventType::Warning, object, action, reason, note).await;
    }

    /// Writes an Event. `action` names the action and `reason` the reason of the Event, each in one word; `note` is for
    /// people.
    async fn publish(&self, type_: EventType, object: &Value, action: &str, reason: &str, mut note: String) {
        note.truncate(note.floor_char_boundary(NOTE_MAX));
        let event =
            Event { type_, reason: reason.to_owned(), note: Some(note), action: action.to_owned(), secondary: None };
        if let Err(error) = self.0.publish(&event, &reference(object)).await {
            tracing::warn!(%error, reason, "an event was not written");
        }
    }
}

/// Returns the reference to an object for an Event.
fn reference(object: &Value) -> ObjectReference {
    let text = |path: &[&str]| Some(json::text(object, path).to_owned()).filter(|text| !text.is_empty());
    ObjectReference {
        api_version: text(&["apiVersion"]),
        kind: text(&["kind"]),
        name: text(&["metadata", "name"]),
        namespace: text(&["metadata", "namespace"]),
        resource_version: text(&["metadata", "resourceVersion"]),
        uid: text(&["metadata", "uid"]),
        field_path: None,
    }
}
