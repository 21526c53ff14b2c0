//! Runs the pages of the documentation on a test cluster, with what ships: from the installation to the removal, and then
//! nothing is left. A [`Node`](node::Node) runs the programs of Pillion's Deployments.

mod deploying;
mod guides;
pub mod node;
mod quick_starts;
mod upgrade;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use pillion_testenv::{Cluster, Options, tool, until};
use pillion_testkit::module::workspace;
use tokio::task::spawn_blocking;

use self::node::{Node, OURS};
use crate::chart_life::everything;
use crate::support::{kubewarden, program};

/// The heading behind which the quick starts remove everything.
pub const WAY_BACK: &str = "The way back";
/// The chart in the registry, in place of which the pages install that of the repository.
const CHART: &str = "oci://ghcr.io/pillion/charts/pillion";
/// What blocks need and a test cluster does not have. The page says so in the comment before the block.
const ABSENT: [&str; 8] = ["kind", "k3d", "network", "kubewarden-chart", "registry", "cert-manager", "argocd", "flux"];
/// What only real nodes have.
const KUBELET: &str = "kubelet";
/// Folders of the repository that pages name.
const FOLDERS: [&str; 3] = ["charts", "deploy", "examples"];
/// How long `helm install --wait` may take on a busy machine.
const INSTALLED: Duration = Duration::from_mins(5);
/// How long objects may take to go.
const GONE: Duration = Duration::from_mins(2);

/// Starts a cluster in which Services lead to the programs of Deployments.
pub async fn cluster() -> Cluster {
    Cluster::start(Options::new().nodes(1).services()).await.unwrap()
}

/// Somebody who follows pages, from an empty cluster back to an empty cluster, in one folder.
pub struct Reader<'a> {
    cluster: &'a Cluster,
    folder: PathBuf,
    before: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    pub async fn start(cluster: &'a Cluster) -> Self {
        let folder = cluster.folder().join("pages");
        std::fs::create_dir(&folder).unwrap();
        for name in FOLDERS {
            symlink(workspace().join(name), folder.join(name)).unwrap();
        }
        let before = everything(&cluster.admin().await.unwrap()).await;
        Self { cluster, folder, before }
    }

    /// Runs the part of a page that these options choose, beside the node. Returns what the runner
    /// printed.
    pub async fn read(&self, page: &str, options: &[&str], node: &mut Node<'_>) -> String {
        let command = self.page(page, &[options, &["--without", KUBELET]].concat());
        node.beside(self.run(command)).await
    }

    /// The same in a cluster with real nodes, on which the blocks that need a kubelet run, too.
    pub async fn read_with_containers(&self, page: &str, options: &[&str]) -> String {
        self.run(self.page(page, options)).await
    }

    /// Returns the command that runs the part of a page that these options choose.
    fn page(&self, page: &str, options: &[&str]) -> Command {
        let root = workspace();
        let mut command = self.command(root.join("tools/run-page"));
        command.arg(root.join(page)).arg("--folder").arg(&self.folder).args(options);
        for absent in ABSENT {
            command.args(["--without", absent]);
        }
        // The runner refuses a replacement that no command has.
        let is_named = std::fs::read_to_string(root.join(page)).unwrap().contains(&format!(" {CHART} "));
        if is_named {
            command.args(["--replace", CHART, "./charts/pillion"]);
        }
        command
    }

    /// Runs a command as a reader of a text would.
    pub async fn type_in(&self, line: &str, node: &mut Node<'_>) -> String {
        let mut command = self.command("bash".into());
        command.args(["-euo", "pipefail", "-c", line]).current_dir(&self.folder);
        node.beside(self.run(command)).await
    }

    async fn run(&self, mut command: Command) -> String {
        let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let printed = printed(&output);
        assert!(output.status.success(), "{printed}\n{}\n{}", self.logs(), self.in_cluster());
        printed
    }

    fn command(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        // helm's files and the tools of this repository, not those of the machine.
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, self.cluster.folder());
        }
        command.env("KUBECONFIG", self.cluster.admin_kubeconfig_file()).env("PATH", path_with_tools());
        command
    }

    /// Returns the commands that `helm install` has printed, each on one line.
    pub async fn notes(&self, node: &mut Node<'_>) -> Vec<String> {
        let notes = self.type_in("helm get notes pillion --namespace pillion-system", node).await;
        notes.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
    }

    /// Checks that the cluster has no object that it did not have before the first page.
    pub async fn leaves_nothing(&self) {
        let client = self.cluster.admin().await.unwrap();
        let left =
            async || -> BTreeSet<String> { everything(&client).await.difference(&self.before).cloned().collect() };
        let nothing = async || left().await.is_empty().then_some(());
        let is_empty = until("every object being gone", GONE, nothing).await.is_ok();
        assert!(is_empty, "left: {:#?}", left().await);
    }

    /// Returns what the cluster says about Pods and their containers, for the message of a failed test.
    fn in_cluster(&self) -> String {
        let questions: [&[&str]; 3] = [
            &["get", "pods,events", "--all-namespaces", "--output=wide"],
            &["logs", "--namespace=pillion-system", &format!("--selector={OURS}"), "--prefix", "--tail=50"],
            &[
                "logs",
                "--namespace=pillion-system",
                &format!("--selector={OURS}"),
                "--prefix",
                "--tail=50",
                "--previous",
            ],
        ];
        let answer = |arguments: &&[&str]| match self.command("kubectl".into()).args(*arguments).output() {
            Ok(output) => printed(&output),
            Err(error) => error.to_string(),
        };
        questions.iter().map(answer).collect::<Vec<_>>().join("\n")
    }

    /// Returns the logs of the programs, for the message of a failed test.
    fn logs(&self) -> String {
        let logs = std::fs::read_dir(self.cluster.folder().join("logs")).unwrap();
        let names = logs.filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned));
        let ours = names.filter(|name| name.starts_with("pillion") || name == "server");
        ours.map(|name| format!("{name}:\n{}", self.cluster.log(&name))).collect::<Vec<_>>().join("\n")
    }
}

/// Returns what a command has written.
fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the search path with the folders of helm, kubectl and this build's `pillion` first.
fn path_with_tools() -> String {
    let programs = [tool("helm").unwrap(), tool("kubectl").unwrap(), program()];
    let folders = programs.map(|program| program.parent().map(Path::to_owned).unwrap());
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = folders.into_iter().chain(std::env::split_paths(&rest)).collect();
    std::env::join_paths(all).unwrap().into_string().unwrap()
}
