//! The keeper on a stand-in API server.

use std::sync::Arc;
use std::time::Duration;

use pillion_testkit::api_server::{ApiServer, eventually};
use rustls::sign::CertifiedKey;
use serde_json::json;
use tokio::sync::watch;

use super::{CRD, HOOKS, NOW, SECRET, TestClock, bundle_at, bundles, crd, hooks, verify};
use crate::keeper::Keeper;
use crate::time::Time;
use crate::{CaBundleTarget, SelfSigned, Status, self_signed};

const DAY: Duration = Duration::from_hours(24);

/// A replica that a test drives round by round.
struct Replica {
    keeper: Keeper,
    certificate: watch::Receiver<Arc<CertifiedKey>>,
    status: watch::Receiver<Status>,
}

impl Replica {
    fn new(server: &ApiServer, clock: &TestClock) -> Self {
        let keeper = Keeper::new(server.client(), options(), clock.clock()).unwrap();
        let (certificate, status) = (keeper.handout.certificate.subscribe(), keeper.handout.status.subscribe());
        Self { keeper, certificate, status }
    }

    async fn round(&mut self) -> bool {
        self.keeper.round().await
    }

    /// Whether every existing bundle lets the API server call this replica.
    fn is_trusted(&self, server: &ApiServer, clock: &TestClock) -> Result<(), String> {
        let certificate = self.certificate.borrow().cert.first().unwrap().clone();
        bundles(server).iter().try_for_each(|bundle| verify(&certificate, bundle, clock.now()))
    }

    fn problems(&self) -> Vec<String> {
        self.status.borrow().problems.clone()
    }
}

fn options() -> SelfSigned {
    let targets = vec![
        CaBundleTarget::Mutating("pillion".to_owned()),
        CaBundleTarget::Conversion("sidecarsets.apps.kruise.io".to_owned()),
    ];
    SelfSigned::for_service("pillion", "sys", targets).unwrap()
}

fn cluster() -> (ApiServer, TestClock) {
    let server = ApiServer::new();
    server.put(HOOKS, hooks());
    server.put(CRD, crd());
    (server, TestClock::new())
}

#[tokio::test]
async fn the_first_round_makes_the_api_server_trust_what_is_served() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    assert!(!replica.status.borrow().ready, "nobody knows the certificate of the start");
    assert!(replica.is_trusted(&server, &clock).is_err());
    assert!(replica.round().await);
    replica.is_trusted(&server, &clock).unwrap();
    let status = replica.status.borrow().clone();
    assert!(status.ready && status.problems.is_empty() && status.waiting.is_empty(), "{status:?}");
    assert_eq!(Time::from(status.expires), NOW + DAY * 90);
    assert_eq!(bundle_at(&server, HOOKS, "/webhooks/1/clientConfig"), b"x", "what is not ours stays");
    let secret = server.object(SECRET).unwrap();
    assert_eq!(secret["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "pillion"}));
    assert_eq!(secret["type"], "kubernetes.io/tls");
    // From then on there is nothing to do.
    let writes = |server: &ApiServer| server.requests().iter().filter(|request| !request.starts_with("GET")).count();
    let before = writes(&server);
    assert!(replica.round().await);
    assert_eq!(writes(&server), before);
}

#[tokio::test]
async fn of_two_replicas_that_race_one_takes_what_the_other_made() {
    let mut conflicts = 0;
    for chance in 0..40_u64 {
        let (server, clock) = cluster();
        server.fail(|faults| faults.chance = chance.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (mut one, mut other) = (Replica::new(&server, &clock), Replica::new(&server, &clock));
        let went_well = tokio::join!(one.round(), other.round());
        assert_eq!(went_well, (true, true), "{:?} {:?}", one.problems(), other.problems());
        one.is_trusted(&server, &clock).unwrap();
        other.is_trusted(&server, &clock).unwrap();
        assert_eq!(one.certificate.borrow().cert, other.certificate.borrow().cert);
        let versions = server.object(SECRET).unwrap();
        one.round().await;
        other.round().await;
        assert_eq!(server.object(SECRET).unwrap(), versions, "both are content");
        conflicts += server.conflicts();
    }
    assert!(conflicts > 0, "they never raced");
}

#[tokio::test]
async fn a_ca_bundle_that_somebody_resets_is_written_again() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    replica.round().await;
    server.put(HOOKS, hooks());
    assert!(replica.is_trusted(&server, &clock).is_err());
    replica.round().await;
    replica.is_trusted(&server, &clock).unwrap();
}

#[tokio::test]
async fn a_write_that_comes_in_between_is_not_undone() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    // Another client rotates the webhooks before their bundles are written: the indexes now mean other webhooks.
    server.come_in_between(HOOKS, |hooks| {
        let webhooks = hooks["webhooks"].as_array_mut().unwrap();
        webhooks.rotate_left(1);
    });
    assert!(replica.round().await, "{:?}", replica.problems());
    assert_eq!(server.conflicts(), 1);
    let bundle = |index: usize| bundle_at(&server, HOOKS, &format!("/webhooks/{index}/clientConfig"));
    assert_eq!(bundle(0), b"x", "what is not ours stays");
    let certificate = replica.certificate.borrow().cert.first().unwrap().clone();
    for index in [1, 2] {
        verify(&certificate, &bundle(index), clock.now()).unwrap();
    }
}

