//! Versions that do not run: images that nobody has, containers that end, probes that fail. kubelets say so.

mod tests;
use pillion_testenv::{Cluster, Image, Options};
use tokio::sync::OnceCell;

use crate::node_rollouts;

/// A cluster with the controller. Its nodes have versions of the sidecar that do not run.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let crashing = Image::busybox("docker.io/library/agent:crash").command(["sh", "-c", "exit 3"]);
    // The files that probes look for are missing.
    let unready = Image::busybox("docker.io/library/agent:unready").file("www/other", "");
    let options = Options::new().real_nodes(1).image(crashing).image(unready);
    CLUSTER.get_or_init(|| node_rollouts::start(options)).await
}
