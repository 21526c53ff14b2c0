//! A cluster with injected Pods that run, and the controller that rolls out SidecarSets.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kube::Client;
use pillion_growth::kubelet::{self, Kubelet, Restarts};
use pillion_growth::requests::{STRATEGIC, pod_path};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::scale::corpus::{self, Corpus};
use crate::scale::populate::{self, create_all, send};
use crate::scale::process::{Process, Usage};
use crate::scale::requests::{Log, Request};
use crate::support::controllers::{Controllers, NAMESPACE};
use crate::tell;

const ACCOUNT: &str = "pillion-controller-rollout";
const REPLICA: &str = "controller";
/// The label by which SidecarSets select Pods.
const LABEL: &str = "agents";
/// The part of the Pods of a SidecarSet that is not available at the same time, at most.
const MAX_UNAVAILABLE: usize = 10;
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing must happen before the controller counts as at rest.
const QUIET: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_mins(10);

/// The size of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub namespaces: usize,
    pub sidecar_sets: usize,
    pub pods: usize,
    pub changed: usize,
    pub restart: Duration,
}

impl Size {
    /// The number of Pods of a SidecarSet.
    pub fn pods_of_a_set(&self) -> usize {
        self.pods / self.sidecar_sets
    }

    /// The number of Pods of a SidecarSet that are upgraded at the same time.
    pub fn at_once(&self) -> usize {
        (self.pods_of_a_set() * MAX_UNAVAILABLE).div_ceil(100)
    }

    /// The number of times in which Pods are upgraded, one after the other.
    pub fn waves(&self) -> usize {
        self.pods_of_a_set().div_ceil(self.at_once())
    }
}

/// What happened in some time.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub seconds: f64,
    /// The requests of the controller, except watches and its Lease.
    pub requests: Vec<Request>,
    /// Its processor time in seconds.
    pub cpu: f64,
    pub usage: Usage,
}

/// The cluster.
pub struct Scene<'a> {
    size: Size,
    cluster: &'a Cluster,
    client: Client,
    controllers: Controllers<'a>,
    kubelet: Kubelet,
    log: Log,
    /// The paths of the Pods, by SidecarSet.
    pods: Vec<Vec<String>>,
}

