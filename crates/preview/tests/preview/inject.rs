//! `pillion inject`: which objects get sidecars, and how they come out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillion_samples::manifests::{POD, SERVICE, SET, containers};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::injection::{run, run_in};

#[rstest]
#[case::review(|request| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))]
#[case::request(|request| request)]
fn a_request_stands_for_its_object(#[case] sent: fn(Value) -> Value) {
    for (labels, sidecars) in [(json!({"logs": "collect"}), 1), (json!({}), 0)] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": labels},
            "spec": {"containers": [{"name": "app", "image": "app:1"}]}
        });
        let request =
            json!({"uid": "u", "operation": "CREATE", "kind": {"version": "v1", "kind": "Pod"}, "object": pod});
        let files = [("review.json", sent(request).to_string()), ("set.yaml", SET.to_owned())];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let run = run(&files, &["review.json", "--sidecar-sets", "set.yaml", "-o", "json"], "");
        assert_eq!(run.code, 0, "{}", run.err);
        let printed: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((&printed["kind"], &printed["metadata"]["name"]), (&json!("Pod"), &json!("p")));
        assert_eq!(printed["spec"]["containers"].as_array().map(Vec::len), Some(1 + sidecars), "{}", run.out);
    }
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"logs": "collect"}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]}
    })
}

#[rstest]
#[case::deployment("apps/v1", "Deployment", "/spec/template")]
#[case::replica_set("apps/v1", "ReplicaSet", "/spec/template")]
#[case::stateful_set("apps/v1", "StatefulSet", "/spec/template")]
#[case::daemon_set("apps/v1", "DaemonSet", "/spec/template")]
#[case::replication_controller("v1", "ReplicationController", "/spec/template")]
#[case::job("batch/v1", "Job", "/spec/template")]
#[case::cron_job("batch/v1", "CronJob", "/spec/jobTemplate/spec/template")]
#[case::pod_template("v1", "PodTemplate", "/template")]
#[case::clone_set("apps.kruise.io/v1alpha1", "CloneSet", "/spec/template")]
#[case::advanced_stateful_set("apps.kruise.io/v1beta1", "StatefulSet", "/spec/template")]
#[case::advanced_daemon_set("apps.kruise.io/v1alpha1", "DaemonSet", "/spec/template")]
#[case::broadcast_job("apps.kruise.io/v1alpha1", "BroadcastJob", "/spec/template")]
#[case::advanced_cron_job("apps.kruise.io/v1alpha1", "AdvancedCronJob", "/spec/template/jobTemplate/spec/template")]
#[case::united_deployment(
    "apps.kruise.io/v1alpha1",
    "UnitedDeployment",
    "/spec/template/cloneSetTemplate/spec/template"
)]
#[case::rollout("argoproj.io/v1alpha1", "Rollout", "/spec/template")]
fn every_workload_is_injected_in_its_template(#[case] api_version: &str, #[case] kind: &str, #[case] pointer: &str) {
    let keys: Vec<&str> = pointer.split('/').skip(1).collect();
    let mut object = keys.iter().rev().fold(template(), |value, key| json!({ *key: value }));
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "w"});
    let run = run(&[("set.yaml", SET)], &["-", "--sidecar-sets=set.yaml", "-o=json"], &object.to_string());
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains(&format!("{kind} default/w: injected agent/agent\n")), "{}", run.err);
    let mut out: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(containers(&out, pointer), ["app", "agent"]);
    *out.pointer_mut(pointer).unwrap() = template();
    assert_eq!(out, object, "nothing else changes");
}

/// The controller makes volumes of the claims, so a SidecarSet finds them in the Pod. The template gets none of them.
#[test]
fn claims_of_a_stateful_set_are_volumes_of_its_pods() {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}});
    set["spec"] = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}], "template": template()});
    let mounts = "    volumeMounts: [{name: data, mountPath: /data}]\n  volumes: [{name: data, emptyDir: {}}]\n";
    let sidecar_set = format!(
        "{}{mounts}",
        SET.replace(
            "  - {name: agent, image: 'agent:1', podInjectPolicy: AfterAppContainer}\n",
            "  - name: agent\n    image: agent:1\n"
        )
    );
    let in_template =
        run(&[("set.yaml", &sidecar_set)], &["-", "--sidecar-sets=set.yaml", "-o=json"], &set.to_string());
    assert_eq!(in_template.code, 0, "{}", in_template.err);
    assert!(in_template.err.contains("volume \"data\" is already in the Pod"), "{}", in_template.err);
    let out: Value = serde_json::from_str(&in_template.out).unwrap();
    assert_eq!(containers(&out, "/spec/template"), ["agent", "app"]);
    assert_eq!(out.pointer("/spec/template/spec/volumes"), None);
    let args = ["-", "--sidecar-sets=set.yaml", "-o=json", "--as-pods"];
    let out: Value = serde_json::from_str(&run(&[("set.yaml", &sidecar_set)], &args, &set.to_string()).out).unwrap();
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}});
    assert_eq!(out["spec"]["volumes"], json!([claim]));
}

