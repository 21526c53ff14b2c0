//! `pillion controller` in a large cluster: duration, requests to the API server, memory. At the end of each phase,
//! everything must be as required.
#![allow(dead_code, reason = "the test uses less than the benchmark")]

pub mod check;
pub mod corpus;
pub mod populate;
pub mod process;
pub mod requests;
pub mod statuses;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use kube::Client;
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::check::Found;
use self::corpus::{Corpus, Kind, Size, TeamNamespace};
use self::process::{Process, Usage};
use self::requests::{Log, Request};
use self::statuses::Statuses;
use crate::support::controllers::{ACCOUNT, Controllers, NAMESPACE};

/// The ConfigMap of the bundle.
pub const BUNDLE: &str = "pillion-bundle";
/// The SidecarSet whose permissions the test edits.
pub const EDITED: &str = "mesh-000-proxy";
/// The name of the controller as a process of the cluster.
const REPLICA: &str = "controller";
/// The pause between two checks for activity.
const LOOK: Duration = Duration::from_millis(100);
/// Timeout of a phase.
const PATIENCE: Duration = Duration::from_mins(20);
const SOON: Duration = Duration::from_mins(1);

/// Returns the settings of policy and controller.
pub fn settings() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"mergeClusterSets": true},
        "bundleRef": {"namespace": NAMESPACE, "name": BUNDLE}
    })
}

/// The beginning of a phase.
struct PhaseStart {
    /// The number of requests before it.
    requests: usize,
    at: SystemTime,
    /// The CPU time of the controller before it, in seconds.
    cpu: f64,
}

/// Measurements between an action and the required state.
#[derive(Clone, Debug)]
pub struct Phase {
    pub name: &'static str,
    /// Seconds from the action's start to the last write, and to the last comparison of a namespace.
    pub written: f64,
    pub compared: f64,
    /// Requests, except those that continue watches or renew the Lease.
    pub requests: BTreeMap<String, usize>,
    /// Comparisons of namespaces with their required state, by both controllers together.
    pub reconciliations: f64,
    /// Processor time in seconds.
    pub cpu: f64,
    /// The controller's usage at the end of the phase.
    pub usage: Usage,
}

/// What the controller does in a stretch of time.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub requests: Vec<Request>,
    pub seconds: f64,
    /// Processor time in seconds.
    pub cpu: f64,
    /// Comparisons of namespaces with their required state.
    pub reconciliations: f64,
}

/// A cluster with all objects, and a controller that is not running yet.
pub struct Scene<'a> {
    pub cluster: &'a Cluster,
    pub client: Client,
    pub corpus: Corpus,
    pub log: Log,
    controllers: Controllers<'a>,
    health: u16,
    /// How long nothing must happen before a phase counts as ended.
    quiet: Duration,
    process: Option<Process>,
}

