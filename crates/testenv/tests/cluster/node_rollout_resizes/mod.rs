//! Resizes that kubelets carry out: containers have other cpu and memory while they run.

mod tests;
use pillion_testenv::{Cluster, Options};
use tokio::sync::OnceCell;

use crate::node_rollouts;

/// A cluster with the controller. Its kubelet measures the memory of containers, so it also lowers limits of those that
/// have restarted.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let options = Options::new().real_nodes(1).measured_by_kubelet().image(tests::empty());
    CLUSTER.get_or_init(|| node_rollouts::start(options)).await
}
