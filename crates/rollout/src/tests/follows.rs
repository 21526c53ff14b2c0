//! Sidecars that follow the cpu and memory of the app (ROLL-70).

use std::collections::BTreeMap;

use pillion_kubernetes::outcome::Reason;
use pillion_plan::{Step, Subresource};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::upgrades::Upgrades;
use rstest::rstest;
use serde_json::{Value, json};

use super::{HASH, NOW, RESIZE, after, merge, pod, read, report_containers, revision, sidecar_set};
use crate::consistency::Judged;
use crate::counts::Counts;
use crate::decide::{Decision, Next, decide};
use crate::follow::{Follow, Following, follows, plan, refuse};
use crate::history::Revision;
use crate::method::Obstacle;
use crate::observed::{BundleState, Observed};
use crate::pod::Pod;
use crate::pod::resize::{Asked, STATE};
use crate::round::{Rest, Round};
use crate::target::RolloutTarget;
use crate::upgrade::upgrade;

const MANAGER: &str = "pillion-controller";

/// Returns a version whose sidecar gets this share of the app's cpu.
fn version(image: &str, share: &str, strategy: &Value) -> SidecarSet {
    let policy = json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": "^main$",
        "resourcesExpr": {"limits": {"cpu": share}, "requests": {"cpu": share}},
    });
    sidecar_set(&json!({"image": image, "resourcesPolicy": policy}), strategy)
}

fn half(strategy: &Value) -> SidecarSet {
    version("agent:v1", "cpu*50%", strategy)
}

fn cpu(amount: &str) -> Value {
    json!({"limits": {"cpu": amount}, "requests": {"cpu": amount}})
}

/// Returns a Pod `web-<number>` with a version: the app has 4 CPUs, the sidecar has 2.
fn running(set: &SidecarSet, number: usize) -> Value {
    let record = json!({"logs": {"hash": set.hash(), "sidecarSetName": "logs", "sidecarList": ["agent"]}});
    let image = &set.as_value()["spec"]["containers"][0]["image"];
    let agent = json!({
        "name": "agent", "image": image, "resources": cpu("2"), "env": [{"name": "IS_INJECTED", "value": "true"}],
    });
    let main = json!({"name": "main", "image": "app:1", "resources": cpu("4")});
    let changes = [
        ("/metadata/annotations/kruise.io~1sidecarset-hash", json!(record.to_string())),
        ("/spec/containers", json!([agent, main])),
    ];
    let mut pod = pod(set, &changes);
    merge(&mut pod["metadata"], &json!({"name": format!("web-{number}"), "uid": format!("p{number}")}));
    kubelet(&mut pod);
    pod
}

/// Carries out what the spec of a Pod asks for.
fn kubelet(pod: &mut Value) {
    report_containers(pod);
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
}

/// Gives the app of a Pod this much cpu, as the kubelet has carried it out.
fn resize_app(pod: &mut Value, amount: &str) {
    pod["spec"]["containers"][1]["resources"] = cpu(amount);
    pod["status"]["containerStatuses"][1]["resources"] = cpu(amount);
}

fn annotate(pod: &mut Value, key: &str, value: &str) {
    pod["metadata"]["annotations"][key] = json!(value);
}

fn pending(pod: &mut Value, reason: &str) {
    let condition = json!({"type": "PodResizePending", "status": "True", "reason": reason, "message": "no room"});
    pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
}

/// A SidecarSet and its stored versions.
struct Scene<'a> {
    set: &'a SidecarSet,
    revisions: Vec<Revision>,
    upgrades: Upgrades,
    asked: BTreeMap<String, Asked>,
}

impl<'a> Scene<'a> {
    fn new(set: &'a SidecarSet, known: &[&SidecarSet]) -> Self {
        let revisions = known.iter().zip(1..).map(|(set, number)| revision(set, number, &json!({}))).collect();
        Self { set, revisions, upgrades: RESIZE, asked: BTreeMap::new() }
    }

