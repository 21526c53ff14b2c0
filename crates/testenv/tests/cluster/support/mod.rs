//! `pillion serve` outside the cluster, installed with the manifests of `pillion manifest standalone`.
#![allow(dead_code, reason = "the benchmarks use less than the tests")]

pub mod accounts;
pub mod burst;
pub mod clock;
pub mod controllers;
pub mod deployments;
pub mod kubelet;
pub mod kubewarden;
pub mod namespace;
pub mod node;
pub mod sidecar_sets;
pub mod verifier;
pub mod webhook;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::FromArgMatches;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pillion_install::rendering::document::{Document, to_yaml};
use pillion_install::rendering::options::Standalone;
use pillion_install::rendering::standalone;
use pillion_testenv::{Cluster, apply, free_port, kubernetes, point_at, until};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Timeout for asynchronous effects on a busy machine.
pub const SOON: Duration = Duration::from_mins(1);
/// Timeout for the start of the server, which compiles the module first.
const STARTED: Duration = Duration::from_mins(3);
const MANAGER: &str = "manifests";
/// Seconds that the server gets to finish its requests when it is stopped.
const GRACE: u8 = 10;

/// Makes a server keep its certificate in the cluster, like that of the Deployment.
pub const SELF_SIGNED: &str = "--certificates=self-signed";
/// The beginnings of the flags for that.
const KEEPING: [&str; 6] = [
    "--namespace=",
    "--service-name=",
    "--tls-secret=",
    "--mutating-webhook-configuration=",
    "--validating-webhook-configuration=",
    "--custom-resource-definition=",
];

/// Parses the flags of a part of `pillion manifest`, as on a command line.
pub fn options<T: clap::Args + FromArgMatches>(flags: &[&str]) -> T {
    let flags = std::iter::once("pillion").chain(flags.iter().copied());
    let matches = T::augment_args(clap::Command::new("pillion")).try_get_matches_from(flags).unwrap();
    T::from_arg_matches(&matches).unwrap()
}

/// Whether a Pod, or a node, is Ready.
pub fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// Returns the settings of the README's example.
pub fn log_agent() -> Value {
    let file = workspace().join("test_data/settings-log-agent.json");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns the log agent for namespaces with the label `team=a`, which requires a look-up of the Namespace.
pub fn looking_up() -> Value {
    let mut settings = log_agent();
    settings["sidecarSets"][0]["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "a"}});
    settings
}

/// Returns the minor version of the cluster.
pub fn minor() -> u32 {
    kubernetes().strip_prefix("1.").and_then(|minor| minor.parse().ok()).unwrap()
}

/// Returns a file that a script of `testenv` has built, or `None` if it has not.
pub fn built(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    Some(target.join("testenv").join(name)).filter(|file| file.exists())
}

/// Returns the path of this build's `pillion`, in the parent of the tests' folder.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("pillion");
    assert!(program.exists(), "{} is missing: cargo build --workspace --bin pillion", program.display());
    program
}

/// An installation: the rendered objects in the cluster, and the server as a child process with exactly the rendered
/// rights.
pub struct Installation<'a> {
    pub cluster: &'a Cluster,
    /// The name of the installation, of its webhook configurations and of its ServiceAccount.
    pub name: String,
    /// The URL of the server: `https://127.0.0.1:<port>`.
    pub url: String,
    port: u16,
    health: u16,
    documents: Vec<Document>,
    arguments: Vec<String>,
}

impl<'a> Installation<'a> {
    /// Installs everything and waits until the webhooks take effect: see [`Installation::prepare`] for the flags.
    pub async fn start(cluster: &'a Cluster, settings: &Value, manifest: &[&str], serve: &[&str]) -> Self {
        let installation = Self::prepare(cluster, settings, manifest, serve).await;
        installation.start_server().await;
        installation.register(&installation.authority()).await;
        installation.wait_for_webhooks().await;
        installation
    }

