//! What a node does for Pillion's Deployments, which kwok only simulates: their programs run as local processes with the
//! flags, the settings and the rights of the cluster's objects, and the API server reaches them through their Services.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node as ApiNode, Service};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use pillion_testenv::{Cluster, Routes, free_port};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{deployments, get, program};

/// The label of Pillion's Deployments, Services and Pods.
pub const OURS: &str = "app.kubernetes.io/name=pillion";
const LOOK: Duration = Duration::from_millis(200);
/// Seconds that a process gets to end.
const GRACE: u8 = 10;

/// A process, and the Deployment that it runs for.
struct Process {
    namespace: String,
    /// The Pod template. Another one replaces the process.
    template: Value,
    labels: BTreeMap<String, String>,
    port: u16,
    health: u16,
}

/// The only node of a cluster. It takes no Pods until all processes of an installation are ready.
pub struct Node<'a> {
    cluster: &'a Cluster,
    /// The processes by the names of their Deployments.
    processes: BTreeMap<String, Process>,
    /// Further flags of the server.
    server: Vec<String>,
    /// The programs by the tags of their images. Other images have the program of this build.
    programs: BTreeMap<String, PathBuf>,
    takes_pods: bool,
}

impl<'a> Node<'a> {
    /// Returns the node of a cluster, cordoned. The cluster must have [`Options::services`](pillion_testenv::Options::services).
    pub async fn cordoned(cluster: &'a Cluster) -> Self {
        let node = Self {
            cluster,
            processes: BTreeMap::new(),
            server: Vec::new(),
            programs: BTreeMap::new(),
            takes_pods: false,
        };
        node.set_schedulable(false).await;
        node
    }

    /// Gives the server further flags when it starts the next time.
    pub fn with_server_flags(&mut self, flags: Vec<String>) {
        self.server = flags;
    }

    /// Gives images with these tags their own programs.
    pub fn with_programs(&mut self, programs: BTreeMap<String, PathBuf>) {
        self.programs = programs;
    }

    /// Whether the program of a Deployment runs with the image of this tag, and is ready.
    pub async fn is_ready(&self, deployment: &str, tag: &str) -> bool {
        let Some(process) = self.processes.get(deployment).filter(|process| tag_of(&process.template) == tag) else {
            return false;
        };
        is_ready(process.health).await
    }

    /// Does its work until `page` has ended, and returns what that returned. A look is never cut short: else a process
    /// that it has just started would be unknown to the next one.
    pub async fn beside<T>(&mut self, page: impl Future<Output = T>) -> T {
        let mut page = pin!(page);
        loop {
            match select(page.as_mut(), pin!(sleep(LOOK))).await {
                Either::Left((returned, _)) => return returned,
                Either::Right(_) => self.look().await,
            }
        }
    }

    async fn look(&mut self) {
        let client = self.cluster.admin().await.unwrap();
        // An API server that is busy is asked again.
        let Ok(list) = Api::<Deployment>::all(client.clone()).list(&ListParams::default().labels(OURS)).await else {
            return;
        };
        let Ok(services) = Api::<Service>::all(client).list(&ListParams::default().labels(OURS)).await else { return };
        self.run_programs(list.items).await;
        self.cluster.route(self.routes(&services.items));
        if !self.takes_pods && !self.processes.is_empty() && self.all_are_ready().await {
            self.set_schedulable(true).await;
            self.takes_pods = true;
        }
    }

    /// Starts what is new, replaces what changed, and stops what is gone.
    async fn run_programs(&mut self, wanted: Vec<Deployment>) {
        let wanted: BTreeMap<String, Deployment> =
            wanted.into_iter().map(|deployment| (deployment.metadata.name.clone().unwrap(), deployment)).collect();
        let gone: Vec<String> = self.processes.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            self.cluster.stop_program(&name, GRACE).await.unwrap();
            self.processes.remove(&name);
        }
        for (name, deployment) in wanted {
            let value = serde_json::to_value(&deployment).unwrap();
            let template = value["spec"]["template"].clone();
            match self.processes.get(&name) {
                Some(process) if process.template == template => {
                    let place = (process.namespace.as_str(), name.as_str());
                    deployments::renew_settings(self.cluster, place, &name).await;
                }
                known => {
                    if known.is_some() {
                        self.cluster.stop_program(&name, GRACE).await.unwrap();
                    }
                    let process = Process {
                        namespace: deployment.metadata.namespace.unwrap(),
                        labels: serde_json::from_value(template["metadata"]["labels"].clone()).unwrap(),
                        template,
                        port: free_port().unwrap(),
                        health: free_port().unwrap(),
                    };
                    self.start(&name, &process).await;
                    self.processes.insert(name, process);
                }
            }
        }
    }

    async fn start(&self, name: &str, process: &Process) {
        let mut local = vec![format!("--health-listen=127.0.0.1:{}", process.health)];
        if process.template["spec"]["containers"][0]["args"][0] == "serve" {
            local.extend([format!("--listen=127.0.0.1:{}", process.port), "--drain-delay=0s".to_owned()]);
            local.extend(self.server.iter().cloned());
        }
        let this = program();
        let program = self.programs.get(tag_of(&process.template)).unwrap_or(&this);
        deployments::start(self.cluster, program, (&process.namespace, name), name, &local).await;
    }

    /// Returns the way to the process behind each Service.
    fn routes(&self, services: &[Service]) -> Routes {
        let mut routes = Routes::new();
        for spec in services.iter().filter_map(|service| service.spec.as_ref()) {
            let selector = spec.selector.clone().unwrap_or_default();
            let selected = |process: &&Process| {
                selector.iter().all(|(key, value)| process.labels.get(key).is_some_and(|label| label == value))
            };
            let Some(process) = self.processes.values().find(selected) else { continue };
            let Some(address) = &spec.cluster_ip else { continue };
            for port in spec.ports.iter().flatten().filter(|port| port.name.as_deref() == Some("https")) {
                routes.insert(format!("{address}:{}", port.port), process.port);
            }
        }
        routes
    }

    async fn all_are_ready(&self) -> bool {
        for process in self.processes.values() {
            if !is_ready(process.health).await {
                return false;
            }
        }
        true
    }

    async fn set_schedulable(&self, is_schedulable: bool) {
        let nodes: Api<ApiNode> = Api::all(self.cluster.admin().await.unwrap());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": !is_schedulable}}));
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            nodes.patch(&node.metadata.name.unwrap(), &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

/// Returns the tag of the image in a Pod template.
fn tag_of(template: &Value) -> &str {
    let image = template["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
    image.rsplit(':').next().unwrap_or_default()
}

async fn is_ready(health: u16) -> bool {
    get(health, "/readyz").await.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
