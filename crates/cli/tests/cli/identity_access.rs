//! `pillion check --cluster` lists who can get at the identities of sidecars (ESC-8). Which rights lead there is tested in
//! crates/check.

use pillion_samples::access::{bound, jane, namespace, rule, set};
use serde_json::{Value, json};

use crate::cluster::run;
use crate::support::Run;
use crate::support::api_server::{ApiServer, forbidding};

fn checked(mode: &str, objects: &[Value], args: &[&str]) -> (Run, Vec<String>) {
    let fixed = [
        set(mode),
        namespace("shop", "a"),
        namespace("web", "a"),
        namespace("other", "b"),
        namespace("kube-system", "a"),
    ];
    let server = ApiServer::start(&[&fixed, objects].concat(), |_| {});
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let run = run(folder.path(), &[&["check", "--cluster", "-o", "json"], args].concat(), &[]);
    let found: Vec<Value> = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.err));
    let mine = found.iter().filter(|finding| finding["rule"] == "identity-access");
    let lines = mine.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect();
    (run, lines)
}

#[test]
fn esc8_administrators_are_summed_up() {
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let mut objects = bound(None, &[everything], &jane());
    objects[1]["subjects"] = (0..7).map(|index| json!({"kind": "User", "name": format!("admin-{index}")})).collect();
    let (run, lines) = checked("Isolate", &objects, &[]);
    assert_eq!(lines, [""; 0]);
    let note = "note: identities of sidecars can also be had by those who may do everything (User \"admin-0\", User \"admin-1\", \
                User \"admin-2\", User \"admin-3\", User \"admin-4\" and 2 more)\n";
    assert!(run.err.contains(note), "{}", run.err);
    let (run, _) = checked("Isolate", &objects, &["--disable", "identity-access"]);
    assert!(!run.err.contains("can also be had"), "{}", run.err);
}

#[test]
fn esc8_the_warning_can_be_turned_off() {
    let objects = bound(Some("shop"), &[rule(&["pods/exec"], &["create"], &[])], &jane());
    let (run, lines) = checked("SidecarsOnly", &objects, &["--warnings-as-errors"]);
    assert_eq!((run.code, lines.len()), (1, 1), "{}", run.err);
    let (_, lines) = checked("SidecarsOnly", &objects, &["--disable", "identity-access"]);
    assert_eq!(lines, [""; 0]);
}

/// Nothing is guessed without the rights to read.
#[test]
fn esc8_a_missing_right_is_told() {
    let objects = bound(Some("shop"), &[rule(&["pods/exec"], &["create"], &[])], &jane());
    let fixed = [set("Isolate"), namespace("shop", "a")];
    let server = ApiServer::start(&[&fixed[..], &objects].concat(), forbidding(&["/clusterrolebindings"]));
    let folder = tempfile::tempdir().unwrap();
    server.kubeconfig(folder.path());
    let run = run(folder.path(), &["check", "--cluster"], &[]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("the verb \"list\" on clusterrolebindings.rbac.authorization.k8s.io"), "{}", run.err);
}

/// Without a cluster, files show only some of the bindings.
#[test]
fn esc8_files_alone_say_nothing() {
    let objects = bound(Some("shop"), &[rule(&["pods/exec"], &["create"], &[])], &jane());
    let all = [&[set("Isolate"), namespace("shop", "a")], &objects[..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), &["check", "-", "-o", "json"], &all);
    assert!(!run.out.contains("identity-access"), "{}", run.out);
}
