//! The controllers of Pods, and which of them create a Pod anew after it was evicted (ROLL-66).

use crate::pod::Pod;

/// Whether a controller of this kind creates a Pod anew. Jobs do not count: the work of their Pods would be lost.
pub fn recreates(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match group {
        "" => kind == "ReplicationController",
        "apps" => matches!(kind, "ReplicaSet" | "StatefulSet" | "DaemonSet"),
        "apps.kruise.io" => matches!(kind, "CloneSet" | "StatefulSet" | "DaemonSet"),
        _ => false,
    }
}

impl Pod {
    /// Whether the Pod has a controller that creates it anew.
    pub fn is_recreated(&self) -> bool {
        self.metadata.owner.as_deref().is_some_and(|owner| recreates(&owner.api_version, &owner.kind))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::of_a_deployment("apps/v1", "ReplicaSet", true)]
    #[case::stateful("apps/v1", "StatefulSet", true)]
    #[case::on_each_node("apps/v1", "DaemonSet", true)]
    #[case::replication("v1", "ReplicationController", true)]
    #[case::clone_set("apps.kruise.io/v1alpha1", "CloneSet", true)]
    #[case::advanced_stateful("apps.kruise.io/v1beta1", "StatefulSet", true)]
    #[case::advanced_daemon("apps.kruise.io/v1alpha1", "DaemonSet", true)]
    #[case::job("batch/v1", "Job", false)]
    #[case::broadcast_job("apps.kruise.io/v1alpha1", "BroadcastJob", false)]
    #[case::mirror("v1", "Node", false)]
    #[case::another_group("example.com/v1", "ReplicaSet", false)]
    #[case::no_group("v1", "ReplicaSet", false)]
    fn roll66_only_some_controllers_create_pods_anew(
        #[case] api_version: &str,
        #[case] kind: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(recreates(api_version, kind), expected);
    }
}
