//! `pillion inject`, as users run it. Which objects get sidecars, and how they come out, is tested in crates/preview.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pillion_samples::manifests::{POD, SERVICE, SET};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::injection::{run, run_in};

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
