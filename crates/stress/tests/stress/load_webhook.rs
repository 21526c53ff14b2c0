//! `pillion-stress load` with the webhook of another program: one path, HTTP/1.1 without TLS, other answers.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use pillion_testkit::module;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Allows every Pod and changes nothing. Refuses to answer each tenth request, if it is so.
#[derive(Clone)]
struct Webhook {
    requests: Arc<AtomicUsize>,
    is_overloaded: bool,
}

async fn review(State(webhook): State<Webhook>, body: String) -> (StatusCode, String) {
    let number = webhook.requests.fetch_add(1, Ordering::Relaxed);
    let review: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(review["request"]["kind"]["kind"], "Pod");
    if webhook.is_overloaded && number % 10 == 9 {
        return (StatusCode::SERVICE_UNAVAILABLE, "overloaded".to_owned());
    }
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    (StatusCode::OK, json!({"response": response}).to_string())
}

/// Starts a webhook, puts load on it, and returns the exit code, the report, what was on stderr, and how many requests
/// there were.
async fn load(is_overloaded: bool, args: &[&str]) -> (Option<i32>, Value, String, usize) {
    let webhook = Webhook { requests: Arc::default(), is_overloaded };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mutate-pod", listener.local_addr().unwrap());
    let router = Router::new().route("/mutate-pod", post(review)).with_state(webhook.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut command = Command::new(env!("CARGO_BIN_EXE_pillion-stress"));
    command.arg("load").arg("--module").arg(module::path()).args(["--url", &url, "-o", "json"]);
    command.args(["--reviews", "100", "--concurrency", "3"]).args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), report, errors, webhook.requests.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn another_answer_is_noted_if_any_answer_will_do() {
    let process = std::process::id().to_string();
    let args = ["--sidecar-sets", "10", "--check", "around", "--answers", "any", "--pid", &process];
    let (code, rows, err, requests) = load(false, &args).await;
    assert_eq!(code, Some(0), "{err}");
    let row = &rows[0];
    let count = |name: &str| row[name].as_u64().unwrap();
    assert_eq!((count("lost"), count("wrong"), count("checked"), count("otherOperations")), (0, 0, 2, 2), "{row}");
    assert_eq!((row["server"].as_str(), row["protocol"].as_str()), (Some("/mutate-pod"), Some("HTTP/1.1")));
    assert_eq!(count("connections"), 3, "one for each review at a time");
    // The warm-up is as long as the measurement, unless that is longer than 200 reviews.
    assert_eq!(requests, 100 + 100 + 2);
    if cfg!(target_os = "linux") {
        assert!(row["cpuMicrosecondsPerReview"]["server"].is_number(), "{row}");
        assert!(row["memoryBytes"]["peak"].as_u64().unwrap() > 1_000_000, "{row}");
    }
}

#[rstest]
#[case::by_default(&[])]
#[case::exactly(&["--answers", "exact"])]
#[case::before_and_after(&["--check", "around"])]
#[tokio::test(flavor = "multi_thread")]
async fn another_answer_is_wrong(#[case] args: &[&str]) {
    let (code, rows, err, _) = load(false, &[&["--sidecar-sets", "1"], args].concat()).await;
    let row = &rows[0];
    assert_eq!((code, row["lost"].as_u64(), row["wrong"] == row["checked"]), (Some(1), Some(0), true), "{err}");
    assert!(row["wrong"].as_u64() > Some(0) && err.contains("warning: "), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_process_the_time_of_a_server_is_not_known() {
    let (code, report, err, _) = load(false, &["--check", "around", "--answers", "any"]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(report["cpuMicrosecondsPerReview"]["server"].is_null() && report["memoryBytes"].is_null(), "{report}");
    // Of the mix, the Pods for the mutating webhook.
    assert!(report["checked"].as_u64() > Some(40), "{report}");
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_server_is_a_lost_answer(#[values("every", "around")] check: &str) {
    let (code, report, err, requests) = load(true, &["--check", check, "--answers", "any"]).await;
    assert_eq!((code, report["lost"].as_u64()), (Some(1), Some(requests as u64 / 10)), "{err}");
    assert!(err.contains("503"), "{err}");
}
