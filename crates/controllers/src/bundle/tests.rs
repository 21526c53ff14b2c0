use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use pillion_admission::settings::Settings;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_plan::Subresource;
use pillion_plan::condition::reference;
use pillion_runtime::context::Clock;
use pillion_simulation::{Simulation, Situation, Write};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;

const NOW: i64 = 1_800_000_000;

/// The controller in a cluster with one SidecarSet.
struct Running {
    simulation: Simulation,
    is_cached: bool,
    controller: BundleKeeper,
    state: BundleKeeperState,
    now: Arc<AtomicI64>,
}

impl Running {
    async fn new(is_cached: bool) -> Self {
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": "logs", "uid": "u", "resourceVersion": "7", "generation": 2},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "agent:1"}]},
        });
        let situation = Situation { manifests: vec![set], namespace: "default".to_owned(), ..Situation::default() };
        let simulation = Simulation::new(&situation, None, || Timestamp(NOW)).await.expect("a simulation");
        let now = Arc::new(AtomicI64::new(NOW));
        let controller = started(&simulation, is_cached, &now).await;
        Self { simulation, is_cached, controller, state: BundleKeeperState::default(), now }
    }

    /// Reconciles after some seconds. Returns what was written: `bundle`, and the status of the condition `InBundle` with
    /// its generation.
    async fn after(&mut self, seconds: i64) -> Vec<String> {
        self.now.fetch_add(seconds, Relaxed);
        self.controller.reconcile(&Whole, &mut self.state).await.expect("it is reconciled");
        self.simulation.take_writes().iter().filter_map(shown).collect()
    }

    /// Another process takes the place of this one.
    async fn restart(&mut self) {
        self.controller = started(&self.simulation, self.is_cached, &self.now).await;
        self.state = BundleKeeperState::default();
    }

    /// Changes the image as its author does.
    async fn set_image(&self, image: &str) {
        self.edit(json!({"containers": [{"name": "agent", "image": image}]})).await;
    }

    /// Writes a field of the status, as the controller of rollouts does.
    async fn set_status(&self, field: &str, value: Value) {
        let stored = self.controller.context.store.sidecar_sets().get("", "logs").expect("the SidecarSet");
        let operations = vec![json!({"op": "add", "path": format!("/status/{field}"), "value": value})];
        let (object, subresource) = (reference(&stored.0), Some(Subresource::Status));
        let step = Step::JsonPatch { object, subresource, operations };
        self.controller.effects.carry_out(&step, "a status").await.expect("it is written");
        self.simulation.take_writes();
    }

    async fn edit(&self, spec: Value) {
        let stored = self.controller.context.store.sidecar_sets().get("", "logs").expect("the SidecarSet");
        let patch = json!({"spec": spec});
        let uid = json::text(&stored.0, &["metadata", "uid"]).to_owned();
        let step = Step::Patch { object: reference(&stored.0), uid, resource_version: None, patch };
        self.controller.effects.carry_out(&step, "an edit").await.expect("it is edited");
        self.simulation.take_writes();
    }
}

async fn started(simulation: &Simulation, is_cached: bool, now: &Arc<AtomicI64>) -> BundleKeeper {
    let settings = json!({"bundleRef": {"namespace": "pillion-system", "name": "sets"}, "bundleCache": is_cached});
    let settings = Arc::new(Settings::decode(settings).expect("settings"));
    let seconds = Arc::clone(now);
    let context = Context {
        clock: Clock::new(move || Timestamp(seconds.load(Relaxed))),
        ..Context::new(simulation.client(), watch::channel(settings).1)
    };
    BundleKeeper::start(context, Options::default(), Wakes::new().0).await
}

fn shown(write: &Write) -> Option<String> {
    match write.object.kind {
        "ConfigMap" => Some("bundle".to_owned()),
        "SidecarSet" => {
            let after = write.after.as_deref()?;
            let mut conditions = json::items(after, &["status", "conditions"]).iter();
            let said = conditions.find(|condition| json::text(condition, &["type"]) == planning::CONDITION)?;
            let of = json::at(said, &["observedGeneration"]).map(Value::to_string).unwrap_or_default();
            Some(format!("{} of generation {of}", json::text(said, &["status"])))
        }
        _ => None,
    }
}

/// Returns the status and the reason of the condition `KubernetesTooOld` in each write of a SidecarSet.
fn too_old(writes: &[Write]) -> Vec<String> {
    let of = |write: &Write| {
        let after = write.after.as_deref().filter(|_| write.object.kind == "SidecarSet")?;
        let mut conditions = json::items(after, &["status", "conditions"]).iter();
        let said = conditions.find(|condition| json::text(condition, &["type"]) == planning::KUBERNETES_TOO_OLD)?;
        Some(format!("{} {}", json::text(said, &["status"]), json::text(said, &["reason"])))
    };
    writes.iter().filter_map(of).collect()
}

