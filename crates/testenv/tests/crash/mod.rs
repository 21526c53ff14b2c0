//! Runs `pillion controller` as a process behind a proxy that applies faults to its requests.

pub mod objects;
pub mod program;
pub mod proxy;
pub mod scenario;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use pillion::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, until};
use serde_json::{Value, json};

use self::program::Program;
use self::proxy::{Fault, Proxy};
use self::scenario::Scenario;

/// Every fault.
pub const FAULTS: [Fault; 11] = [
    Fault::Refused,
    Fault::Lost,
    Fault::Delayed,
    Fault::Answered(409),
    Fault::Answered(410),
    Fault::Answered(429),
    Fault::Answered(500),
    Fault::Answered(503),
    Fault::Garbage,
    Fault::KilledBefore,
    Fault::KilledAfter,
];

/// Timeout of a run: each request may fail once, and the delays after failures grow.
const PATIENCE: Duration = Duration::from_mins(4);
/// How long the program must ask for nothing before a run counts as ended.
const QUIET: Duration = Duration::from_millis(1200);

/// An API server, and a proxy in front of it. kube-controller-manager only deletes namespaces.
pub struct Stage {
    pub cluster: Cluster,
    pub client: Client,
    pub proxy: Proxy,
    pub port: u16,
}

/// The end of a run.
pub struct Run {
    /// The objects at the end.
    pub objects: Vec<Value>,
    /// The requests, and those with a fault.
    pub seen: BTreeSet<String>,
    pub fired: BTreeSet<String>,
}

impl Stage {
    pub async fn start() -> Self {
        let options = Options::new().controller_manager().controller_manager_flag("--controllers=namespace-controller");
        let cluster = Cluster::start(options).await.unwrap();
        let client = cluster.admin().await.unwrap();
        let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
        apply(&client, &definition.to_yaml().unwrap(), "test").await.unwrap();
        let sets = objects::sidecar_sets(&client);
        let served = async || sets.list(&ListParams::default()).await.ok();
        until("the definition being served", Duration::from_mins(1), served).await.unwrap();
        // The API server creates it some time after it is ready.
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
        let tracking = "kube-apiserver-legacy-service-account-token-tracking";
        until("the ConfigMap of the API server", Duration::from_mins(2), async || maps.get(tracking).await.ok())
            .await
            .unwrap();
        // legacy-token-cleaner waits until uses have been tracked for long enough.
        let long_ago = Patch::Merge(json!({"data": {"since": "2020-01-01"}}));
        maps.patch(tracking, &PatchParams::default(), &long_ago).await.unwrap();
        let (proxy, port) = Proxy::start(client.clone()).await;
        Self { cluster, client, proxy, port }
    }

    /// Prepares the program for a run in this namespace.
    pub fn program(&self, scenario: Scenario, namespace: &str, name: &str, flags: &[&str]) -> Program {
        let controllers = format!("--controllers={}", scenario.controller());
        let mut all = vec![controllers.as_str()];
        all.extend(scenario.flags());
        all.extend(flags);
        let settings = scenario.settings(namespace);
        Program::new(&self.cluster, self.cluster.as_admin(), self.port, name, &settings, &all)
    }

    /// Creates a namespace with the objects of a scenario.
    pub async fn begin(&self, scenario: Scenario) -> String {
        let metadata = ObjectMeta { generate_name: Some("crash-".to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
        let objects = scenario.objects(&namespace);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        if !objects.is_empty() {
            let text: Vec<String> = list["items"].as_array().unwrap().iter().map(Value::to_string).collect();
            apply(&self.client, &text.join("\n---\n"), "test").await.unwrap();
        }
        if matches!(scenario, Scenario::Cleaner) {
            // The Secret must be older than the period, which is counted in whole seconds.
            tokio::time::sleep(Duration::from_millis(2500)).await;
        }
        namespace
    }

    /// Runs a scenario with a fault on each of its requests, until everything is there and nothing more is asked.
    pub async fn run(&self, scenario: Scenario, fault: Option<Fault>) -> Run {
        let namespace = self.begin(scenario).await;
        let program = Arc::new(self.program(scenario, &namespace, "program", &["--no-leader-election"]));
        self.proxy.begin(&namespace, fault.map(|fault| (fault, Arc::clone(&program))));
        program.start();
        self.ended(scenario, &namespace, &program, fault).await;
        assert!(program.is_running(), "{fault:?}: it has ended\n{}", program.log());
        program.kill();
        let objects = objects::snapshot(&self.client, &namespace, scenario.has_sets()).await;
        for (object, times) in self.proxy.created() {
            assert_eq!(times, 1, "{fault:?}: {object} was created more than once");
        }
        let run = Run { objects, seen: self.proxy.seen(), fired: self.proxy.fired() };
        objects::clean(&self.client, &namespace, scenario.has_sets()).await;
        run
    }

    /// Waits until everything is there and nothing more is asked.
    pub async fn ended(&self, scenario: Scenario, namespace: &str, program: &Program, fault: Option<Fault>) {
        let is_done = async || {
            let objects = objects::snapshot(&self.client, namespace, scenario.has_sets()).await;
            (scenario.is_done(&objects) && self.proxy.quiet() > QUIET).then_some(())
        };
        if let Err(error) = until("everything being there", PATIENCE, is_done).await {
            let objects = objects::snapshot(&self.client, namespace, scenario.has_sets()).await;
            panic!("{fault:?}: {error}: {objects:#?}\n{:#?}\n{}", self.proxy.fired(), program.log());
        }
    }
}
