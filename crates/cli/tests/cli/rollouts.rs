//! `status` and `rollout`, as users run them on an API server that serves a few objects.

use std::path::Path;

use pillion_cluster::NO_DEFINITION;
use pillion_sidecarset::hash::revision_data;
use pillion_sidecarset::sidecar_set::decode::decode;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::Run;
use crate::support::api_server::{ApiServer, ServerState, forbidding, write_kubeconfig};

/// Runs the command line with the kubeconfig of a server.
fn run(server: &ApiServer, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    run_in(folder.path(), args)
}

fn run_in(folder: &Path, args: &[&str]) -> Run {
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn merged(mut object: Value, more: &Value) -> Value {
    json_patch::merge(&mut object, more);
    object
}

/// A SidecarSet whose version has the hash `h2`, and `w2` without images.
fn set(name: &str, more: &Value) -> Value {
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
        "metadata": {
            "name": name, "uid": name, "generation": 3, "resourceVersion": "7",
            "annotations": {"kruise.io/sidecarset-hash": "h2", "kruise.io/sidecarset-hash-without-image": "w2"},
        },
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": container("agent:2", "2")},
    });
    merged(set, more)
}

fn container(image: &str, level: &str) -> Value {
    json!([{"name": "agent", "image": image, "env": [{"name": "LEVEL", "value": level}]}])
}

/// A status with conditions of this generation.
fn status(generation: i64, reason: &str, is_true: &str, [matched, updated, ready]: [u64; 3]) -> Value {
    let conditions = ["Ready", "Reconciling", "Stalled"].map(|type_| {
        json!({
            "type": type_, "status": if type_ == is_true { "True" } else { "False" }, "reason": reason,
            "message": format!("{updated} of {matched} Pods are updated"), "observedGeneration": generation,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    });
    json!({
        "observedGeneration": generation, "matchedPods": matched, "updatedPods": updated, "readyPods": ready,
        "updatedReadyPods": updated, "latestRevision": "logs-b", "conditions": conditions,
    })
}

/// A stored revision of the SidecarSet `logs`.
fn revision(number: i64, name: &str, (hash, image, level): (&str, &str, &str)) -> Value {
    let set =
        decode(set("logs", &json!({"spec": {"containers": container(image, level)}}))).unwrap().into_sidecar_set();
    let data: Value = serde_json::from_str(&revision_data(set.spec(&[]).unwrap())).unwrap();
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "metadata": {
            "name": name, "namespace": "kruise-system", "creationTimestamp": format!("2026-01-0{number}T00:00:00Z"),
            "labels": {"kruise.io/sidecarset-name": "logs"}, "annotations": {"kruise.io/sidecarset-hash": hash},
            "ownerReferences": [{"uid": "logs", "controller": true, "kind": "SidecarSet", "name": "logs"}],
        },
        "data": data,
    })
}

/// A running Pod of the SidecarSet `logs`, which records these hashes and this revision.
fn pod(namespace: &str, name: &str, (hash, without_image, revision): (&str, &str, &str)) -> Value {
    let record = |hash: &str| json!({"logs": {"hash": hash, "sidecarSetName": "logs", "controllerRevision": revision}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "resourceVersion": "1", "labels": {"app": "web"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true},
            ],
            "annotations": {
                "kruise.io/sidecarset-injected-list": "logs",
                "kruise.io/sidecarset-hash": record(hash).to_string(),
                "kruise.io/sidecarset-hash-without-image": record(without_image).to_string(),
            },
        },
        "spec": {"nodeName": "n", "containers": [{"name": "agent", "image": "agent:1"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "agent", "image": "agent:1", "imageID": "a", "ready": true}],
        },
    })
}

/// Three versions: `h0` is not stored any more, `h1` has another variable, `w2` has another image alone.
fn objects() -> Vec<Value> {
    vec![
        set("logs", &json!({"status": status(3, "RollingOut", "Reconciling", [5, 1, 5])})),
        revision(1, "logs-a", ("h1", "agent:1", "1")),
        revision(2, "logs-c", ("h3", "agent:1", "2")),
        revision(3, "logs-b", ("h2", "agent:2", "2")),
        pod("shop", "web-0", ("h2", "w2", "logs-b")),
        pod("shop", "web-1", ("h1", "w1", "logs-a")),
        pod("shop", "web-2", ("h3", "w2", "")),
        pod("shop", "web-3", ("h3", "w2", "logs-c")),
        pod("bank", "web-4", ("h0", "w0", "logs-gone")),
    ]
}

