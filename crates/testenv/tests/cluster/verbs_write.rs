//! The commands that change a SidecarSet, on a real API server, while the controller rolls out and kwok runs the Pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use pillion_testenv::until;
use serde_json::{Value, json};

use crate::rollout::{NEW, OLD, RolloutNamespace, cluster};
use crate::support::is_ready;
use crate::support::{SOON, create, program};

fn unedited(_: usize, _: &mut Value) {}

/// The command, for the administrator of the cluster.
async fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).arg("--kubeconfig").arg(cluster().await.admin_kubeconfig_file());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command. Returns its exit code and its output.
async fn run(args: &[&str]) -> (i32, String, String) {
    said(command(args).await.output().unwrap())
}

fn said(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_undone_and_done_again() {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({}))], 2, unedited).await;
    place.ended("agent", "Complete").await;
    place.release("agent", NEW).await;
    place.ended("agent", "Complete").await;
    let name = place.set_name("agent");
    let before = place.stored("agent").await;

    for (dry, end) in [("client", "(dry run)"), ("server", "(server dry run)")] {
        let (code, out, err) = run(&["rollout", "undo", &name, "--dry-run", dry]).await;
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(
            out.contains(&format!("\n-    image: {NEW}\n")) && out.contains(&format!("\n+    image: {OLD}\n")),
            "{out}"
        );
        assert!(out.ends_with(&format!("sidecarset.apps.kruise.io/{name} rolled back {end}\n")), "{out}");
    }
    assert_eq!(place.stored("agent").await["spec"], before["spec"], "a dry run stores nothing");

    let kubeconfig = cluster().await.folder().join(format!("{}.jane", place.name));
    fs::write(&kubeconfig, cluster().await.as_user("jane", None).unwrap().kubeconfig()).unwrap();
    let mut as_jane = Command::new(program());
    as_jane.args(["rollout", "undo", &name, "--kubeconfig"]).arg(&kubeconfig);
    let (code, _, err) = said(as_jane.output().unwrap());
    assert!(code == 2 && err.contains("the verb \"get\" on sidecarsets.apps.kruise.io"), "{err}");

    let (code, out, err) = run(&["rollout", "undo", &name]).await;
    assert_eq!((code, out), (0, format!("sidecarset.apps.kruise.io/{name} rolled back\n")), "{err}");
    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [OLD, OLD]);
    let after = place.stored("agent").await;
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["manager"] == "kubectl-pillion"), "{managers:?}");

    // Undoing the undo brings the new image back; then the first revision has the number 3.
    assert_eq!(run(&["rollout", "undo", &name]).await.0, 0);
    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [NEW, NEW]);
    let (code, _, err) = run(&["rollout", "undo", &name, "--to-revision=1"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("has no revision 1; it has 3, 4"), "{err}");
    assert_eq!(run(&["rollout", "undo", &name, "--to-revision=3"]).await.0, 0);
    place.ended("agent", "Complete").await;
    assert_eq!(place.images("agent").await, [OLD, OLD]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_paused_and_resumed() {
    let place = RolloutNamespace::new().await;
    place.fill(&[place.set("agent", &json!({}))], 6, unedited).await;
    place.ended("agent", "Complete").await;
    let name = place.set_name("agent");
    place.release("agent", NEW).await;
    place.upgraded(1).await;
    let (code, out, err) = run(&["rollout", "pause", &name]).await;
    assert_eq!((code, out), (0, format!("sidecarset.apps.kruise.io/{name} paused\n")), "{err}");
    place.ended("agent", "Paused").await;
    let upgraded = place.all_upgrades().await.len();
    assert!((1..6).contains(&upgraded), "{upgraded}");
    assert_eq!(run(&["rollout", "pause", &name]).await.1, format!("sidecarset.apps.kruise.io/{name} already paused\n"));

    assert_eq!(run(&["rollout", "resume", &name, "--dry-run=server"]).await.0, 0);
    place.ended("agent", "Paused").await;
    assert_eq!(run(&["rollout", "resume", &name]).await.0, 0);
    place.ended("agent", "Complete").await;
    assert_eq!(place.all_upgrades().await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_a_rollout_are_set() {
    let place = RolloutNamespace::new().await;
    let strategy = json!({"partition": "100%"});
    place.fill(&[place.set("agent", &json!({"updateStrategy": strategy}))], 4, unedited).await;
    let name = place.set_name("agent");
    place.release("agent", NEW).await;
    place.ended("agent", "PartitionReached").await;

    let (code, out, err) = run(&["set", "max-unavailable", &name, "2"]).await;
    assert_eq!((code, out), (0, format!("sidecarset.apps.kruise.io/{name} max-unavailable updated\n")), "{err}");
    let (code, out, err) = run(&["set", "partition", &name, "50%"]).await;
    assert_eq!((code, out), (0, format!("sidecarset.apps.kruise.io/{name} partition updated\n")), "{err}");
    let stored = place.ended("agent", "PartitionReached").await;
    assert_eq!(stored["status"]["updatedPods"], 2);
    assert_eq!(run(&["set", "partition", &name, "0"]).await.0, 0);
    place.ended("agent", "Complete").await;
    let strategy = &place.stored("agent").await["spec"]["updateStrategy"];
    assert_eq!((&strategy["partition"], &strategy["maxUnavailable"]), (&json!(0), &json!(2)));
}

/// A Deployment with Pods that have the sidecar, and what happened to these Pods.
struct Shop {
    place: RolloutNamespace,
    replicas: usize,
}

impl Shop {
    async fn open(replicas: usize) -> Self {
        let place = RolloutNamespace::new().await;
        let set = place.set("agent", &json!({}));
        place.fill(std::slice::from_ref(&set), 0, unedited).await;
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": place.name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
                },
            },
        });
        let injected = place.injected(&[set], &[deployment]);
        create(&Api::<Deployment>::namespaced(place.client.clone(), &place.name), &injected[0]).await.unwrap();
        let shop = Self { place, replicas };
        shop.wait_until_ready().await;
        // The times of objects have seconds: what happens from now on has a later one.
        let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let ready = second();
        until("another second", SOON, async || (second() > ready).then_some(())).await.unwrap();
        shop
    }

    async fn wait_until_ready(&self) {
        let ready = async || {
            let pods = self.pods().await;
            let ready = pods.iter().filter(|pod| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null());
            (ready.count() == self.replicas).then_some(())
        };
        until("the Pods being ready", SOON, ready).await.unwrap();
    }

    async fn pods(&self) -> Vec<Value> {
        let pods: Vec<Pod> = self.place.pods().list(&ListParams::default()).await.unwrap().items;
        pods.into_iter().map(|pod| json!(pod)).collect()
    }

    async fn names(&self) -> BTreeSet<String> {
        self.pods().await.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn restart(&self, more: &[&str]) -> Child {
        let name = self.place.set_name("agent");
        command(&[&["rollout", "restart", &name], more].concat()).await.spawn().unwrap()
    }

    /// Sets `spec.maxUnavailable` of a PodDisruptionBudget for all Pods.
    async fn budget(&self, most: usize) {
        let budgets = Api::<PodDisruptionBudget>::namespaced(self.place.client.clone(), &self.place.name);
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}},
        });
        budgets.patch("web", &PatchParams::apply("test").force(), &Patch::Apply(&budget)).await.unwrap();
        let known = async || {
            let stored = json!(budgets.get("web").await.unwrap());
            let is_seen = stored["status"]["observedGeneration"] == stored["metadata"]["generation"];
            (is_seen && stored["status"]["currentHealthy"] == self.replicas).then_some(())
        };
        until("the budget being known", SOON, known).await.unwrap();
    }

    /// Returns the evicted Pods in their order, and the least number of available Pods since the first eviction.
    async fn history(&self) -> (Vec<String>, usize) {
        let mut events: Vec<Value> = cluster().await.audit_log();
        events.retain(|event| {
            let is_stored = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
            event["objectRef"]["namespace"] == self.place.name.as_str() && is_stored
        });
        events.sort_by_key(|event| event["stageTimestamp"].as_str().unwrap().to_owned());
        let (mut ready, mut evicted, mut least) = (BTreeMap::new(), Vec::new(), usize::MAX);
        for event in events {
            let pod = &event["responseObject"];
            let name = event["objectRef"]["name"].as_str().or(pod["metadata"]["name"].as_str()).unwrap().to_owned();
            if event["objectRef"]["subresource"] == "eviction" {
                evicted.push(name);
            } else if event["verb"] == "delete" {
                ready.remove(&name);
            } else if pod["kind"] == "Pod" {
                ready.insert(name, is_ready(pod));
            }
            if !evicted.is_empty() {
                least =
                    least.min(ready.iter().filter(|(name, is_ready)| **is_ready && !evicted.contains(name)).count());
            }
        }
        (evicted, least)
    }
}

