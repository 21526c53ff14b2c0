//! Who holds which token, in each mode (docs/identities.md, "Three modes").

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use pillion_identity::names;
use serde_json::{Value, json};

use super::sets::WHOAMI;
use super::{StoryNamespace, World, deployment};
use crate::support::create;
use crate::support::node::{self, APP};

/// Returns an init container of the app, which ends.
fn setup() -> Value {
    json!([{"name": "setup", "image": APP, "command": ["sh", "-c", WHOAMI]}])
}

/// Returns what an init container said at its end.
fn last_words<'a>(pod: &'a Value, container: &str) -> &'a str {
    node::container(pod, container)["state"]["terminated"]["message"].as_str().unwrap().trim_end()
}

/// Every container of the sidecar holds its account's token, and no other container holds any.
pub async fn sidecars_only(world: &World) {
    let place = world.place("modes").await;
    place.pod("sidecars-only", "sidecars-only", &json!({"initContainers": setup()})).await;

    let pod = place.ready("sidecars-only").await;

    let logs = "logs lists pods, reads token:logs";
    let nothing = "nobody lists nothing, reads nothing";
    let wanted = [("logs", logs), ("logs-native", logs), ("plain", nothing), ("app", nothing)];
    place.sees("sidecars-only", wanted).await;
    assert_eq!(last_words(&pod, "setup"), "nobody");
    assert_eq!(last_words(&pod, "logs-init"), "system:serviceaccount:modes:logs");
}

/// Two sidecars have two accounts in one Pod, and the app keeps its own.
pub async fn isolate(world: &World) {
    let place = world.place("modes").await;
    let spec = json!({"serviceAccountName": "web", "initContainers": setup()});
    let name = deployed(&place, "isolate", &spec).await;

    let pod = place.ready(&name).await;

    let logs = "logs lists pods, reads token:logs";
    let web = "web lists services, reads token:web";
    let metrics = "metrics lists configmaps, reads token:metrics";
    let wanted = [("logs", logs), ("logs-native", logs), ("metrics", metrics), ("plain", web), ("app", web)];
    place.sees(&name, wanted).await;
    assert_eq!(last_words(&pod, "setup"), "system:serviceaccount:modes:web");
    assert_eq!(last_words(&pod, "logs-init"), "system:serviceaccount:modes:logs");
}

/// The app gets the account of the sidecar.
pub async fn pod(world: &World) {
    let place = world.place("modes").await;
    place.pod("pod", "pod", &json!({})).await;

    place.ready("pod").await;

    let logs = "logs lists pods, reads token:logs";
    place.sees("pod", [("logs", logs), ("app", logs)]).await;
}

/// Two sidecars share an account that has the rights of both, and the app holds nothing.
pub async fn merge(world: &World) {
    let place = world.place("modes").await;
    // The first attempts are refused until the controller has made the account.
    let name = deployed(&place, "merge", &json!({})).await;

    place.ready(&name).await;

    let merged = names::merged(&["logs-merge", "metrics-merge"]);
    let both = format!("{merged} lists pods configmaps, reads token:{merged}");
    let nothing = "nobody lists nothing, reads nothing";
    place.sees(&name, [("logs", both.as_str()), ("metrics", &both), ("app", nothing)]).await;
}

/// Creates a Deployment, and returns the name of its Pod.
async fn deployed(place: &StoryNamespace<'_>, story: &str, spec: &Value) -> String {
    let deployments: Api<Deployment> = Api::namespaced(place.client.clone(), place.namespace);
    create(&deployments, &deployment(story, story, spec)).await.unwrap();
    place.pod_of(story).await
}