/// Starts the servers. Of kube-controller-manager, nothing is needed.
pub async fn servers() -> Cluster {
    let options = Options::new()
        .audit_log_of(format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"))
        // The plugin would wait for accounts of Pods, which are created here with everything that it adds.
        .api_server_flag("--disable-admission-plugins=ServiceAccount");
    Cluster::start(options).await.unwrap()
}

impl<'a> Scene<'a> {
    /// Creates namespaces, SidecarSets, and injected Pods that run.
    pub async fn prepare(cluster: &'a Cluster, size: Size, program: &Path) -> Self {
        let (client, started) = (cluster.admin().await.unwrap(), Instant::now());
        let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
        apply(&client, &definition.to_yaml().unwrap(), "test").await.unwrap();
        let corpus = Corpus::new(corpus::Size {
            namespaces: size.namespaces,
            sidecar_sets: size.sidecar_sets,
            pods: size.pods,
            seed: 1,
        });
        let named = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create_all(&client, [named(NAMESPACE), named("kruise-system")]).await;
        create_all(&client, corpus.places.iter().map(corpus::namespace)).await;
        let sets: Vec<Value> = (0..size.sidecar_sets).map(|number| sidecar_set(number, 1)).collect();
        create_all(&client, sets).await;
        // Injection needs the hashes, which the API server stores at admission; the policy is not installed here.
        let objects = corpus.places.iter().flat_map(|place| corpus.objects(place));
        let pods = objects.filter(|object| object["kind"] == "Pod").enumerate().map(|(number, mut pod)| {
            pod["metadata"]["labels"][LABEL] = json!(name(number % size.sidecar_sets));
            pod
        });
        let pods = injected(cluster, program, size.sidecar_sets, &pods.collect::<Vec<_>>());
        let mut paths = vec![Vec::new(); size.sidecar_sets];
        for pod in &pods {
            let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap();
            let set = (0..size.sidecar_sets).find(|number| text(&format!("/metadata/labels/{LABEL}")) == name(*number));
            paths[set.unwrap()].push(pod_path(text("/metadata/namespace"), text("/metadata/name")));
        }
        let count = create_all(&client, pods.clone()).await;
        let run = pods.iter().map(|pod| {
            let text = |key: &str| pod["metadata"][key].as_str().unwrap();
            (pod_path(text("namespace"), text("name")), json!({"status": kubelet::running(pod)}))
        });
        populate::write_statuses(&client, run).await;
        tell(format!("{count} Pods run after {:.0} s", started.elapsed().as_secs_f64()));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}});
        create_all(&client, [account]).await;
        let flags = ["--controllers", "sidecarset-rollout"];
        let controllers = Controllers::install(cluster, program, &json!({}), &flags).await;
        let kubelet = Kubelet::start(client.clone(), size.restart).await.unwrap();
        Self { size, cluster, client, controllers, kubelet, log: Log::new(cluster.audit_log_file()), pods: paths }
    }

    /// Upgrades Pods of SidecarSets that are not changed later, with a client that sends nothing but patches of images,
    /// and knows without looking when a Pod is ready.
    pub async fn baseline(&self) -> Stretch {
        let Size { changed, .. } = self.size;
        let started = Instant::now();
        join_all(self.pods.iter().enumerate().skip(changed).take(changed).map(async |(number, pods)| {
            for wave in pods.chunks(self.size.at_once()) {
                join_all(wave.iter().map(async |pod| {
                    let patch = json!({"spec": {"containers": [{"name": name(number), "image": image(number, 9)}]}});
                    send(&self.client, "PATCH", pod, STRATEGIC, &patch).await;
                    self.kubelet.restarted(pod, 1).await;
                }))
                .await;
            }
        }))
        .await;
        self.restarted(started)
    }

    /// Starts the controller, and waits until it has seen everything.
    pub async fn start(&mut self) -> Stretch {
        let started = Instant::now();
        self.controllers.start(REPLICA, free_port().unwrap()).await;
        // The Pods of the baseline have an image that their SidecarSets do not ask for.
        let of_baseline = self.size.changed..2 * self.size.changed;
        self.finished((0..self.size.sidecar_sets).filter(|number| !of_baseline.contains(number)), 1).await;
        let seconds = started.elapsed().as_secs_f64();
        self.settle().await;
        let usage = self.process().usage();
        Stretch { seconds, requests: self.busy(0), cpu: usage.cpu, usage }
    }

    /// Changes the images of SidecarSets, and waits until all their Pods are upgraded.
    pub async fn roll_out(&mut self) -> Stretch {
        let (before, cpu) = (self.log.requests.len(), self.process().usage().cpu);
        let started = Instant::now();
        let media = "application/merge-patch+json";
        join_all((0..self.size.changed).map(async |number| {
            let patch = json!({"spec": {"containers": sidecar_set(number, 2)["spec"]["containers"]}});
            send(&self.client, "PATCH", &set_path(number), media, &patch).await;
        }))
        .await;
        self.finished(0..self.size.changed, 2).await;
        let mut stretch = self.restarted(started);
        stretch.seconds = started.elapsed().as_secs_f64();
        self.settle().await;
        let usage = self.process().usage();
        Stretch { requests: self.busy(before), cpu: usage.cpu - cpu, usage, ..stretch }
    }

    /// Waits while nothing changes.
    pub async fn rest(&mut self, time: Duration) -> Stretch {
        self.log.update();
        let (before, cpu, started) = (self.log.requests.len(), self.process().usage().cpu, Instant::now());
        sleep(time).await;
        self.log.update();
        let usage = self.process().usage();
        let seconds = started.elapsed().as_secs_f64();
        Stretch { seconds, requests: self.log.since(before).to_vec(), cpu: usage.cpu - cpu, usage }
    }

    /// Returns the time until the last Pod was ready. Each Pod must have restarted once.
    fn restarted(&self, started: Instant) -> Stretch {
        let Restarts { counts, last } = self.kubelet.take();
        assert_eq!(counts.len(), self.size.changed * self.size.pods_of_a_set(), "Pods were not upgraded");
        assert!(counts.values().all(|count| *count == 1), "Pods were upgraded twice: {counts:?}");
        let seconds = last.unwrap().duration_since(started).as_secs_f64();
        Stretch { seconds, requests: Vec::new(), cpu: 0.0, usage: Usage::default() }
    }

    /// Waits until the status of SidecarSets says that all their Pods are updated and ready, for this generation.
    async fn finished(&self, sets: impl IntoIterator<Item = usize>, generation: u64) {
        let is_finished = async |number: usize| {
            let request = http::Request::get(set_path(number)).body(Vec::new()).unwrap();
            let set: Value = self.client.request(request).await.unwrap();
            let status = &set["status"];
            let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_ready = conditions.iter().any(|condition| {
                condition["type"] == "Ready"
                    && condition["status"] == "True"
                    && condition["observedGeneration"] == generation
            });
            is_ready && status["updatedReadyPods"] == self.size.pods_of_a_set()
        };
        let (mut open, started) = (sets.into_iter().collect::<Vec<usize>>(), Instant::now());
        while let Some(number) = open.last() {
            if is_finished(*number).await {
                open.pop();
            } else {
                assert!(started.elapsed() < PATIENCE, "still at it:\n{}", self.cluster.log(REPLICA));
                sleep(LOOK).await;
            }
        }
    }

    /// Waits until the controller sends nothing for some time.
    async fn settle(&mut self) {
        let (mut last, mut seen) = (Instant::now(), 0);
        while last.elapsed() < QUIET {
            self.cluster.still_runs(REPLICA).unwrap();
            self.log.update();
            let now = self.busy(0).len();
            if now != seen {
                (last, seen) = (Instant::now(), now);
            }
            sleep(LOOK).await;
        }
    }

    fn busy(&self, before: usize) -> Vec<Request> {
        self.log.since(before).iter().filter(|request| !request.is_idle()).cloned().collect()
    }

    fn process(&self) -> Process {
        Process::find(self.cluster.folder(), "pillion").unwrap()
    }
}