    fn target(&self) -> RolloutTarget<'_> {
        RolloutTarget::new(self.set, self.set).with_upgrades((self.upgrades, vec![]), &self.revisions)
    }

    fn decided(&self, pods: &[Value]) -> Decision {
        let pods: Vec<Pod> = pods.iter().map(read).collect();
        let pods: Vec<&Pod> = pods.iter().collect();
        let revisions: Vec<&Revision> = self.revisions.iter().collect();
        decide(&Observed {
            resource: self.set,
            object: self.set.as_value(),
            target: &self.target(),
            pods: &pods,
            members: pods.len(),
            reshaped: 0,
            bundle: BundleState::Current,
            asked: &self.asked,
            uncertain: &BTreeMap::default(),
            held: &[],
            revision: revisions.last().unwrap(),
            revisions: &revisions,
            rollback: None,
            clock: None,
            now: NOW,
        })
    }

    fn following(&self, pods: &[Value]) -> Following {
        let Next::Report(report) = self.decided(pods).next else { panic!("no report") };
        report.following
    }

    fn due(&self, pods: &[Value]) -> Vec<usize> {
        self.following(pods).due
    }

    fn plan(&self, pod: &Value) -> Option<(Asked, Result<Follow, Vec<Reason>>)> {
        plan(&self.target(), pod, MANAGER)
    }

    /// Does what the controller does with a Pod that is due, if the API server agrees.
    fn act(&self, pod: &mut Value) {
        let Some((_, Ok(Follow { forget, resize: Some(resize) }))) = self.plan(pod) else { panic!("no resize") };
        for step in forget.iter().chain([&resize]) {
            *pod = after(pod, step);
        }
    }
}

fn agent(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]
}

