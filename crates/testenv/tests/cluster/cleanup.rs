//! Nothing outlives a test: no process and no folder, however the test ends.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;

/// The variable that tells a process with a cluster how to end; below it, the prefix with which it prints its folder.
const END: &str = "PILLION_TESTENV_END";
const FOLDER: &str = "folder: ";
const PATIENCE: Duration = Duration::from_secs(30);

/// A process and its start time: the system reuses process numbers.
type Process = (u32, String);

/// Returns a process's parent and its start time, as in `proc_pid_stat(5)`.
fn stat(process: u32) -> Option<(u32, String)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    // A zombie has ended, but its parent has not collected its status.
    (fields[0] != "Z").then(|| (fields[1].parse().unwrap(), fields[19].to_owned()))
}

fn all() -> Vec<u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all descendants of a process.
fn below(parent: u32) -> BTreeSet<Process> {
    let mut found = BTreeSet::new();
    for process in all() {
        if let Some((_, start)) = stat(process).filter(|(its, _)| *its == parent) {
            found.insert((process, start));
            found.extend(below(process));
        }
    }
    found
}

fn lives((process, start): &Process) -> bool {
    stat(*process).is_some_and(|(_, its)| its == *start)
}

fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

/// Waits until these processes and the folder are gone.
async fn gone(processes: &BTreeSet<Process>, folder: &Path) {
    let gone = async || (!processes.iter().any(lives) && !folder.exists()).then_some(());
    if until("the end", PATIENCE, gone).await.is_err() {
        let left: Vec<String> = processes.iter().filter(|process| lives(process)).map(|(id, _)| name(*id)).collect();
        panic!("left: {left:?}, the folder: {}", folder.exists());
    }
}

fn signal(which: &str, target: &str) {
    assert!(Command::new("kill").args([which, "--", target]).status().unwrap().success());
}

/// Starts `holds_a_cluster` in its own process group, as a shell does. Returns once it has a cluster.
fn holder(end: &str) -> (Child, PathBuf) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cleanup::holds_a_cluster", "--ignored", "--nocapture"])
        .env(END, end)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let folder = lines.find_map(|line| Some(PathBuf::from(line.split_once(FOLDER)?.1))).expect("a cluster");
    (child, folder)
}

#[tokio::test]
#[ignore = "the other tests run it, in a process that ends badly"]
async fn holds_a_cluster() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    println!("\n{FOLDER}{}", cluster.folder().display());
    // Waits until the test has examined the processes.
    let go = cluster.folder().join("go");
    until("the end", PATIENCE, async || go.exists().then_some(())).await.unwrap();
    match std::env::var(END).as_deref() {
        Ok("panic") => panic!("on purpose"),
        Ok("exit") => std::process::exit(3),
        Ok("abort") => std::process::abort(),
        _ => tokio::time::sleep(PATIENCE).await,
    }
}

#[rstest]
#[case::panic("panic")]
#[case::exit("exit")]
#[case::abort("abort")]
#[case::ctrl_c("-INT")]
#[case::terminated("-TERM")]
#[case::killed("-KILL")]
#[tokio::test]
async fn nothing_is_left_of_a_process_that_ends_by(#[case] end: &str) {
    let (mut child, folder) = holder(end);
    let processes = below(child.id());
    let names: BTreeSet<String> = processes.iter().map(|(process, _)| name(*process)).collect();
    assert_eq!(names, ["etcd", "keeper", "kube-apiserver"].map(str::to_owned).into());

    fs::write(folder.join("go"), "").unwrap();
    if end.starts_with('-') {
        // To the whole group, as a terminal sends it.
        signal(end, &format!("-{}", child.id()));
    }

    assert!(!child.wait().unwrap().success());
    gone(&processes, &folder).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_cluster_that_is_dropped_when_it_is_dropped() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let folder = cluster.folder().to_owned();
    assert!(folder.join("logs/kube-apiserver.log").exists());

    drop(cluster);

    assert!(!folder.exists());
}

#[tokio::test]
async fn a_program_of_the_test_takes_what_it_has_started_with_it() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let (shell, script) = (Path::new("/bin/sh"), ["-c".to_owned(), "sleep 600 & sleep 600".to_owned()]);
    cluster.start_program("stopped", shell, &script).await.unwrap();
    cluster.start_program("left", shell, &script).await.unwrap();
    let writers = |name: &str| {
        let log = cluster.folder().join("logs").join(format!("{name}.log"));
        let writes = |process: &u32| fs::read_link(format!("/proc/{process}/fd/1")).is_ok_and(|file| file == log);
        all()
            .into_iter()
            .filter(writes)
            .filter_map(|process| Some((process, stat(process)?.1)))
            .collect::<BTreeSet<Process>>()
    };
    let three = async |name| Some(writers(name)).filter(|processes| processes.len() == 3);
    let stopped = until("three processes", PATIENCE, || three("stopped")).await.unwrap();
    let left = until("three processes", PATIENCE, || three("left")).await.unwrap();

    cluster.stop_program("stopped", 5).await.unwrap();
    assert!(!stopped.iter().any(lives));
    let folder = cluster.folder().to_owned();
    drop(cluster);
    gone(&left, &folder).await;
}

#[tokio::test]
async fn servers_do_not_outlive_their_keeper_and_the_next_one_takes_the_folder_away() {
    let (mut child, folder) = holder("wait");
    let processes = below(child.id());
    let keeper = processes.iter().find(|(process, _)| name(*process) == "keeper").unwrap();

    signal("-KILL", &keeper.0.to_string());
    let ended = async || (!processes.iter().any(lives)).then_some(());
    until("the servers' end", PATIENCE, ended).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(folder.exists());

    let (first, second) =
        (Cluster::start(Options::new()).await.unwrap(), Cluster::start(Options::new()).await.unwrap());

    assert!(!folder.exists());
    // Folders in use stay.
    assert!(first.folder().exists() && second.folder().exists());
}

#[tokio::test]
async fn a_cluster_whose_keeper_is_gone_says_so_and_leaves_nothing() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let folder = cluster.folder().to_owned();
    let keepers = below(std::process::id()).into_iter().filter(|(process, _)| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok();
        let mut open = files.into_iter().flatten().filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        name(*process) == "keeper" && open.any(|file| file.starts_with(&folder))
    });
    let keepers: Vec<Process> = keepers.collect();
    assert_eq!(keepers.len(), 1);

    signal("-KILL", &keepers[0].0.to_string());
    until("its end", PATIENCE, async || (!lives(&keepers[0])).then_some(())).await.unwrap();

    let refused = async || cluster.stop_api_server().await.err();
    let error = until("an error", PATIENCE, refused).await.unwrap();
    assert_eq!(error.to_string(), "the keeper of the servers is gone");
    drop(cluster);
    assert!(!folder.exists());
}