fn name(number: usize) -> String {
    format!("log-{number:03}")
}

fn image(number: usize, version: usize) -> String {
    format!("registry.example.com/agents/{}:{version}", name(number))
}

fn set_path(number: usize) -> String {
    format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{}", name(number))
}

/// Returns a SidecarSet with this version of its image.
fn sidecar_set(number: usize, version: usize) -> Value {
    let container = json!({
        "name": name(number), "image": image(number, version),
        "args": ["--config=/etc/agent/config.yaml", "--buffer=32Mi"],
        "env": [{"name": "LEVEL", "value": "info"}, {"name": "FORMAT", "value": "json"}],
        "ports": [{"name": "metrics", "containerPort": 9100}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "metrics"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": "spool", "mountPath": "/var/spool/agent"}],
        "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"}
    });
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name(number)},
        "spec": {
            "selector": {"matchLabels": {LABEL: name(number)}}, "containers": [container],
            "volumes": [{"name": "spool", "emptyDir": {}}],
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": format!("{MAX_UNAVAILABLE}%")},
        }
    })
}

/// Returns the Pods as the policy injects them.
fn injected(cluster: &Cluster, program: &Path, sets: usize, pods: &[Value]) -> Vec<Value> {
    let file = |name: &str, items: &[Value]| {
        let file = cluster.folder().join(name);
        std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
        file
    };
    let sets: Vec<Value> = (0..sets).map(|number| sidecar_set(number, 1)).collect();
    let mut command = Command::new(program);
    command.args(["inject", "-o", "json", "--sidecar-sets"]).arg(file("sets.json", &sets)).arg(file("pods.json", pods));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    match answer["items"].take() {
        Value::Array(pods) => pods,
        _ => vec![answer],
    }
}
