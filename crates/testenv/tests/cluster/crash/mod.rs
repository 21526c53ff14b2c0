//! Runs `pillion controller` as a process behind a proxy that applies faults to its requests.

pub mod faults;
pub mod leases;
pub mod objects;
pub mod program;
pub mod proxy;
pub mod record;
pub mod rollouts;
pub mod scenario;
mod tests;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, until};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::program::Program;
use self::proxy::Proxy;
use self::record::{Faults, Name, Record};
use self::scenario::Scenario;

/// Timeout of a phase: each request may fail once, and the delays after failures grow.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long the program must ask for nothing before a phase counts as ended. Longer than the first delay after a
/// failure, so that what is tried again belongs to the phase.
const QUIET: Duration = Duration::from_millis(1500);
/// The same for a phase in which some of the planned faults have not fired.
const LONG_QUIET: Duration = Duration::from_secs(4);
/// Most of the time, a scenario waits for delays. More API servers at a time would slow each other down.
const AT_A_TIME: usize = 9;

/// An API server, and a proxy in front of it. kube-controller-manager only deletes namespaces.
pub struct Stage {
    pub cluster: Cluster,
    pub client: Client,
    pub proxy: Proxy,
    _turn: SemaphorePermit<'static>,
}

/// The result of a run.
#[derive(Default)]
pub struct Run {
    /// The objects at the end of each phase.
    pub objects: Vec<Vec<Value>>,
    /// The requests, each with its number.
    pub seen: BTreeMap<Name, usize>,
    /// The requests to which the fault was applied.
    pub fired: BTreeSet<Name>,
    /// The number of writes that took effect.
    pub written: usize,
}

impl Stage {
    pub async fn start() -> Self {
        static TURNS: Semaphore = Semaphore::const_new(AT_A_TIME);
        let turn = TURNS.acquire().await.unwrap();
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
        // The API server creates its namespaces one after the other. Work in a late one would count for a run.
        let namespaces = Api::<Namespace>::all(client.clone());
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            until("the namespaces of the API server", Duration::from_mins(1), async || namespaces.get(name).await.ok())
                .await
                .unwrap();
        }
        // legacy-token-cleaner waits until uses have been tracked for long enough.
        let long_ago = Patch::Merge(json!({"data": {"since": "2020-01-01"}}));
        maps.patch(tracking, &PatchParams::default(), &long_ago).await.unwrap();
        let proxy = Proxy::start(&cluster).await;
        Self { cluster, client, proxy, _turn: turn }
    }

    /// Prepares the program for a run in this namespace.
    pub fn program(&self, proxy: &Proxy, scenario: Scenario, namespace: &str, name: &str, flags: &[&str]) -> Program {
        let controllers = format!("--controllers={}", scenario.controller());
        let mut all = vec![controllers.as_str()];
        all.extend(scenario.flags());
        all.extend(flags);
        Program::new(&self.cluster, proxy.port(), name, &scenario.settings(namespace), &all)
    }

    /// Creates a namespace with the objects of a scenario.
    pub async fn begin(&self, scenario: Scenario) -> String {
        let metadata = ObjectMeta { generate_name: Some("crash-".to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap().name_any();
        let objects: Vec<String> = scenario.objects(&namespace).iter().map(Value::to_string).collect();
        if !objects.is_empty() {
            apply(&self.client, &objects.join("\n---\n"), "test").await.unwrap();
        }
        if scenario == Scenario::Rollout {
            for name in rollouts::PODS {
                rollouts::restart_containers(&self.client, &namespace, name).await;
            }
        }
        if scenario == Scenario::Cleaner {
            // The Secret must be older than the period, which is counted in whole seconds.
            tokio::time::sleep(Duration::from_millis(2500)).await;
        }
        namespace
    }

    /// Runs all phases of a scenario with these faults. `flags` are further flags of the program.
    pub async fn run(&self, scenario: Scenario, faults: Option<Faults>, flags: &[&str]) -> Run {
        let namespace = self.begin(scenario).await;
        let own = format!("--namespace={namespace}");
        let flags: Vec<&str> = flags.iter().copied().chain([own.as_str()]).collect();
        let program = Arc::new(self.program(&self.proxy, scenario, &namespace, "program", &flags));
        self.proxy.begin(&namespace, faults.map(|faults| (faults, Arc::clone(&program))));
        program.start();
        let mut run = Run::default();
        for phase in 0..scenario.phases() {
            if phase > 0 {
                scenario.change(&self.client, &namespace, phase).await;
                self.proxy.record().phase = phase;
                if scenario.restarts() {
                    program.restart();
                }
            }
            run.objects.push(self.ended(scenario, phase, &program).await);
        }
        assert!(program.is_running(), "it has ended\n{}", program.log());
        program.kill();
        {
            let record = self.proxy.record();
            for (object, times) in &record.created {
                assert_eq!(*times, 1, "{object} was created more than once: {:#?}", record.seen);
            }
            assert!(record.impatient.is_empty(), "tried again too early: {:#?}", record.impatient);
            run.seen.clone_from(&record.seen);
            run.fired.clone_from(&record.fired);
            run.written = record.written.iter().filter(|name| scenario.is_certain(name)).count();
        }
        objects::clean(&self.client, &namespace).await;
        run
    }

    /// Waits until the work of a phase is done and nothing more is asked. Returns all objects.
    pub async fn ended(&self, scenario: Scenario, phase: usize, program: &Program) -> Vec<Value> {
        let namespace = self.proxy.record().namespace.clone();
        let is_last = phase + 1 == scenario.phases();
        let is_done = async || {
            let is_quiet = is_quiet(&self.proxy.record(), is_last);
            if !is_quiet {
                return None;
            }
            let objects = objects::snapshot(&self.client, &namespace).await;
            scenario.is_done(&objects, phase).then_some(objects)
        };
        let ended = until("the work being done", PATIENCE, is_done).await;
        match ended {
            Ok(objects) => objects,
            Err(error) => {
                let objects = objects::snapshot(&self.client, &namespace).await;
                let record = self.proxy.record();
                let own: Vec<_> = objects.iter().filter(|object| object["metadata"]["namespace"] == "NS").collect();
                panic!("phase {phase}: {error}: {own:#?}\n{:#?}\n{}", record.fired, program.log());
            }
        }
    }
}

/// Whether the program asks for nothing more. In the last phase, faults that have not fired yet get some more time.
fn is_quiet(record: &Record, is_last: bool) -> bool {
    let quiet = if is_last && !record.is_complete() { LONG_QUIET } else { QUIET };
    record.last.is_some_and(|last| last.elapsed() > quiet)
}
