//! The Secrets of mode `Isolate` as containers see them: late, renewed, deleted (TOK-5, TOK-6).

use std::process::Command;

use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use pillion_identity::names::token_secret;
use pillion_testenv::faults::Faults;
use pillion_testenv::{tool, until};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

use super::{StoryNamespace, World, sets};
use crate::controller_tokens::Controller;
use crate::support::accounts::name_of;
use crate::support::node::shell::finished;
use crate::support::node::{self, STARTED};
use crate::support::poke;

/// The age at which a token of the shortest life, 600 seconds, has been due for long.
const OLD: i64 = 590;
const LOGS: &str = "logs lists pods, reads token:logs";
const APP: &str = "default lists nothing, reads token:default";

/// Starts a controller for this namespace alone, whose clock can be set.
async fn controller(place: &StoryNamespace<'_>) -> Controller {
    let config = place.cluster.as_admin().config().await.unwrap();
    Controller::start(config, Faults::none(), sets::settings(), Some(&[place.namespace]), 0)
}

/// Waits until the sidecar reads another token than before, and returns that.
async fn another(place: &StoryNamespace<'_>, pod: &str, before: &str) -> String {
    let shell = place.shell(pod, "logs");
    let file = format!("cat {}/token", pillion_identity::names::MOUNT_PATH);
    let read = async || shell.try_run(&file).await.ok().filter(|token| token != before && !token.is_empty());
    until("another token in the container", STARTED, read).await.unwrap()
}

fn restarts(pod: &Value) -> [i64; 2] {
    ["logs", "app"].map(|name| node::container(pod, name)["restartCount"].as_i64().unwrap())
}

/// A Pod waits for its Secret, says so, and starts once the Secret is there.
pub async fn a_pod_waits_for_its_secret(world: &World) {
    let place = world.place("late").await;
    place.pod("web", "life", &json!({})).await;
    let missing = format!("secret \"{}\" not found", token_secret("logs"));
    let events: Api<Event> = Api::namespaced(place.client.clone(), place.namespace);
    let told = async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.into_iter().filter_map(|event| event.message).find(|message| message.contains(&missing))
    };
    until("the Pod telling what it waits for", STARTED, told).await.unwrap();
    let pods: Api<Pod> = place.pods();
    let waiting = serde_json::to_value(pods.get("web").await.unwrap()).unwrap();
    for name in ["app", "logs"] {
        let state = &node::container(&waiting, name)["state"];
        assert_eq!(state["waiting"]["reason"], "ContainerCreating", "{waiting:#}");
    }

    let _controller = controller(&place).await;

    let pod = place.ready("web").await;
    place.sees("web", [("logs", LOGS), ("app", APP)]).await;
    assert_eq!(restarts(&pod), [0, 0]);
}

/// Without a controller, the commands of docs/identities.md make the Secret that a Pod waits for.
pub async fn the_secret_can_be_made_by_hand(world: &World) {
    let place = world.place("by-hand").await;
    place.pod("web", "life", &json!({})).await;
    let root = workspace();
    let kubectl = tool("kubectl").unwrap();
    let folders = std::env::var("PATH").unwrap();
    let mut reader = Command::new(root.join("tools/run-page"));
    reader.arg(root.join("docs/identities.md")).args(["--from", "without a controller", "--until", "Messages"]);
    reader.args(["--replace", "shop", place.namespace, "--replace", "log-agent", "logs"]);
    reader.env("KUBECONFIG", place.cluster.admin_kubeconfig_file());
    reader.env("PATH", format!("{}:{folders}", kubectl.parent().unwrap().display()));
    let output = finished(reader).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    place.ready("web").await;

    place.sees("web", [("logs", LOGS), ("app", APP)]).await;
}

/// A renewed token reaches the running container, and so does that of a new Secret after the old one was deleted.
pub async fn a_renewed_token_reaches_the_running_container(world: &World) {
    let place = world.place("renewed").await;
    let controller = controller(&place).await;
    place.pod("web", "life", &json!({})).await;
    place.ready("web").await;
    let first = another(&place, "web", "").await;

    controller.set_ahead(OLD);
    poke(&place.client, place.namespace).await;

    let second = another(&place, "web", &first).await;
    place.sees("web", [("logs", LOGS)]).await;
    // Who still holds the first one can go on.
    let logs = "system:serviceaccount:renewed:logs";
    assert_eq!(name_of(place.cluster, &first).await.unwrap(), logs);

    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), place.namespace);
    secrets.delete(&token_secret("logs"), &DeleteParams::default()).await.unwrap();

    let third = another(&place, "web", &second).await;
    place.sees("web", [("logs", LOGS)]).await;
    assert_eq!(name_of(place.cluster, &third).await.unwrap(), logs);
    // The API server remembers for some seconds that a token was valid.
    let is_unknown = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 401);
    for token in [first, second] {
        let ended = async || name_of(place.cluster, &token).await.err().filter(is_unknown);
        until("a token ending with its Secret", STARTED, ended).await.unwrap();
    }
    assert_eq!(restarts(&place.ready("web").await), [0, 0]);
}
