//! Commands in containers.

use std::process::{Command, Output};

use pillion_testenv::{Cluster, tool};
use serde_json::Value;
use tokio::task::spawn_blocking;

/// How long a command in a container may take.
const LONGEST: &str = "60s";

/// A container of a running Pod.
#[derive(Clone, Copy)]
pub struct Shell<'a> {
    pub cluster: &'a Cluster,
    pub namespace: &'a str,
    pub pod: &'a str,
    pub container: &'a str,
}

impl Shell<'_> {
    /// Runs a line of sh. Returns what it printed, or what it printed to standard error if it failed.
    pub async fn try_run(&self, line: &str) -> Result<String, String> {
        let mut kubectl = self.kubectl();
        kubectl.args([
            "exec",
            "--request-timeout",
            LONGEST,
            self.pod,
            "--container",
            self.container,
            "--",
            "sh",
            "-c",
            line,
        ]);
        let output = finished(kubectl).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Runs a line of sh that succeeds. Returns what it printed.
    pub async fn run(&self, line: &str) -> String {
        self.try_run(line).await.unwrap_or_else(|error| panic!("{}: {line}: {error}", self.container))
    }

    /// Returns the user that the API server takes the container for.
    pub async fn user(&self) -> String {
        let review: Value = serde_json::from_str(&self.run("kubectl auth whoami --output json").await).unwrap();
        review["status"]["userInfo"]["username"].as_str().unwrap().to_owned()
    }

    fn kubectl(&self) -> Command {
        kubectl(self.cluster, self.namespace)
    }
}

/// Returns kubectl of an administrator, for a namespace.
pub fn kubectl(cluster: &Cluster, namespace: &str) -> Command {
    let mut kubectl = Command::new(tool("kubectl").unwrap());
    kubectl.env("KUBECONFIG", cluster.admin_kubeconfig_file()).args(["--namespace", namespace]);
    kubectl
}

/// Runs a command to its end, while the test goes on.
pub async fn finished(mut command: Command) -> Output {
    spawn_blocking(move || command.output().unwrap()).await.unwrap()
}