/// The API server clears the field before admission.
#[test]
fn a_namespace_in_the_metadata_of_a_sidecar_set_is_a_warning() {
    let set = SET.replace("metadata: {name: agent}", "metadata: {name: agent, namespace: shop}");
    let run = run(&[("all.yaml", &format!("{POD}---\n{set}"))], &["all.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("metadata.namespace: a SidecarSet is in no namespace"), "{}", run.err);
    assert!(run.err.contains("injected agent/agent"), "{}", run.err);
}

#[test]
fn warnings_of_the_policy_name_the_object() {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}});
    job["spec"]["template"] = template();
    let run = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml", "-q"], &job.to_string());
    insta::assert_snapshot!(run.err, @r#"warning: Job default/once: SidecarSet agent: container "agent" may keep the Job from finishing; set annotation pillion.dev/native to EndingPods, or make it an init container with restartPolicy Always"#);
}

#[test]
fn inj15_inj16_what_only_a_native_sidecar_of_the_app_has_is_told() {
    let set = "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {name: tail}\nspec:\n  selector: \
               {matchLabels: {logs: collect}}\n  containers:\n  - name: tail\n    image: tail:1\n    shareVolumePolicy: \
               {type: enabled}\n    transferEnv: [{sourceContainerName: db-proxy, envName: DB}]\n";
    let native = "  initContainers:\n  - name: db-proxy\n    image: proxy:1\n    restartPolicy: Always\n    env: [{name: DB, \
                  value: here}]\n    volumeMounts: [{name: socket, mountPath: /socket}]\n  volumes: [{name: socket, \
                  emptyDir: {}}]\n  containers:\n";
    let pod = POD.replacen("  containers:\n", native, 1);
    let run = run(&[("all.yaml", &format!("{pod}---\n{set}"))], &["all.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.err, @r#"
    warning: Pod shop/p: SidecarSet tail: tail: transferEnv source container "db-proxy" is an init container; only containers are sources; nothing was copied
    warning: Pod shop/p: SidecarSet tail: tail: shareVolumePolicy shares the mounts of containers only, not "/socket" of init container "db-proxy"; name its volume in volumeMounts to have it
    Pod shop/p: injected tail/tail
    1 injected, 0 unchanged, 0 refused
    "#);
}

#[test]
fn a_list_stays_a_list_without_what_was_refused() {
    let pod = |name: &str, container: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"logs": "collect"}},
            "spec": {"containers": [{"name": container, "image": "i"}]}
        })
    };
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let list = json!({
        "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""},
        "items": [service, pod("a", "app"), pod("b", "agent")]
    });
    let run = run(&[("set.yaml", SET)], &["-", "--sidecar-sets=set.yaml"], &list.to_string());
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.out.contains("kind: List\n"), "{}", run.out);
    let names: Vec<&str> = run.out.lines().filter(|line| line.starts_with("    name: ")).collect();
    assert_eq!(names, ["    name: s", "    name: a"], "{}", run.out);
}

#[test]
fn json_is_one_value_whatever_comes_in() {
    let set = r#"{"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": "agent", "image": "i"}]}}"#;
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"logs": "collect"}},
        "spec": {"big": 1234567890123456789012345, "containers": [{"name": "app", "image": "i"}]}}"#;
    // A stream of JSON values, as `kubectl get -o json` in a loop prints.
    let run = run(&[], &["-", "-o", "json"], &format!("{pod}\n{set}\n"));
    assert_eq!(run.code, 0, "{}", run.err);
    let out: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(out["kind"], "List");
    assert_eq!(containers(&out["items"][0], ""), ["agent", "app"]);
    assert!(run.out.contains("1234567890123456789012345"), "numbers keep their digits");
}

/// Returns the SidecarSet for Namespaces with a label.
fn selective() -> String {
    SET.replace("spec:\n", "spec:\n  namespaceSelector: {matchLabels: {team: a}}\n")
}

const SHOP: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n";
const SHOP_OF_A: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}\n";

