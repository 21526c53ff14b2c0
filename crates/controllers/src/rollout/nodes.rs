//! The nodes that are not ready. Their Pods are not changed (ROLL-35).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::store::{Facets, Projection, Watch, Watched};
use pillion_runtime::wakes::{Keys, Wakes};

use super::SidecarSetRollout;

/// A node that is not ready. Others are not kept.
struct UnreadyNode {
    name: String,
}

impl UnreadyNode {
    fn from_node(node: Node) -> Option<Self> {
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        node.metadata.name.filter(|_| !is_ready).map(|name| Self { name })
    }
}

impl Projection for UnreadyNode {
    /// A node that comes or goes differs in everything.
    fn differences(&self, _: &Self) -> Facets {
        Facets::empty()
    }
}

/// Follows the nodes that are not ready.
pub(super) struct Nodes(Watched<UnreadyNode>);

impl Nodes {
    /// Starts to watch the nodes.
    pub(super) fn watch(context: &Context) -> Self {
        let watch = Watch::new(Api::<Node>::all(context.client.clone()), "Node");
        Self(context.store.keep(SidecarSetRollout::NAME, watch, UnreadyNode::from_node))
    }

    /// Waits until the nodes were listed.
    pub(super) async fn listed(&self) {
        self.0.listed().await;
    }

    /// Wakes all SidecarSets when a node becomes ready, or is not any more.
    pub(super) fn wake(&self, wakes: &Wakes<String>) {
        wakes.on(&self.0, Facets::READINESS, |_| Keys::All);
    }

    /// Returns the names of the nodes that are not ready.
    pub(super) fn unready(&self) -> BTreeSet<String> {
        self.0.all().iter().map(|node| node.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::ready(json!([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]), false)]
    #[case::not_ready(json!([{"type": "Ready", "status": "False"}]), true)]
    #[case::its_kubelet_is_silent(json!([{"type": "Ready", "status": "Unknown"}]), true)]
    #[case::new(json!([]), true)]
    fn roll35_nodes_that_are_not_ready_are_kept(#[case] conditions: Value, #[case] expected: bool) {
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
        let node = UnreadyNode::from_node(serde_json::from_value(node).unwrap());
        assert_eq!(node.map(|node| node.name), expected.then(|| "n".to_owned()));
    }
}
