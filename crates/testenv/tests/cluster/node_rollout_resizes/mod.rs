//! Resizes that kubelets carry out: containers have other cpu and memory while they run.

mod tests;
use pillion_testenv::{Cluster, Options};
use tokio::sync::OnceCell;

use crate::node_rollouts;

/// A cluster with the controller.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let options = Options::new().real_nodes(1).image(tests::empty());
    CLUSTER.get_or_init(|| node_rollouts::start(options)).await
}
