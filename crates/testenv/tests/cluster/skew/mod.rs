//! Parts of two versions beside each other: those of this build, and those of another commit, which `testenv/skew` has
//! built. An update by itself refuses, restarts and rolls out nothing (docs/support.md).

mod installation;
mod tests;
mod world;

use std::path::PathBuf;

use pillion_testkit::module::workspace;

use crate::support::program;

/// The settings of both versions.
const SETTINGS: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n\
                        bundleRef: {namespace: pillion-system, name: sidecarsets}\n\
                        serviceAccounts: {requireCreatePods: false}\n";

/// A version of Pillion: the tag of its image, and its program, which has its module.
#[derive(Clone, Debug)]
struct Version {
    tag: &'static str,
    program: PathBuf,
}

impl Version {
    /// Returns this build.
    fn this() -> Self {
        Self { tag: "v0.2.0", program: program() }
    }

    /// Returns the other commit, or `None` if it was not built.
    fn other() -> Option<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
        let program = target.join("testenv/skew/pillion");
        program.exists().then_some(Self { tag: "v0.1.0", program })
    }
}
