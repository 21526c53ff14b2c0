//! Probes and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillion_host::paths;
use pillion_server::Readiness;
use serde_json::json;

use crate::support::{Setup, ask, pod_review, web};

#[tokio::test]
async fn probes_are_answered_with_and_without_tls() {
    let is_synced = Arc::new(AtomicBool::new(false));
    let synced = Arc::clone(&is_synced);
    let check = move || if synced.load(Ordering::Relaxed) { Ok(()) } else { Err("not synced".to_owned()) };
    let server = Setup { readiness: Readiness::default().when("cache", check), ..Setup::default() }.start().await;
    assert_eq!(server.plain(paths::HEALTHZ).await, (200, "ok\n".to_owned()));
    let report =
        "[+]module ok\n[+]settings ok\n[+]certificate ok\n[+]shutdown ok\n[-]cache failed: not synced\nnot ready\n";
    assert_eq!(server.plain(paths::READYZ).await, (503, report.to_owned()));
    is_synced.store(true, Ordering::Relaxed);
    let answer = server.client().await.get(paths::READYZ).await.unwrap();
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(server.plain(paths::MUTATE).await.0, 404, "no webhook without TLS");
}

#[tokio::test]
async fn a_server_that_drains_is_not_ready_and_answers() {
    let server = Setup::default().start().await;
    let mut client = server.client().await;
    let (address, probe) = (server.running.address(), server.running.health_address().unwrap());
    let draining = tokio::spawn(server.running.drain(Duration::from_millis(500)));
    let is_failing = async {
        loop {
            let (status, text) = crate::support::plain(probe, paths::READYZ).await;
            if status == 503 {
                break text;
            }
        }
    };
    let text = tokio::time::timeout(Duration::from_millis(400), is_failing).await.unwrap();
    assert!(text.contains("[-]shutdown failed: draining"), "{text}");
    let response = ask(&mut client, paths::MUTATE, &pod_review("u", &web())).await;
    assert_eq!(response["allowed"], json!(true), "until it stops it answers");
    assert!(draining.await.unwrap(), "nothing was left unfinished");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// Compares the metrics without values that differ between runs.
#[tokio::test]
async fn metrics_tell_what_happened() {
    let server = Setup::default().start().await;
    let mut client = server.client().await;
    ask(&mut client, paths::MUTATE, &pod_review("a", &web())).await;
    let mut clash = pod_review("b", &web());
    clash["request"]["object"]["spec"]["containers"][0]["name"] = json!("log-agent");
    ask(&mut client, paths::MUTATE, &clash).await;
    let mut other = pod_review("c", &web());
    other["request"]["kind"] = json!({"group": "example.com", "version": "v1", "kind": "Anything"});
    other["request"]["operation"] = json!("DELETE");
    ask(&mut client, paths::VALIDATE, &other).await;
    server.metrics.cache_age("Namespace", Duration::from_millis(1_500));
    let (status, text) = server.plain(paths::METRICS).await;
    assert_eq!(status, 200);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for expected in [
        r#"pillion_admission_requests_total{path="/mutate",kind="Pod",operation="CREATE",allowed="true"} 1"#,
        r#"pillion_admission_requests_total{path="/mutate",kind="Pod",operation="CREATE",allowed="false"} 1"#,
        r#"pillion_admission_requests_total{path="/validate",kind="other",operation="DELETE",allowed="true"} 1"#,
        r#"pillion_admission_refusals_total{code="403",reason="forbidden",rule="injection"} 1"#,
        r#"pillion_admission_duration_seconds_count{path="/mutate"} 2"#,
        r#"pillion_admission_duration_seconds_bucket{le="+Inf",path="/mutate"} 2"#,
        "pillion_evaluation_duration_seconds_count 3",
        "pillion_injected_containers_total 1",
        "pillion_evaluations_running 0",
        "pillion_evaluations_waiting 0",
        r#"pillion_settings_reloads_total{result="rejected"} 0"#,
        r#"pillion_cache_age_seconds{kind="Namespace"} 1.5"#,
    ] {
        assert!(lines.contains(&expected), "no {expected} in\n{text}");
    }
    for (name, least) in [
        ("pillion_settings_loaded_timestamp_seconds", 1.7e9),
        ("pillion_certificate_expiry_timestamp_seconds", 1.7e9),
        ("process_resident_memory_bytes", 1e6),
        ("pillion_connections", 1.0),
    ] {
        let value = lines.iter().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value >= least), "{name}: {value:?}");
    }
    assert!(text.ends_with("# EOF\n"));
}
