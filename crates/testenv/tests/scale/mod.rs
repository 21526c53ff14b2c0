//! `pillion controller` in a large cluster: how long it takes, what it asks of the API server, what memory it takes. Each
//! phase ends with everything as it has to be.
#![allow(dead_code, reason = "the test uses less than the benchmark")]

pub mod check;
pub mod corpus;
mod populate;
pub mod process;
pub mod requests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use kube::Client;
use pillion::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use self::check::Found;
use self::corpus::{Corpus, Kind, Place, Size};
use self::process::{Process, Usage};
use self::requests::{Log, Request};
use crate::support::controllers::{ACCOUNT, Controllers, NAMESPACE};

/// The ConfigMap of the bundle.
pub const BUNDLE: &str = "pillion-bundle";
/// The SidecarSet whose permissions are edited.
pub const EDITED: &str = "mesh-000-proxy";
/// Its name as a process of the cluster.
const REPLICA: &str = "controller";
/// How often it is looked whether something still happens.
const LOOK: Duration = Duration::from_millis(100);
/// How long a phase may take.
const PATIENCE: Duration = Duration::from_mins(20);
const SOON: Duration = Duration::from_mins(1);

/// The settings of policy and controller.
pub fn settings() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "bundleRef": {"namespace": NAMESPACE, "name": BUNDLE}
    })
}

/// What happened between an action and everything being as it has to be.
#[derive(Clone, Debug)]
pub struct Phase {
    pub name: &'static str,
    /// From the action's start to the last write, and to the last namespace that was compared; seconds.
    pub written: f64,
    pub compared: f64,
    /// Requests, but for watches that go on and the Lease.
    pub requests: BTreeMap<String, usize>,
    /// Namespaces that were compared with what they should be, by the two controllers that do so together.
    pub reconciliations: f64,
    /// Of a processor, in seconds.
    pub cpu: f64,
    /// Of the controller, at the end of the phase.
    pub usage: Usage,
}

/// A cluster with everything in it, and a controller that is not running yet.
pub struct Scene<'a> {
    pub cluster: &'a Cluster,
    pub client: Client,
    pub corpus: Corpus,
    pub log: Log,
    controllers: Controllers<'a>,
    health: u16,
    /// How long nothing happens before it is taken for the end.
    quiet: Duration,
    process: Option<Process>,
}

