//! Processes of this machine, and tests that let one with a cluster end badly.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pillion_testenv::{Cluster, until};

/// The variable that tells a process with a cluster how to end; below it, the prefix with which it prints its folder.
const END: &str = "PILLION_TESTENV_END";
const FOLDER: &str = "folder: ";
/// How long a process may take to end on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A process and its start time: the system reuses process numbers.
pub type Process = (u32, String);

/// Returns a process's parent and its start time, as in `proc_pid_stat(5)`.
pub fn stat(process: u32) -> Option<(u32, String)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    // A zombie has ended, but its parent has not collected its status.
    (fields[0] != "Z").then(|| (fields[1].parse().unwrap(), fields[19].to_owned()))
}

pub fn all() -> Vec<u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all descendants of a process.
pub fn below(parent: u32) -> BTreeSet<Process> {
    let mut found = BTreeSet::new();
    for process in all() {
        if let Some((_, start)) = stat(process).filter(|(its, _)| *its == parent) {
            found.insert((process, start));
            found.extend(below(process));
        }
    }
    found
}

pub fn lives((process, start): &Process) -> bool {
    stat(*process).is_some_and(|(_, its)| its == *start)
}

pub fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

pub fn names(processes: &BTreeSet<Process>) -> BTreeSet<String> {
    processes.iter().map(|(process, _)| name(*process)).collect()
}

/// Returns the keeper of a cluster of this process.
pub fn keeper_of(cluster: &Cluster) -> Process {
    let keepers = below(std::process::id()).into_iter().filter(|(process, _)| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok();
        let mut open = files.into_iter().flatten().filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        name(*process) == "keeper" && open.any(|file| file.starts_with(cluster.folder()))
    });
    let keepers: Vec<Process> = keepers.collect();
    assert_eq!(keepers.len(), 1);
    keepers[0].clone()
}

/// Waits until these processes and the folder are gone.
pub async fn gone(processes: &BTreeSet<Process>, folder: &Path) {
    let gone = async || (!processes.iter().any(lives) && !folder.exists()).then_some(());
    if until("the end", PATIENCE, gone).await.is_err() {
        let left: Vec<String> = processes.iter().filter(|process| lives(process)).map(|(id, _)| name(*id)).collect();
        panic!("left: {left:?}, the folder: {}", folder.exists());
    }
}

pub fn signal(which: &str, target: &str) {
    assert!(Command::new("kill").args([which, "--", target]).status().unwrap().success());
}

/// Starts a test that prints [`announcement`] and holds a cluster ([`hold`]), in its own process group, as a shell does. Returns once it has a cluster.
/// `before` are the arguments of a program that starts it, if any.
pub fn holder(test: &str, end: &str, before: &[&str]) -> (Child, PathBuf) {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", test, "--ignored", "--nocapture"];
    let mut command = match before {
        [] => Command::new(this),
        [program, before @ ..] => {
            let mut command = Command::new(program);
            command.args(before).arg(this);
            command
        }
    };
    let command = command.args(arguments).env(END, end).process_group(0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let folder = lines.find_map(|line| Some(PathBuf::from(line.split_once(FOLDER)?.1))).expect("a cluster");
    (child, folder)
}

/// Returns the line with which a test says that it holds a cluster.
pub fn announcement(cluster: &Cluster) -> String {
    format!("\n{FOLDER}{}", cluster.folder().display())
}

/// Holds a cluster until the test has examined the processes. Then ends this process as the test wants it.
pub async fn hold(cluster: Cluster) {
    let go = cluster.folder().join("go");
    until("the end", PATIENCE, async || go.exists().then_some(())).await.unwrap();
    match std::env::var(END).as_deref() {
        Ok("panic") => panic!("on purpose"),
        Ok("exit") => std::process::exit(3),
        Ok("abort") => std::process::abort(),
        _ => tokio::time::sleep(PATIENCE).await,
    }
    drop(cluster);
}

/// Ends a process that holds a cluster. A signal goes to the whole group, as a terminal sends it.
pub fn end(child: &mut Child, folder: &Path, end: &str) {
    fs::write(folder.join("go"), "").unwrap();
    if end.starts_with('-') {
        signal(end, &format!("-{}", child.id()));
    }
    assert!(!child.wait().unwrap().success());
}
