//! What users of a real API server see if `pillion serve`, or something that it needs, fails.

use std::fs;
use std::time::{Duration, Instant};

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use pillion_testenv::{Cluster, Options, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;

use crate::support::burst::{self, Burst, client, inject, injected, is_uncalled};
use crate::support::{Installation, SOON, log_agent, looking_up};

/// The time limit of an evaluation plus that of the transfer on a busy machine.
const EVALUATION: Duration = Duration::from_secs(4);

/// An authority of the test, and its certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate for 127.0.0.1 that is valid until the start of this year, and its key.
    fn write(&self, cluster: &Cluster, until: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        fs::write(cluster.folder().join("tls.key"), key.serialize_pem()).unwrap();
        fs::write(cluster.folder().join("tls.crt"), certificate.pem()).unwrap();
    }
}

/// Creates an installation whose certificate comes from files, and survives restarts of the server.
async fn with_files<'a>(cluster: &'a Cluster, authority: &Authority, settings: &Value) -> Installation<'a> {
    authority.write(cluster, 2100);
    let file = |flag: &str, name: &str| format!("--{flag}={}", cluster.folder().join(name).display());
    let files = ["--certificates=files".to_owned(), file("tls-cert-file", "tls.crt"), file("tls-key-file", "tls.key")];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let installation = Installation::prepare(cluster, settings, &[], &files).await;
    installation.start_server().await;
    installation.register(&authority.0.pem()).await;
    installation.wait_for_webhooks().await;
    installation
}

/// `failurePolicy: Fail`: Pods are refused while the server is down, and injected as soon as it is back.
#[tokio::test]
async fn no_pod_is_created_while_the_server_is_down() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = with_files(&cluster, &Authority::new(), &log_agent()).await;
    let client = client(&cluster).await;
    let namespace = cluster.namespace("down").await.unwrap();
    assert_eq!(inject(&client, &namespace).await, injected());

    installation.stop_server().await;
    let refusal = inject(&client, &namespace).await.unwrap_err();
    assert!(is_uncalled(&refusal), "{refusal:?}");

    installation.start_server().await;
    assert_eq!(inject(&client, &namespace).await, injected());
}

/// `failurePolicy: Ignore`: Pods are created without injection.
#[tokio::test]
async fn where_failures_are_ignored_pods_are_created_without_their_sidecar() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let ignore = ["--failure-policy", "Ignore"];
    let installation = Installation::start(&cluster, &log_agent(), &ignore, &[]).await;
    let client = client(&cluster).await;
    let namespace = cluster.namespace("ignored").await.unwrap();
    assert_eq!(inject(&client, &namespace).await, injected());

    installation.stop_server().await;

    assert_eq!(inject(&client, &namespace).await, Ok(vec!["app".to_owned()]));
}

/// Whenever the restart happens, a Pod is refused or has its sidecar.
#[tokio::test]
async fn a_restart_in_the_middle_of_a_burst_leaves_no_pod_without_its_sidecar() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = with_files(&cluster, &Authority::new(), &log_agent()).await;
    let namespace = cluster.namespace("burst").await.unwrap();

    let burst = Burst::start(&cluster, &namespace).await;
    for _ in 0..2 {
        burst.goes_on().await;
        installation.stop_server().await;
        installation.start_server().await;
    }
    burst.goes_on().await;
    let answers = burst.end().await;

    burst::is_sound(&answers, is_uncalled);
    assert_eq!(answers.last(), Some(&injected()));
}

/// The server names a missing right, and answers in time.
#[tokio::test]
async fn without_its_rights_the_server_answers_in_time_and_says_what_is_missing() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = Installation::prepare(&cluster, &looking_up(), &[], &[]).await;
    let client = client(&cluster).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let ours = ListParams::default().labels("app.kubernetes.io/instance=pillion");
    let deleted = bindings.delete_collection(&DeleteParams::default(), &ours).await.unwrap();
    assert!(deleted.left().is_some_and(|bindings| !bindings.items.is_empty()), "there was nothing to take away");
    installation.start_server().await;
    installation.register(&installation.authority()).await;
    installation.wait_for_webhooks().await;
    let namespace = cluster.labelled_namespace("rightless", [("team", "a")]).await.unwrap();

    let started = Instant::now();
    let (code, message) = inject(&client, &namespace).await.unwrap_err();

    assert!(started.elapsed() < EVALUATION, "{:?}", started.elapsed());
    assert_eq!(code, 503, "{message}");
    let wanted = format!("Namespace \"{namespace}\" could not be read: not allowed");
    assert!(
        message.contains(&wanted) && message.contains("its server's ServiceAccount needs \"get\" on it"),
        "{message}"
    );
}

/// The server survives a restart of the API server, which calls it again afterwards.
#[tokio::test]
async fn a_restart_of_the_api_server_changes_nothing() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = Installation::start(&cluster, &looking_up(), &[], &[]).await;
    let client = client(&cluster).await;
    let namespace = cluster.labelled_namespace("before", [("team", "a")]).await.unwrap();
    assert_eq!(inject(&client, &namespace).await, injected());

    cluster.stop_api_server().await.unwrap();
    let health = installation.get("/healthz").await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    cluster.start_api_server().await.unwrap();

    // The API server must first read its webhook configurations.
    let asked = async || (inject(&client, &namespace).await == injected()).then_some(());
    until("injection after the restart", SOON, asked).await.unwrap();
    let later = cluster.labelled_namespace("after", [("team", "a")]).await.unwrap();
    let seen = async || (inject(&client, &later).await == injected()).then_some(());
    until("a namespace that is new", SOON, seen).await.unwrap();
    cluster.still_runs(&installation.name).unwrap();
}

/// The certificate is replaced under load, and every Pod gets its sidecar.
#[tokio::test]
async fn a_certificate_that_is_replaced_under_load_drops_no_request() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let authority = Authority::new();
    let installation = with_files(&cluster, &authority, &log_agent()).await;
    let namespace = cluster.namespace("rotation").await.unwrap();
    let expiry = async || {
        let metrics = installation.get("/metrics").await?;
        let line = metrics.lines().find(|line| line.starts_with("pillion_certificate_expiry_timestamp_seconds "))?;
        line.split(' ').nth(1).map(str::to_owned)
    };
    let first = expiry().await.unwrap();

    let burst = Burst::start(&cluster, &namespace).await;
    burst.goes_on().await;
    authority.write(&cluster, 2101);
    let renewed = async || expiry().await.filter(|expiry| *expiry != first);
    until("the new certificate", SOON, renewed).await.unwrap();
    burst.goes_on().await;

    burst::is_sound(&burst.end().await, |_| false);
}