#[tokio::test]
async fn field5_a_condition_says_once_what_the_cluster_is_too_old_for() {
    let mut running = Running::new(false).await;
    running.state.versions = VersionReports::with_version(KubernetesVersion(33), Timestamp(NOW + 1_000_000));
    let mut pass = async |spec: Value| {
        running.edit(spec).await;
        running.controller.reconcile(&Whole, &mut running.state).await.expect("it is reconciled");
        too_old(&running.simulation.take_writes()).pop().unwrap_or_default()
    };
    let containers = |more: Value| {
        let mut agent = json!({"name": "agent", "image": "agent:1"});
        json_patch::merge(&mut agent, &more);
        json!({"containers": [agent]})
    };
    assert_eq!(pass(containers(json!({"tty": true}))).await, "");
    assert_eq!(pass(containers(json!({"restartPolicyRules": []}))).await, "True KubernetesTooOld");
    assert_eq!(pass(containers(json!({"restartPolicyRules": null}))).await, "False NewEnough");
}

#[tokio::test]
async fn field5_nothing_is_said_while_the_version_is_not_known() {
    let mut running = Running::new(false).await;
    running.edit(json!({"containers": [{"name": "agent", "image": "agent:1", "restartPolicyRules": []}]})).await;
    running.controller.reconcile(&Whole, &mut running.state).await.expect("it is reconciled");
    assert_eq!(too_old(&running.simulation.take_writes()), [""; 0]);
}

#[tokio::test]
async fn a_sidecar_set_is_said_to_be_in_the_bundle_at_once_where_policies_read_it_for_each_request() {
    let mut running = Running::new(false).await;
    assert_eq!(running.after(0).await, ["bundle", "bundle", "True of generation 2"]);
}

#[tokio::test]
async fn host10_a_sidecar_set_is_said_to_be_in_the_bundle_when_no_policy_server_has_a_former_one() {
    let mut running = Running::new(true).await;
    assert_eq!(running.after(0).await, ["bundle", "bundle"]);
    assert_eq!(running.after(3).await, [""; 0]);
    assert_eq!(running.after(4).await, ["True of generation 2"]);

    running.set_image("agent:2").await;
    assert_eq!(running.after(0).await, ["bundle"]);
    assert_eq!(running.after(6).await, [""; 0]);
    assert_eq!(running.after(1).await, ["True of generation 3"]);

    // The hash does not have the selector.
    running.edit(json!({"selector": {"matchLabels": {"app": "shop"}}})).await;
    assert_eq!(running.after(0).await, ["bundle"]);
    assert_eq!(running.after(6).await, [""; 0]);
    assert_eq!(running.after(1).await, ["True of generation 4"]);
}

#[rstest]
#[case::before_it_was_said(1, &[""; 0], &["True of generation 2"])]
#[case::after_it_was_said(7, &[""; 0], &[""; 0])]
#[tokio::test]
async fn host10_a_process_that_starts_anew_waits_for_what_nobody_has_said(
    #[case] seconds: i64,
    #[case] at_once: &[&str],
    #[case] then: &[&str],
) {
    let mut running = Running::new(true).await;
    running.after(0).await;
    running.after(seconds).await;
    running.restart().await;
    assert_eq!(running.after(0).await, at_once);
    assert_eq!(running.after(7).await, then);
}

#[tokio::test]
async fn host10_a_sidecar_set_that_is_not_valid_is_reported_at_once() {
    let mut running = Running::new(true).await;
    running.after(0).await;
    running.after(7).await;
    running.set_image("").await;
    assert_eq!(running.after(0).await, ["False of generation 3"]);
}

/// A Pod records the revision with which it was injected (INJ-6): the controller of rollouts names it after the SidecarSet
/// was compiled.
#[tokio::test]
async fn inj6_a_revision_that_is_named_later_gets_into_the_bundle() {
    let mut running = Running::new(false).await;
    running.after(0).await;
    running.after(1).await;
    running.set_status("latestRevision", json!("logs-1")).await;
    assert_eq!(running.after(0).await, ["bundle"]);
    running.set_status("matchedPods", json!(3)).await;
    assert_eq!(running.after(0).await, [""; 0]);
}

/// Thousands of SidecarSets may change one after the other.
#[tokio::test(start_paused = true)]
async fn after_a_long_plan_the_next_one_waits() {
    let mut state = BundleKeeperState::default();
    assert_eq!(state.rest(), None);
    state.planned(LONG_PLAN / 2);
    assert_eq!(state.rest(), None, "a short plan");
    state.planned(Duration::from_secs(1));
    assert_eq!(state.rest(), Some(Duration::from_secs(4)));
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(state.rest(), Some(Duration::from_secs(1)));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(state.rest(), None);
}
