//! What several tests use.

use pillion_kubernetes::lookup::Failure;
use pillion_samples::lookups::FakeObjects;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

/// Returns a set with an account in namespace `web`, changed by `edit`.
pub(crate) fn set(edit: impl FnOnce(&mut Value)) -> SidecarSet {
    let mut object = json!({
        "metadata": {"name": "logs"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "web"}},
            "serviceAccountName": "log-agent",
            "containers": [{"name": "agent"}],
        },
    });
    edit(&mut object);
    SidecarSet::from_decoded(object)
}

/// Returns a cluster that has only the Namespace `web`, in this phase. It does not answer if the phase is empty.
pub(crate) fn in_phase(phase: &str) -> FakeObjects {
    let namespace = json!({"metadata": {"name": "web"}, "status": {"phase": phase}});
    FakeObjects::new().with("Namespace web", if phase.is_empty() { Err(Failure::Timeout) } else { Ok(Some(namespace)) })
}
