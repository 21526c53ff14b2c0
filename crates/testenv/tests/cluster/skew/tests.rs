use std::fs;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, apply, free_port, until};
use pillion_testkit::identity::Accounts;
use pillion_testkit::module::workspace;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Version;
use super::installation::Part;
use super::world::{World, assert_same, forms, world};
use crate::pages::{self, node::Node};
use crate::support::accounts::set_up;
use crate::support::sidecar_sets::{merging, set};
use crate::support::{create, deployments, dynamic, get};

const SHOP: &str = "shop";
const SYSTEM: &str = "pillion-system";
/// The condition of a SidecarSet that new Pods get.
const IN_BUNDLE: &str = "InBundle";
/// The condition of a SidecarSet whose rollout has nothing left to do.
const COMPLETE: &str = "Ready";
/// How long something may take on a busy machine.
const LONG: Duration = Duration::from_mins(4);
/// How long nothing must happen before an update counts as over.
const QUIET: Duration = Duration::from_secs(6);
/// The apps, and the SidecarSets that each gets.
const APPS: [(&str, &[&str]); 3] = [("web", &["plain"]), ("isolated", &["agent"]), ("merged", &["logs", "metrics"])];

/// A cluster with an installation, and a node that runs its programs.
struct MixedInstallation<'a> {
    cluster: &'a Cluster,
    client: Client,
    node: Node<'a>,
    replicas: u32,
}

impl<'a> MixedInstallation<'a> {
    async fn with(cluster: &'a Cluster, versions: &[&Version], first: &Version) -> Self {
        let client = cluster.admin().await.unwrap();
        // The installation has rights there, as beside OpenKruise.
        create(&Api::<Namespace>::all(client.clone()), &json!({"metadata": {"name": "kruise-system"}})).await.unwrap();
        let mut node = Node::cordoned(cluster).await;
        node.with_programs(versions.iter().map(|version| (version.tag.to_owned(), version.program.clone())).collect());
        let mut installation = Self { cluster, client, node, replicas: 2 };
        for part in Part::ALL {
            installation.update(part, first).await;
        }
        installation.fill().await;
        installation
    }

    /// Brings a part to a version, and waits until its programs are ready.
    async fn update(&mut self, part: Part, version: &Version) {
        let (cluster, client) = (self.cluster, self.client.clone());
        self.node.beside(Box::pin(part.apply(cluster, &client, version))).await;
        self.settle(part, version).await;
    }

    /// Waits until the Deployments of a part run in a version.
    async fn settle(&mut self, part: Part, version: &Version) {
        let names: &[&str] = match part {
            Part::DefinitionAndRoles => &[],
            Part::Server => &["pillion"],
            Part::Controllers => &["pillion-controller", "pillion-controller-rollout"],
        };
        for name in names {
            for _ in 0..LONG.as_secs() {
                self.node.beside(sleep(Duration::from_secs(1))).await;
                if self.node.is_ready(name, version.tag).await {
                    break;
                }
            }
            assert!(self.node.is_ready(name, version.tag).await, "{name} {}: {}", version.tag, self.cluster.log(name));
        }
        self.node.beside(sleep(QUIET)).await;
    }