fn budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 4},
    })
}

fn all() -> Vec<Value> {
    let counters = json!({
        "observedGeneration": 3, "matchedPods": 4, "updatedPods": 2, "readyPods": 4, "updatedReadyPods": 2,
        "latestRevision": "other-revision",
    });
    let partition = json!({"updateStrategy": {"partition": "50%", "maxUnavailable": 2}});
    let annotations = json!({"pillion.dev/upgrade-policy": "Resize,Recreate", "pillion.dev/progress-deadline": "10m"});
    vec![
        set("done", &json!({"status": status(3, "Complete", "Ready", [5, 5, 5])})),
        set("by-counters", &json!({"spec": partition, "status": counters})),
        set("edited", &json!({"metadata": {"generation": 4}, "status": status(3, "Complete", "Ready", [5, 5, 5])})),
        set("new", &json!({})),
        set(
            "paused",
            &json!({
                "spec": {"updateStrategy": {"paused": true}}, "status": status(3, "Paused", "", [5, 1, 5]),
            }),
        ),
        set(
            "stuck",
            &json!({
                "metadata": {"annotations": annotations}, "status": status(3, "NotUpgradablePods", "Stalled", [5, 1, 5]),
            }),
        ),
    ]
}

#[test]
fn sidecar_sets_are_rows() {
    let server = ApiServer::start(&all(), |_| {});
    let plain = run(&server, &["status"]);
    let others: Vec<String> = server.requests().into_iter().filter(|it| !it.contains("/sidecarsets")).collect();
    assert_eq!(others, [""; 0], "the rows need no right but that to SidecarSets");
    let wide = run(&server, &["status", "-o", "wide"]);
    insta::assert_snapshot!(format!("{}\n{}", plain.out, wide.out));
    assert_eq!((plain.code, plain.err.as_str(), wide.code), (0, "", 0));
}

#[test]
fn a_cluster_may_serve_only_the_new_version_of_sidecar_sets() {
    let new = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "status": status(3, "Complete", "Ready", [5, 5, 5])
    });
    let new = set("logs", &new);
    let server = ApiServer::start(&[new], |_| {});
    let run_of = |args: &[&str]| run(&server, args);
    assert_eq!(run_of(&["status", "-o", "name"]).out, "sidecarset.apps.kruise.io/logs\n");
    let one = run_of(&["rollout", "status", "sidecarset/logs"]);
    assert_eq!(
        (one.code, one.out.as_str()),
        (0, "SidecarSet \"logs\" is rolled out: Complete: 5 of 5 Pods are updated\n")
    );
}

#[test]
fn one_sidecar_set_is_shown_in_full() {
    let mut objects = objects();
    objects.push(budget("web"));
    let server = ApiServer::start(&objects, |_| {});
    let run_of = |args: &[&str]| run(&server, args);
    let text = run_of(&["status", "logs"]);
    insta::assert_snapshot!(text.out);
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    let json = run_of(&["status", "logs", "-o", "json"]);
    insta::assert_snapshot!(json.out);
    let yaml: Value = serde_saphyr::from_str(&run_of(&["status", "logs", "-o", "yaml"]).out).unwrap();
    assert_eq!(yaml, json.json());
}

