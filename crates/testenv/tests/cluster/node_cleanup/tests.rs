use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pillion_testenv::{Cluster, Node, Options, tool, until};
use rstest::rstest;
use serde_json::json;

use super::machine::{Machine, settings};
use super::traces::Traces;
use crate::processes::{
    PATIENCE, Process, all, announcement, below, end, hold, holder, keeper_of, lives, name, names, signal, stat,
};
use crate::support::node::{self, APP};
use crate::support::{create, pod};

const HOLDER: &str = "node_cleanup::tests::holds_a_node";
/// Runs a program where the folders of kubelet and containerd do not exist. Writes into a file what exists after its end.
const WITHOUT_FOLDERS: &str = "mount -t tmpfs empty /run && mount -t tmpfs empty /var/lib && \"$@\"\n\
    status=$?; ls -A /run /var/lib >\"$0\"; exit $status";

/// Starts a cluster with nodes on each of which a Pod runs.
async fn start(nodes: u8) -> Cluster {
    let cluster = Cluster::start(Options::new().real_nodes(nodes).image(node::app())).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    for node in cluster.real_nodes() {
        let web = pod(&json!({
            "metadata": {"name": node.process()},
            "spec": {"nodeName": node.name(), "containers": [{"name": "app", "image": APP}]},
        }));
        let created = async || create(&pods, &web).await.ok();
        until("the ServiceAccount being there", PATIENCE, created).await.unwrap();
    }
    for node in cluster.real_nodes() {
        node::ready(&client, "default", &node.process()).await;
    }
    cluster
}

#[tokio::test]
#[ignore = "the other tests run it, in a process that ends badly"]
async fn holds_a_node() {
    let cluster = start(1).await;
    println!("{}", announcement(&cluster));
    hold(cluster).await;
}

/// Notes the traces of a cluster below a process.
fn traces(parent: u32, folder: &Path, machine: Machine) -> Traces {
    let processes = below(parent);
    let names = names(&processes);
    let expected = ["containerd", "containerd-shim", "etcd", "keeper", "kubelet", "node", "pause", "sh", "sleep"];
    assert!(expected.iter().all(|name| names.contains(*name)), "{names:?}");
    let kubelet = processes.iter().find(|(process, _)| name(*process) == "kubelet").unwrap().0;
    assert_eq!(settings(Path::new("/")), machine.settings());
    // kubelet did change its copies.
    let copies = settings(Path::new(&format!("/proc/{kubelet}/root")));
    assert_eq!(copies["kernel/panic_on_oops"].as_deref().map(str::trim), Some("1"));
    assert_eq!(copies["kernel/panic"].as_deref().map(str::trim), Some("10"));
    Traces::of_cluster(processes, folder, machine)
}

#[rstest]
#[case::panic("panic")]
#[case::exit("exit")]
#[case::ctrl_c("-INT")]
#[case::terminated("-TERM")]
#[case::killed("-KILL")]
#[tokio::test]
async fn nothing_is_left_of_the_node_of_a_process_that_ends_by(#[case] how: &str) {
    let machine = Machine::look();
    let (mut child, folder) = holder(HOLDER, how, &[]);
    let traces = traces(child.id(), &folder, machine);

    end(&mut child, &folder, how);

    traces.gone_with_cluster().await;
}

/// A node that makes folders for kubelet and containerd could not remove them when it is killed.
#[tokio::test]
async fn a_machine_without_the_folders_of_kubelet_and_containerd_does_not_get_them() {
    let machine = Machine::look();
    let listed = tempfile::NamedTempFile::new().unwrap();
    let list = listed.path().to_str().unwrap();
    let (mut child, folder) = holder(HOLDER, "abort", &["unshare", "--mount", "sh", "-c", WITHOUT_FOLDERS, list]);
    let traces = traces(child.id(), &folder, machine);

    end(&mut child, &folder, "abort");

    traces.gone_with_cluster().await;
    let listed = fs::read_to_string(listed.path()).unwrap();
    assert!(listed.contains("/var/lib:") && !listed.contains("kubelet") && !listed.contains("containerd"), "{listed}");
}

/// Notes the traces of a node of this process's cluster, and which process is the node's program in the machine's
/// namespaces.
fn traces_of(cluster: &Cluster, node: &Node<'_>, machine: Machine) -> (u32, Traces) {
    let keeper = keeper_of(cluster);
    let log = cluster.folder().join("logs").join(format!("{}.log", node.process()));
    let is_it = |process: u32| fs::read_link(format!("/proc/{process}/fd/1")).is_ok_and(|file| file == log);
    let program = all().into_iter().filter_map(|process| Some((process, stat(process)?)));
    let mut program = program.filter(|(process, (parent, _))| *parent == keeper.0 && is_it(*process));
    let (process, (_, start)) = program.next().unwrap();
    let mut processes: BTreeSet<Process> = below(process);
    processes.insert((process, start));
    (process, Traces::of_node(processes, cluster.folder(), &node.process(), machine))
}

