//! What several tests use.

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