#[tokio::test]
async fn configurations_that_are_not_there_yet_are_waited_for() {
    let server = ApiServer::new();
    let clock = TestClock::new();
    let mut replica = Replica::new(&server, &clock);
    assert!(replica.round().await, "waiting is no failure");
    let waiting = [
        "MutatingWebhookConfiguration \"pillion\" is not there yet",
        "CustomResourceDefinition \"sidecarsets.apps.kruise.io\" is not there yet",
    ];
    assert_eq!(replica.status.borrow().waiting, waiting);
    assert!(replica.status.borrow().ready);
    server.put(HOOKS, hooks());
    server.put(
        CRD,
        json!({"metadata": {"name": "sidecarsets.apps.kruise.io"}, "spec": {"conversion": {"strategy": "None"}}}),
    );
    replica.round().await;
    let waiting = [
        "CustomResourceDefinition \"sidecarsets.apps.kruise.io\" has no webhook that calls the Service \"sys/pillion\"",
    ];
    assert_eq!(replica.status.borrow().waiting, waiting);
    let certificate = replica.certificate.borrow().cert.first().unwrap().clone();
    verify(&certificate, &bundle_at(&server, HOOKS, "/webhooks/0/clientConfig"), clock.now()).unwrap();
}

#[tokio::test]
async fn a_missing_permission_is_named_and_the_rest_goes_on() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    let forbid = |start: &str| server.fail(|faults| faults.forbidden = vec![start.to_owned()]);
    let provisional = replica.certificate.borrow().clone();
    for (start, problem) in [
        (
            "GET /api/v1/namespaces/sys/secrets",
            "pillion may not get secrets \"sys/pillion-serve-tls\": add the verb \"get\" for \"secrets\" to a role of its ServiceAccount",
        ),
        (
            "POST",
            "pillion may not create secrets \"sys/pillion-serve-tls\": add the verb \"create\" for \"secrets\" to a role of its ServiceAccount",
        ),
    ] {
        forbid(start);
        assert!(!replica.round().await);
        assert_eq!(replica.problems(), [problem]);
        assert!(!replica.status.borrow().ready, "what is kept nowhere is not for the API server");
        assert_eq!(replica.certificate.borrow().cert, provisional.cert, "probes are still answered");
        assert!(bundles(&server).iter().all(Vec::is_empty), "the API server is not made to trust what is kept nowhere");
    }
    forbid("PATCH /apis/admissionregistration.k8s.io");
    assert!(!replica.round().await);
    let resource = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
    let problem = format!(
        "pillion may not patch {resource} \"pillion\": add the verb \"patch\" for \"{resource}\" to a role of its ServiceAccount"
    );
    assert_eq!(replica.problems(), [problem]);
    assert!(replica.status.borrow().ready);
    let certificate = replica.certificate.borrow().cert.first().unwrap().clone();
    verify(&certificate, &bundle_at(&server, CRD, "/spec/conversion/webhook/clientConfig"), clock.now()).unwrap();
    // The Secret can be read but not written: its certificate stays in use.
    clock.advance(DAY * 61);
    forbid("PUT");
    assert!(!replica.round().await);
    replica.is_trusted(&server, &clock).unwrap();
    server.fail(|faults| faults.forbidden.clear());
    assert!(replica.round().await);
    assert!(replica.problems().is_empty());
    assert_eq!(Time::from(replica.status.borrow().expires), NOW + DAY * 151);
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_told_of_and_not_overwritten() {
    let (server, clock) = cluster();
    let theirs = json!({"metadata": {"name": "pillion-serve-tls", "namespace": "sys"}, "data": {"tls.crt": "eA=="}});
    server.put(SECRET, theirs);
    let before = server.object(SECRET);
    let mut replica = Replica::new(&server, &clock);
    assert!(!replica.round().await);
    let problem = "the Secret \"sys/pillion-serve-tls\" is left alone: it is not labelled \
                   app.kubernetes.io/managed-by=pillion: delete it, label it so that pillion may overwrite it, or name \
                   another Secret";
    assert_eq!(replica.problems(), [problem]);
    assert_eq!(server.object(SECRET), before);
    // Once labelled, the Secret is filled.
    server.edit(SECRET, |secret| secret["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "pillion"}));
    assert!(replica.round().await);
    replica.is_trusted(&server, &clock).unwrap();
}

#[tokio::test]
async fn an_api_server_that_is_away_changes_nothing_of_what_is_served() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    replica.round().await;
    server.fail(|faults| faults.down = true);
    clock.advance(DAY * 61);
    assert!(!replica.round().await);
    let [problem] = <[String; 1]>::try_from(replica.problems()).unwrap();
    assert!(problem.starts_with("could not get secrets \"sys/pillion-serve-tls\": ServiceError: "), "{problem}");
    replica.is_trusted(&server, &clock).unwrap();
    server.fail(|faults| faults.down = false);
    assert!(replica.round().await);
    replica.is_trusted(&server, &clock).unwrap();
}

#[tokio::test]
async fn an_api_server_that_never_answers_is_given_up_on() {
    let (server, clock) = cluster();
    server.fail(|faults| faults.frozen = true);
    let mut replica = Replica::new(&server, &clock);
    assert!(!replica.round().await);
    assert_eq!(replica.problems(), ["could not get secrets \"sys/pillion-serve-tls\": no answer within 5 s"]);
}

#[tokio::test]
async fn a_deleted_secret_means_a_new_authority_at_once() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    replica.round().await;
    let before = replica.certificate.borrow().cert.first().unwrap().clone();
    server.delete(SECRET);
    replica.round().await;
    replica.is_trusted(&server, &clock).unwrap();
    let trusted = |bundle: &Vec<u8>| verify(&before, bundle, clock.now()).is_ok();
    assert!(!bundles(&server).iter().any(trusted), "whoever took the old key has nothing of it");
}

