//! The boundaries between the containers of a Pod, as the kubelet and the kernel draw them (docs/security.md, "What an
//! identity does not protect from").

use std::process::Output;

use pillion_testenv::until;
use serde_json::{Value, json};

use super::{StoryNamespace, World};
use crate::support::create;
use crate::support::node::shell::{finished, kubectl};
use crate::support::node::{self, APP, STARTED};

const NOTHING: &str = "nobody lists nothing, reads nothing";
const LOGS: &str = "logs lists pods, reads token:logs";

/// A container that starts again still has its identity, and the other still has none.
pub async fn a_restarted_container_keeps_its_identity(world: &World) {
    let place = world.place("boundaries").await;
    place.pod("restarted", "boundaries", &json!({})).await;
    place.ready("restarted").await;

    for container in ["logs", "app"] {
        // The command can end with the container that it ends, and then counts as failed.
        let _ = place.shell("restarted", container).try_run("kill -TERM 1").await;
    }

    let again = async || {
        let pod = place.ready("restarted").await;
        let restarts = |name: &str| node::container(&pod, name)["restartCount"].as_i64();
        (restarts("logs") == Some(1) && restarts("app") == Some(1)).then_some(())
    };
    until("both containers being ready again", STARTED, again).await.unwrap();
    place.sees("restarted", [("logs", LOGS), ("app", NOTHING)]).await;
}

/// Runs `kubectl debug` with an ephemeral container of this name.
pub async fn debug(place: &StoryNamespace<'_>, pod: &str, name: &str, target: Option<&str>) -> Output {
    let mut command = kubectl(place.cluster, place.namespace);
    // The image's own command does nothing until it is told to end.
    command.args(["debug", pod, "--profile=general", "--image", APP, "--container", name]);
    command.args(target.map(|target| format!("--target={target}")));
    finished(command).await
}

/// `kubectl debug` cannot look at the sidecar (E7), and sees no token in a container beside it.
pub async fn e7_a_debugging_container_sees_no_token(world: &World) {
    let place = world.place("boundaries").await;
    place.pod("debugged", "boundaries", &json!({})).await;
    place.ready("debugged").await;

    let refused = debug(&place, "debugged", "at-logs", Some("logs")).await;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("denied the request"), "{message}");

    for (name, target) in [("beside", None), ("at-app", Some("app"))] {
        let admitted = debug(&place, "debugged", name, target).await;
        assert!(admitted.status.success(), "{}", String::from_utf8_lossy(&admitted.stderr));
        let shell = place.shell("debugged", name);
        until("the ephemeral container running", STARTED, async || shell.try_run("true").await.ok()).await.unwrap();
        place.sees("debugged", [(name, NOTHING)]).await;
        assert_eq!(of_processes(&place, "debugged", name).await, "");
    }
}

/// Prints the tokens that a container reads through the processes that it sees.
const OF_PROCESSES: &str = "for file in /proc/[0-9]*/root/var/run/secrets/kubernetes.io/serviceaccount/token; do \
                            cat $file 2>/dev/null; done; true";

async fn of_processes(place: &StoryNamespace<'_>, pod: &str, container: &str) -> String {
    place.shell(pod, container).run(OF_PROCESSES).await
}

/// With `shareProcessNamespace`, an app of the sidecar's user reads its token through `/proc`, as the warning says. So does
/// root, which can become that user. An app of another user does not (TOK-9).
pub async fn tok9_processes_in_sight_lead_to_the_token(world: &World) {
    let place = world.place("boundaries").await;
    let spec = |context: Value| {
        let app = json!([{"name": "app", "image": APP, "securityContext": context}]);
        json!({"shareProcessNamespace": true, "containers": app})
    };
    place.pod("shared", "boundaries", &spec(json!({}))).await;
    place.pod("shared-not-root", "boundaries", &spec(json!({"runAsUser": 1000}))).await;
    let mut sidecar_not_root = spec(json!({"runAsUser": 0}));
    sidecar_not_root["securityContext"] = json!({"runAsUser": 2000});
    place.pod("sidecar-not-root", "boundaries", &sidecar_not_root).await;
    place.pod("not-shared", "boundaries", &json!({})).await;
    for pod in ["shared", "shared-not-root", "sidecar-not-root", "not-shared"] {
        place.ready(pod).await;
    }

    // Its own folders hold nothing in either case.
    place.sees("shared", [("app", NOTHING), ("logs", LOGS)]).await;
    let token = place.look("shared", "logs").await.token("token").to_owned();
    assert!(of_processes(&place, "shared", "app").await.contains(&token));
    assert_eq!(of_processes(&place, "shared-not-root", "app").await, "");
    assert_eq!(of_processes(&place, "sidecar-not-root", "app").await, "");
    let line = format!("echo logs:x:2000:0::/:/bin/sh >> /etc/passwd; su logs -c '{OF_PROCESSES}'");
    let token = place.look("sidecar-not-root", "logs").await.token("token").to_owned();
    assert!(place.shell("sidecar-not-root", "app").run(&line).await.contains(&token));
    assert_eq!(of_processes(&place, "not-shared", "app").await, "");
}

/// Tokens that the app mounts for itself, from a volume of several sources, or one file of it, stay its own: a sidecar
/// that shares the volumes of the app does not get them, nor the app those of the sidecar (E4).
pub async fn e4_the_apps_own_tokens_stay_its_own(world: &World) {
    let place = world.place("boundaries").await;
    let sources = json!([
        {"serviceAccountToken": {"audience": "vault", "path": "vault-token"}},
        {"configMap": {"name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]);
    let mounts = json!([
        {"name": "own", "mountPath": "/own"},
        {"name": "own", "mountPath": "/one/file", "subPath": "vault-token"},
        {"name": "data", "mountPath": "/data"},
    ]);
    let spec = json!({
        "serviceAccountName": "web",
        "containers": [{"name": "app", "image": APP, "volumeMounts": mounts}],
        "volumes": [{"name": "own", "projected": {"sources": sources}}, {"name": "data", "emptyDir": {}}],
    });
    place.pod("own-tokens", "own-tokens", &spec).await;

    place.ready("own-tokens").await;

    let own = "web lists services, reads /one/file:web@vault /own/vault-token:web@vault token:web";
    place.sees("own-tokens", [("app", own), ("logs", LOGS)]).await;
    // It does share what holds no token.
    place.shell("own-tokens", "app").run("echo hello > /data/text").await;
    assert_eq!(place.shell("own-tokens", "logs").run("cat /data/text; ls -d /own 2>/dev/null || true").await, "hello");
}

/// Nobody runs a container without its sidecars by calling the Pod a mirror (SAP-9): the kubelet removes a mirror of a Pod
/// that it does not have.
pub async fn sap9_e9_a_mirror_pod_does_not_run(world: &World) {
    let place = world.place("boundaries").await;
    let node = world.cluster.real_nodes().next().unwrap().name();
    let mut mirror = super::pod("mirror", "boundaries", &json!({"nodeName": node}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "d0e1"});

    create(&place.pods(), &mirror).await.unwrap();

    let gone = async || {
        let Some(pod) = place.pods().get_opt("mirror").await.unwrap() else { return Some(()) };
        let status = serde_json::to_value(pod.status).unwrap();
        assert_eq!(status["containerStatuses"], Value::Null, "a kubelet looks after the mirror");
        None
    };
    until("the end of the mirror", STARTED, gone).await.unwrap();
}
