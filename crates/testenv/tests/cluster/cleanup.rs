//! Nothing outlives a test: no process and no folder, however the test ends.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;

use crate::processes::{
    PATIENCE, Process, all, announcement, below, end, gone, hold, holder, keeper_of, lives, name, names, signal, stat,
};

const HOLDER: &str = "cleanup::holds_a_cluster";

#[tokio::test]
#[ignore = "the other tests run it, in a process that ends badly"]
async fn holds_a_cluster() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    println!("{}", announcement(&cluster));
    hold(cluster).await;
}

#[rstest]
#[case::panic("panic")]
#[case::exit("exit")]
#[case::abort("abort")]
#[case::ctrl_c("-INT")]
#[case::terminated("-TERM")]
#[case::killed("-KILL")]
#[tokio::test]
async fn nothing_is_left_of_a_process_that_ends_by(#[case] how: &str) {
    let (mut child, folder) = holder(HOLDER, how, &[]);
    let processes = below(child.id());
    assert_eq!(names(&processes), ["etcd", "keeper", "kube-apiserver"].map(str::to_owned).into());

    end(&mut child, &folder, how);

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
    let (mut child, folder) = holder(HOLDER, "wait", &[]);
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
    let keeper = keeper_of(&cluster);

    signal("-KILL", &keeper.0.to_string());
    until("its end", PATIENCE, async || (!lives(&keeper)).then_some(())).await.unwrap();

    let refused = async || cluster.stop_api_server().await.err();
    let error = until("an error", PATIENCE, refused).await.unwrap();
    assert_eq!(error.to_string(), "the keeper of the servers is gone");
    drop(cluster);
    assert!(!folder.exists());
}
