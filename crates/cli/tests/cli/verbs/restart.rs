//! `pillion rollout restart`.

use std::collections::VecDeque;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rstest::rstest;
use serde_json::{Value, json};

use super::{SET, run, set};
use crate::support::api_server::{ApiServer, NOW, ServerState};

const RESTARTED_AT: &str = "pillion.dev/restarted-at";

/// Returns a Pod of a controller that has the sidecar, with these changes as a JSON Merge Patch.
fn pod(name: &str, changes: &Value) -> Value {
    let record = json!({"log-agent": {"hash": "old", "sidecarSetName": "log-agent", "sidecarList": ["log-agent"]}});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"kruise.io/sidecarset-injected-list": "log-agent", "kruise.io/sidecarset-hash": record.to_string()},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}
            ],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "log-agent", "image": "log-agent:v1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    json_patch::merge(&mut pod, changes);
    pod
}

fn replica_set(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "shop", "uid": "rs"},
        "spec": {"replicas": replicas}, "status": {"replicas": replicas},
    })
}

/// Returns a server with Pods `web-0`, `web-1` and so on, and these other objects.
fn shop(count: usize, more: &[Value], edit: impl FnOnce(&mut ServerState)) -> ApiServer {
    let pods = (0..count).map(|number| pod(&format!("web-{number}"), &json!({})));
    let objects: Vec<Value> =
        [set(&json!({})), replica_set(count)].into_iter().chain(pods).chain(more.to_vec()).collect();
    ApiServer::start(&objects, edit)
}

/// Returns the names of the evicted Pods, in their order.
fn evicted(server: &ApiServer) -> Vec<String> {
    let writes = server.writes();
    let evictions = writes.iter().filter_map(|write| write.strip_prefix("POST ")?.split_once("/eviction"));
    evictions.map(|(path, _)| path.rsplit('/').next().unwrap().to_owned()).collect()
}

