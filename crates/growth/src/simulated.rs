//! Measures in a simulated cluster.

use std::path::Path;

use crate::measured::Point;
use crate::plan::{Plan, Size};
use crate::program::Installation;
use crate::progress::tell;
use crate::scene::{self, Surroundings, Times};
use crate::server::{COUNTED, Server};

/// Measures this program in a simulated cluster of a size.
///
/// # Errors
/// The program ends, takes too long, or leaves out a Pod.
pub async fn measure(program: &Path, size: Size, times: Times) -> anyhow::Result<Point> {
    tell(&format!("{} Pods, {} SidecarSets, {} namespaces", size.pods, size.sidecar_sets, size.namespaces));
    let plan = Plan { size };
    let server = Server::start()?;
    for object in plan.objects()? {
        server.put(object);
    }
    let folder = tempfile::tempdir()?;
    let kubeconfig = server.kubeconfig(folder.path(), COUNTED)?;
    let around = Surroundings {
        client: server.client(),
        counts: Some(server.counts()),
        installation: Installation::new(program.to_owned(), folder.path(), kubeconfig, plan),
        server_kubeconfig: server.kubeconfig(folder.path(), "server")?,
    };
    scene::measure(size, &around, times).await
}