#[test]
fn roll70_a_sidecar_follows_an_app_that_is_resized_and_stays_updated() {
    let set = half(&json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    assert!(follows(&scene.target()));
    assert_eq!(scene.following(&[pod.clone()]), Following::default(), "its expression holds");

    resize_app(&mut pod, "1");
    let decision = scene.decided(&[pod.clone()]);
    assert!(decision.judged[0].is_updated);
    let Next::Report(report) = decision.next else { panic!() };
    assert_eq!((report.following.due, report.round), (vec![0], Round::Rest(Rest::Done)));
    assert_eq!(report.progress.reason, "Complete");
    let before = pod["metadata"].clone();
    let Some((_, Ok(Follow { forget: None, resize: Some(resize) }))) = scene.plan(&pod) else { panic!() };
    assert!(matches!(resize, Step::JsonPatch { subresource: Some(Subresource::Resize), .. }));
    pod = after(&pod, &resize);
    assert_eq!((agent(&pod), &pod["metadata"]), (&cpu("500m"), &before), "no record changes");
    assert_eq!(scene.due(&[pod.clone()]), [0; 0], "it has the amounts, whatever the kubelet does");
    assert_eq!(Counts::count(&[Judged::judge(&scene.target(), &read(&pod))]).updated, 1);
    kubelet(&mut pod);
    assert_eq!(scene.following(&[pod]), Following::default());
}

#[rstest]
#[case::not_asked_for(false, json!({}), None)]
#[case::paused(true, json!({"paused": true}), None)]
#[case::not_update(true, json!({"type": "NotUpdate"}), None)]
#[case::unreadable(true, json!({"maxUnavailable": "many"}), None)]
#[case::the_partition_keeps_no_pod(true, json!({"partition": "100%"}), Some(0))]
#[case::the_selector_keeps_no_pod(true, json!({"selector": {"matchLabels": {"a": "b"}}}), Some(0))]
#[case::nothing_may_be_unavailable(true, json!({"maxUnavailable": 0}), Some(0))]
fn roll70_what_stops_a_rollout_stops_it(
    #[case] resize: bool,
    #[case] strategy: Value,
    #[case] expected: Option<usize>,
) {
    let set = half(&strategy);
    let mut scene = Scene::new(&set, &[&set]);
    scene.upgrades.resize = resize;
    let mut pod = running(&set, 0);
    resize_app(&mut pod, "1");
    assert_eq!(scene.due(&[pod]), Vec::from_iter(expected));
}

#[rstest]
#[case::it_ends(&|pod: &mut Value| pod["status"]["phase"] = json!("Succeeded"))]
#[case::it_is_deleted(&|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z"))]
#[case::it_does_not_run(&|pod: &mut Value| pod["status"]["phase"] = json!("Pending"))]
#[case::its_app_is_resized_now(&|pod: &mut Value| pod["status"]["containerStatuses"][1]["resources"] = cpu("4"))]
#[case::its_version_is_not_stored(&|pod: &mut Value| annotate(pod, HASH, r#"{"logs":{"hash":"other"}}"#))]
#[case::its_own_resize_has_begun(&|pod: &mut Value| annotate(pod, STATE, r#"{"logs":{"hash":"new"}}"#))]
#[case::an_autoscaler_sizes_the_sidecar(&|pod: &mut Value| {
    annotate(pod, "vpaObservedContainers", "agent, main");
    annotate(pod, "vpaUpdates", "Pod resources updated by web: container 0: cpu request");
})]
fn roll70_a_pod_does_not_follow_if(#[case] change: &dyn Fn(&mut Value)) {
    let set = half(&json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    resize_app(&mut pod, "1");
    change(&mut pod);
    assert_eq!(scene.due(&[pod.clone()]), [0; 0]);
    assert!(!matches!(scene.plan(&pod), Some((_, Ok(Follow { resize: Some(_), .. })))), "nor when it is read anew");
}

#[rstest]
#[case::its_app_alone(&|pod: &mut Value| {
    annotate(pod, "vpaObservedContainers", "agent, main");
    annotate(pod, "vpaUpdates", "Pod resources updated by web: container 1: cpu request");
})]
#[case::nothing_yet(&|pod: &mut Value| annotate(pod, "vpaObservedContainers", "agent, main"))]
fn roll70_a_sidecar_follows_an_app_that_an_autoscaler_sizes(#[case] change: &dyn Fn(&mut Value)) {
    let set = half(&json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    resize_app(&mut pod, "1");
    change(&mut pod);
    assert_eq!(scene.due(&[pod]), [0]);
}

#[rstest]
#[case::somebody_else("updater", false)]
#[case::pillion(MANAGER, true)]
fn roll70_whoever_resized_the_sidecar_keeps_it(#[case] manager: &str, #[case] is_resized: bool) {
    let set = half(&json!({}));
    let mut scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    resize_app(&mut pod, "1");
    pod["metadata"]["managedFields"] = json!([{
        "manager": manager, "operation": "Update", "subresource": "resize",
        "fieldsV1": {"f:spec": {"f:containers": {r#"k:{"name":"agent"}"#: {"f:resources": {"f:limits": {"f:cpu": {}}}}}}},
    }]);
    let (asked, planned) = scene.plan(&pod).unwrap();
    assert_eq!(planned.unwrap().resize.is_some(), is_resized);
    scene.asked.insert("p0".to_owned(), asked);
    assert_eq!(scene.due(&[pod.clone()]), [0; 0], "it is not read again");
    resize_app(&mut pod, "3");
    assert_eq!(scene.due(&[pod]), [0], "until the app changes");
}

#[test]
fn roll70_a_pod_follows_the_version_that_it_has() {
    let old = half(&json!({"partition": 1}));
    let new = version("agent:v2", "cpu*25%", &json!({"partition": 1}));
    let scene = Scene::new(&new, &[&old, &new]);
    let mut pods = [running(&new, 0), running(&old, 1)];
    pods[0]["spec"]["containers"][0]["resources"] = cpu("1");
    kubelet(&mut pods[0]);
    assert_eq!(scene.due(&pods), [0; 0]);
    for pod in &mut pods {
        resize_app(pod, "8");
    }
    assert_eq!(scene.due(&pods), [0, 1]);
    for pod in &mut pods {
        scene.act(pod);
    }
    assert_eq!([agent(&pods[0]), agent(&pods[1])], [&cpu("2"), &cpu("4")]);
}

#[test]
fn roll70_a_pod_that_is_resized_to_the_next_version_does_not_follow_before() {
    let (old, new) = (half(&json!({})), version("agent:v2", "cpu*25%", &json!({})));
    let scene = Scene::new(&new, &[&old, &new]);
    let mut pod = running(&old, 0);
    resize_app(&mut pod, "8");
    assert_eq!(scene.due(&[pod]), [0; 0], "the upgrade computes the amounts anew");
}

#[test]
fn roll70_only_computed_amounts_follow() {
    let policy = json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": ".*", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
    });
    let mut set = sidecar_set(&json!({"image": "agent:v1", "resources": cpu("2")}), &json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    pod["spec"]["containers"][0]["resources"] = cpu("1");
    kubelet(&mut pod);
    assert!(!follows(&scene.target()), "no expression");
    assert_eq!((scene.due(&[pod.clone()]), scene.plan(&pod)), (vec![], None));
    set = sidecar_set(&json!({"image": "agent:v1", "resourcesPolicy": policy}), &json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    pod["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2", "memory": "1Gi"}});
    kubelet(&mut pod);
    scene.act(&mut pod);
    assert_eq!(agent(&pod)["requests"]["memory"], "1Gi", "what no expression names stays");
}

#[test]
fn roll70_a_refusal_holds_for_the_amounts_of_the_app() {
    let set = half(&json!({}));
    let mut scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    annotate(&mut pod, STATE, r#"{"audit":{"hash":"h","generation":1}}"#);
    resize_app(&mut pod, "1");
    let (asked, _) = scene.plan(&pod).unwrap();
    pod = after(&pod, &refuse(&scene.target(), &read(&pod), &asked, "the QOS class may not change"));
    let following = scene.following(&[pod.clone()]);
    let problem = "the QOS class may not change".to_owned();
    assert_eq!((following.due, following.failed), (vec![], vec![(0, Obstacle::ResizeRefused { problem })]));
    let judged = Judged::judge(&scene.target(), &read(&pod));
    assert!(judged.is_updated && !judged.is_resizing, "it is no upgrade");
    scene.asked.insert("p0".to_owned(), asked);

    resize_app(&mut pod, "3");
    assert_eq!(scene.following(&[pod.clone()]), Following { due: vec![0], ..Following::default() });
    scene.act(&mut pod);
    let records: Value = serde_json::from_str(pod["metadata"]["annotations"][STATE].as_str().unwrap()).unwrap();
    assert_eq!(records, json!({"audit": {"hash": "h", "generation": 1}}), "the record goes");
    assert_eq!(agent(&pod), &cpu("1500m"));
}

#[rstest]
#[case::with_a_digest(json!({"logs/follows": {"hash": "old", "generation": 0, "refused": "no", "amounts": "x"}}))]
#[case::of_an_earlier_pillion(json!({"logs": {"hash": "old", "generation": 3, "refused": "no"}}))]
fn roll70_the_next_version_drops_the_record(#[case] record: Value) {
    let (old, new) = (half(&json!({})), version("agent:v2", "cpu*50%", &json!({})));
    let scene = Scene::new(&new, &[&old, &new]);
    let mut pod = running(&old, 0);
    annotate(&mut pod, STATE, &record.to_string());
    let seen = read(&pod);
    let edit = upgrade(&scene.target(), &seen, "logs-2", NOW).unwrap();
    assert_eq!(after(&pod, &edit.step(&seen))["metadata"]["annotations"].get(STATE), None);
}

#[test]
fn roll70_amounts_that_cannot_be_computed_are_a_refusal() {
    let set = version("agent:v1", "cpu-2", &json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    assert_eq!(scene.due(&[pod.clone()]), [0; 0]);
    resize_app(&mut pod, "1");
    assert_eq!(scene.due(&[pod.clone()]), [0], "to record why");
    let Some((asked, Err(reasons))) = scene.plan(&pod) else { panic!() };
    pod = after(&pod, &refuse(&scene.target(), &read(&pod), &asked, &reasons[0].to_string()));
    let Following { due, failed, .. } = scene.following(&[pod]);
    assert_eq!((due, failed.len()), (vec![], 1));
}

#[test]
fn roll70_an_infeasible_resize_is_told_and_taken_back_with_the_app() {
    let set = half(&json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    resize_app(&mut pod, "40");
    scene.act(&mut pod);
    pending(&mut pod, "Infeasible");
    let problem = "no room".to_owned();
    let following = scene.following(&[pod.clone()]);
    assert_eq!((following.due, following.failed), (vec![], vec![(0, Obstacle::ResizeInfeasible { problem })]));
    // The kubelet carries out all of a resize or nothing, so the app waits for the sidecar.
    pod["spec"]["containers"][1]["resources"] = cpu("4");
    assert_eq!(scene.following(&[pod.clone()]), Following { due: vec![0], ..Following::default() });
    scene.act(&mut pod);
    assert_eq!(agent(&pod), &cpu("2"));
}

#[test]
fn roll70_a_resize_of_the_app_alone_that_is_infeasible_is_not_followed() {
    let set = half(&json!({}));
    let scene = Scene::new(&set, &[&set]);
    let mut pod = running(&set, 0);
    pod["spec"]["containers"][1]["resources"] = cpu("400");
    pending(&mut pod, "Infeasible");
    assert_eq!(scene.following(&[pod]), Following::default(), "and it is not about the sidecar");
}

/// Lets the sidecar of a Pod restart for new cpu.
fn restarting(mut pod: Value) -> Value {
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    pod["spec"]["containers"][0]["resizePolicy"] = policy;
    pod
}

#[rstest]
#[case::one_by_default(json!({}), &[0])]
#[case::two(json!({"maxUnavailable": 2}), &[0, 1])]
#[case::none(json!({"maxUnavailable": 0}), &[])]
fn roll70_restarts_keep_the_budget(#[case] strategy: Value, #[case] expected: &[usize]) {
    let set = half(&strategy);
    let scene = Scene::new(&set, &[&set]);
    let mut pods: Vec<Value> = (0..3).map(|number| restarting(running(&set, number))).collect();
    for pod in &mut pods {
        resize_app(pod, "1");
    }
    let due = scene.due(&pods);
    assert_eq!(due, expected);
    for pod in due {
        scene.act(&mut pods[pod]);
    }
    assert_eq!(scene.due(&pods), [0; 0], "the containers have not restarted yet");
    pods.iter_mut().for_each(kubelet);
    assert_eq!(scene.due(&pods).len(), expected.len().min(3 - expected.len()));
}

#[test]
fn roll70_a_restart_keeps_an_upgrade_waiting() {
    let (old, new) = (half(&json!({})), version("agent:v2", "cpu*50%", &json!({})));
    let scene = Scene::new(&new, &[&old, &new]);
    let mut pods = [restarting(running(&new, 0)), running(&old, 1)];
    let upgraded = |pods: &[Value]| {
        let Next::Report(report) = scene.decided(pods).next else { panic!() };
        let Round::Upgrade { chosen, .. } = report.round else { panic!() };
        (chosen.iter().map(|chosen| chosen.pod).collect::<Vec<_>>(), report.following.due)
    };
    resize_app(&mut pods[0], "1");
    assert_eq!(upgraded(&pods), (vec![1], vec![]), "the upgrade takes the budget");
    scene.act(&mut pods[0]);
    assert_eq!(upgraded(&pods), (vec![], vec![]), "the restart takes it");
}

#[test]
fn roll70_resizes_without_a_restart_need_no_budget_and_come_in_portions() {
    let set = half(&json!({"maxUnavailable": 0}));
    let scene = Scene::new(&set, &[&set]);
    let mut pods: Vec<Value> = (0..60).map(|number| running(&set, number)).collect();
    for pod in &mut pods {
        resize_app(pod, "1");
    }
    let decision = scene.decided(&pods);
    assert!(decision.look_again.is_some());
    let Next::Report(report) = decision.next else { panic!() };
    assert_eq!((report.following.due.len(), report.following.is_cut), (50, true));
}

#[test]
fn roll70_both_halves_of_a_pair_and_native_sidecars_of_the_pod_count_as_in_an_upgrade() {
    let set = half(&json!({}));
    let mut pod = running(&set, 0);
    pod["spec"]["initContainers"] = json!([
        {"name": "main-native", "image": "n:1", "restartPolicy": "Always", "resources": cpu("2")},
        {"name": "setup", "image": "s:1", "resources": cpu("9")},
    ]);
    let seen = read(&pod);
    let names: Vec<&str> = seen.amounts.containers().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["main-native", "agent", "main"], "no init container that ends");
    let injected: Vec<bool> = seen.amounts.containers().map(|it| it.is_injected).collect();
    assert_eq!(injected, [false, true, false]);
}
