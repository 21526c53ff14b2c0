//! `pillion inject`, as users run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::injection::{POD, SERVICE, SET, containers, run, run_in};

#[test]
fn a_pod_is_injected_and_everything_else_comes_out_as_it_was_written() {
    let text = format!("{SERVICE}---\n# above\n{POD}---\n{SET}");
    let run = run(&[("all.yaml", &text)], &["all.yaml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.out, @r#"
    # a comment
    apiVersion: v1
    kind:   Service
    metadata: {name: s}
    ---
    # above
    apiVersion: v1
    kind: Pod
    metadata:
      name: p
      namespace: shop
      labels: {logs: collect}   # this is what the set selects
      annotations:
        kruise.io/sidecarset-hash: '{"agent":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"d5fwc4ffx66b5w894482468955c8zd94ddc859ddvwz7b4w4762822c2zv942v78","sidecarSetName":"agent","sidecarList":["agent"]}}'
        kruise.io/sidecarset-hash-without-image: '{"agent":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"w4wbbbzc528cz8xwdbdcd9cw542xfb8ff4cb4x446wxfwd46dc7266w8c9bw8c99","sidecarSetName":"agent","sidecarList":["agent"]}}'
        kruise.io/sidecarset-injected-list: agent
    spec:
      containers:
      - name: app
        image: app:1
      - name: agent
        image: agent:1
        env:
        - name: IS_INJECTED
          value: "true"
        imagePullPolicy: IfNotPresent
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
    ---
    apiVersion: apps.kruise.io/v1beta1
    kind: SidecarSet
    metadata: {name: agent}
    spec:
      selector: {matchLabels: {logs: collect}}
      containers:
      - {name: agent, image: 'agent:1', podInjectPolicy: AfterAppContainer}
    "#);
    insta::assert_snapshot!(run.err, @"
    Pod shop/p: injected agent/agent
    1 injected, 0 unchanged, 0 refused
    ");
}

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

#[test]
fn a_diff_shows_only_what_changes() {
    let run = run(&[("pod.yaml", POD), ("set.yaml", SET)], &["pod.yaml", "--sidecar-sets", "set.yaml", "--diff"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.readable(), @r#"
    --- Pod shop/p
    +++ Pod shop/p (injected)
    @@ -4,7 +4,19 @@
       name: p
       namespace: shop
       labels: {logs: collect}   # this is what the set selects
    +  annotations:
    +    kruise.io/sidecarset-injected-list: agent
     spec:
       containers:
       - name: app
         image: app:1
    +  - name: agent
    +    image: agent:1
    +    env:
    +    - name: IS_INJECTED
    +      value: "true"
    +    imagePullPolicy: IfNotPresent
    +    terminationMessagePath: /dev/termination-log
    +    terminationMessagePolicy: File
    "#);
}

#[test]
fn colours_are_for_those_who_ask() {
    let files = [("pod.yaml", POD), ("set.yaml", SET)];
    let plain = run(&files, &["pod.yaml", "--sidecar-sets=set.yaml", "--diff"], "");
    assert!(!plain.out.contains('\u{1b}') && !plain.err.contains('\u{1b}'));
    let coloured = run(&files, &["pod.yaml", "--sidecar-sets=set.yaml", "--diff", "--color=always"], "");
    assert!(coloured.out.contains("\u{1b}[32m+  - name: agent"), "{}", coloured.out);
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
fn a_refused_object_is_left_out_and_the_others_are_printed() {
    let clash = POD.replace("name: p", "name: clash").replace("name: app", "name: agent");
    let text = format!("{POD}---\n{clash}---\n{SERVICE}");
    let run = run(&[("all.yaml", &text), ("set.yaml", SET)], &["all.yaml", "--sidecar-sets=set.yaml"], "");
    assert_eq!(run.code, 1);
    insta::assert_snapshot!(run.err, @r#"
    Pod shop/p: injected agent/agent
    error: all.yaml:12: Pod shop/clash: refused (403): SidecarSet "agent": spec.containers[0].name: sidecar "agent" has the name of a container of the Pod; rename the Pod's "agent" or the sidecar
    1 injected, 0 unchanged, 1 refused
    "#);
    assert!(run.out.contains("name: p\n") && !run.out.contains("clash") && run.out.ends_with(SERVICE), "{}", run.out);
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

#[test]
fn workloads_come_out_as_pods_where_asked() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template()}
    });
    let text = format!("{SERVICE}---\n{deployment}\n");
    let run = run(&[("set.yaml", SET)], &["-", "--sidecar-sets=set.yaml", "--as-pods", "--namespace=shop"], &text);
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.readable(), @r#"
    apiVersion: v1
    kind: Pod
    metadata:
      generateName: web-preview-
      namespace: shop
      annotations:
        kruise.io/sidecarset-injected-list: agent
      labels:
        logs: collect
        pod-template-hash: preview
      ownerReferences:
      - apiVersion: apps/v1
        kind: ReplicaSet
        name: web-preview
        blockOwnerDeletion: true
        controller: true
        uid: preview
    spec:
      containers:
      - name: app
        image: app:1
      - name: agent
        image: agent:1
        env:
        - name: IS_INJECTED
          value: "true"
        imagePullPolicy: IfNotPresent
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
    "#);
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
#[case::missing_file(&["nowhere.yaml"], "error: nowhere.yaml: No such file or directory")]
#[case::missing_settings(&["-", "--settings=nowhere.yaml"], "error: nowhere.yaml: No such file or directory")]
#[case::missing_sets(&["-", "--sidecar-sets=nowhere.yaml"], "error: nowhere.yaml: No such file or directory")]
#[case::empty_folder(&["empty"], "error: empty: no .yaml, .yml or .json file in this folder")]
#[case::diff_of_a_format(&["-", "--diff", "-o=json"], "cannot be used with")]
#[case::label(&["-", "--namespace-labels=x"], "a label is written KEY=VALUE")]
#[case::flag(&["--sidecarsets=x"], "--sidecar-sets")]
fn what_cannot_be_done_ends_with_2(#[case] args: &[&str], #[case] message: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    let run = run_in(folder.path(), args, POD);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
    assert!(run.err.contains(message), "{}", run.err);
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
fn a_time_has_to_be_one() {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"));
    let output = command.args(["inject", "--now=yesterday"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a time is written as RFC 3339 has it"));
}

#[test]
fn nothing_to_inject_is_said() {
    let run = run(&[], &["-"], SERVICE);
    assert_eq!((run.code, run.out.as_str()), (0, SERVICE));
    insta::assert_snapshot!(run.err, @"
    warning: no SidecarSets: give them among the manifests, with --sidecar-sets, or with --settings
    warning: no Pod and nothing that makes Pods among the manifests
    ");
}

#[test]
fn folders_are_read_one_level_deep_unless_told_otherwise() {
    let files = [("a/set.yaml", SET), ("a/b/pod.yml", POD), ("a/notes.txt", "not: [yaml")];
    let flat = run(&files, &["-f", "a"], "");
    assert_eq!(flat.out, SET);
    let deep = run(&files, &["-f", "a", "-R"], "");
    assert!(deep.err.contains("Pod shop/p: injected"), "{}", deep.err);
    assert!(deep.out.ends_with(SET), "files by name: {}", deep.out);
}

/// The reader closes the pipe while 200 documents are written.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let pods: Vec<String> = (0..200).map(|index| POD.replace("name: p", &format!("name: p{index}"))).collect();
    fs::write(folder.path().join("pods.yaml"), format!("{}---\n{SET}", pods.join("---\n"))).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(["inject", "-q", "pods.yaml"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let whole = run_in(folder.path(), &["pods.yaml"], "");
    assert!(whole.err.ends_with("200 injected, 0 unchanged, 0 refused\n"), "{}", whole.err);
    assert_eq!(whole.out.matches("\n---\n").count(), 200);
}

#[test]
fn a_full_disk_is_an_error() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pod.yaml"), POD).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(["inject", "pod.yaml"])
        .current_dir(folder.path())
        .stdout(fs::OpenOptions::new().write(true).open(full).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
}

/// If the compiled module cannot be stored, it is compiled each time.
#[test]
fn a_home_that_cannot_be_written_is_no_obstacle() {
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(["inject", "-q", "-"])
        .env("HOME", "/proc/nowhere")
        .env("XDG_CACHE_HOME", "/proc/nowhere")
        .write_stdin(SERVICE)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
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
