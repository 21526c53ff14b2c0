//! Limits on what a request, a Pod or a module can use.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pillion_host::paths;
use pillion_host::{Cluster, ClusterError, ResourceRequest};
use pillion_server::Limits;
use pillion_server::client::{Client, Protocol};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{Setup, Started, ask, guest, limits, pod_review, policy, settings, web};

const START: &str = r#"(module
  (import "wapc" "__guest_response" (func $respond (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "{\"accepted\":true}")
  (data (i32.const 2048) "{\"accepted\":false,\"code\":403,\"message\":\"not clean\"}")
  (func (export "__guest_call") (param i32 i32) (result i32)"#;

/// Returns a module that runs until it is stopped.
fn endless() -> String {
    format!("{START} (loop $again (br $again)) (i32.const 1)))")
}

/// Returns a module that takes memory until there is none, and traps unless it got 16 pages (1 MiB).
fn greedy() -> String {
    format!(
        "{START} (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
         (if (i32.ne (memory.size) (i32.const 16)) (then unreachable))
         (call $respond (i32.const 1024) (i32.const 17)) (i32.const 1)))"
    )
}

/// Returns a module that accepts if its memory is in the initial state.
fn forgetful() -> String {
    format!(
        "{START} (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
         (if (i32.eq (i32.load (i32.const 0)) (i32.const 1))
           (then (call $respond (i32.const 1024) (i32.const 17)))
           (else (call $respond (i32.const 2048) (i32.const 51)))) (i32.const 1)))"
    )
}

/// Returns a module that traps.
fn broken() -> String {
    format!("{START} unreachable))")
}

/// A cluster that answers no question before this number of them has been asked, or before it may.
struct Silent {
    asked: Mutex<usize>,
    changed: Condvar,
    enough: usize,
}

/// How long a question waits at most, so that a test fails instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(30);

impl Silent {
    fn until(enough: usize) -> Arc<Self> {
        Arc::new(Self { asked: Mutex::default(), changed: Condvar::new(), enough })
    }

    fn new() -> Arc<Self> {
        Self::until(usize::MAX)
    }

    /// Waits for the first question.
    async fn is_asked(&self) {
        while *self.asked.lock() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Answers everything from now on.
    fn speak(&self) {
        *self.asked.lock() = usize::MAX;
        self.changed.notify_all();
    }
}

impl Cluster for Silent {
    fn get(&self, _: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        let mut asked = self.asked.lock();
        *asked = asked.saturating_add(1);
        self.changed.notify_all();
        let waited = self.changed.wait_while_for(&mut asked, |asked| *asked < self.enough, PATIENCE);
        drop(asked);
        if waited.timed_out() {
            return Err(ClusterError::Failed("nobody let the cluster answer".to_owned()));
        }
        Ok(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"logs": "on"}}})
            .to_string()
            .into())
    }
}

/// Settings that require a look-up of the Namespace.
fn asking() -> Value {
    let mut settings = settings();
    settings["sidecarSets"][0]["spec"]["namespaceSelector"] = json!({"matchLabels": {"logs": "on"}});
    settings
}

async fn with_module(text: &str, limits: Limits) -> Started {
    Setup { module: guest(text, limits), limits, ..Setup::default() }.start().await
}

#[tokio::test]
async fn an_endless_evaluation_is_stopped() {
    let server = with_module(&endless(), Limits { time: Duration::from_millis(100), ..limits() }).await;
    let started = Instant::now();
    let response = ask(&mut server.client().await, paths::MUTATE, &pod_review("u-1", &web())).await;
    // Another limit than this one would have stopped it after that time.
    assert!(started.elapsed() < crate::support::limits().time, "{:?}", started.elapsed());
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)));
    assert_eq!(response["status"]["code"], 503);
    assert_eq!(
        response["status"]["message"],
        "the policy was stopped before it had an answer, since its time was up; try again; if that does not help, the administrator of the cluster finds request \"u-1\" in the log of pillion"
    );
    let expected = r#"pillion_admission_refusals_total{code="503",reason="out_of_time",rule="injection"} 1"#;
    assert!(server.metrics.text().contains(expected));
}

/// A busy API server lets questions wait. A Pod is not refused for that.
#[tokio::test]
async fn a_look_up_of_two_seconds_is_waited_for_by_default() {
    let (cluster, module) = (Silent::new(), policy().within(Limits::default().time));
    let setup = Setup { module, settings: asking(), cluster: cluster.clone(), ..Setup::default() };
    let server = setup.start().await;
    let speaks = async {
        cluster.is_asked().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.speak();
    };
    let mut client = server.client().await;
    let review = pod_review("u", &web());
    let (response, ()) = tokio::join!(ask(&mut client, paths::MUTATE, &review), speaks);
    assert_eq!(response["allowed"], json!(true), "{response}");
}

#[tokio::test]
async fn memory_has_a_limit() {
    let server = with_module(&greedy(), Limits { memory: 1024 * 1024, ..limits() }).await;
    let response = ask(&mut server.client().await, paths::MUTATE, &pod_review("u", &web())).await;
    assert_eq!(response["allowed"], json!(true), "{response}");
}

