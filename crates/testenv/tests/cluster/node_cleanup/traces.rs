//! What the processes of a node, or of a cluster, have on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pillion_testenv::until;

use super::machine::Machine;
use crate::processes::{PATIENCE, Process, all, lives, name, stat};

const NAMESPACES: [&str; 6] = ["net", "mnt", "pid", "ipc", "uts", "cgroup"];
const CGROUPS: &str = "/sys/fs/cgroup";

/// The traces of some processes.
pub struct Traces {
    processes: BTreeSet<Process>,
    /// The namespaces that only these processes have, as in `net:[4026531840]`.
    namespaces: BTreeSet<String>,
    /// The time since the machine started, in the unit of the start times of processes. The kernel reuses the numbers of
    /// namespaces, so processes that start later are not looked at.
    taken: u64,
    /// The folder of the cluster.
    folder: PathBuf,
    /// What mounts name.
    mounted: String,
    /// What the names of cgroups begin with.
    cgroup: String,
    machine: Machine,
}

impl Traces {
    /// Notes the traces of the processes of a cluster. `machine` is the machine before they started.
    pub fn of_cluster(processes: BTreeSet<Process>, folder: &Path, machine: Machine) -> Self {
        Self::new(processes, folder, "", machine)
    }

    /// Notes the traces of the processes of the node of this name.
    pub fn of_node(processes: BTreeSet<Process>, folder: &Path, node: &str, machine: Machine) -> Self {
        Self::new(processes, folder, node, machine)
    }

    fn new(processes: BTreeSet<Process>, folder: &Path, node: &str, machine: Machine) -> Self {
        let other: BTreeSet<String> = [std::process::id(), 1].into_iter().flat_map(namespaces).collect();
        let own = processes.iter().flat_map(|(process, _)| namespaces(*process));
        let traces = Self {
            namespaces: own.filter(|namespace| !other.contains(namespace)).collect(),
            taken: now(),
            mounted: format!("{}/{node}", folder.display()),
            cgroup: format!("{}.{node}", folder.file_name().unwrap().to_string_lossy()),
            folder: folder.to_owned(),
            processes,
            machine,
        };
        // A node with a Pod has all of it.
        for kind in NAMESPACES.iter().filter(|kind| **kind != "cgroup") {
            assert!(traces.namespaces.iter().any(|own| own.starts_with(kind)), "{kind}: {:?}", traces.namespaces);
        }
        let found = [traces.mounts().is_empty(), traces.cgroups().is_empty(), traces.held().is_empty()];
        assert_eq!(found, [false; 3], "nothing is found of a node that runs");
        traces
    }

    /// Waits until nothing of the node is left. Nothing of the machine has changed.
    pub async fn gone(&self) {
        let gone = async || self.left().is_empty().then_some(());
        let ended = until("the end", PATIENCE, gone).await;
        assert!(ended.is_ok(), "left: {:#?}", self.left());
        assert_eq!(Machine::look(), self.machine);
    }

    /// The same for a cluster, which leaves no folder either.
    pub async fn gone_with_cluster(&self) {
        let gone = async || (!self.folder.exists()).then_some(());
        until("the folder being gone", PATIENCE, gone).await.unwrap();
        self.gone().await;
    }

    /// Waits until the processes have ended.
    pub async fn ended(&self) {
        let ended = async || (!self.processes.iter().any(lives)).then_some(());
        until("the processes' end", PATIENCE, ended).await.unwrap();
    }

    /// Returns what is left.
    pub fn left(&self) -> Vec<String> {
        let processes = self.processes.iter().filter(|process| lives(process));
        let mut left: Vec<String> = processes.map(|(process, _)| format!("process {}", name(*process))).collect();
        left.extend(self.mounts());
        left.extend(self.cgroups());
        left.extend(self.held());
        left
    }

    /// Returns the mounts that name the folder, of all mount namespaces, and those that hold a namespace in this one.
    fn mounts(&self) -> BTreeSet<String> {
        let mounts = |process: u32| fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        let seen = all().into_iter().map(mounts).collect::<BTreeSet<String>>();
        let naming = seen.iter().flat_map(|mounts| mounts.lines()).filter(|mount| mount.contains(&self.mounted));
        let own = mounts(std::process::id());
        let holding = own.lines().filter(|mount| self.namespaces.iter().any(|held| mount.contains(held)));
        naming.chain(holding).map(|mount| format!("mount {mount}")).collect()
    }

    fn cgroups(&self) -> Vec<String> {
        let below = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten();
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect::<Vec<_>>()
        };
        let hierarchies = below(Path::new(CGROUPS));
        let all = hierarchies.iter().flat_map(|hierarchy| below(hierarchy)).chain(hierarchies.iter().cloned());
        let own = all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&self.cgroup));
        own.map(|path| format!("cgroup {}", path.display())).collect()
    }

    /// Returns the namespaces that processes still have.
    fn held(&self) -> Vec<String> {
        let older = all()
            .into_iter()
            .filter(|process| stat(*process).is_some_and(|(_, start)| start.parse::<u64>().unwrap() <= self.taken));
        let held = older.flat_map(|process| namespaces(process).into_iter().map(move |held| (process, held)));
        let held = held.filter(|(_, namespace)| self.namespaces.contains(namespace));
        held.map(|(process, namespace)| format!("{namespace} of {}", name(process))).collect()
    }
}

/// Returns the namespaces of a process.
fn namespaces(process: u32) -> Vec<String> {
    let link = |kind: &&str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    NAMESPACES.iter().filter_map(link).map(|link| link.display().to_string()).collect()
}

/// Returns the time since the machine started, in hundredths of a second.
fn now() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds = uptime.split_whitespace().next().unwrap();
    seconds.replace('.', "").parse().unwrap()
}
