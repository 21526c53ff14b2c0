//! Rollouts that fail, and the way back, on a real API server with Pods that kwok restarts.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use pillion_admission::settings::Settings;
use pillion_bundle::Memo;
use pillion_bundle::source::ConfigMapName;
use pillion_controllers::bundle::{BundleKeeper, Options as BundleOptions};
use pillion_plan::bundle::stored;
use pillion_plan::failure::{FAILED, Failed};
use pillion_runtime::Context;
use pillion_runtime::queue::run;
use pillion_testenv::{Cluster, free_port, until};
use pillion_testkit::metrics::Catalogue;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::rollout::audit::Upgrade;
use crate::rollout::{NEW, OLD, REPLICAS, RolloutNamespace};
use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::{SOON, dynamic, get, program};

const BROKEN: &str = "agent:broken";

fn unedited(_: usize, _: &mut Value) {}

/// A cluster with two replicas of the controller.
struct Stage {
    cluster: &'static Cluster,
    controllers: Controllers<'static>,
    ports: [u16; 2],
}

impl Stage {
    /// Returns the cluster of most tests.
    async fn shared() -> &'static Self {
        static STAGE: OnceCell<Stage> = OnceCell::const_new();
        STAGE.get_or_init(async || Self::start(&json!({}), |_| {}).await).await
    }

    async fn start(settings: &Value, edit: impl Fn(&mut Value)) -> Self {
        let cluster: &'static Cluster = Box::leak(Box::new(crate::rollout::prepare(edit).await));
        let flags = ["--controllers", "sidecarset-rollout"];
        let controllers = Controllers::install(cluster, &program(), settings, &flags).await;
        let ports = [free_port().unwrap(), free_port().unwrap()];
        for (replica, port) in REPLICAS.into_iter().zip(ports) {
            controllers.start(replica, port).await;
        }
        Self { cluster, controllers, ports }
    }

    /// Kills the leader, and starts it again when the other replica leads.
    async fn change_leader(&self, place: &RolloutNamespace) {
        let holder = place.holder().await;
        place.kill(&holder).await;
        let changed = async || (place.holder().await != holder).then_some(());
        until("another leader", SOON, changed).await.unwrap();
        let index = REPLICAS.iter().position(|replica| *replica == holder).unwrap();
        self.controllers.start(REPLICAS[index], self.ports[index]).await;
    }

    /// Returns the lines of the replicas' metrics that are about a SidecarSet and begin with this name.
    async fn metrics(&self, name: &str, set: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for port in self.ports {
            let text = get(port, "/metrics").await.unwrap_or_default();
            if let Some((_, text)) = text.split_once("\r\n\r\n") {
                // Alerts and dashboards ask for metrics that are listed.
                assert_eq!(Catalogue::of_text(text).surprises(&Catalogue::listed("controller")), [""; 0]);
            }
            let about = |line: &&str| line.starts_with(name) && line.contains(&format!("\"{set}\""));
            lines.extend(text.lines().filter(about).map(str::to_owned));
        }
        lines
    }
}

/// Returns a SidecarSet with these annotations, besides a deadline of three seconds.
fn set(place: &RolloutNamespace, annotations: &Value, strategy: &Value) -> Value {
    let mut set = place.set("agent", &json!({"updateStrategy": strategy}));
    set["metadata"]["annotations"] = json!({"pillion.dev/progress-deadline": "3s"});
    json_patch::merge(&mut set["metadata"]["annotations"], annotations);
    set
}

async fn annotate(place: &RolloutNamespace, key: &str, value: &str) {
    let sets: Api<DynamicObject> = dynamic(&place.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    sets.patch(&place.set_name("agent"), &PatchParams::default(), &patch).await.unwrap();
}

fn condition<'a>(stored: &'a Value, type_: &str) -> &'a Value {
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// Returns the revisions of the SidecarSet, ascending.
async fn revisions(place: &RolloutNamespace) -> Vec<ControllerRevision> {
    let revisions: Api<ControllerRevision> = Api::namespaced(place.client.clone(), "kruise-system");
    let of = ListParams::default().labels(&format!("kruise.io/sidecarset-name={}", place.set_name("agent")));
    let mut found = revisions.list(&of).await.unwrap().items;
    found.sort_by_key(|revision| revision.revision);
    found
}

