//! The quick starts in a cluster with a real node: Pillion runs as its Deployments say, and the blocks run that the module
//! `pages` leaves out, because they look into containers.

mod tests;

use pillion_testenv::{Cluster, Image, Options};

use crate::support::node::{agent, with_libraries};
use crate::support::program;

/// The images of the pages.
const KUBECTL: &str = "alpine/kubectl:1.34.2";
const BUSYBOX: &str = "busybox:1.37";
/// Where the image of Pillion has its program.
const PROGRAM: &str = "/usr/bin/pillion";

/// Starts a cluster with the images that the pages name.
pub async fn cluster() -> Cluster {
    let options = Options::new().real_nodes(1).services();
    Cluster::start(options.image(pillion()).image(agent(KUBECTL)).image(Image::busybox(BUSYBOX))).await.unwrap()
}

/// Returns the image that the chart installs, with this build's `pillion`. As in the released one, there is nothing else.
fn pillion() -> Image {
    let image = Image::empty(format!("ghcr.io/pillion/pillion:v{}", env!("CARGO_PKG_VERSION")));
    with_libraries(image, PROGRAM, &program()).entrypoint(PROGRAM).user("65532:65532")
}
