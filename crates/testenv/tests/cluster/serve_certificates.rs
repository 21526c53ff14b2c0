//! Self-signed certificates on a real API server: kept in a Secret and written into `caBundle`s with the rendered
//! rights, and replaced while Pods are created.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DeleteParams;
use kube::{Api, Client};
use pillion_certificates::{CaBundleTarget, Certificates, Clock, Lifetimes, SelfSigned};
use pillion_host::{CodeCache, Module, NoCluster};
use pillion_install::rendering::crd;
use pillion_server::client::{Client as Caller, Protocol, TlsServer as Called};
use pillion_server::{Limits, Metrics, Readiness, Running, ServedSettings, Server};
use pillion_testenv::{Cluster, Hook, Options, until};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::support::burst::{self, Burst, client, inject, injected, is_uncalled};
use crate::support::{Installation, SELF_SIGNED, SOON, dry_run, log_agent};

const DAY: Duration = Duration::from_hours(24);
/// The namespace of the rendered objects.
const NAMESPACE: &str = "pillion-system";
const NAME: &str = "pillion";

/// The clock of this machine, which the test can advance.
#[derive(Clone, Default)]
struct TurnedClock(Arc<AtomicU64>);

impl TurnedClock {
    fn turn(&self, length: Duration) {
        self.0.fetch_add(length.as_secs(), Ordering::Relaxed);
    }

    fn clock(&self) -> Clock {
        let ahead = Arc::clone(&self.0);
        Arc::new(move || SystemTime::now() + Duration::from_secs(ahead.load(Ordering::Relaxed)))
    }
}

/// Returns the usual options, except that certificates made next year are already valid now, because the API server's
/// clock does not advance.
fn options() -> SelfSigned {
    let targets = vec![CaBundleTarget::Mutating(NAME.to_owned()), CaBundleTarget::Conversion(crd::NAME.to_owned())];
    let usual = SelfSigned::for_service(NAME, NAMESPACE, targets).unwrap();
    SelfSigned {
        names: usual.names.clone().and("127.0.0.1").unwrap(),
        interval: Duration::from_millis(500),
        life: Lifetimes { backdate: DAY * 700, ..Lifetimes::default() },
        ..usual
    }
}

/// Serves the policy with a maintained certificate.
async fn serve(kept: &Certificates) -> Running {
    let limits = Limits { time: Duration::from_secs(5), ..Limits::default() };
    let bytes = std::fs::read(pillion_testkit::module::path()).unwrap();
    let module = Module::load_bounded(&bytes, &CodeCache::Use, limits.bounds()).unwrap();
    let checked = ServedSettings::check(&module, log_agent()).unwrap();
    let server = Server {
        module,
        settings: watch::channel(Arc::new(checked)).1,
        certificates: kept.certificate(),
        cluster: Arc::new(NoCluster),
        metrics: Arc::new(Metrics::new()),
        readiness: Readiness::default(),
        limits,
    };
    server.start(TcpListener::bind("127.0.0.1:0").await.unwrap(), None).unwrap()
}

/// Returns the served certificate.
fn served(kept: &Certificates) -> CertificateDer<'static> {
    kept.certificate().borrow().cert[0].clone()
}

/// Returns the certificates of the `caBundle`, if all webhooks and the definition have the same one.
async fn bundle(client: &Client) -> Option<Vec<CertificateDer<'static>>> {
    let webhooks = Api::<MutatingWebhookConfiguration>::all(client.clone()).get(NAME).await.unwrap();
    let definition = Api::<CustomResourceDefinition>::all(client.clone()).get(crd::NAME).await.unwrap();
    let mut bundles: Vec<ByteString> =
        webhooks.webhooks.unwrap().into_iter().filter_map(|webhook| webhook.client_config.ca_bundle).collect();
    bundles.extend(definition.spec.conversion.unwrap().webhook.unwrap().client_config.unwrap().ca_bundle);
    bundles.dedup();
    let [bundle] = bundles.as_slice() else { return None };
    CertificateDer::pem_slice_iter(&bundle.0).collect::<Result<_, _>>().ok()
}

/// Waits until the API server knows the current webhook configurations. It applies changes in order, so it knows all of
/// them as soon as it knows one that is made now.
async fn noticed(client: &Client, mark: &str) {
    let name = format!("{mark}.test.pillion.dev");
    let nobody = Hook::new(&name, "https://127.0.0.1:1/", "").on("", "v1", "configmaps", &["CREATE"]);
    nobody.create_mutating(client).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "probe"}})).unwrap();
    let refused = async || maps.create(&dry_run(), &map).await.err().filter(|error| error.to_string().contains(&name));
    until("the API server knowing a new configuration", SOON, refused).await.unwrap();
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    configurations.delete(&name, &DeleteParams::default()).await.unwrap();
}