#[rstest]
#[case::assumed("", &[], "no SidecarSet is for it", true)]
#[case::by_flag("", &["--namespace-labels=team=a,x=y"], "injected agent/agent", true)]
#[case::by_another_flag("", &["--namespace-labels", "team=b"], "no SidecarSet is for it", true)]
#[case::in_a_manifest(SHOP_OF_A, &["--sidecar-sets=ns.yaml"], "injected agent/agent", false)]
#[case::in_an_input(SHOP_OF_A, &["ns.yaml"], "injected agent/agent", false)]
#[case::a_manifest_before_a_flag(SHOP, &["ns.yaml", "--namespace-labels=team=a"], "no SidecarSet is for it", false)]
fn namespaces_are_known_from_manifests_or_assumed_aloud(
    #[case] namespace: &str,
    #[case] args: &[&str],
    #[case] line: &str,
    #[case] assumed: bool,
) {
    let files = [("pod.yaml", POD), ("set.yaml", &selective()), ("ns.yaml", namespace)];
    let run = run(&files, &[&["pod.yaml", "--sidecar-sets=set.yaml"], args].concat(), "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains(&format!("Pod shop/p: {line}\n")), "{}", run.err);
    assert_eq!(run.err.contains("warning: Namespace shop is in no manifest"), assumed, "{}", run.err);
}

#[test]
fn an_assumed_namespace_is_told_once() {
    let text = format!("{POD}---\n{}", POD.replace("name: p", "name: q"));
    let run = run(&[("set.yaml", &selective())], &["--sidecar-sets=set.yaml"], &text);
    insta::assert_snapshot!(run.err, @r#"
    warning: Namespace shop is in no manifest; it is assumed to exist, with no labels but its name; add its manifest, or its labels with --namespace-labels
    Pod shop/p: no SidecarSet is for it
    Pod shop/q: no SidecarSet is for it
    0 injected, 2 unchanged, 0 refused
    "#);
}

#[test]
fn a_service_account_among_the_manifests_gives_its_pull_secrets() {
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: shop}\nimagePullSecrets: [{name: of-account}]\n";
    let set = format!("{SET}  imagePullSecrets: [{{name: of-set}}]\n");
    let run = run(
        &[("set.yaml", &set), ("account.yaml", account)],
        &["-", "--sidecar-sets=set.yaml", "--sidecar-sets=account.yaml"],
        POD,
    );
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.ends_with("  imagePullSecrets:\n  - name: of-account\n  - name: of-set\n"), "{}", run.out);
}

#[test]
fn settings_come_from_a_file_or_from_a_policy() {
    let settings = format!("sidecarSets:\n- {}", SET.replace('\n', "\n  "));
    let policy = format!(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {{name: p}}\nspec:\n  settings:\n    {}",
        settings.replace('\n', "\n    ")
    );
    for text in [settings, policy] {
        let run = run(&[("settings.yaml", &text)], &["--settings=settings.yaml"], POD);
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.err.contains("injected agent/agent"), "{}", run.err);
    }
}

#[test]
fn settings_that_a_policy_server_would_refuse_are_errors_with_their_place() {
    let mistyped = SET.replace("image: 'agent:1'", "image: 'agent:1', resources: 3");
    let unselective = SET.replace("  selector: {matchLabels: {logs: collect}}\n", "");
    let first = run(&[("sets.yaml", &format!("{SET}---\n{mistyped}"))], &["--sidecar-sets=sets.yaml"], POD);
    assert_eq!((first.code, first.out.as_str()), (2, ""));
    insta::assert_snapshot!(first.err, @r#"
    error: sets.yaml:15: spec.containers[0].resources: Invalid value: must be an object, found a number (SidecarSet "agent")
    error: sets.yaml:11: metadata.name: Duplicate value: "agent": names are unique; remove one
    "#);
    let second = run(&[("sets.yaml", &unselective)], &["--sidecar-sets=sets.yaml"], POD);
    assert_eq!((second.code, second.out.as_str()), (2, ""));
    insta::assert_snapshot!(
        second.err,
        @r#"error: sets.yaml:4: spec.selector: Required value: say which Pods to inject into (SidecarSet "agent")"#
    );
}

#[test]
fn broken_manifests_are_all_told_and_nothing_is_printed() {
    let files = [("a.yaml", POD), ("b.yaml", "a: [1\n"), ("c.yaml", "- a\n"), ("set.yaml", SET)];
    let run = run(&files, &["."], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("./b.yaml: ") && run.err.contains("./c.yaml:1: a manifest is an object"), "{}", run.err);
}

#[rstest]
#[case::metadata("metadata: 3\nspec: {containers: []}", "metadata: must be an object, found a number")]
#[case::containers(
    "metadata: {labels: {logs: collect}}\nspec: {containers: 3}",
    "spec.containers: must be a list, found a number"
)]
fn what_is_no_pod_is_refused(#[case] pod: &str, #[case] message: &str) {
    let run = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml"], &format!("apiVersion: v1\nkind: Pod\n{pod}\n"));
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains(message), "{}", run.err);
}