    /// Creates the SidecarSets and the apps, and waits until all is as it should be.
    async fn fill(&mut self) {
        let client = self.client.clone();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&namespaces, &json!({"metadata": {"name": SHOP}})).await.unwrap();
        set_up(&client, SHOP, &Accounts::named(&["agent", "logs", "metrics", "app"])).await;
        self.apply_sets("1").await;
        self.until_sets(IN_BUNDLE).await;
        for (app, _) in APPS {
            let deployments: Api<Deployment> = Api::namespaced(client.clone(), SHOP);
            create(&deployments, &deployment(app)).await.unwrap();
        }
        self.until_pods().await;
        self.until_sets(COMPLETE).await;
    }

    /// Applies the SidecarSets, whose containers have an image with this tag.
    async fn apply_sets(&mut self, tag: &str) {
        let client = self.client.clone();
        let sets = sidecar_sets(tag);
        let all = async {
            for set in sets {
                // The webhooks of a server that has just started may not reach it yet.
                let name = set["metadata"]["name"].clone();
                let applied = async || apply(&client, &set.to_string(), "author").await.ok();
                let is_accepted = until("the SidecarSet being accepted", LONG, applied).await.is_ok();
                assert!(is_accepted, "{name}: {:?}", apply(&client, &set.to_string(), "author").await.err());
            }
        };
        self.node.beside(Box::pin(all)).await;
    }

    /// Waits until a condition of every SidecarSet is true.
    async fn until_sets(&mut self, condition: &str) {
        let client = self.client.clone();
        let all = async || {
            let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
            let list = sets.list(&kube::api::ListParams::default()).await.ok()?;
            let holds = |set: &kube::api::DynamicObject| {
                let conditions = set.data["status"]["conditions"].as_array();
                let is_it = |one: &Value| {
                    one["type"] == condition
                        && one["status"] == "True"
                        && one["observedGeneration"] == json!(set.metadata.generation)
                };
                conditions.is_some_and(|all| all.iter().any(is_it))
            };
            (list.items.len() == sidecar_sets("1").len() && list.items.iter().all(holds)).then_some(())
        };
        let waited = self.node.beside(until(condition, LONG, all)).await;
        if let Err(error) = waited {
            panic!("{error}: {}", self.cluster.log("pillion-controller"));
        }
    }

    /// Waits until each app has its Pods, ready and with their sidecars.
    async fn until_pods(&mut self) {
        let (client, replicas) = (self.client.clone(), self.replicas);
        let all = async || {
            let deployments: Api<Deployment> = Api::namespaced(client.clone(), SHOP);
            for (app, _) in APPS {
                let status = deployments.get(app).await.ok()?.status?;
                if status.ready_replicas != i32::try_from(replicas).ok() {
                    return None;
                }
            }
            Some(())
        };
        let waited = self.node.beside(until("the Pods", LONG, all)).await;
        if let Err(error) = waited {
            panic!("{error}: {}\n{}", self.cluster.log("pillion"), self.cluster.log("pillion-controller"));
        }
        for (app, sets) in APPS {
            for form in forms(&self.client, SHOP, app).await {
                let containers = form["spec"]["containers"].as_array().unwrap();
                let has = |set: &&str| containers.iter().any(|container| container["name"] == **set);
                assert!(sets.iter().all(has), "{app}: {form:#}");
            }
        }
    }

    /// Adds a Pod to each app. It must be like the others.
    async fn scale(&mut self, what: &str) {
        self.replicas += 1;
        let (client, replicas) = (self.client.clone(), self.replicas);
        let scaled = async {
            for (app, _) in APPS {
                let deployments: Api<Deployment> = Api::namespaced(client.clone(), SHOP);
                let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                deployments.patch(app, &PatchParams::default(), &patch).await.unwrap();
            }
        };
        self.node.beside(scaled).await;
        self.until_pods().await;
        for (app, _) in APPS {
            let forms = forms(&self.client, SHOP, app).await;
            assert_eq!(forms.len(), self.replicas as usize, "{app}");
            for form in &forms[1..] {
                assert_eq!(*form, forms[0], "{what}: a new Pod of {app} differs from the others");
            }
        }
    }

    async fn world(&self) -> World {
        world(&self.client, SHOP).await
    }

    /// Updates a part. Nothing that runs may change, what was accepted is accepted, and new Pods are like the others.
    async fn step(&mut self, part: Part, version: &Version) {
        let what = format!("{part:?} of {}", version.tag);
        let before = self.world().await;
        self.update(part, version).await;
        assert_same(&before, &self.world().await, &what);
        self.apply_sets("1").await;
        self.scale(&what).await;
        self.until_sets(COMPLETE).await;
        assert_same(&before, &self.world().await, &what);
    }
}

fn deployment(app: &str) -> Value {
    json!({
        "metadata": {"name": app},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"serviceAccountName": "app", "terminationGracePeriodSeconds": 1,
                         "containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    })
}

/// Returns a SidecarSet without an identity, an isolated one, and two that share an account.
fn sidecar_sets(tag: &str) -> Vec<Value> {
    let plain = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "plain"},
        "spec": {"containers": [{"name": "plain"}]},
    });
    let isolated = json!({"serviceAccountMode": "Isolate"});
    let sets = [plain, set("agent", &isolated), merging("logs", "get"), merging("metrics", "list")];
    let of = |name: &str| APPS.iter().find(|(_, sets)| sets.contains(&name)).unwrap().0.to_owned();
    sets.into_iter()
        .map(|mut set| {
            let name = set["metadata"]["name"].as_str().unwrap().to_owned();
            set["spec"]["selector"] = json!({"matchLabels": {"app": of(&name)}});
            set["spec"]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": SHOP}});
            set["spec"]["containers"][0]["image"] = format!("{name}:{tag}").into();
            set["spec"]["updateStrategy"] = json!({"maxUnavailable": "100%"});
            set
        })
        .collect()
}