#[test]
fn roll66_pods_are_held_by_several_budgets_and_evicted_otherwise() {
    let mut objects = objects();
    objects[0]["metadata"]["annotations"]["pillion.dev/upgrade-policy"] = "Recreate".into();
    objects[0]["spec"]["updateStrategy"] = json!({"maxUnavailable": "100%"});
    objects.extend([budget("one"), budget("two")]);
    let report = run(&ApiServer::start(&objects, |_| {}), &["status", "logs", "-o", "json"]).json();
    let held = report["held"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{held:#?}");
    assert_eq!((&held[0]["name"], &held[0]["budgets"]), (&json!("web-1"), &json!(["one", "two"])));
    let next: Vec<_> = report["next"].as_array().unwrap().iter().map(|pod| (&pod["name"], &pod["way"])).collect();
    let expected = [("web-2", "InPlace"), ("web-3", "InPlace"), ("web-1", "Recreate"), ("web-4", "Recreate")];
    for (name, way) in expected {
        assert!(next.contains(&(&json!(name), &json!(way))), "{name}: {next:?}");
    }
    assert_eq!(report["notUpgradable"], json!([]));
}

/// The revision that the status names is the one in force, also if the custom resource has another version.
#[test]
fn roll62_the_revision_of_the_status_is_in_force() {
    let mut objects = objects();
    objects[0]["status"]["latestRevision"] = "logs-a".into();
    let server = ApiServer::start(&objects, |_| {});
    let report = run(&server, &["status", "logs", "-o", "json"]).json();
    let in_force = &report["podsByRevision"][0];
    assert_eq!(
        (&in_force["name"], &in_force["inForce"], &in_force["pods"]),
        (&json!("logs-a"), &json!(true), &json!(1))
    );
    let history = run(&server, &["rollout", "history", "logs", "-o", "json"]).json();
    let in_force: Vec<&Value> = history["revisions"].as_array().unwrap().iter().map(|it| &it["inForce"]).collect();
    assert_eq!(in_force, [true, false, false]);
}

#[test]
fn the_pods_of_one_namespace_count() {
    let mut objects = objects();
    objects.push(set("other", &json!({"spec": {"selector": {"matchLabels": {"app": "api"}}}})));
    let server = ApiServer::start(&objects, |_| {});
    let json = run(&server, &["status", "-n", "bank", "-o", "json"]).json();
    let sets = json["sidecarSets"].as_array().unwrap();
    assert_eq!(sets.len(), 1, "only those with Pods there: {json:#}");
    assert_eq!((&sets[0]["matchedPods"], &sets[0]["updatedPods"]), (&json!(1), &json!(0)));
    let one = run(&server, &["status", "logs", "-n", "shop"]);
    assert!(one.out.contains("4 matched in namespace shop, 1 updated"), "{}", one.out);
    assert!(!one.out.contains("Next"), "{}", one.out);
    let none = run(&server, &["status", "-n", "empty"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert_eq!(none.err, "no SidecarSets found with Pods in namespace \"empty\"\n");
}

#[test]
fn an_empty_cluster_has_nothing_to_show() {
    let server = ApiServer::start(&[], |_| {});
    let run_of = |args: &[&str]| run(&server, args);
    let none = run_of(&["status"]);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (0, "", "no SidecarSets found\n"));
    assert_eq!(run_of(&["status", "-o", "json"]).json(), json!({"sidecarSets": []}));
    for args in [&["status", "logs"][..], &["rollout", "status", "logs"], &["rollout", "history", "logs"]] {
        let gone = run_of(args);
        let says = "error: SidecarSet \"logs\" does not exist; `pillion status` lists those that do\n";
        assert_eq!((gone.code, gone.out.as_str(), gone.err.as_str()), (2, "", says));
    }
}

#[test]
fn a_cluster_without_the_definition_says_so() {
    let server = ApiServer::start(&[], |state| state.has_no_definition = true);
    for args in [&["status"][..], &["status", "logs"], &["rollout", "status", "logs"], &["rollout", "history", "logs"]]
    {
        let run = run(&server, args);
        assert_eq!((run.code, run.out, run.err), (2, String::new(), format!("error: {NO_DEFINITION}\n")), "{args:?}");
    }
}

/// The objects with the revisions in the namespace `ops`, and the installation that keeps them there.
fn installed_in_ops() -> Vec<Value> {
    let in_ops = |object: Value| match object["kind"].as_str() {
        Some("ControllerRevision") => merged(object, &json!({"metadata": {"namespace": "ops"}})),
        _ => object,
    };
    let labels = json!({"app.kubernetes.io/part-of": "pillion"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c", "namespace": "sidecars", "labels": labels},
        "spec": {"template": {"spec": {
            "serviceAccountName": "c",
            "containers": [{
                "name": "pillion", "args": ["controller", "--settings=/etc/pillion/settings.yaml"],
                "volumeMounts": [{"name": "settings", "mountPath": "/etc/pillion"}],
            }],
            "volumes": [{"name": "settings", "configMap": {"name": "c-settings"}}],
        }}},
    });
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-settings", "namespace": "sidecars"},
        "data": {"settings.yaml": "systemNamespace: ops\n"},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "c", "labels": labels}, "roleRef": {"kind": "ClusterRole", "name": "c"},
        "subjects": [{"kind": "ServiceAccount", "name": "c", "namespace": "sidecars"}],
    });
    objects().into_iter().map(in_ops).chain([deployment, settings, binding]).collect()
}