#[test]
fn roll66_each_pod_is_evicted_once_and_the_start_is_kept() {
    let server = shop(3, &[], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_snapshot!(run.out, @r"
    pod/web-0 evicted from namespace shop
    pod/web-1 evicted from namespace shop
    pod/web-2 evicted from namespace shop
    sidecarset.apps.kruise.io/log-agent restarted
    ");
    assert_eq!(evicted(&server), ["web-0", "web-1", "web-2"]);
    assert_eq!(server.object(SET)["metadata"]["annotations"][RESTARTED_AT], NOW);
    let writes = server.writes();
    assert!(writes[1].contains(r#""preconditions":{"uid":"web-0"}"#), "{writes:?}");
}

#[test]
fn a_dry_run_on_the_client_lists_the_waves() {
    let server = shop(5, &[], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "--max-unavailable=2", "--dry-run=client"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_snapshot!(run.out, @r"
    wave 1: 2 Pods
      pod/web-0 in namespace shop
      pod/web-1 in namespace shop
    wave 2: 2 Pods
      pod/web-2 in namespace shop
      pod/web-3 in namespace shop
    wave 3: 1 Pod
      pod/web-4 in namespace shop
    sidecarset.apps.kruise.io/log-agent restarted (dry run)
    ");
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn a_dry_run_on_the_server_asks_for_each_eviction() {
    let server = shop(2, &[], |state| {
        state.evictions.insert("web-1".to_owned(), VecDeque::from([(429, "the budget needs 2")]));
    });
    let run = run(&server, &["rollout", "restart", "log-agent", "--dry-run=server"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("pod/web-0 in namespace shop may be evicted now"), "{}", run.err);
    assert!(run.err.contains("pod/web-1 in namespace shop would have to wait: the budget needs 2"), "{}", run.err);
    assert!(server.writes().iter().all(|write| write.contains("dryRun=All")), "{:?}", server.writes());
    assert_eq!(server.object(SET)["metadata"]["annotations"].get(RESTARTED_AT), None);
}

#[rstest]
#[case::bare(json!({"metadata": {"ownerReferences": null}}), "it has no controller, so it would be lost")]
#[case::of_a_job(
    json!({"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]}}),
    "its Job does not create it anew"
)]
#[case::mirror(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), "the kubelet runs it from a file")]
#[case::without_sidecars(json!({"metadata": {"annotations": null}}), "1 Pod that the SidecarSet selects has none of its sidecars")]
fn roll66_pods_that_would_be_lost_are_told_and_left_alone(#[case] changes: Value, #[case] expected: &str) {
    let server = shop(1, &[pod("other", &changes)], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((run.code, evicted(&server)), (0, vec!["web-0".to_owned()]), "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn pods_that_are_being_deleted_are_not_evicted() {
    let going = pod("going", &json!({"metadata": {"deletionTimestamp": NOW}}));
    let server = shop(1, &[going], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((run.code, evicted(&server)), (0, vec!["web-0".to_owned()]), "{}", run.err);
}

#[test]
fn only_outdated_pods_are_restarted_on_request() {
    let record = json!({"log-agent": {"hash": "new", "sidecarSetName": "log-agent"}}).to_string();
    let updated = pod("updated", &json!({"metadata": {"annotations": {"kruise.io/sidecarset-hash": record}}}));
    let server = shop(0, &[updated], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "--outdated"]);
    assert_eq!((run.code, run.err.as_str()), (0, "SidecarSet log-agent has no outdated Pods to restart\n"));
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn the_version_in_force_is_that_of_the_status() {
    // After a rollback, the revision before is in force.
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": "log-agent-1", "namespace": "kruise-system", "annotations": {"kruise.io/sidecarset-hash": "old"}},
    });
    let status = json!({"status": {"latestRevision": "log-agent-1", "observedGeneration": 4}});
    let server = ApiServer::start(&[set(&status), revision, pod("web", &json!({}))], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "--outdated"]);
    assert_eq!((run.code, run.err.as_str()), (0, "SidecarSet log-agent has no outdated Pods to restart\n"));
}

#[test]
fn roll68_new_pods_without_the_version_stop_the_restart() {
    let server = shop(3, &[], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "--outdated"]);
    assert_eq!((run.code, evicted(&server).len()), (1, 1), "{}", run.err);
    assert!(
        run.err.contains("web-0-anew in namespace shop was created anew and does not have the version in force"),
        "{}",
        run.err
    );
}

#[test]
fn roll66_a_budget_is_waited_for() {
    let server = shop(2, &[], |state| {
        let answers = VecDeque::from([(429, "The disruption budget web needs 2 healthy pods and has 2 currently"); 2]);
        state.evictions.insert("web-0".to_owned(), answers);
    });
    let run = run(&server, &["rollout", "restart", "log-agent", "--max-unavailable=1"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.err.contains("1 Pod held by a PodDisruptionBudget (pod/web-0 in namespace shop: The disruption budget web"),
        "{}",
        run.err
    );
    let order = evicted(&server);
    assert_eq!(order.iter().filter(|name| *name == "web-0").count(), 3, "{order:?}");
    assert_eq!(order.iter().filter(|name| *name == "web-1").count(), 1, "the other Pod need not wait: {order:?}");
}

#[test]
fn roll66_several_budgets_for_one_pod_are_reported() {
    let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let server = shop(2, &[], |state| {
        state.evictions.insert("web-0".to_owned(), VecDeque::from([(500, several); 9]));
    });
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((run.code, evicted(&server)), (1, vec!["web-0".to_owned(), "web-1".to_owned()]), "{}", run.err);
    assert!(run.out.contains(&format!("pod/web-0 in namespace shop cannot be evicted: {several}")), "{}", run.out);
    assert!(run.err.contains("1 Pod could not be evicted"), "{}", run.err);
}

#[test]
fn a_restart_that_does_not_end_in_time_says_why() {
    let server = shop(2, &[], |state| state.never_ready = true);
    let run = run(&server, &["rollout", "restart", "log-agent", "--timeout=2s"]);
    assert_eq!((run.code, evicted(&server)), (1, vec!["web-0".to_owned()]), "{}", run.err);
    let expected =
        "timed out, waiting for 1 Pod to be ready: 0 of 2 Pods restarted; run the same command again to go on";
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn a_restart_goes_on_where_it_stopped() {
    let begun = json!({"metadata": {"annotations": {RESTARTED_AT: "2026-01-01T12:00:00Z"}}});
    let new = pod("new", &json!({"metadata": {"creationTimestamp": "2026-01-01T12:00:01Z"}}));
    let objects = [set(&begun), replica_set(2), pod("web-0", &json!({})), new];
    let server = ApiServer::start(&objects, |_| {});
    let first = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((first.code, evicted(&server)), (0, vec!["web-0".to_owned()]), "{}", first.err);
    assert!(
        first.err.contains("going on with the restart that began at 2026-01-01T12:00:00Z: 1 Pod left"),
        "{}",
        first.err
    );
    assert_eq!(server.object(SET)["metadata"]["annotations"][RESTARTED_AT], "2026-01-01T12:00:00Z");
    // All are done, so another restart is a new one.
    let second = run(&server, &["rollout", "restart", "log-agent", "--dry-run=client"]);
    assert!(second.out.contains("pod/new in namespace shop"), "{}", second.out);
}

#[test]
fn a_restart_can_start_anew() {
    let begun = json!({"metadata": {"annotations": {RESTARTED_AT: "2026-01-01T12:00:00Z"}}});
    let new = pod("new", &json!({"metadata": {"creationTimestamp": "2026-01-01T12:00:01Z"}}));
    let server = ApiServer::start(&[set(&begun), replica_set(2), pod("web-0", &json!({})), new], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "--anew", "--max-unavailable=2"]);
    assert_eq!((run.code, evicted(&server).len()), (0, 2), "{}", run.err);
    assert_eq!(server.object(SET)["metadata"]["annotations"][RESTARTED_AT], NOW);
}

#[test]
fn a_status_that_is_written_at_the_same_time_does_not_stop_the_start() {
    let edit = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "18"}]);
    let server = shop(1, &[], |state| state.in_between = Some((SET.to_owned(), edit)));
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((run.code, evicted(&server).len()), (0, 1), "{}", run.err);
}

#[rstest]
#[case::evictions("POST", "the verb \"create\" on pods/eviction")]
#[case::pods("GET /api/v1/pods", "the verb \"list\" on pods")]
#[case::the_annotation("PATCH", "the verb \"patch\" on sidecarsets.apps.kruise.io")]
fn a_missing_right_is_named(#[case] start: &'static str, #[case] expected: &str) {
    let server = shop(1, &[], |state| state.refused.push((start, 403, "User \"jane\" may not do that")));
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn a_failure_that_passes_does_not_stop_a_restart() {
    let server = shop(1, &[], |state| {
        let answers = VecDeque::from([(503, "the server is shutting down"), (500, "etcdserver: leader changed")]);
        state.evictions.insert("web-0".to_owned(), answers);
    });
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((run.code, evicted(&server).len()), (0, 3), "{}", run.err);
    assert_eq!(run.err.matches("trying again").count(), 1, "it is told once: {}", run.err);
}

#[test]
fn controllers_that_may_not_be_read_do_not_stop_a_restart() {
    let server = shop(2, &[], |state| state.refused.push(("GET /apis/apps/v1/namespaces/shop/replicasets", 403, "no")));
    let run = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((run.code, evicted(&server).len()), (0, 2), "{}", run.err);
}

#[test]
fn no_budget_is_refused() {
    let server = shop(1, &[], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "--max-unavailable=0"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("--max-unavailable: no Pod may be unavailable"), "{}", run.err);
    assert_eq!(server.writes(), [""; 0]);
}

#[test]
fn the_namespace_must_be_one_of_the_set() {
    let selecting = json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}}});
    let namespace = |name: &str, team: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
    let elsewhere = pod("elsewhere", &json!({"metadata": {"namespace": "other"}}));
    let objects = [
        set(&selecting),
        replica_set(1),
        namespace("shop", "a"),
        namespace("other", "b"),
        pod("web-0", &json!({})),
        elsewhere,
    ];
    let server = ApiServer::start(&objects, |_| {});
    let refused = run(&server, &["rollout", "restart", "log-agent", "-n", "other"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("SidecarSet log-agent does not select namespace other"), "{}", refused.err);
    let done = run(&server, &["rollout", "restart", "log-agent"]);
    assert_eq!((done.code, evicted(&server)), (0, vec!["web-0".to_owned()]), "{}", done.err);
}

#[test]
fn labels_restrict_a_restart() {
    let server = shop(1, &[], |_| {});
    let run = run(&server, &["rollout", "restart", "log-agent", "-l", "tier in (a,b)", "--dry-run=client"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let requests = server.state.lock().requests.clone();
    assert!(
        requests.iter().any(|request| request.contains("labelSelector=app%3Dweb%2Ctier+in+%28a%2Cb%29")),
        "{requests:?}"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_says_how_to_go_on() {
    let server = shop(2, &[], |state| state.never_ready = true);
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let child = Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(folder.path())
        .args(["rollout", "restart", "log-agent", "--kubeconfig", "kubeconfig"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while evicted(&server).is_empty() && started.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted: 0 of 2 Pods restarted; run the same command again to go on"), "{said}");
}