/// The order of the steps in docs/support.md is that in which the test updates.
#[test]
fn the_order_of_the_page_is_the_one_that_is_tested() {
    let page = fs::read_to_string(workspace().join("docs/support.md")).unwrap();
    let order = page.split("Apply in this order:").nth(1).expect("the order");
    let steps: Vec<&str> = order
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .take_while(|line| !line.trim().is_empty())
        .map(|line| {
            line.trim().trim_start_matches(|character: char| character.is_ascii_digit()).trim_start_matches(". ")
        })
        .collect();
    assert_eq!(steps.len(), Part::ALL.len() + 1, "{steps:#?}");
    for (step, part) in steps.iter().zip(Part::ALL) {
        assert!(step.starts_with(part.step()), "{step:?} is not the step of {part:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_part_by_part_and_back_changes_nothing_that_runs() {
    let Some(other) = Version::other() else { return };
    let this = Version::this();
    let cluster = pages::cluster().await;
    let mut installation = MixedInstallation::with(&cluster, &[&other, &this], &other).await;

    for part in Part::ALL {
        installation.step(part, &this).await;
    }
    // A new image reaches the Pods that the other version has injected.
    installation.apply_sets("2").await;
    installation.until_sets(IN_BUNDLE).await;
    installation.until_sets(COMPLETE).await;
    for (app, sets) in APPS {
        for form in forms(&installation.client, SHOP, app).await {
            for set in sets {
                let mut containers = form["spec"]["containers"].as_array().unwrap().iter();
                let container = containers.find(|container| container["name"] == *set).unwrap();
                assert_eq!(container["image"], format!("{set}:2"), "{app}");
            }
        }
    }
    installation.apply_sets("1").await;
    installation.until_sets(IN_BUNDLE).await;
    installation.until_sets(COMPLETE).await;

    // The way back, in the reverse order; the newer definition stays.
    installation.step(Part::Controllers, &other).await;
    installation.step(Part::Server, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_reads_what_newer_controllers_write() {
    let Some(other) = Version::other() else { return };
    let this = Version::this();
    let cluster = pages::cluster().await;
    let mut installation = MixedInstallation::with(&cluster, &[&other, &this], &other).await;
    installation.step(Part::DefinitionAndRoles, &this).await;
    // Not the order of the page: a server that was forgotten.
    installation.step(Part::Controllers, &this).await;
    installation.apply_sets("2").await;
    installation.until_sets(IN_BUNDLE).await;
    installation.until_sets(COMPLETE).await;
    installation.scale("an edited SidecarSet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_two_versions_take_turns() {
    let Some(other) = Version::other() else { return };
    let this = Version::this();
    let cluster = pages::cluster().await;
    let mut installation = MixedInstallation::with(&cluster, &[&other, &this], &other).await;
    installation.step(Part::DefinitionAndRoles, &this).await;
    let before = installation.world().await;
    let leases: Api<Lease> = Api::namespaced(installation.client.clone(), SYSTEM);
    let holder = async || leases.get("pillion-controller").await.ok()?.spec?.holder_identity;
    let first = holder().await.unwrap();

    let health = free_port().unwrap();
    let flags = [format!("--health-listen=127.0.0.1:{health}")];
    let controller = (SYSTEM, "pillion-controller");
    installation.node.beside(Box::pin(deployments::start(&cluster, &this.program, controller, "second", &flags))).await;
    let waits = async || get(health, "/readyz").await.filter(|answer| answer.starts_with("HTTP/1.1 200"));
    installation.node.beside(until("the second replica being ready", LONG, waits)).await.unwrap();
    installation.node.beside(sleep(QUIET)).await;
    assert_eq!(holder().await.as_deref(), Some(first.as_str()), "{}", cluster.log("second"));

    cluster.stop_program("pillion-controller", 10).await.unwrap();
    let takes_over = async || holder().await.filter(|now| *now != first && now.starts_with("second"));
    installation.node.beside(until("the second replica holding the Lease", LONG, takes_over)).await.unwrap();
    installation.node.beside(sleep(QUIET)).await;
    assert_same(&before, &installation.world().await, "another replica");
    installation.scale("another replica").await;
}