/// Each of the two goes alone.
#[tokio::test]
async fn nothing_is_left_of_a_node_that_is_killed_or_turned_off_or_whose_cluster_is_dropped() {
    let machine = Machine::look();
    let cluster = start(3).await;
    let mut nodes = cluster.real_nodes();
    let [killed, off, dropped] = [(); 3].map(|()| nodes.next().unwrap());

    let (program, traces) = traces_of(&cluster, &killed, machine);
    signal("-KILL", &program.to_string());
    traces.gone().await;
    assert!(cluster.still_runs(&killed.process()).is_err());

    let (_, traces) = traces_of(&cluster, &off, Machine::look());
    off.power_off().await.unwrap();
    // Nothing is waited for.
    assert_eq!(traces.left(), [""; 0]);
    traces.gone().await;

    let (_, traces) = traces_of(&cluster, &dropped, Machine::look());
    drop(nodes);
    drop(cluster);
    assert_eq!(traces.left(), [""; 0]);
    traces.gone_with_cluster().await;
}

/// A cluster that is dropped after its keeper was killed lets the next keeper remove what is left.
#[tokio::test]
async fn nothing_is_left_of_the_node_of_a_cluster_that_is_dropped_without_its_keeper() {
    let machine = Machine::look();
    let cluster = start(1).await;
    let (_, traces) = traces_of(&cluster, &cluster.real_nodes().next().unwrap(), machine);

    signal("-KILL", &keeper_of(&cluster).0.to_string());
    traces.ended().await;
    drop(cluster);

    traces.gone_with_cluster().await;
}

#[tokio::test]
async fn a_node_does_not_outlive_its_keeper_and_the_next_one_takes_the_cgroups_away() {
    let machine = Machine::look();
    let (mut child, folder) = holder(HOLDER, "wait", &[]);
    let traces = traces(child.id(), &folder, machine);
    let keeper = below(child.id()).into_iter().find(|(process, _)| name(*process) == "keeper").unwrap();

    // Without its process, nobody removes what is left.
    signal("-KILL", &format!("-{}", child.id()));
    signal("-KILL", &keeper.0.to_string());
    child.wait().unwrap();
    until("the keeper's end", PATIENCE, async || (!lives(&keeper)).then_some(())).await.unwrap();
    traces.ended().await;
    let next = Command::new(tool("keeper").unwrap()).stdin(Stdio::null()).output().unwrap();

    assert!(next.status.success());
    traces.gone_with_cluster().await;
}

/// Runs the program of a node after other words of a command.
fn run(before: &[&str], path: &str) -> Output {
    // Not everybody may read the folder of the built one.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("node");
    fs::copy(tool("node").unwrap(), &program).unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(&program).env("PATH", path);
    command.args(["--folder=/nonexistent/node", "--logs=/nonexistent/logs", "--name=127.0.0.2"]).output().unwrap()
}

#[rstest]
#[case::a_user(
    &["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
    "a node needs root: run the tests as root, for example with \"sudo --preserve-env=HOME,PATH make test-node\""
)]
#[case::root_of_a_container(
    &["/usr/bin/setpriv", "--bounding-set=-sys_admin"],
    "operation not permitted; in a container, a node needs \"--privileged\""
)]
fn who_cannot_have_a_node_is_told_why_and_what_helps(#[case] as_whom: &[&str], #[case] remedy: &str) {
    let output = run(as_whom, &std::env::var("PATH").unwrap());

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(remedy), "{said}");
    assert!(!Path::new("/nonexistent").exists());
}

#[test]
fn a_test_on_a_machine_without_containerd_is_told_what_installs_it() {
    let machine = Machine::look();
    let path = tempfile::tempdir().unwrap();
    // The images need it.
    symlink("/bin/busybox", path.path().join("busybox")).unwrap();
    let arguments = ["--exact", HOLDER, "--ignored", "--nocapture"];
    let output =
        Command::new(std::env::current_exe().unwrap()).args(arguments).env("PATH", path.path()).output().unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    let remedy = "missing: containerd, ctr, runc; \"tools/setup node\" installs containerd and runc";
    assert!(!output.status.success() && said.contains(remedy), "{said}");
    assert_eq!(Machine::look(), machine);
}