fn record(revision: &ControllerRevision) -> Option<Failed> {
    let text = revision.metadata.annotations.as_ref()?.get(FAILED)?;
    Some(serde_json::from_str(text).unwrap())
}

fn image(revision: &ControllerRevision) -> Value {
    json!(revision.data)["spec"]["containers"][0]["image"].clone()
}

/// Waits until the rollout of the newest revision has failed, at another time than `before`.
async fn failed(place: &RolloutNamespace, before: Option<&str>) -> Failed {
    let failed = async || {
        let found = record(revisions(place).await.last()?)?;
        (Some(found.at.as_str()) != before).then_some(found)
    };
    match until("the rollout failing", SOON, failed).await {
        Ok(failed) => failed,
        Err(error) => panic!("{error}: {:#}\n{}", place.stored("agent").await["status"], place.logs()),
    }
}

async fn events(place: &RolloutNamespace, reason: &str) -> usize {
    let events: Api<Event> = Api::namespaced(place.client.clone(), "default");
    let name = place.set_name("agent");
    let is_it = |event: &&Event| {
        let regarding = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
        regarding == Some(name.as_str()) && event.reason.as_deref() == Some(reason)
    };
    let all = events.list(&ListParams::default()).await.unwrap();
    all.items.iter().filter(is_it).inspect(|event| assert_eq!(event.type_.as_deref(), Some("Warning"))).count()
}

fn most_unavailable(upgrades: &[Upgrade]) -> usize {
    upgrades.iter().map(|upgrade| upgrade.unavailable.len()).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn roll61_a_rollout_without_progress_stops_for_every_leader_until_an_edit() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    place.fill(&[set(&place, &json!({}), &json!({"maxUnavailable": 2}))], 6, unedited).await;
    let complete = place.ended("agent", "Complete").await;
    assert_eq!(condition(&complete, "Progressing")["reason"], "Satisfied");
    place.release("agent", BROKEN).await;

    let stored = place.ended("agent", "ProgressDeadlineExceeded").await;
    let first = failed(&place, None).await;
    assert_eq!(
        (&condition(&stored, "Stalled")["status"], &condition(&stored, "Ready")["status"]),
        (&json!("True"), &json!("False"))
    );
    let progressing = condition(&stored, "Progressing");
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("False"), &json!("ProgressDeadlineExceeded")));
    assert!(progressing["lastTransitionTime"].as_str().unwrap() < first.at.as_str(), "{progressing} {first:?}");
    assert_eq!(place.all_upgrades().await.len(), 2);
    let name = place.set_name("agent");
    let metric = stage.metrics("pillion_controller_rollout_failed", &name).await;
    assert!(metric.iter().any(|line| line.contains("ProgressDeadlineExceeded") && line.ends_with(" 1")), "{metric:?}");
    assert_eq!(events(&place, "ProgressDeadlineExceeded").await, 1);

    // The next leader leaves the Pods alone, too, also if one that was waited for is gone.
    stage.change_leader(&place).await;
    let broken = place.all_upgrades().await[0].pod.clone();
    place.delete_pod(&broken).await;
    annotate(&place, "pillion.dev/restarted-at", "now").await;
    let counted = async || (place.stored("agent").await["status"]["matchedPods"] == 5).then_some(());
    until("the Pod being counted", SOON, counted).await.unwrap();
    let upgrades = place.all_upgrades().await;
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (2, 2), "{upgrades:#?}");
    assert_eq!(failed(&place, None).await, first);
    assert_eq!(events(&place, "ProgressDeadlineExceeded").await, 1, "people were told");

    // An annotation starts it again: one more Pod may be unavailable.
    annotate(&place, "pillion.dev/try", "again").await;
    let second = failed(&place, Some(&first.at)).await;
    assert_eq!(place.all_upgrades().await.len(), 3, "{second:?}");
    place.ended("agent", "ProgressDeadlineExceeded").await;

    place.release("agent", NEW).await;
    let complete = place.ended("agent", "Complete").await;
    assert_eq!(condition(&complete, "Progressing")["status"], "True");
    assert_eq!(place.images("agent").await, [NEW; 5]);
    let gone = async || stage.metrics("pillion_controller_rollout_failed", &name).await.is_empty().then_some(());
    until("the metric being gone", SOON, gone).await.unwrap();
    let broken = revisions(&place).await.into_iter().find(|revision| image(revision) == BROKEN).unwrap();
    assert!(record(&broken).is_some(), "it is not a way back");
}

