//! Every request of every controller may fail, and every controller may be killed at any of them: what was to be made
//! is there in the end, once, and nothing else.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // A panic is how a test fails.

mod crash;
mod support;

use std::time::{Duration, Instant};

use crash::scenario::Scenario;
use crash::{FAULTS, Stage};
use rstest::rstest;

#[rstest]
#[case::merged(Scenario::Merged, 3)]
#[case::tokens(Scenario::Tokens, 1)]
#[case::bundle(Scenario::Bundle, 1)]
#[case::default_account(Scenario::DefaultAccount, 1)]
#[case::token_controller(Scenario::TokenController, 0)]
#[case::root_ca(Scenario::RootCa, 1)]
#[case::cleaner(Scenario::Cleaner, 0)]
#[tokio::test(flavor = "multi_thread")]
async fn each_request_may_fail_once(#[case] scenario: Scenario, #[case] made: usize) {
    let stage = Stage::start().await;
    // The first run also does the work in the namespaces that each cluster has.
    stage.run(scenario, None).await;
    let usual = stage.run(scenario, None).await;
    assert!(scenario.is_done(&usual.objects), "{:#?}", usual.objects);
    // Lists and watches count: each controller has at least one of each, except that which only lists.
    let watches = usual.seen.iter().filter(|request| request.ends_with(" watch")).count();
    assert!(watches > 0 || matches!(scenario, Scenario::Cleaner), "{:#?}", usual.seen);
    let creations = usual.seen.iter().filter(|request| request.starts_with("POST ") && !request.contains("/events"));
    assert!(creations.filter(|request| !request.ends_with("/token")).count() <= made, "{:#?}", usual.seen);
    for fault in FAULTS {
        let started = Instant::now();
        let run = stage.run(scenario, Some(fault)).await;
        assert_eq!(run.objects, usual.objects, "{fault:?}");
        // Events are for people, and what merging loses is told by the process that writes the Role: a process that is
        // killed, or does not learn that a write took effect, may not come to that.
        let is_told = |request: &&String| request.contains("/events") || request.ends_with("/NS/rolebindings");
        let missed: Vec<_> = usual.seen.difference(&run.fired).filter(|request| !is_told(request)).collect();
        assert!(missed.is_empty(), "{fault:?} was not applied to {missed:#?}");
        println!("{scenario:?}: {fault:?} fired {} times in {:.1?}", run.fired.len(), started.elapsed());
    }
}

/// The API server stops in the middle, and comes back.
#[rstest]
#[case::merged(Scenario::Merged)]
#[case::tokens(Scenario::Tokens)]
#[case::bundle(Scenario::Bundle)]
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_may_restart(#[case] scenario: Scenario) {
    let stage = Stage::start().await;
    let usual = stage.run(scenario, None).await;
    let first = stage.begin(scenario).await;
    let program = stage.program(scenario, &first, "program", &["--no-leader-election"]);
    stage.proxy.begin(&first, None);
    program.start();
    stage.ended(scenario, &first, &program, None).await;
    stage.cluster.stop_api_server().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    stage.cluster.start_api_server().await.unwrap();
    // What somebody breaks afterwards is mended by the same process.
    let client = stage.cluster.admin().await.unwrap();
    crash::objects::spoil(&client, &first, scenario).await;
    stage.ended(scenario, &first, &program, None).await;
    let objects = crash::objects::snapshot(&client, &first, scenario.has_sets()).await;
    assert_eq!(objects, usual.objects);
    assert!(program.is_running(), "{}", program.log());
}

/// Of two replicas, one works. When it is killed, the other takes over; when it is asked to end, at once.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_replicas_works() {
    let stage = Stage::start().await;
    let (scenario, namespace) = (Scenario::DefaultAccount, stage.begin(Scenario::DefaultAccount).await);
    let flags = ["--namespace=default", "--lease=crash"];
    let replicas = ["one", "two"].map(|name| stage.program(scenario, &namespace, name, &flags));
    stage.proxy.begin(&namespace, None);
    replicas[0].start();
    stage.ended(scenario, &namespace, &replicas[0], None).await;
    replicas[1].start();
    assert_eq!(crash::objects::holder(&stage.client).await, Some("one".to_owned()));

    // SIGTERM releases the Lease.
    assert!(replicas[0].stop(), "{}", replicas[0].log());
    let released = Instant::now();
    crash::objects::held_by(&stage.client, "two").await;
    assert!(released.elapsed() < Duration::from_secs(8), "{:?}", released.elapsed());

    // SIGKILL does not: the other waits until the Lease has ended.
    replicas[0].start();
    replicas[1].kill();
    let killed = Instant::now();
    crash::objects::held_by(&stage.client, "one").await;
    assert!(killed.elapsed() > Duration::from_secs(8), "{:?}", killed.elapsed());
    let next = stage.begin(scenario).await;
    stage.proxy.begin(&next, None);
    stage.ended(scenario, &next, &replicas[0], None).await;
}

/// A leader that cannot renew the Lease stops before another replica may begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_renew_the_lease_stops() {
    let stage = Stage::start().await;
    let (scenario, namespace) = (Scenario::DefaultAccount, stage.begin(Scenario::DefaultAccount).await);
    let program = stage.program(scenario, &namespace, "one", &["--namespace=default", "--lease=crash"]);
    stage.proxy.begin(&namespace, None);
    program.start();
    stage.ended(scenario, &namespace, &program, None).await;
    stage.proxy.cut_leases();
    let cut = Instant::now();
    let ended = async || (!program.is_running()).then_some(());
    pillion_testenv::until("the leader having ended", Duration::from_secs(40), ended).await.unwrap();
    // The deadline is 10 seconds, and the Lease ends after 15.
    assert!(cut.elapsed() < Duration::from_secs(15), "{:?}", cut.elapsed());
    assert!(program.log().contains("could not be renewed in time"), "{}", program.log());
}
