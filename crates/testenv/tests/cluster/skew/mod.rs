//! Parts of two versions beside each other: those of this build, and those of another commit, which `testenv/skew` has
//! built. An update by itself refuses, restarts and rolls out nothing (docs/support.md).

mod installation;
mod tests;
mod world;

use std::path::PathBuf;

use crate::support::{built, program};

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

    /// Returns the other commit, or `None` if it was not built. Says so then.
    fn other() -> Option<Self> {
        let program = built("skew/pillion");
        if program.is_none() {
            eprintln!("skipped: testenv/skew has not built another commit");
        }
        Some(Self { tag: "v0.1.0", program: program? })
    }
}