#[tokio::test]
async fn an_authority_is_replaced_in_three_steps() {
    let (server, clock) = cluster();
    let mut replica = Replica::new(&server, &clock);
    replica.round().await;
    let authorities = || {
        let bundle = bundle_at(&server, HOOKS, "/webhooks/0/clientConfig");
        crate::pem::certificates(&bundle).0
    };
    let old = authorities();
    // Certificates are renewed on the way.
    for _ in 0..250 {
        clock.advance(DAY);
        replica.round().await;
        replica.is_trusted(&server, &clock).unwrap();
        if authorities().len() > 1 {
            break;
        }
    }
    let both = authorities();
    assert_eq!(both.len(), 2, "the new one stands beside the old one");
    let issued_by = |bundle: &[_]| {
        let certificate = replica.certificate.borrow().cert.first().unwrap().clone();
        verify(&certificate, crate::pem::shown(bundle).as_bytes(), clock.now()).is_ok()
    };
    assert!(issued_by(&old), "the old one still signs");
    replica.keeper.round().await;
    assert!(issued_by(&old), "until the new one was everywhere for a minute");
    clock.advance(Duration::from_secs(61));
    replica.keeper.round().await;
    assert!(!issued_by(&old));
    assert_eq!(authorities(), both, "what the old one signed is still trusted");
    let since = clock.now();
    while authorities().len() == 2 {
        clock.advance(DAY);
        replica.keeper.round().await;
        replica.is_trusted(&server, &clock).unwrap();
    }
    assert_eq!(authorities(), both[1..]);
    assert_eq!(clock.now(), since + DAY * 90, "until all of that has expired");
}

#[tokio::test]
async fn it_runs_by_itself_until_it_is_stopped() {
    let (server, clock) = cluster();
    server.delete(HOOKS);
    let options = SelfSigned { interval: Duration::from_millis(20), ..options() };
    let certificates = self_signed(server.client(), options, clock.clock()).unwrap();
    let mut status = certificates.status();
    status.wait_for(|status| status.ready).await.unwrap();
    server.put(HOOKS, hooks());
    eventually("the new configuration has a bundle", || bundles(&server).iter().all(|bundle| !bundle.is_empty())).await;
    let certificate = certificates.certificate();
    certificates.stop().await;
    let requests = server.requests().len();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.requests().len(), requests);
    assert_eq!(certificate.borrow().cert.len(), 1, "what was handed out is still there");
}