/// Whoever may create Deployments in a namespace does not choose the revisions that an administrator goes back to.
#[rstest]
#[case::no_binding(None)]
#[case::of_another_account(Some(json!({"kind": "ServiceAccount", "name": "c", "namespace": "other"})))]
fn a_deployment_that_no_administrator_has_installed_does_not_count(#[case] subject: Option<Value>) {
    let mut objects = installed_in_ops();
    objects.retain(|object| object["kind"] != "ClusterRoleBinding" || subject.is_some());
    for object in objects.iter_mut().filter(|object| object["kind"] == "ClusterRoleBinding") {
        object["subjects"] = json!([subject]);
    }
    let server = ApiServer::start(&objects, |_| {});
    let history = run(&server, &["rollout", "history", "logs"]);
    assert!(history.err.contains("no revisions in namespace \"kruise-system\""), "{}", history.err);
}

#[test]
fn revisions_are_found_where_the_installation_keeps_them() {
    let server = ApiServer::start(&installed_in_ops(), |_| {});
    let history = run(&server, &["rollout", "history", "logs", "-o", "json"]);
    assert_eq!((history.code, history.err.as_str()), (0, ""));
    assert_eq!(history.json()["revisions"].as_array().unwrap().len(), 3);
    let report = run(&server, &["status", "logs", "-o", "json"]);
    assert_eq!(report.err, "");
    let differences = report.json()["differences"].to_string();
    assert!(differences.contains("agent:1"), "{differences}");
    // A flag and a file win.
    for more in [&["--system-namespace", "kruise-system"][..], &["--settings", "settings.yaml"]] {
        let folder = tempfile::tempdir().unwrap();
        server.kubeconfig(folder.path());
        std::fs::write(folder.path().join("settings.yaml"), "systemNamespace: kruise-system\n").unwrap();
        let elsewhere = run_in(folder.path(), &[&["rollout", "history", "logs"], more].concat());
        assert!(elsewhere.err.contains("no revisions in namespace \"kruise-system\""), "{}", elsewhere.err);
    }
}

#[rstest]
#[case::deployments(&["/deployments"])]
#[case::settings(&["/c-settings"])]
#[case::who_installed_it(&["/clusterrolebindings"])]
fn without_the_right_to_read_the_installation_the_default_counts(#[case] forbidden: &'static [&'static str]) {
    let objects = [objects(), installed_in_ops()].concat();
    let server = ApiServer::start(&objects, forbidding(forbidden));
    let history = run(&server, &["rollout", "history", "logs", "-o", "json"]);
    assert_eq!((history.code, history.json()["revisions"].as_array().unwrap().len()), (0, 3), "{}", history.err);
    let says = "note: the settings of the installation are not known, so its system namespace is taken for kruise-system, the \
                default; --system-namespace names another one: the cluster does not allow to";
    assert!(history.err.starts_with(says), "{}", history.err);
    // Nothing that the rows need is missing.
    assert_eq!(run(&server, &["status"]).err, "");
}

#[test]
fn two_installations_with_other_settings_are_named() {
    let mut objects = installed_in_ops();
    let account = json!([{"kind": "ServiceAccount", "name": "c", "namespace": "other"}]);
    let of_other = |object: &Value| match object["kind"].as_str() {
        Some("ClusterRoleBinding") => {
            merged(object.clone(), &json!({"metadata": {"name": "other-c"}, "subjects": account}))
        }
        _ => merged(object.clone(), &json!({"metadata": {"namespace": "other"}})),
    };
    let others: Vec<Value> = objects.iter().rev().take(3).map(of_other).collect();
    objects.extend(others);
    let last = objects.iter_mut().rfind(|object| object["kind"] == "ConfigMap").unwrap();
    last["data"]["settings.yaml"] = "systemNamespace: elsewhere\n".into();
    let server = ApiServer::start(&objects, |_| {});
    let history = run(&server, &["rollout", "history", "logs"]);
    let says = "error: Pillion is installed more than once, with different settings: ConfigMap sidecars/c-settings, ConfigMap \
                other/c-settings; --settings or --system-namespace says which ones count\n";
    assert_eq!((history.code, history.err.as_str()), (2, says));
    assert_eq!(run(&server, &["rollout", "history", "logs", "--system-namespace", "ops"]).code, 0);
}