    /// Creates the namespace, the ServiceAccount and its rights, but neither server nor webhooks. `manifest` are flags
    /// of `pillion manifest standalone`, `serve` of `pillion serve`.
    pub async fn prepare(cluster: &'a Cluster, settings: &Value, manifest: &[&str], serve: &[&str]) -> Self {
        let options: Standalone = options(&[manifest, &["--no-system-role"]].concat());
        let name = options.common.name.clone();
        let documents = standalone::render(settings, &options).unwrap().documents;
        let (port, health) = (free_port().unwrap(), free_port().unwrap());
        let file = |kind: &str| cluster.folder().join(format!("{name}.{kind}")).display().to_string();
        fs::write(file("settings"), settings.to_string()).unwrap();
        let mut arguments = vec![format!("KUBECONFIG={}", file("kubeconfig"))];
        arguments.extend([program().display().to_string(), "serve".to_owned()]);
        // The server watches the same kinds as that of the Deployment; its other arguments differ on this machine.
        if serve.iter().all(|flag| !flag.starts_with("--cache-")) {
            arguments.extend(rendered_arguments(&documents, &["--cache-"]));
        }
        arguments.extend([
            format!("--settings={}", file("settings")),
            format!("--listen=127.0.0.1:{port}"),
            format!("--health-listen=127.0.0.1:{health}"),
            "--drain-delay=0s".to_owned(),
        ]);
        if serve.contains(&SELF_SIGNED) {
            arguments.extend(rendered_arguments(&documents, &KEEPING));
            arguments.push("--tls-name=127.0.0.1".to_owned());
        } else if serve.iter().all(|flag| !flag.starts_with("--certificates=")) {
            let temporary = ["--certificates=temporary".to_owned(), format!("--ca-file={}", file("ca"))];
            arguments.extend(temporary.into_iter().chain(["--tls-name=127.0.0.1".to_owned()]));
        }
        arguments.extend(serve.iter().map(|flag| (*flag).to_owned()));
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = file("kubeconfig");
        let installation = Self { cluster, name, url, port, health, documents, arguments };
        // No Pods run here: the server is a local process, which no NetworkPolicy affects.
        installation
            .apply(|kind| !matches!(kind, "Deployment" | "PodDisruptionBudget" | "NetworkPolicy") && !calls_back(kind))
            .await;
        let identity = cluster.as_service_account(&options.deployment.namespace, &installation.name).await.unwrap();
        fs::write(&kubeconfig, identity.kubeconfig()).unwrap();
        fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o600)).unwrap();
        installation
    }

    async fn apply(&self, wanted: impl Fn(&str) -> bool) {
        let documents = self.documents.iter().filter(|document| wanted(document.object["kind"].as_str().unwrap()));
        let client = self.cluster.admin().await.unwrap();
        apply(&client, &to_yaml(documents).unwrap(), MANAGER).await.unwrap();
    }

    /// Starts the server, and waits until it is ready.
    pub async fn start_server(&self) {
        self.spawn_server().await;
        let ready = async || {
            self.cluster.still_runs(&self.name).unwrap();
            self.get("/readyz").await.filter(|answer| answer.starts_with("HTTP/1.1 200"))
        };
        if let Err(error) = until("the server being ready", STARTED, ready).await {
            panic!("{error}: {:?}\n{}", self.get("/readyz").await, self.cluster.log(&self.name));
        }
    }

    /// Starts the server without waiting until it is ready.
    pub async fn spawn_server(&self) {
        self.cluster.start_program(&self.name, Path::new("/usr/bin/env"), &self.arguments).await.unwrap();
    }

    /// Stops the server as Kubernetes does.
    pub async fn stop_server(&self) {
        self.cluster.stop_program(&self.name, GRACE).await.unwrap();
    }

    /// Returns the answer of the server's health port at a path, with status and body; `None` without an answer.
    pub async fn get(&self, path: &str) -> Option<String> {
        get(self.health, path).await
    }

    /// Returns the certificate that clients must trust.
    pub fn authority(&self) -> String {
        fs::read_to_string(self.cluster.folder().join(format!("{}.ca", self.name))).unwrap()
    }

    /// Applies the webhook configurations and the CustomResourceDefinition, pointed at this machine. With an empty
    /// authority, they trust no server yet.
    pub async fn register(&self, authority: &str) {
        self.register_at(&self.url, authority).await;
    }

    /// The same for a server at this URL.
    pub async fn register_at(&self, url: &str, authority: &str) {
        let called = self.documents.iter().filter(|document| calls_back(document.object["kind"].as_str().unwrap()));
        let pointed = called.cloned().map(|mut document| {
            point_at(&mut document.object, url, authority);
            document
        });
        let client = self.cluster.admin().await.unwrap();
        apply(&client, &to_yaml(&pointed.collect::<Vec<_>>()).unwrap(), MANAGER).await.unwrap();
    }

    /// Returns the first rendered object of a kind as [`Installation::register`] applies it, without authority.
    pub fn manifest(&self, kind: &str) -> Value {
        let mut object = self.documents.iter().find(|document| document.object["kind"] == kind).unwrap().object.clone();
        let mut places = vec![&mut object];
        while let Some(place) = places.pop() {
            match place {
                Value::Array(items) => places.extend(items),
                Value::Object(fields) => {
                    if let Some(service) = fields.get("service").filter(|_| fields.len() == 1) {
                        let url = format!("{}{}", self.url, service["path"].as_str().unwrap());
                        *fields = serde_json::Map::from_iter([("url".to_owned(), url.into())]);
                    } else {
                        places.extend(fields.values_mut());
                    }
                }
                _ => {}
            }
        }
        object
    }

    /// Waits until the API server calls the webhook for Pods. It applies a new configuration within a second or two.
    pub async fn wait_for_webhooks(&self) {
        let client = self.cluster.admin().await.unwrap();
        let namespace = self.cluster.namespace("probe").await.unwrap();
        let pods: Api<Pod> = Api::namespaced(client, &namespace);
        let probe = pod(&json!({"metadata": {"name": "probe"}}));
        let asked = async || {
            let _ = pods.create(&dry_run(), &serde_json::from_value(probe.clone()).unwrap()).await;
            let metrics = self.get("/metrics").await?;
            metrics.contains("pillion_admission_requests_total{path=\"/mutate\"").then_some(())
        };
        if let Err(error) = until("the webhooks being asked", SOON, asked).await {
            panic!("{error}\n{:?}\n{}", self.get("/metrics").await, self.cluster.log(&self.name));
        }
    }
}

