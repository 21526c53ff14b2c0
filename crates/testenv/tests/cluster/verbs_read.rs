//! `pillion status` and `pillion rollout` on a real API server, while Pods that kwok restarts are rolled out.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use pillion_testenv::until;
use serde_json::{Value, json};

use crate::rollout::{NEW, OLD, RolloutNamespace, cluster};
use crate::support::{SOON, create, program};

fn unedited(_: usize, _: &mut Value) {}

/// Returns a command of Pillion that looks at the cluster.
async fn pillion(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.env("KUBECONFIG", cluster().await.admin_kubeconfig_file()).args(args).stdin(Stdio::null());
    command
}

/// Runs a command to its end. Returns its exit code and what it printed.
async fn run(args: &[&str]) -> (i32, String, String) {
    ended(pillion(args).await.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).await
}

async fn spawn(args: &[&str]) -> Child {
    pillion(args).await.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn ended(child: Child) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Reads lines of a command that goes on, up to one that is expected. Reads no byte more.
fn read_until(pipe: &mut impl Read, mut is_expected: impl FnMut(&str) -> bool) -> String {
    let (mut read, mut line) = (String::new(), Vec::new());
    while !read.lines().last().is_some_and(&mut is_expected) {
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            assert_eq!(pipe.read(&mut byte).unwrap(), 1, "the command has ended: {read}");
            line.extend(byte);
        }
        read.push_str(str::from_utf8(&line).unwrap());
        line.clear();
    }
    read
}