/// The servers for it. Of kube-controller-manager only what namespaces and the ceiling take; no Pod is scheduled or run,
/// which the controller does not look at.
pub async fn servers() -> Cluster {
    let controllers = [
        "clusterrole-aggregation-controller",
        "namespace-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
    ];
    let options = Options::new()
        .audit_log_of(format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"))
        // It would wait for accounts of Pods that are made here with all that it adds.
        .api_server_flag("--disable-admission-plugins=ServiceAccount")
        .controller_manager_flag(format!("--controllers={}", controllers.join(",")))
        .controller_manager_flag("--kube-api-qps=500")
        .controller_manager_flag("--kube-api-burst=1000");
    Cluster::start(options).await.unwrap()
}

impl<'a> Scene<'a> {
    /// Makes everything that is there before the controller is.
    pub async fn prepare(
        cluster: &'a Cluster,
        size: Size,
        program: &Path,
        quiet: Duration,
        tell: &dyn Fn(String),
    ) -> Self {
        let (client, corpus, started) = (cluster.admin().await.unwrap(), Corpus::new(size), Instant::now());
        let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
        apply(&client, &definition.to_yaml().unwrap(), "test").await.unwrap();
        let ceiling = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "agents", "labels": {"pillion.dev/merged-ceiling": "true"}},
            "rules": corpus.permissions()
        });
        let named = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        populate::create_all(&client, [ceiling, named(NAMESPACE), named("kruise-system")]).await;
        let namespaces = populate::create_all(&client, corpus.places.iter().map(corpus::namespace)).await;
        let objects = populate::create_all(&client, corpus.places.iter().flat_map(|place| corpus.objects(place))).await;
        let served = || async { client.request_text(get("/apis/apps.kruise.io/v1beta1/sidecarsets")).await.ok() };
        until("the definition being served", SOON, served).await.unwrap();
        let sets = populate::create_all(&client, corpus.sidecar_sets()).await;
        tell(format!(
            "{namespaces} namespaces, {sets} SidecarSets and {objects} other objects in {:.0} s",
            started.elapsed().as_secs_f64()
        ));
        let tokens = format!("--token-namespaces={}", corpus.token_namespaces().join(","));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}});
        populate::create_all(&client, [account]).await;
        let controllers = Controllers::install(cluster, program, &settings(), &[&tokens]).await;
        let filled = || async {
            let role = client
                .request::<Value>(get("/apis/rbac.authorization.k8s.io/v1/clusterroles/pillion-controller-ceiling"))
                .await
                .ok()?;
            role["rules"].as_array().is_some_and(|rules| !rules.is_empty()).then_some(())
        };
        until("the ceiling being filled in", SOON, filled).await.unwrap();
        let log = Log::new(cluster.audit_log_file());
        Self { cluster, client, corpus, log, controllers, health: free_port().unwrap(), quiet, process: None }
    }

    /// The controller, which is running.
    pub fn process(&self) -> Process {
        self.process.unwrap()
    }

    /// Starts it, and waits until every namespace was looked at.
    pub async fn start(&mut self, name: &'static str) -> Phase {
        let before = self.log.requests.len();
        let started = SystemTime::now();
        self.controllers.start(REPLICA, self.health).await;
        let find = async || Process::find(self.cluster.folder(), "pillion");
        self.process = Some(until("the controller's process", SOON, find).await.unwrap());
        let places = f64::from(u32::try_from(self.corpus.places.len()).unwrap());
        self.settle(name, (before, started, 0.0), |metrics| {
            ["merged-serviceaccounts", "sidecar-tokens"].iter().all(|controller| {
                metrics.sum("reconciliations_total", &format!("controller=\"{controller}\"")) >= places
            })
        })
        .await
    }

    /// Stops it as Kubernetes does.
    pub async fn stop(&mut self) {
        self.cluster.stop_program(REPLICA, 10).await.unwrap();
        self.process = None;
    }

    /// Does something, and waits until the controller has nothing to do any more.
    pub async fn phase(&mut self, name: &'static str, action: impl Future<Output = ()>) -> Phase {
        self.log.update();
        let from = (self.log.requests.len(), SystemTime::now(), self.process().usage().cpu);
        let compared = self.metrics().await.map(|metrics| metrics.compared()).unwrap();
        action.await;
        let mut phase = self.settle(name, from, |_| true).await;
        phase.reconciliations -= compared;
        phase
    }

    async fn settle(
        &mut self,
        name: &'static str,
        (before, started, cpu): (usize, SystemTime, f64),
        is_enough: impl Fn(&Metrics) -> bool,
    ) -> Phase {
        let (mut last, mut seen, asked) = (SystemTime::now(), (0, 0.0), Instant::now());
        loop {
            self.cluster.still_runs(REPLICA).unwrap();
            self.log.update();
            let busy = self.log.since(before).iter().filter(|request| !request.is_idle()).count();
            let metrics = self.metrics().await;
            let now = (busy, metrics.as_ref().map_or(0.0, Metrics::compared));
            if now != seen || !metrics.as_ref().is_some_and(&is_enough) {
                (last, seen) = (SystemTime::now(), now);
            }
            if last.elapsed().unwrap_or_default() > self.quiet {
                break;
            }
            assert!(asked.elapsed() < PATIENCE, "{name}: still at it:\n{}", self.cluster.log(REPLICA));
            sleep(LOOK).await;
        }
        let since = |at: SystemTime| at.duration_since(started).unwrap_or_default().as_secs_f64();
        let requests: Vec<&Request> = self.log.since(before).iter().filter(|request| !request.is_idle()).collect();
        let written = requests.iter().filter(|request| request.writes()).map(|request| since(request.at));
        let usage = self.process().usage();
        Phase {
            name,
            written: written.fold(0.0, f64::max),
            compared: since(last),
            requests: requests::count(requests),
            reconciliations: seen.1,
            cpu: usage.cpu - cpu,
            usage,
        }
    }

    /// What the controller says of itself; nothing before it does.
    pub async fn metrics(&self) -> Option<Metrics> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.health)).await.ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(Metrics(answer))
    }

    /// What is there is what has to be.
    pub async fn check(&self) -> Found {
        check::cluster(&self.client, &self.corpus).await
    }

    /// Edits what the sets of one pair may do, for which the ceiling has room.
    pub async fn edit_permissions(&mut self) -> Phase {
        let client = self.client.clone();
        let set = self.corpus.sets.iter_mut().find(|set| set.name == EDITED).unwrap();
        set.kind = Kind::Merge { verb: "watch", resource: "services" };
        let (path, change) =
            (set_path(&set.name), json!({"spec": {"serviceAccountPermissions": [corpus::permission(set)]}}));
        self.phase("one Merge set's permissions edited", async {
            populate::patch_all(&client, [path], &change).await;
        })
        .await
    }

    /// Edits the image of a set.
    pub async fn edit_image(&mut self) -> Phase {
        let client = self.client.clone();
        let name = self.corpus.sets.last().unwrap().name.clone();
        let patch = json!({"spec": {"containers": [{"name": name, "image": "registry.example.com/agents/log:2"}]}});
        self.phase("one set's image edited", async {
            populate::patch_all(&client, [set_path(&name)], &patch).await;
        })
        .await
    }

    /// One more namespace, with a workload for which an account has to be merged.
    pub async fn add_namespace(&mut self) -> Phase {
        let labels: BTreeMap<String, String> = [("app", "web"), ("mesh", "m0")]
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let place = Place {
            name: "team-new".to_owned(),
            team: "new".to_owned(),
            tier: "bronze",
            deployments: [("web", labels), ("worker", BTreeMap::from([("app".to_owned(), "worker".to_owned())]))],
            bare: BTreeMap::from([("app".to_owned(), "batch".to_owned())]),
        };
        let (client, objects) = (self.client.clone(), self.corpus.objects(&place));
        let namespace = corpus::namespace(&place);
        self.corpus.places.push(place);
        self.phase("one namespace with a Deployment more", async {
            populate::create_all(&client, [namespace]).await;
            populate::create_all(&client, objects).await;
        })
        .await
    }

    /// A label on every namespace that no SidecarSet looks at.
    pub async fn label_namespaces(&mut self) -> Phase {
        let client = self.client.clone();
        let paths: Vec<String> =
            self.corpus.places.iter().map(|place| format!("/api/v1/namespaces/{}", place.name)).collect();
        self.phase("a label on every namespace", async {
            populate::patch_all(&client, paths, &json!({"metadata": {"labels": {"cost-centre": "42"}}})).await;
        })
        .await
    }

    /// Every tenth Pod is made anew.
    pub async fn replace_pods(&mut self) -> Phase {
        let client = self.client.clone();
        let pods: Vec<Value> = self
            .corpus
            .places
            .iter()
            .step_by(2)
            .filter_map(|place| self.corpus.objects(place).into_iter().rfind(|object| object["kind"] == "Pod"))
            .collect();
        let path = |pod: &Value| {
            let text = |key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
            format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
        };
        let paths: Vec<String> = pods.iter().map(path).collect();
        self.phase("every tenth Pod replaced", async {
            populate::delete_all(&client, paths).await;
            populate::create_all(&client, pods).await;
        })
        .await
    }

    /// Waits while nothing changes, and answers what was asked.
    pub async fn rest(&mut self, time: Duration) -> (Vec<Request>, f64) {
        self.log.update();
        let (before, cpu) = (self.log.requests.len(), self.process().usage().cpu);
        sleep(time).await;
        self.log.update();
        (self.log.since(before).to_vec(), self.process().usage().cpu - cpu)
    }
}

fn set_path(name: &str) -> String {
    format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{name}")
}

fn get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).unwrap()
}

/// What the controller says of itself, as Prometheus reads it.
pub struct Metrics(String);

impl Metrics {
    /// The sum of a metric's values, of those with this label.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix("pillion_controller_")?.strip_prefix(name));
        let values = lines.filter(|line| line.starts_with('{') && line.contains(label));
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Requests to the API server by verb, but for watches.
    pub fn requests(&self) -> BTreeMap<String, usize> {
        let lines =
            self.0.lines().filter_map(|line| line.strip_prefix("pillion_controller_api_requests_total{verb=\""));
        let counts = lines.filter_map(|line| line.split_once("\"} "));
        let counts = counts.filter(|(verb, _)| *verb != "watch");
        counts.map(|(verb, count)| (verb.to_owned(), count.parse().unwrap())).collect()
    }

    /// How many namespaces were compared with what they should be.
    pub fn compared(&self) -> f64 {
        self.sum("reconciliations_total", "controller=\"merged")
            + self.sum("reconciliations_total", "controller=\"sidecar")
    }
}