/// Returns the answer of a local port at a path, with status and body; `None` without an answer.
pub async fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// Returns the arguments of the server's Deployment that start with one of these texts.
fn rendered_arguments(documents: &[Document], wanted: &[&str]) -> Vec<String> {
    let deployment = documents.iter().find(|document| document.object["kind"] == "Deployment").unwrap();
    let arguments = deployment.object["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let arguments = arguments.iter().map(|argument| argument.as_str().unwrap());
    let wanted = arguments.filter(|argument| wanted.iter().any(|start| argument.starts_with(start)));
    wanted.map(str::to_owned).collect()
}

fn calls_back(kind: &str) -> bool {
    kind.ends_with("WebhookConfiguration") || kind == "CustomResourceDefinition"
}

/// Returns parameters for a dry run: the object is validated and admitted, but not stored.
pub fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Returns a Pod with one container, `app`, and these fields.
pub fn pod(fields: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    json_patch::merge(&mut pod, fields);
    pod
}

/// Returns a Pod as its author writes it, for the SidecarSets of a mode.
pub fn web(mode: &str, edit: fn(&mut Value)) -> Value {
    let mut pod = pod(&json!({
        "metadata": {"name": "web", "labels": {"mode": mode}},
        "spec": {"volumes": [{"name": "own", "emptyDir": {}}]},
    }));
    edit(&mut pod);
    pod
}

/// Changes a label of a namespace, so that controllers reconcile it again.
pub async fn poke(client: &Client, namespace: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string();
    let patch = json!({"metadata": {"labels": {"poke": now}}});
    namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Creates an object of a kind that has a type in the client library.
pub async fn create<K>(api: &Api<K>, object: &Value) -> Result<Value, kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &object).await.map(|stored| serde_json::to_value(stored).unwrap())
}

/// Returns the names of a list's items.
pub fn names(object: &Value, pointer: &str) -> Vec<String> {
    let items = object.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    items.iter().map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns a stored Pod as a user would create it: without the fields that the API server, the scheduler and the
/// kubelet wrote.
pub fn as_new(stored: &Value) -> Value {
    let mut pod = stored.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences", "generation"] {
        pod["metadata"].as_object_mut().unwrap().remove(field);
    }
    pod.as_object_mut().unwrap().remove("status");
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod
}

/// Returns the API of any kind, for kinds without a type in the client library.
pub fn dynamic(client: &Client, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
    Api::all_with(client.clone(), &kube::api::ApiResource::from_gvk_with_plural(&kind, plural))
}