/// Reads what a child has said to `stderr` so far, until it says this.
fn until_said(child: &mut Child, expected: &str) -> String {
    use std::io::{BufRead as _, BufReader};
    let mut said = String::new();
    let mut reader = BufReader::new(child.stderr.as_mut().unwrap());
    while !said.contains(expected) {
        assert!(reader.read_line(&mut said).unwrap() > 0, "{said}");
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_restart_waits_for_a_budget_of_0_until_it_is_raised() {
    let shop = Shop::open(4).await;
    let before = shop.names().await;
    shop.budget(0).await;
    let mut child = shop.restart(&["--max-unavailable=2"]).await;
    let said = until_said(&mut child, "PodDisruptionBudget");
    assert!(said.contains("held by a PodDisruptionBudget (pod/web-"), "{said}");
    assert_eq!(shop.history().await.0, [""; 0]);
    assert_eq!(shop.names().await, before);

    shop.budget(1).await;

    let (code, out, err) = said_at_the_end(child);
    assert_eq!(code, 0, "{out}{err}");
    let (evicted, least) = shop.history().await;
    assert_eq!(evicted.iter().cloned().collect::<BTreeSet<_>>(), before);
    assert_eq!((evicted.len(), least), (4, 3), "the budget holds, and each Pod is evicted once: {evicted:?}");
    shop.wait_until_ready().await;
    assert!(shop.names().await.is_disjoint(&before));
}

fn said_at_the_end(child: Child) -> (i32, String, String) {
    said(child.wait_with_output().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_restart_is_interrupted_and_run_again() {
    let shop = Shop::open(8).await;
    let before = shop.names().await;
    let child = shop.restart(&["--max-unavailable=2"]).await;
    let begun = async || (shop.history().await.0.len() >= 3).then_some(());
    until("the first evictions", SOON, begun).await.unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (code, _, err) = said_at_the_end(child);
    assert!(code == 1 && err.contains("of 8 Pods restarted; run the same command again to go on"), "{err}");
    let begun = shop.history().await.0.len();
    assert!((3..8).contains(&begun), "{begun}");

    let (code, out, err) = said_at_the_end(shop.restart(&["--max-unavailable=2"]).await);

    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("going on with the restart that began at"), "{err}");
    let (evicted, least) = shop.history().await;
    assert_eq!(evicted.iter().cloned().collect::<BTreeSet<_>>(), before, "no replacement is evicted");
    assert_eq!(evicted.len(), 8, "each Pod is evicted once: {evicted:?}");
    assert!(least >= 6, "{least} available");
    let stored = shop.place.stored("agent").await;
    assert!(stored["metadata"]["annotations"]["pillion.dev/restarted-at"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn roll66_a_deployment_that_is_scaled_down_meanwhile_does_not_stop_a_restart() {
    let shop = Shop::open(6).await;
    let child = shop.restart(&["--max-unavailable=1"]).await;
    let begun = async || (!shop.history().await.0.is_empty()).then_some(());
    until("the first eviction", SOON, begun).await.unwrap();
    let deployments = Api::<Deployment>::namespaced(shop.place.client.clone(), &shop.place.name);
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let (code, out, err) = said_at_the_end(child);
    assert_eq!(code, 0, "{out}{err}");
    let (evicted, _) = shop.history().await;
    assert_eq!(evicted.iter().collect::<BTreeSet<_>>().len(), evicted.len(), "no Pod twice: {evicted:?}");
    let scaled = async || (shop.names().await.len() == 3).then_some(());
    until("three Pods", SOON, scaled).await.unwrap();
}
