//! A server on loopback with its own authority, and a client that trusts it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pillion_certificates::TemporaryAuthority;
use pillion_host::{Cluster, CodeCache, Module, NoCluster};
use pillion_server::client::{Answer, Client, Protocol, TlsServer};
use pillion_server::{Limits, Metrics, Readiness, Running, ServedSettings, Server};
use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The name in the certificates.
pub const NAME: &str = "pillion.pillion-system.svc";

/// An authority that issues certificates for [`NAME`].
pub struct Authority(TemporaryAuthority);

impl Authority {
    pub fn new() -> Self {
        Self(TemporaryAuthority::new().unwrap())
    }

    pub fn certificate(&self) -> Arc<CertifiedKey> {
        self.0.certificate(&[NAME]).unwrap()
    }

    pub fn roots(&self) -> Arc<RootCertStore> {
        self.0.roots().unwrap()
    }
}

/// Limits for a small machine that runs other tests at the same time.
pub fn limits() -> Limits {
    Limits { cores: 2, evaluations: 8, time: Duration::from_secs(10), ..Limits::default() }
}

/// Returns the policy with bounds.
pub fn policy() -> Module {
    static POLICY: OnceLock<Module> = OnceLock::new();
    let load = || {
        let bytes = std::fs::read(pillion_testkit::module::path()).unwrap();
        Module::load_bounded(&bytes, &CodeCache::Use, Limits { evaluations: 64, ..limits() }.bounds()).unwrap()
    };
    POLICY.get_or_init(load).clone()
}

/// Compiles a module from the text format.
pub fn guest(text: &str, limits: Limits) -> Module {
    Module::load_bounded(text.as_bytes(), &CodeCache::Off, limits.bounds()).unwrap()
}

/// One SidecarSet that matches Pods with `app: web`.
pub fn settings() -> Value {
    settings_with("log-agent", "agent:1")
}

pub fn settings_with(name: &str, image: &str) -> Value {
    json!({"sidecarSets": [{
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": name, "image": image, "podInjectPolicy": "AfterAppContainer"}],
        },
    }]})
}

pub struct Setup {
    pub module: Module,
    pub settings: Value,
    pub cluster: Arc<dyn Cluster>,
    pub limits: Limits,
    pub readiness: Readiness,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            module: policy(),
            settings: settings(),
            cluster: Arc::new(NoCluster),
            limits: limits(),
            readiness: Readiness::default(),
        }
    }
}

/// A running server and its inputs.
pub struct Started {
    pub running: Running,
    pub authority: Authority,
    pub certificates: watch::Sender<Arc<CertifiedKey>>,
    pub settings: watch::Sender<Arc<ServedSettings>>,
    pub metrics: Arc<Metrics>,
}

impl Setup {
    pub async fn start(self) -> Started {
        let authority = Authority::new();
        let (certificates, newest) = watch::channel(authority.certificate());
        // The settings are checked by the policy, whichever module is evaluated.
        let checked = ServedSettings::check(&policy(), self.settings).unwrap();
        let (settings, in_use) = watch::channel(Arc::new(checked));
        let metrics = Arc::new(Metrics::new());
        let server = Server {
            module: self.module,
            settings: in_use,
            certificates: newest,
            cluster: self.cluster,
            metrics: Arc::clone(&metrics),
            readiness: self.readiness,
            limits: self.limits,
        };
        let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = server.start(bind().await, Some(bind().await)).unwrap();
        Started { running, authority, certificates, settings, metrics }
    }
}

impl Started {
    pub fn target(&self) -> TlsServer {
        TlsServer { address: self.running.address().to_string(), name: NAME.to_owned(), roots: self.authority.roots() }
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.target(), Protocol::Http2).await.unwrap()
    }

    /// Sends a GET request to the port without TLS.
    pub async fn plain(&self, path: &str) -> (u16, String) {
        plain(self.running.health_address().unwrap(), path).await
    }
}

/// Waits until the metrics have this line.
pub async fn counted(server: &Started, line: &str) {
    has(server, line, |other| other == line).await;
}

/// Waits until a line of the metrics is as wanted. A failure calls it `name`.
pub async fn has(server: &Started, name: &str, is_wanted: impl Fn(&str) -> bool) {
    let started = Instant::now();
    while !server.metrics.text().lines().any(&is_wanted) {
        assert!(started.elapsed() < Duration::from_secs(20), "no {name} in\n{}", server.metrics.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn plain(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Returns the review for the creation of a Pod.
pub fn pod_review(uid: &str, labels: &Value) -> Value {
    review(&json!({
        "uid": uid, "operation": "CREATE", "namespace": "default", "name": "web", "userInfo": {"username": "dev"},
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "web", "image": "nginx"}], "newField": {"kept": 12_345_678_901_234_567_890_u64}},
        },
    }))
}

pub fn review(request: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

pub fn web() -> Value {
    json!({"app": "web"})
}

/// Sends a review and returns the response of the answer.
pub async fn ask(client: &mut Client, path: &str, review: &Value) -> Value {
    let answer = client.post(path, review.to_string()).await.unwrap();
    response(&answer)
}

pub fn response(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let review: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((&review["apiVersion"], &review["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    review["response"].clone()
}

/// Returns the patch of a response; null if there is none.
pub fn patch(response: &Value) -> Value {
    use base64::Engine as _;
    let Some(patch) = response.get("patch") else { return Value::Null };
    let patch = base64::engine::general_purpose::STANDARD.decode(patch.as_str().unwrap()).unwrap();
    serde_json::from_slice(&patch).unwrap()
}

/// Returns the images of the containers that a patch adds.
pub fn added_images(response: &Value) -> Vec<String> {
    let patch = patch(response);
    let operations = patch.as_array().cloned().unwrap_or_default();
    operations.iter().filter_map(|operation| operation["value"]["image"].as_str().map(str::to_owned)).collect()
}
