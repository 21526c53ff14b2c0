//! Pods that give their token to some of their containers (docs/guides/token-containers.md).

use pillion_testenv::until;
use serde_json::{Value, json};

use super::boundaries::debug;
use super::sets::WHOAMI;
use super::{World, pod};
use crate::support::create;
use crate::support::node::{self, APP, STARTED};

const WEB: &str = "web lists services, reads token:web";
const NOTHING: &str = "nobody lists nothing, reads nothing";

/// Returns a Pod of a story under the account `web`, whose container `app` alone is to get the token.
fn annotated(name: &str, story: &str) -> Value {
    let spec = json!({
        "serviceAccountName": "web",
        "initContainers": [{"name": "setup", "image": APP, "command": ["sh", "-c", WHOAMI]}],
        "containers": [{"name": "app", "image": APP}, {"name": "proxy", "image": APP}],
    });
    let mut pod = pod(name, story, &spec);
    pod["metadata"]["annotations"] = json!({"pillion.dev/token-containers": "app"});
    pod
}

/// The named container alone holds the token, in a Pod without a SidecarSet, and beside sidecars with identities. No
/// debugging container gets it.
pub async fn the_named_container_alone_holds_the_token(world: &World) {
    let place = world.place("modes").await;
    create(&place.pods(), &annotated("alone", "no-story")).await.unwrap();
    create(&place.pods(), &annotated("beside", "isolate")).await.unwrap();

    for name in ["alone", "beside"] {
        let pod = place.ready(name).await;
        place.sees(name, [("app", WEB), ("proxy", NOTHING)]).await;
        let said = node::container(&pod, "setup")["state"]["terminated"]["message"].as_str().unwrap().trim_end();
        assert_eq!(said, "nobody");
    }
    let logs = "logs lists pods, reads token:logs";
    let metrics = "metrics lists configmaps, reads token:metrics";
    place.sees("beside", [("logs", logs), ("logs-native", logs), ("metrics", metrics), ("plain", NOTHING)]).await;

    let refused = debug(&place, "alone", "at-app", Some("app")).await;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("denied the request"), "{message}");
    let admitted = debug(&place, "alone", "at-proxy", Some("proxy")).await;
    assert!(admitted.status.success(), "{}", String::from_utf8_lossy(&admitted.stderr));
    let shell = place.shell("alone", "at-proxy");
    until("the ephemeral container running", STARTED, async || shell.try_run("true").await.ok()).await.unwrap();
    place.sees("alone", [("at-proxy", NOTHING)]).await;
}
