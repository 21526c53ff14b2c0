//! A Namespace.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use pillion_inject::matching::opt_out::OPT_OUT_OF;
use pillion_kubernetes::json;
use pillion_sidecarset::overrides;
use serde_json::{Value, json};

use super::change::{Facets, Projection};

/// A Namespace: name, UID, labels, which SidecarSets its Pods leave out and what
/// they override in their sidecars, phase, and whether it is being deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace(pub Arc<Value>);

impl Namespace {
    pub(super) fn from_object(object: NamespaceObject) -> Option<Self> {
        let NamespaceObject { metadata, status, .. } = object;
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.retain(|key, _| key == OPT_OUT_OF || overrides::container_of(key).is_some());
        let mut kept = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": metadata.name?, "uid": metadata.uid, "labels": metadata.labels.unwrap_or_default(),
                "annotations": annotations,
            },
            "status": {"phase": status.and_then(|status| status.phase).unwrap_or_default()},
        });
        if let Some(time) = metadata.deletion_timestamp {
            let time = serde_json::to_value(time).ok()?;
            kept.pointer_mut("/metadata")?.as_object_mut()?.insert("deletionTimestamp".to_owned(), time);
        }
        Some(Self(Arc::new(kept)))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        json::text(&self.0, &["metadata", "name"])
    }

    /// Returns the phase (`status.phase`), or `""` if there is none yet.
    pub fn phase(&self) -> &str {
        json::text(&self.0, &["status", "phase"])
    }

    /// Whether the namespace is being deleted: it accepts no new objects, and its contents go with it.
    pub fn is_terminating(&self) -> bool {
        json::at(&self.0, &["metadata", "deletionTimestamp"]).is_some() || self.phase() == "Terminating"
    }
}

impl Projection for Namespace {
    fn differences(&self, next: &Self) -> Facets {
        let differs = |field| json::at(&self.0, &["metadata", field]) != json::at(&next.0, &["metadata", field]);
        let mut facets = Facets::empty();
        // Both say which SidecarSets the Pods of the namespace get, and what of them.
        facets.set(Facets::LABELS, differs("labels") || differs("annotations"));
        let phase = |namespace: &Self| (namespace.phase().to_owned(), namespace.is_terminating());
        facets.set(Facets::PHASE, phase(self) != phase(next));
        facets
    }
}