#[test]
fn the_same_input_gives_the_same_output() {
    let files = [("pod.yaml", POD), ("set.yaml", SET)];
    let one = run(&files, &["pod.yaml", "--sidecar-sets=set.yaml"], "");
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let first = second();
    while second() == first {
        std::thread::sleep(Duration::from_millis(20));
    }
    let other = run(&files, &["pod.yaml", "--sidecar-sets=set.yaml"], "");
    assert_eq!(one.out, other.out);
    let again = run(&[("set.yaml", SET)], &["--sidecar-sets=set.yaml"], &one.out);
    assert_eq!(again.out, one.out, "what is injected already is not touched");
    assert!(again.err.contains("Pod shop/p: already has agent/agent"), "{}", again.err);
}

/// Each of these was refused, though kubectl reads it, or was read otherwise. The Pod is injected, and keeps its text.
#[rstest]
#[case::a_hundred_aliases(&(format!("shared: &shared {{a: b}}\n{}---\n", (0..200).map(|index| format!("u{index}: *shared\n")).collect::<Vec<_>>().concat()) + POD))]
#[case::long_comments(&POD.replace("spec:\n", &format!("spec:\n{}", "# a line of a long comment\n".repeat(60))))]
#[case::a_commit(&POD.replace("  name: p\n", "  name: p\n  annotations:\n    commit: 7e4321987\n"))]
#[case::a_later_mark(&format!("{SERVICE}---\n\u{feff}{POD}"))]
#[case::quoted_text_at_column_0(&POD.replace("  name: p\n", "  name: p\n  annotations:\n    text: 'a\nb'\n"))]
#[case::windows(&POD.replace('\n', "\r\n"))]
fn what_kubectl_reads_is_injected_and_keeps_its_text(#[case] text: &str) {
    let run = run(&[("all.yaml", text), ("set.yaml", SET)], &["all.yaml", "--sidecar-sets=set.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.ends_with("1 injected, 0 unchanged, 0 refused\n"), "{}", run.err);
    let mut printed = run.out.lines();
    for line in text.lines() {
        assert!(printed.any(|one| one == line), "{line:?} is missing, or not in its order:\n{}", run.out);
    }
}

/// A label `on` is `true` to kubectl, and so to the cluster.
#[rstest]
#[case::as_kubectl_reads_it("true", 1)]
#[case::as_it_is_written("'on'", 0)]
fn a_selector_meets_the_labels_that_the_cluster_will_have(#[case] key: &str, #[case] injected: usize) {
    let set = SET.replace("logs: collect", &format!("{key}: collect"));
    let pod = POD.replace("logs: collect", "on: collect");
    let run = run(&[("pod.yaml", &pod), ("set.yaml", &set)], &["pod.yaml", "--sidecar-sets=set.yaml"], "");
    assert!(run.err.contains(&format!("{injected} injected")), "{}", run.err);
}

#[test]
fn a_file_of_windows_powershell_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = format!("\u{feff}{POD}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(folder.path().join("pod.yaml"), bytes).unwrap();
    std::fs::write(folder.path().join("set.yaml"), SET).unwrap();
    let run = run_in(folder.path(), &["pod.yaml", "--sidecar-sets=set.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("apiVersion: v1\n") && run.out.contains("  - name: agent\n"), "{}", run.out);
}

#[test]
fn a_document_that_leaves_no_room_is_printed_anew_and_that_is_said() {
    let pod = POD.replace("  - name: app\n", "  - &app # the app\n    name: app\n") + "  other: [*app]\n";
    let pod = pod.replace("  containers:", "  containers: &all").replace("[*app]", "*all");
    let run = run(&[("pod.yaml", &pod), ("set.yaml", SET)], &["pod.yaml", "--sidecar-sets=set.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    let said = "warning: pod.yaml:1: printed anew, without its comments and quotes";
    assert_eq!(run.err.matches(said).count(), 1, "{}", run.err);
    assert!(run.out.contains("  - name: agent\n") && !run.out.contains("# the app"), "{}", run.out);
}