async fn json_of(args: &[&str]) -> Value {
    let (code, out, err) = run(args).await;
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_followed_to_its_end() {
    let place = RolloutNamespace::new().await;
    let name = place.set_name("agent");
    place.fill(&[place.set("agent", &json!({}))], 5, unedited).await;
    place.complete("agent", 5).await;
    let (code, out, err) = run(&["rollout", "status", &name, "--watch=false"]).await;
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("is rolled out: Complete: 5 of 5 Pods are updated"), "{out}");

    // The command begins with the edit: the status of the generation before does not count.
    place.release("agent", NEW).await;
    let waiting = spawn(&["rollout", "status", &name, "--timeout", "3m"]).await;
    let middle = async || {
        let report = json_of(&["status", &name, "-o", "json"]).await;
        let updated = report["updatedPods"].as_u64()?;
        (updated > 0 && updated < 5).then_some(report)
    };
    let report = until("the middle of the rollout", SOON, middle).await.unwrap();
    let groups = report["podsByRevision"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{report:#}");
    assert_eq!((&groups[0]["inForce"], &groups[0]["pods"]), (&json!(true), &report["updatedPods"]));
    assert_eq!((&groups[0]["revision"], &groups[1]["revision"]), (&json!(2), &json!(1)));
    let field = json!({"path": "containers[agent].image", "before": OLD, "after": NEW, "takes": "inPlace"});
    assert_eq!(report["differences"][0]["fields"], json!([field]), "{report:#}");

    let (code, out, err) = ended(waiting).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("is rolled out: Complete: 5 of 5 Pods are updated"), "{out}");
    assert!(err.lines().any(|line| line.starts_with("RollingOut: ")), "{err}");
    let revisions = json_of(&["rollout", "history", &name, "-o", "json"]).await;
    let rows: Vec<_> = revisions["revisions"].as_array().unwrap().iter().collect();
    let shown =
        |row: &Value| (row["revision"].clone(), row["pods"].clone(), row["inForce"].clone(), row["images"].clone());
    assert_eq!(
        rows.into_iter().map(shown).collect::<Vec<_>>(),
        [(json!(1), json!(0), json!(false), json!([OLD])), (json!(2), json!(5), json!(true), json!([NEW]))]
    );
    let (_, before, _) = run(&["rollout", "history", &name, "--revision", "1"]).await;
    assert!(before.contains(&format!("image: {OLD}")) && before.contains("namespaceSelector"), "{before}");
    let (_, difference, _) = run(&["rollout", "history", &name, "--diff", "1", "2"]).await;
    assert!(difference.contains(&format!("+    image: {NEW}")), "{difference}");
}

#[tokio::test(flavor = "multi_thread")]
async fn roll64_pods_that_cannot_be_upgraded_are_shown_with_the_fields_and_the_budgets() {
    let place = RolloutNamespace::new().await;
    let name = place.set_name("agent");
    let container = |level: &str| json!([{"name": "agent", "image": OLD, "env": [{"name": "LEVEL", "value": level}]}]);
    place.fill(&[place.set("agent", &json!({"containers": container("1")}))], 2, unedited).await;
    place.ended("agent", "Complete").await;
    // No controller counts for budgets in this cluster, so they allow nothing.
    let budgets = Api::<PodDisruptionBudget>::namespaced(place.client.clone(), &place.name);
    for budget in ["one", "two"] {
        let selector = json!({"matchLabels": {"app": "web"}});
        create(&budgets, &json!({"metadata": {"name": budget}, "spec": {"selector": selector}})).await.unwrap();
    }
    place.change("agent", &json!({"containers": container("2")})).await;
    place.ended("agent", "NotUpgradablePods").await;

    let (code, out, _) = run(&["rollout", "status", &name, "--timeout", "1m"]).await;
    assert_eq!(code, 1);
    assert!(out.contains("is stalled: NotUpgradablePods: 2 Pods cannot be upgraded"), "{out}");
    let report = json_of(&["status", &name, "-o", "json"]).await;
    assert_eq!(report["state"], "Stalled");
    let stuck = report["notUpgradable"].as_array().unwrap();
    assert_eq!(stuck.len(), 2);
    assert_eq!(stuck[0]["reason"], "more than images has changed: containers[agent].env[LEVEL].value");
    assert_eq!(stuck[0]["condition"], false, "the controller has told it in the Pod's condition");
    assert_eq!(report["held"][1]["budgets"], json!(["one", "two"]));
    let (_, text, err) = run(&["status", &name]).await;
    assert!(text.contains("containers[agent].env[LEVEL].value   1        2       recreate"), "{text}{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_with_the_sidecar_set() {
    let place = RolloutNamespace::new().await;
    let name = place.set_name("agent");
    place.fill(&[place.set("agent", &json!({"updateStrategy": {"paused": true}}))], 1, unedited).await;
    place.ended("agent", "Complete").await;
    place.release("agent", NEW).await;
    place.ended("agent", "Paused").await;
    let (code, _, err) = run(&["rollout", "status", &name, "--timeout", "2s"]).await;
    assert_eq!(code, 1);
    assert!(err.contains("the time is over") && err.contains("Paused: updateStrategy.paused is true"), "{err}");

    let mut waiting = spawn(&["rollout", "status", &name, "--timeout", "2m"]).await;
    let said = read_until(waiting.stderr.as_mut().unwrap(), |line| line.contains("Paused"));
    place.delete("agent").await;
    let (code, out, err) = ended(waiting).await;
    let err = said + &err;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.ends_with(&format!("error: SidecarSet \"{name}\" was deleted\n")), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_follow_the_changes_and_names_are_completed() {
    let place = RolloutNamespace::new().await;
    let name = place.set_name("agent");
    let mut set = place.set("agent", &json!({}));
    set["metadata"]["labels"] = json!({"of": place.name});
    place.fill(&[set], 2, unedited).await;
    place.complete("agent", 2).await;
    let labels = format!("of={}", place.name);
    let (_, names, _) = run(&["status", "-l", &labels, "-o", "name"]).await;
    assert_eq!(names, format!("sidecarset.apps.kruise.io/{name}\n"));
    let of_namespace = json_of(&["status", "-n", &place.name, "-o", "json"]).await;
    let sets = of_namespace["sidecarSets"].as_array().unwrap();
    assert_eq!((sets.len(), &sets[0]["name"], &sets[0]["matchedPods"]), (1, &json!(name), &json!(2)));

    let mut watching = spawn(&["status", "-l", &labels, "--watch"]).await;
    let mut rows = read_until(watching.stdout.as_mut().unwrap(), |row| row.contains("nothing"));
    place.release("agent", NEW).await;
    place.ended("agent", "Complete").await;
    let mut has_begun = false;
    rows += &read_until(watching.stdout.as_mut().unwrap(), |row| {
        has_begun |= !row.contains("nothing");
        has_begun && row.contains("nothing")
    });
    watching.kill().unwrap();
    let errors = watching.wait_with_output().unwrap().stderr;
    let errors = String::from_utf8_lossy(&errors);
    let waits: Vec<bool> = rows.lines().skip(1).map(|row| row.contains("nothing")).collect();
    assert!(waits.len() > 2 && waits[0] && waits.last() == Some(&true), "{rows}{errors}");
    assert!(waits.contains(&false), "the rollout is seen while it goes on: {rows}");

    let words = ["--", "pillion", "rollout", "history", &name, "--revision", ""];
    let mut asking = pillion(&words).await;
    asking.envs([("PILLION_COMPLETE", "zsh"), ("_CLAP_COMPLETE_INDEX", "5")]);
    let output = asking.output().unwrap();
    let revisions = String::from_utf8(output.stdout).unwrap();
    assert_eq!(revisions.lines().map(|line| line.split(':').next().unwrap()).collect::<Vec<_>>(), ["2", "1"]);
}