/// Whether a new client that trusts these authorities can connect.
async fn is_trusted(running: &Running, authorities: &[CertificateDer<'static>]) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).unwrap();
    }
    let address = running.address().to_string();
    let called = Called { address, name: "127.0.0.1".to_owned(), roots: Arc::new(roots) };
    Caller::connect(&called, Protocol::Http2).await.is_ok()
}

/// A whole rotation, with an advancing clock and without a pause between Pods: a server certificate is renewed, an
/// authority is introduced and signs, and the previous authority is dropped. Whenever a `caBundle` changes, the API
/// server opens new connections with the authorities of that moment.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_replaced_under_load_and_every_pod_has_its_sidecar() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = Installation::prepare(&cluster, &log_agent(), &[], &[]).await;
    let account = cluster.as_service_account(NAMESPACE, NAME).await.unwrap();
    let clock = TurnedClock::default();
    let keep =
        async || pillion_certificates::self_signed(account.client().await.unwrap(), options(), clock.clock()).unwrap();
    // `other` is a second replica, which writes the same objects.
    let (kept, other) = (keep().await, keep().await);
    let running = serve(&kept).await;
    installation.register_at(&format!("https://{}", running.address()), "").await;
    let client = client(&cluster).await;
    let namespace = cluster.namespace("rotation").await.unwrap();
    let works = async || (inject(&client, &namespace).await == injected()).then_some(());
    until("the first Pod with its sidecar", SOON, works).await.unwrap();
    let with = async |wanted: &dyn Fn(&[CertificateDer<'static>]) -> bool| {
        let there = async || bundle(&client).await.filter(|bundle| wanted(bundle));
        until("the authorities", SOON, there).await.unwrap()
    };
    let old = with(&|bundle| bundle.len() == 1).await;
    let burst = Burst::start(&cluster, &namespace).await;

    let first = served(&kept);
    clock.turn(DAY * 61);
    until("a renewed certificate", SOON, async || (served(&kept) != first).then_some(())).await.unwrap();
    assert!(is_trusted(&running, &old).await, "it is of the same authority");
    burst.goes_on().await;

    clock.turn(DAY * 190);
    let both = with(&|bundle| bundle.len() == 2).await;
    assert!(both.contains(&old[0]) && is_trusted(&running, &old).await, "the next one does not sign yet");
    noticed(&client, "introduced").await;
    burst.goes_on().await;

    let new: Vec<_> = both.into_iter().filter(|authority| !old.contains(authority)).collect();
    let signs = async || {
        clock.turn(Duration::from_secs(61));
        is_trusted(&running, &new).await.then_some(())
    };
    until("the next authority signing", SOON, signs).await.unwrap();
    assert!(!is_trusted(&running, &old).await, "one certificate is served");
    burst.goes_on().await;

    clock.turn(DAY * 91);
    with(&|bundle| bundle == new.as_slice()).await;
    noticed(&client, "forgotten").await;
    burst.goes_on().await;

    burst::is_sound(&burst.end().await, |_| false);
    let same = async || (served(&kept) == served(&other)).then_some(());
    until("both replicas serving the same", SOON, same).await.unwrap();
    for status in [kept.status(), other.status()] {
        assert_eq!(status.borrow().problems, Vec::<String>::new());
    }
}

/// The documented remedy if a key may have leaked. For some seconds the API server cannot call the webhook: with
/// `failurePolicy: Fail` it refuses Pods, so no Pod lacks its sidecar.
#[tokio::test]
async fn a_secret_that_is_deleted_under_load_is_made_anew_and_no_pod_is_without_its_sidecar() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let installation = Installation::prepare(&cluster, &log_agent(), &[], &[SELF_SIGNED]).await;
    installation.register("").await;
    installation.start_server().await;
    installation.wait_for_webhooks().await;
    let client = client(&cluster).await;
    let namespace = cluster.namespace("anew").await.unwrap();
    let works = async || (inject(&client, &namespace).await == injected()).then_some(());
    until("the first Pod with its sidecar", SOON, works).await.unwrap();
    let before = bundle(&client).await.expect("one authority");
    let burst = Burst::start(&cluster, &namespace).await;
    burst.goes_on().await;

    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.delete(SelfSigned::SECRET, &DeleteParams::default()).await.unwrap();
    let replaced = async || bundle(&client).await.filter(|bundle| bundle.len() == 1 && *bundle != before);
    until("another authority", SOON, replaced).await.unwrap();
    until("Pods with their sidecar", SOON, works).await.unwrap();
    burst.goes_on().await;

    let answers = burst.end().await;
    burst::is_sound(&answers, is_uncalled);
    assert_eq!(answers.last(), Some(&injected()));
}