#[tokio::test(flavor = "multi_thread")]
async fn roll61_an_edit_of_the_strategy_starts_it_again() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    place.fill(&[set(&place, &json!({}), &json!({}))], 3, unedited).await;
    place.release("agent", "agent:silent").await;
    let first = failed(&place, None).await;
    assert_eq!(place.all_upgrades().await.len(), 1);
    place.change("agent", &json!({"updateStrategy": {"maxUnavailable": 2}})).await;
    failed(&place, Some(&first.at)).await;
    assert_eq!(place.all_upgrades().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll61_containers_that_cannot_be_pulled_stop_a_rollout() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    let patient = json!({"pillion.dev/progress-deadline": "10m"});
    place.fill(&[set(&place, &patient, &json!({"maxUnavailable": 2}))], 5, unedited).await;
    place.release("agent", "agent:missing").await;
    place.upgraded(2).await;
    place.ended("agent", "RollingOut").await;
    assert_eq!(place.all_upgrades().await.len(), 2);
    assert_eq!(record(revisions(&place).await.last().unwrap()), None, "as many as maxUnavailable");
    place.change("agent", &json!({"updateStrategy": {"maxUnavailable": 1}})).await;
    let stored = place.ended("agent", "ContainersFail").await;
    let message = condition(&stored, "Stalled")["message"].as_str().unwrap();
    assert!(
        message.contains("2 Pods, and maxUnavailable allows 1") && message.contains("cannot be pulled"),
        "{message}"
    );
    assert_eq!(events(&place, "ContainersFail").await, 1);
    assert_eq!(place.all_upgrades().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll61_a_rollout_that_rests_by_its_strategy_does_not_fail() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    place.fill(&[set(&place, &json!({}), &json!({"partition": 2, "maxUnavailable": 2}))], 4, unedited).await;
    let containers = json!([{"name": "agent", "image": NEW}]);
    place.change("agent", &json!({"updateStrategy": {"paused": true}, "containers": containers})).await;
    place.ended("agent", "Paused").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let paused = place.ended("agent", "Paused").await;
    assert_eq!(condition(&paused, "Progressing")["reason"], "Resting");
    place.change("agent", &json!({"updateStrategy": {"paused": false}})).await;
    place.ended("agent", "PartitionReached").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let reached = place.ended("agent", "PartitionReached").await;
    assert_eq!(condition(&reached, "Progressing")["reason"], "Satisfied");
    place.change("agent", &json!({"updateStrategy": {"partition": 0}})).await;
    place.ended("agent", "Complete").await;
    assert!(revisions(&place).await.iter().all(|revision| record(revision).is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn roll62_pods_go_back_within_their_budget_until_the_hash_changes() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    let rollback = json!({"pillion.dev/rollback": "true"});
    // The partition does not keep Pods on the failed version.
    place.fill(&[set(&place, &rollback, &json!({"maxUnavailable": 2, "partition": 1}))], 6, unedited).await;
    place.ended("agent", "Complete").await;
    place.change("agent", &json!({"revisionHistoryLimit": 1})).await;
    place.release("agent", BROKEN).await;
    let stored = place.ended("agent", "RolledBack").await;
    assert_eq!(place.images("agent").await, [OLD; 6]);
    assert_eq!(condition(&stored, "Stalled")["status"], "True");
    let revisions_now = revisions(&place).await;
    let [one, two] = revisions_now.as_slice() else { panic!("{revisions_now:#?}") };
    assert_eq!([image(one), image(two)], [OLD, BROKEN]);
    assert_eq!((one.revision, two.revision), (1, 2), "REV-5: it gets no other number");
    let [name, failed_name] = [one, two].map(|revision| revision.metadata.name.clone().unwrap());
    assert_eq!(record(two).unwrap().back.as_ref(), Some(&name));
    assert_eq!(stored["status"]["latestRevision"], json!(name));
    assert_eq!(stored["spec"]["containers"][0]["image"], BROKEN, "the spec is the author's");
    let message = condition(&stored, "Stalled")["message"].as_str().unwrap();
    for part in [&failed_name, "ProgressDeadlineExceeded", &format!("\"{name}\" is in force"), "settings.bundleRef"] {
        assert!(message.contains(part), "{message}");
    }
    let upgrades = place.all_upgrades().await;
    let back = upgrades.iter().filter(|upgrade| upgrade.gives(OLD)).count();
    assert_eq!((upgrades.len(), back, most_unavailable(&upgrades)), (4, 2, 2), "{upgrades:#?}");
    assert_eq!(events(&place, "ProgressDeadlineExceeded").await, 1);

    // Another leader, and an edit that leaves the hash, change nothing.
    stage.change_leader(&place).await;
    place.change("agent", &json!({"updateStrategy": {"maxUnavailable": 3}})).await;
    place.ended("agent", "RolledBack").await;
    assert_eq!(place.all_upgrades().await.len(), 4);

    place.change("agent", &json!({"updateStrategy": {"partition": 0}})).await;
    place.release("agent", NEW).await;
    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [NEW; 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll62_if_the_version_before_fails_as_well_nothing_more_happens() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    let rollback = json!({"pillion.dev/rollback": "true"});
    place.fill(&[set(&place, &rollback, &json!({"maxUnavailable": 2}))], 4, unedited).await;
    place.ended("agent", "Complete").await;
    for pod in 0..4 {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"testenv.pillion.dev/ready-after": "1h"}}}));
        place.pods().patch(&format!("web-{pod}"), &PatchParams::default(), &patch).await.unwrap();
    }
    place.release("agent", BROKEN).await;
    let stored = place.ended("agent", "ProgressDeadlineExceeded").await;
    let message = condition(&stored, "Stalled")["message"].as_str().unwrap();
    assert!(message.contains("failed as well"), "{message}");
    assert_eq!(place.images("agent").await, [OLD; 4]);
    let upgrades = place.all_upgrades().await;
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (4, 2), "{upgrades:#?}");
    let all = revisions(&place).await;
    assert_eq!(all.iter().map(|revision| record(revision).is_some()).collect::<Vec<_>>(), [true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn roll62_without_an_earlier_revision_the_rollout_just_stops() {
    let stage = Stage::shared().await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    let rollback = json!({"pillion.dev/rollback": "true"});
    // The first version that the controller sees is not the one of the Pods.
    let old = set(&place, &rollback, &json!({}));
    let mut new = old.clone();
    new["spec"]["containers"][0]["image"] = json!(BROKEN);
    let sets: Api<DynamicObject> = dynamic(&place.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    // Paused until all Pods are ready: an upgrade of a Pod that is not ready costs no budget.
    new["spec"]["updateStrategy"]["paused"] = json!(true);
    crate::support::create(&sets, &new).await.unwrap();
    place.fill_for(&[old], 2, unedited).await;
    place.change("agent", &json!({"updateStrategy": {"paused": false}})).await;
    let stored = place.ended("agent", "ProgressDeadlineExceeded").await;
    let message = condition(&stored, "Stalled")["message"].as_str().unwrap();
    assert!(message.contains("there is no earlier revision to go back to"), "{message}");
    assert_eq!(place.all_upgrades().await.len(), 1);
}

/// Returns the image of the SidecarSet in the bundle.
async fn bundled(place: &RolloutNamespace, at: &ConfigMapName) -> Option<Value> {
    let maps: Api<ConfigMap> = Api::namespaced(place.client.clone(), &at.namespace);
    let maps = maps.list(&ListParams::default()).await.unwrap().items;
    let maps: Vec<Arc<Value>> = maps.into_iter().map(|map| Arc::new(serde_json::to_value(map).unwrap())).collect();
    let sets = stored(at, &maps, &Memo::default());
    let set = sets.into_iter().find(|set| set.name() == place.set_name("agent"))?;
    Some(set.containers()[0]["image"].clone())
}

/// Here the API server drops conditions, and the policy reads a bundle.
#[tokio::test(flavor = "multi_thread")]
async fn roll61_roll62_new_pods_get_the_version_in_force_also_where_conditions_are_dropped() {
    let at = ConfigMapName { namespace: NAMESPACE.to_owned(), name: "sidecarsets".to_owned() };
    let settings = json!({
        "bundleRef": {"namespace": at.namespace, "name": at.name}, "patchPodMetadataWhitelist": {"rules": []},
    });
    let stage = Stage::start(&settings, |definition| {
        for version in definition["spec"]["versions"].as_array_mut().unwrap() {
            let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status").unwrap();
            status["properties"].as_object_mut().unwrap().remove("conditions").unwrap();
            status.as_object_mut().unwrap().remove("x-kubernetes-preserve-unknown-fields");
        }
    })
    .await;
    let place = RolloutNamespace::in_cluster(stage.cluster).await;
    let (_sender, receiver) = tokio::sync::watch::channel(Arc::new(Settings::decode(settings).unwrap()));
    let keeper =
        tokio::spawn(run::<BundleKeeper>(Context::new(place.client.clone(), receiver), BundleOptions::default()));
    let rollback = json!({"pillion.dev/rollback": "true"});
    place.fill(&[set(&place, &rollback, &json!({"maxUnavailable": 2}))], 4, unedited).await;
    let in_bundle = async |image: &str| {
        let has_it = async || (bundled(&place, &at).await == Some(json!(image))).then_some(());
        until(&format!("the bundle having {image}"), SOON, has_it).await.unwrap();
    };
    in_bundle(OLD).await;
    let stored = async || !revisions(&place).await.is_empty();
    until("the first revision", SOON, async || stored().await.then_some(())).await.unwrap();
    place.release("agent", BROKEN).await;
    in_bundle(BROKEN).await;

    failed(&place, None).await;
    in_bundle(OLD).await;
    let back = async || (place.images("agent").await == [OLD; 4]).then_some(());
    until("the Pods being back", SOON, back).await.unwrap();
    assert_eq!(place.stored("agent").await["status"].get("conditions"), None);
    let upgrades = place.all_upgrades().await;
    assert_eq!((upgrades.len(), most_unavailable(&upgrades)), (4, 2), "{upgrades:#?}");
    let logs = place.logs();
    assert_eq!(
        logs.matches("the definition of SidecarSets keeps no conditions, so the progress deadline").count(),
        1,
        "{logs}"
    );

    // The record survives the leader.
    stage.change_leader(&place).await;
    assert_eq!(place.all_upgrades().await.len(), 4);
    assert_eq!(bundled(&place, &at).await, Some(json!(OLD)));

    place.release("agent", NEW).await;
    in_bundle(NEW).await;
    let all = async || (place.images("agent").await == [NEW; 4]).then_some(());
    until("the Pods being updated", SOON, all).await.unwrap();
    keeper.abort();
}