#[tokio::test]
async fn a_module_that_breaks_shows_nothing_of_itself() {
    let server = with_module(&broken(), limits()).await;
    let mut client = server.client().await;
    for _ in 0..20 {
        let response = ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await;
        assert_eq!(response["status"]["code"], 503);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(!message.contains("wasm") && !message.contains('\n'), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evaluations_know_nothing_of_each_other() {
    let server = with_module(&forgetful(), Limits { queue: 200, ..limits() }).await;
    let client = server.client().await;
    let mut asking = JoinSet::new();
    for number in 0..100 {
        let mut client = client.share().unwrap();
        asking.spawn(async move {
            let uid = format!("u{number}");
            let response = ask(&mut client, paths::MUTATE, &pod_review(&uid, &web())).await;
            assert_eq!((&response["uid"], &response["allowed"]), (&json!(uid), &json!(true)), "{response}");
        });
    }
    assert_eq!(asking.join_all().await.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_requests_are_turned_away_at_once() {
    let limits = Limits { cores: 1, evaluations: 1, queue: 1, ..limits() };
    let cluster = Silent::new();
    let server = Setup { settings: asking(), cluster: cluster.clone(), limits, ..Setup::default() }.start().await;
    let client = server.client().await;
    let mut asking = JoinSet::new();
    let mut send = |number: usize| {
        let mut client = client.share().unwrap();
        asking.spawn(async move {
            let review = pod_review(&format!("u{number}"), &web()).to_string();
            let answer = client.post("/mutate?timeout=30s", review).await.unwrap();
            (answer.status, answer.retry_after)
        });
    };
    send(0);
    cluster.is_asked().await;
    send(1);
    // The number is as new as the last answer with metrics.
    while !server.plain(paths::METRICS).await.1.contains("\npillion_evaluations_waiting 1\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (2..6).for_each(send);
    // The first two have no answer yet: nobody waits for them.
    for _ in 0..4 {
        assert_eq!(asking.join_next().await.unwrap().unwrap(), (503, Some(1)));
    }
    cluster.speak();
    assert_eq!(asking.join_all().await, [(200, None), (200, None)]);
    // The last answer may arrive before the server has counted it.
    let counted = async {
        while !server.metrics.text().contains(r#"pillion_http_rejections_total{reason="overloaded"} 4"#) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), counted).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_the_api_server_counts() {
    let cluster = Silent::new();
    let server = Setup { settings: asking(), cluster: cluster.clone(), ..Setup::default() }.start().await;
    let mut client = server.client().await;
    // The answer comes while the cluster has not said anything.
    let answer = client.post("/mutate?timeout=300ms", pod_review("u", &web()).to_string()).await.unwrap();
    cluster.speak();
    assert_eq!(answer.status, 503);
    assert!(String::from_utf8(answer.body).unwrap().contains("in the time that the API server gives it"));
    assert!(server.metrics.text().contains(r#"pillion_http_rejections_total{reason="late"} 1"#));
}

/// While some evaluations wait for the API server, others compute: one core is enough for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_the_api_server_holds_nobody_up() {
    let limits = Limits { cores: 1, evaluations: 8, ..limits() };
    let cluster = Silent::until(8);
    let server = Setup { settings: asking(), cluster: cluster.clone(), limits, ..Setup::default() }.start().await;
    let client = server.client().await;
    let mut asking = JoinSet::new();
    for number in 0..8 {
        let mut client = client.share().unwrap();
        asking.spawn(async move { ask(&mut client, paths::MUTATE, &pod_review(&format!("u{number}"), &web())).await });
    }
    // The cluster answers when all have asked.
    let answers = asking.join_all().await;
    assert!(answers.iter().all(|answer| answer["allowed"] == json!(true)), "{answers:?}");
}

#[tokio::test]
async fn connections_have_a_limit_and_probes_another() {
    let limits = Limits { connections: 1, ..limits() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let mut first = server.client().await;
    assert_eq!(ask(&mut first, paths::MUTATE, &pod_review("u", &web())).await["allowed"], json!(true));
    assert!(Client::connect(&server.target(), Protocol::Http2).await.is_err(), "a connection in use stays");
    assert_eq!(ask(&mut first, paths::MUTATE, &pod_review("u", &web())).await["allowed"], json!(true));
    assert_eq!(server.plain(paths::READYZ).await.0, 200);
    assert!(server.metrics.text().contains(r#"pillion_connections_refused_total{reason="too_many"} 1"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_is_finished() {
    let cluster = Silent::new();
    let server = Setup { settings: asking(), cluster: cluster.clone(), ..Setup::default() }.start().await;
    let mut client = server.client().await;
    let asked = tokio::spawn(async move { ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await });
    cluster.is_asked().await;
    let mut drained = pin!(server.running.drain(Duration::ZERO));
    assert!(timeout(Duration::from_millis(100), &mut drained).await.is_err(), "a request is in flight");
    cluster.speak();
    assert!(drained.await);
    assert_eq!(asked.await.unwrap()["allowed"], json!(true));
}