#[rstest]
#[case::sets(&["sidecarsets", "sidecarsets/logs"], &["status"], "\"list\" on sidecarsets.apps.kruise.io")]
#[case::one_set(&["sidecarsets", "sidecarsets/logs"], &["status", "logs"], "\"get\" on sidecarsets.apps.kruise.io")]
#[case::watching(&["/sidecarsets"], &["rollout", "status", "logs"], "\"list\" on sidecarsets.apps.kruise.io")]
#[case::pods(&["pods"], &["status", "logs"], "\"list\" on pods, in a Role or a ClusterRole; -n asks for the Pods of one")]
#[case::revisions(&["controllerrevisions"], &["rollout", "history", "logs"], "\"list\" on controllerrevisions.apps")]
fn a_missing_right_is_named(#[case] forbidden: &'static [&'static str], #[case] args: &[&str], #[case] expected: &str) {
    let server = ApiServer::start(&objects(), forbidding(forbidden));
    let run = run(&server, args);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn parts_without_a_right_are_left_out_with_a_warning() {
    let forbidden = &["controllerrevisions", "poddisruptionbudgets"];
    let server = ApiServer::start(&objects(), forbidding(forbidden));
    let run_of = run(&server, &["status", "logs", "-o", "json"]);
    let report = run_of.json();
    assert_eq!((run_of.code, report.get("differences"), report.get("held")), (0, None, None));
    assert_eq!(report["podsByRevision"].as_array().unwrap().len(), 5, "by the records of the Pods: {report:#}");
    for resource in ["controllerrevisions.apps", "poddisruptionbudgets.policy"] {
        assert!(run_of.err.contains(resource), "{}", run_of.err);
    }
    let forbidden = &["pods"];
    let server = ApiServer::start(&objects(), forbidding(forbidden));
    let history = run(&server, &["rollout", "history", "logs", "-o", "json"]);
    assert_eq!((history.code, history.json()["revisions"][0].get("pods")), (0, None));
    assert!(history.err.contains("the Pods that use a revision are not counted"), "{}", history.err);
}

#[test]
fn revisions_are_listed_restored_and_compared() {
    let server = ApiServer::start(&objects(), |_| {});
    let history = |more: &[&str]| run(&server, &[&["rollout", "history", "logs"], more].concat());
    let texts =
        [&[][..], &["--revision", "1"], &["--diff", "1", "3"], &["--diff", "1", "3", "-o", "yaml"]].map(history);
    assert!(texts.iter().all(|run| (run.code, run.err.as_str()) == (0, "")));
    insta::assert_snapshot!(texts.map(|run| run.out).join("\n"));
    let unknown = history(&["--revision", "7"]);
    let says = "error: revision 7 does not exist; those that do are 1, 2, 3\n";
    assert_eq!((unknown.code, unknown.err.as_str()), (2, says));
    assert_eq!(history(&["--diff", "1", "1"]).out, "");
    let elsewhere = history(&["--system-namespace", "other"]);
    assert_eq!((elsewhere.code, elsewhere.out.as_str()), (0, ""));
    assert!(elsewhere.err.contains("no revisions in namespace \"other\""), "{}", elsewhere.err);
}

#[rstest]
#[case::done(status(3, "Complete", "Ready", [5, 5, 5]), 0, "is rolled out: Complete")]
#[case::stalled(status(3, "NotUpgradablePods", "Stalled", [5, 1, 5]), 1, "is stalled: NotUpgradablePods")]
#[case::going_on(status(3, "RollingOut", "Reconciling", [5, 1, 5]), 0, "is being rolled out: RollingOut")]
#[case::paused(status(3, "Paused", "", [5, 1, 5]), 0, "waits: Paused")]
#[case::an_older_generation(status(2, "Complete", "Ready", [5, 5, 5]), 0, "waits: NotObserved")]
fn a_single_look_tells_how_far_a_rollout_is(#[case] status: Value, #[case] code: i32, #[case] says: &str) {
    let server = ApiServer::start(&[set("logs", &json!({"status": status}))], |_| {});
    let run = run(&server, &["rollout", "status", "logs", "--watch=false"]);
    assert_eq!((run.code, run.err.as_str()), (code, ""));
    assert!(run.out.contains(says), "{}", run.out);
}

/// Returns a server with watches that end, and this edit of it.
fn watched(events: &[(&str, Value)], edit: impl FnOnce(&mut ServerState)) -> ApiServer {
    let first = set("logs", &json!({"status": status(3, "RollingOut", "Reconciling", [5, 1, 5])}));
    let events = events.iter().map(|(type_, status)| {
        json!({"type": type_, "object": set("logs", &json!({"metadata": {"resourceVersion": "8"}, "status": status}))})
    });
    ApiServer::start(&[first], |state| {
        state.events.extend(events);
        edit(state);
    })
}

#[rstest]
#[case::done(&[("MODIFIED", status(3, "RollingOut", "Reconciling", [5, 4, 5])), ("MODIFIED", status(3, "Complete", "Ready", [5, 5, 5]))], 0, "is rolled out")]
#[case::stalled(&[("MODIFIED", status(3, "NotUpgradablePods", "Stalled", [5, 4, 5]))], 1, "is stalled")]
fn waiting_ends_when_the_rollout_does(#[case] events: &[(&str, Value)], #[case] code: i32, #[case] says: &str) {
    let server = watched(events, |_| {});
    let run = run(&server, &["rollout", "status", "logs"]);
    assert_eq!(run.code, code, "{}{}", run.out, run.err);
    assert!(run.out.contains(says), "{}", run.out);
    assert!(run.err.starts_with("RollingOut: 1 of 5 Pods are updated\n"), "a line for each change: {}", run.err);
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines.len(), if code == 0 { 2 } else { 1 }, "{lines:?}");
}

