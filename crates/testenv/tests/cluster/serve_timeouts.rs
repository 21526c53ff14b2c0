//! No request waits forever: what users of a real API server see if a server, or the target of its look-ups, does not
//! answer.

use std::fs;

use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::burst::{client, inject, is_uncalled};
use crate::support::{Installation, SOON, log_agent, looking_up, webhook};

/// Starts a server that accepts requests, and never answers.
async fn silent() -> (String, String) {
    let (url, authority) = webhook::server(|_| Value::Null).await;
    (url.trim_end_matches("/mutate").to_owned(), authority)
}

/// Starts a server that accepts connections, and never completes a TLS handshake.
async fn deaf() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (format!("https://{}", listener.local_addr().unwrap()), listener)
}

/// The API server gives up after the rendered `timeoutSeconds`, names the webhook, and stores no Pod.
#[rstest]
#[tokio::test]
async fn a_server_that_hangs_admits_nothing(#[values(false, true)] listens: bool) {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = Installation::prepare(&cluster, &log_agent(), &[], &[]).await;
    let (silent, authority) = silent().await;
    let (deaf, _listener) = deaf().await;
    installation.register_at(if listens { &silent } else { &deaf }, &authority).await;
    let client = client(&cluster).await;
    let namespace = cluster.namespace("hanging").await.unwrap();

    // Pods are created until the API server knows its webhooks.
    let refused = async || inject(&client, &namespace).await.err();
    let refusal = until("the webhook being asked", SOON, refused).await.unwrap();

    assert!(is_uncalled(&refusal), "{refusal:?}");
    let reasons = ["context deadline exceeded", "Client.Timeout exceeded", "TLS handshake timeout"];
    assert!(reasons.iter().any(|reason| refusal.1.contains(reason)), "{refusal:?}");
}

/// `failurePolicy: Ignore`: the API server gives up after the same time, and the Pod is created without injection.
#[tokio::test]
async fn where_failures_are_ignored_a_server_that_hangs_keeps_no_pod_from_being_created() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let ignore = ["--failure-policy", "Ignore"];
    let installation = Installation::prepare(&cluster, &log_agent(), &ignore, &[]).await;
    let (url, authority) = silent().await;
    installation.register_at(&url, &authority).await;
    let client = client(&cluster).await;
    let namespace = cluster.namespace("ignored").await.unwrap();

    // The audit log reports a webhook whose failure was ignored.
    let ignored = |event: &Value| {
        let annotations = event["annotations"].as_object();
        annotations.is_some_and(|all| all.keys().any(|key| key.starts_with("failed-open.mutation.webhook")))
    };
    let created = async || {
        assert_eq!(inject(&client, &namespace).await, Ok(vec!["app".to_owned()]));
        cluster.audit_log().iter().any(ignored).then_some(())
    };
    until("the webhook being asked", SOON, created).await.unwrap();
}

/// Look-ups without an answer end with the evaluation, or with the API server's timeout, which it sends in every call.
/// Users get Pillion's own message rather than that of a failed webhook.
#[rstest]
#[case::by_default(&[])]
#[case::an_evaluation_that_may_last_longer_than_a_call(&["--evaluation-timeout=60s"])]
#[tokio::test]
async fn look_ups_that_hang_end_in_time(#[case] flags: &[&str]) {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let flags = [&["--cache-max-staleness=0s"], flags].concat();
    let installation = Installation::prepare(&cluster, &looking_up(), &[], &flags).await;
    // Connections to this address are never answered.
    let (hole, _listener) = deaf().await;
    let kubeconfig = cluster.folder().join("pillion.kubeconfig");
    let text = fs::read_to_string(&kubeconfig).unwrap();
    fs::write(&kubeconfig, text.replace(&cluster.url(), &hole)).unwrap();
    installation.start_server().await;
    installation.register(&installation.authority()).await;
    installation.wait_for_webhooks().await;
    let client = client(&cluster).await;
    let namespace = cluster.labelled_namespace("hanging", [("team", "a")]).await.unwrap();

    let answer = timeout(SOON, inject(&client, &namespace)).await.expect("an answer");

    let (code, message) = answer.unwrap_err();
    assert_eq!(code, 503, "{message}");
    assert!(message.contains("admission webhook \"pods.pillion.dev\" denied the request"), "{message}");
}
