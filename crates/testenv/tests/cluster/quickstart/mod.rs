//! Runs the quick starts, and a guide that needs an installation, on a test cluster, with local processes in place of the
//! Pods that no kubelet runs.

pub mod kubewarden;
pub mod processes;
mod tests;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;

use futures_util::future::{Either, select};
use pillion_testenv::{Cluster, tool};
use pillion_testkit::module::workspace;
use tokio::task::spawn_blocking;

use crate::support::program;

/// The namespace of the installation.
pub const NAMESPACE: &str = "pillion-system";
/// The chart in the registry, in place of which the pages install that of the repository.
const CHART: &str = "oci://ghcr.io/pillion/charts/pillion";
/// The heading behind which the pages remove everything.
pub const WAY_BACK: &str = "The way back";

/// A page of `docs`, whose blocks run on a cluster.
pub struct Page<'a> {
    cluster: &'a Cluster,
    name: &'a str,
}

impl<'a> Page<'a> {
    pub fn new(cluster: &'a Cluster, name: &'a str) -> Self {
        Self { cluster, name }
    }

    /// Runs the part of the page that these options choose, beside what stands in for the Pods. Returns what the runner
    /// printed.
    pub async fn run(&self, options: &[&str], stand_in: impl Future<Output = ()>) -> String {
        let mut command = self.command(options);
        let page = pin!(async { spawn_blocking(move || command.output().unwrap()).await.unwrap() });
        // A failure of the page ends the test at once, whatever the stand-in waits for.
        let output = match select(page, pin!(stand_in)).await {
            Either::Left((output, _)) => output,
            Either::Right(((), page)) => page.await,
        };
        let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{printed}\n{}", self.logs());
        printed
    }

    fn command(&self, options: &[&str]) -> Command {
        let root = workspace();
        let chart = root.join("charts/pillion").display().to_string();
        let mut command = Command::new(root.join("tools/run-page"));
        command.arg(root.join("docs").join(self.name)).args(["--replace", CHART, &chart]).args(options);
        for absent in ["kind", "k3d", "kubelet", "network"] {
            command.args(["--without", absent]);
        }
        // helm's files and the tools of this repository, not those of the machine.
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME"] {
            command.env(folder, self.cluster.folder());
        }
        command.env("KUBECONFIG", self.cluster.admin_kubeconfig_file()).env("PATH", path_with_tools());
        command
    }

    /// Returns the logs of the local processes, for the message of a failed test.
    fn logs(&self) -> String {
        ["server", "controller"].map(|name| format!("{name}:\n{}", self.cluster.log(name))).join("\n")
    }
}

/// Returns the search path with the folders of helm, kubectl and this build's `pillion` first.
fn path_with_tools() -> String {
    let programs = [tool("helm").unwrap(), tool("kubectl").unwrap(), program()];
    let folders = programs.map(|program| program.parent().map(Path::to_owned).unwrap());
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = folders.into_iter().chain(std::env::split_paths(&rest)).collect();
    std::env::join_paths(all).unwrap().into_string().unwrap()
}