#[test]
fn a_lost_connection_is_made_again() {
    let events = [("MODIFIED", status(3, "Complete", "Ready", [5, 5, 5]))];
    let server = watched(&events, |state| state.refused_once.push(("WATCH", 500, "etcd is gone")));
    let run = run(&server, &["rollout", "status", "logs"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let says = "warning: the cluster could not watch SidecarSets: etcd is gone; trying again\n";
    assert!(run.err.contains(says), "{}", run.err);
}

#[test]
fn a_deleted_sidecar_set_ends_the_waiting() {
    let server = watched(&[("DELETED", status(3, "RollingOut", "Reconciling", [5, 4, 5]))], |_| {});
    let run = run(&server, &["rollout", "status", "logs"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.ends_with("error: SidecarSet \"logs\" was deleted\n"), "{}", run.err);
}

/// The watches end again and again, and the command begins new ones.
#[test]
fn waiting_ends_when_the_time_is_over() {
    let server = watched(&[("MODIFIED", status(3, "RollingOut", "Reconciling", [5, 2, 5]))], |_| {});
    let run = run(&server, &["rollout", "status", "logs", "--timeout", "3s"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let says = "error: the time is over; SidecarSet \"logs\": RollingOut: 2 of 5 Pods are updated\n";
    assert!(run.err.ends_with(says), "{}", run.err);
    let watches = server.requests().iter().filter(|request| request.contains("watch=true")).count();
    assert!(watches > 1, "{watches}");
}

#[test]
fn names_of_the_cluster_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::start(&objects(), |_| {});
    server.kubeconfig(folder.path());
    let link = folder.path().join("kubectl_complete-pillion");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pillion"), &link).unwrap();
    let complete = |words: &[&str]| {
        let mut command = assert_cmd::Command::new(&link);
        let output = command.current_dir(folder.path()).env("KUBECONFIG", folder.path().join("kubeconfig")).args(words);
        let output = output.output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete(&["status", "l"]), "logs\n:4\n");
    assert_eq!(complete(&["status", "x"]), ":4\n");
    assert_eq!(complete(&["status", "--context", ""]), "here\nthere\n:4\n");
    assert_eq!(complete(&["rollout", "history", "logs", "--revision", ""]), "3\tlogs-b\n2\tlogs-c\n1\tlogs-a\n:4\n");
    assert!(complete(&["rollout", ""]).contains("status\tWait until a rollout has ended"));
}

/// The script works in a shell, which calls its function as it does for a key.
#[test]
fn bash_completes_names_with_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::start(&objects(), |_| {});
    server.kubeconfig(folder.path());
    let binary = Path::new(env!("CARGO_BIN_EXE_pillion")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let line = "source <(pillion completions bash); COMP_WORDS=(pillion rollout history logs --revision ''); COMP_CWORD=5; \
                _clap_complete_pillion pillion '' --revision; printf '<%s>' \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash")
        .args(["--norc", "-c", line])
        .env("KUBECONFIG", folder.path().join("kubeconfig"))
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "<3><2><1>");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_cluster_that_does_not_answer_has_no_names() {
    let folder = tempfile::tempdir().unwrap();
    // An address that takes connections and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    write_kubeconfig(folder.path(), &listener.local_addr().unwrap().to_string());
    let started = std::time::Instant::now();
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .current_dir(folder.path())
        .env("KUBECONFIG", folder.path().join("kubeconfig"))
        .envs([("PILLION_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "2")])
        .args(["--", "pillion", "status", ""])
        .output()
        .unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("logs"), "{}", text(&output.stdout));
}
