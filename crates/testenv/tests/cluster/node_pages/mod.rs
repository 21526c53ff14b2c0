//! The quick starts in a cluster with a real node: Pillion runs as its Deployments say, and the blocks run that the module
//! `pages` leaves out, because they look into containers.

mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;

use pillion_testenv::{Cluster, Image, Options};

use crate::support::node::agent;
use crate::support::program;

/// The images of the pages.
const KUBECTL: &str = "alpine/kubectl:1.34.2";
const BUSYBOX: &str = "busybox:1.37";

/// Starts a cluster with the images that the pages name.
pub async fn cluster() -> Cluster {
    let options = Options::new().real_nodes(1).services();
    Cluster::start(options.image(pillion()).image(agent(KUBECTL)).image(Image::busybox(BUSYBOX))).await.unwrap()
}

/// Returns the image that the chart installs, with this build's `pillion`. As in the released one, there is nothing else.
fn pillion() -> Image {
    let version = env!("CARGO_PKG_VERSION");
    let image = Image::empty(format!("ghcr.io/pillion/pillion:v{version}")).program("usr/bin/pillion", program());
    let image = image.entrypoint("/usr/bin/pillion").user("65532:65532");
    libraries(&program()).into_iter().fold(image, |image, library| image.program(library.to_str().unwrap(), &library))
}

/// Returns the libraries that a program was linked with.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    // As in "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)", and "/lib64/ld-linux-x86-64.so.2 (0x00007f)".
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    listed.lines().filter_map(path).collect()
}