/// Starts the servers. kube-controller-manager runs only the controllers for namespaces and the ceiling. No Pod is
/// scheduled or run, because the controller does not depend on that.
pub async fn servers() -> Cluster {
    let controllers = [
        "clusterrole-aggregation-controller",
        "namespace-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
    ];
    let options = Options::new()
        .audit_log_of(format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"))
        // The plugin would wait for accounts of Pods, which are created here with everything that it adds.
        .api_server_flag("--disable-admission-plugins=ServiceAccount")
        .controller_manager_flag(format!("--controllers={}", controllers.join(",")))
        .controller_manager_flag("--kube-api-qps=500")
        .controller_manager_flag("--kube-api-burst=1000");
    Cluster::start(options).await.unwrap()
}

impl<'a> Scene<'a> {
    /// Creates everything that exists before the controller.
    pub async fn prepare(
        cluster: &'a Cluster,
        size: Size,
        program: &Path,
        quiet: Duration,
        tell: impl Fn(String),
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

    /// Returns the running controller.
    pub fn process(&self) -> Process {
        self.process.unwrap()
    }

    /// Starts the controller, and waits until it has examined every namespace.
    pub async fn start(&mut self, name: &'static str) -> Phase {
        let from = PhaseStart { requests: self.log.requests.len(), at: SystemTime::now(), cpu: 0.0 };
        self.controllers.start(REPLICA, self.health).await;
        let find = async || Process::find(self.cluster.folder(), "pillion");
        self.process = Some(until("the controller's process", SOON, find).await.unwrap());
        let places = f64::from(u32::try_from(self.corpus.places.len()).unwrap());
        self.settle(name, from, |metrics| {
            ["merged-serviceaccounts", "sidecar-tokens"].iter().all(|controller| {
                metrics.sum("reconciliations_total", &format!("controller=\"{controller}\"")) >= places
            })
        })
        .await
    }

    /// Stops the controller as Kubernetes does.
    pub async fn stop(&mut self) {
        self.cluster.stop_program(REPLICA, 10).await.unwrap();
        self.process = None;
    }

    /// Runs an action, and waits until the controller has nothing left to do.
    pub async fn phase(&mut self, name: &'static str, action: impl Future<Output = ()>) -> Phase {
        self.log.update();
        let from =
            PhaseStart { requests: self.log.requests.len(), at: SystemTime::now(), cpu: self.process().usage().cpu };
        let compared = self.metrics().await.map(|metrics| metrics.compared()).unwrap();
        action.await;
        let mut phase = self.settle(name, from, |_| true).await;
        phase.reconciliations -= compared;
        phase
    }

    async fn settle(&mut self, name: &'static str, from: PhaseStart, is_enough: impl Fn(&Metrics) -> bool) -> Phase {
        let (mut last, mut seen, asked) = (SystemTime::now(), (0, 0.0), Instant::now());
        loop {
            self.cluster.still_runs(REPLICA).unwrap();
            self.log.update();
            let busy = self.log.since(from.requests).iter().filter(|request| !request.is_idle()).count();
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
        let since = |at: SystemTime| at.duration_since(from.at).unwrap_or_default().as_secs_f64();
        let requests: Vec<&Request> =
            self.log.since(from.requests).iter().filter(|request| !request.is_idle()).collect();
        let written = requests.iter().filter(|request| request.writes()).map(|request| since(request.at));
        let usage = self.process().usage();
        Phase {
            name,
            written: written.fold(0.0, f64::max),
            compared: since(last),
            requests: requests::count(requests),
            reconciliations: seen.1,
            cpu: usage.cpu - from.cpu,
            usage,
        }
    }

    /// Returns the controller's metrics; `None` before it serves any.
    pub async fn metrics(&self) -> Option<Metrics> {
        crate::support::get(self.health, "/metrics").await.map(Metrics)
    }

    /// Checks that the cluster contains exactly the required objects.
    pub async fn check(&self) -> Found {
        check::cluster(&self.client, &self.corpus).await
    }

    /// Edits the permissions of a set of one pair, within the ceiling.
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

    /// Adds a namespace with a workload that needs a merged account.
    pub async fn add_namespace(&mut self) -> Phase {
        let labels: BTreeMap<String, String> = [("app", "web"), ("mesh", "m0")]
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let place = TeamNamespace {
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

    /// Adds a label to every namespace that no SidecarSet selects by.
    pub async fn label_namespaces(&mut self) -> Phase {
        let client = self.client.clone();
        let paths: Vec<String> =
            self.corpus.places.iter().map(|place| format!("/api/v1/namespaces/{}", place.name)).collect();
        self.phase("a label on every namespace", async {
            populate::patch_all(&client, paths, &json!({"metadata": {"labels": {"cost-centre": "42"}}})).await;
        })
        .await
    }

    /// Replaces every tenth Pod.
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

    /// Waits while nothing changes.
    pub async fn rest(&mut self, time: Duration) -> Stretch {
        self.observe(sleep(time)).await.0
    }

    /// Writes statuses of Pods. Returns what the controller did meanwhile, and the number of statuses.
    pub async fn write_statuses(&mut self, statuses: Statuses) -> (Stretch, usize) {
        let (client, pods) = (self.client.clone(), statuses::pods(&self.corpus));
        self.observe(statuses::write(&client, &pods, statuses)).await
    }

    /// Observes the controller during an action.
    async fn observe<T>(&mut self, action: impl Future<Output = T>) -> (Stretch, T) {
        self.log.update();
        let before = self.log.requests.len();
        let (started, cpu) = (Instant::now(), self.process().usage().cpu);
        let compared = self.metrics().await.map(|metrics| metrics.compared()).unwrap();
        let done = action.await;
        let (seconds, cpu) = (started.elapsed().as_secs_f64(), self.process().usage().cpu - cpu);
        let reconciliations = self.metrics().await.map(|metrics| metrics.compared()).unwrap() - compared;
        self.log.update();
        (Stretch { requests: self.log.since(before).to_vec(), seconds, cpu, reconciliations }, done)
    }
}

fn set_path(name: &str) -> String {
    format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{name}")
}

fn get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).unwrap()
}

/// The controller's metrics in the text format of Prometheus.
pub struct Metrics(String);

impl Metrics {
    /// Returns the sum of a metric's values with this label.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix("pillion_controller_")?.strip_prefix(name));
        let values = lines.filter(|line| line.starts_with('{') && line.contains(label));
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Returns the number of requests to the API server by verb, except watches.
    pub fn requests(&self) -> BTreeMap<String, usize> {
        let lines =
            self.0.lines().filter_map(|line| line.strip_prefix("pillion_controller_api_requests_total{verb=\""));
        let counts = lines.filter_map(|line| line.split_once("\"} "));
        let counts = counts.filter(|(verb, _)| *verb != "watch");
        counts.map(|(verb, count)| (verb.to_owned(), count.parse().unwrap())).collect()
    }

    /// Returns the number of comparisons of namespaces with their required state.
    pub fn compared(&self) -> f64 {
        self.sum("reconciliations_total", "controller=\"merged")
            + self.sum("reconciliations_total", "controller=\"sidecar")
    }
}
