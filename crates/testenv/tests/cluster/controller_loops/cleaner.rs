//! `legacy-token-cleaner` (CLN-2).

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pillion_runtime::{Clock, Context};
use pillion_service_accounts::legacy_token_cleaner;
use pillion_service_accounts::token_controller::{Options as TokenOptions, SigningKey};
use pillion_testenv::faults::Faults;
use pillion_testenv::until;
use serde_json::json;

use super::{Fixture, SOON, context, fixture, token_options};
use crate::support::clock::Ahead;

const DAY: i64 = 24 * 60 * 60;
const PERIOD: Duration = Duration::from_hours(365 * 24);
const INVALID: &str = "kubernetes.io/legacy-token-invalid-since";

/// Returns the cleaner's context and its clock: two years ahead, so that the API server has tracked uses for long
/// enough.
async fn cleaner(fixture: &Fixture, faults: &Faults) -> (Context, Ahead) {
    let ahead = Ahead::default();
    ahead.set(800 * DAY);
    let context = context(fixture.config().await, faults, ahead.clock());
    // The API server creates the ConfigMap some time after it is ready.
    let maps = Api::<ConfigMap>::namespaced(fixture.client.clone(), "kube-system");
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    until("the ConfigMap of the API server", SOON, async || maps.get(name).await.ok()).await.unwrap();
    (context, ahead)
}

/// Returns the label with the date since which each Secret's token is invalid, in this order; `-` for a deleted Secret.
async fn labels(fixture: &Fixture, namespace: &str, names: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for name in names {
        let secret = fixture.secrets(namespace).get_opt(name).await.unwrap();
        let label = |secret: k8s_openapi::api::core::v1::Secret| {
            secret.metadata.labels.and_then(|labels| labels.get(INVALID).cloned()).unwrap_or_default()
        };
        all.push(secret.map_or("-".to_owned(), label));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn cln2_a_token_that_nobody_uses_becomes_invalid_and_goes() {
    let fixture = fixture().await;
    let namespace = fixture.cluster.namespace("clean").await.unwrap();
    let (context, ahead) = cleaner(&fixture, &Faults::none()).await;
    let today = context.clock.now().to_string();
    let today = today.split_once('T').unwrap().0;
    let names = ["unused", "manual", "mounted", "used", "unclear"];
    fixture.account(&namespace, "bot", &["unused", "mounted", "used", "unclear"]).await;
    for name in names {
        fixture.secret(&namespace, name, "bot").await;
    }
    let label = async |name: &str, key: &str, value: &str| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
        fixture.secrets(&namespace).patch(name, &PatchParams::default(), &patch).await.unwrap();
    };
    label("used", "kubernetes.io/legacy-token-last-used", today).await;
    label("unclear", "kubernetes.io/legacy-token-last-used", "yesterday").await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "app"},
        "spec": {
            "containers": [{"name": "app", "image": "app:1"}],
            "volumes": [{"name": "token", "secret": {"secretName": "mounted"}}]
        }
    }))
    .unwrap();
    let pods = Api::<Pod>::namespaced(fixture.client.clone(), &namespace);
    pods.create(&PostParams::default(), &pod).await.unwrap();

    // Nothing happens before uses have been tracked for long enough.
    ahead.set(0);
    legacy_token_cleaner::clean(&context, PERIOD).await.unwrap();
    assert_eq!(labels(&fixture, &namespace, &names).await, ["", "", "", "", ""]);
    ahead.set(800 * DAY);
    legacy_token_cleaner::clean(&context, PERIOD).await.unwrap();
    assert_eq!(labels(&fixture, &namespace, &names).await, [today, "", "", "", ""]);

    // An invalid Secret stays for a whole period before it is deleted.
    ahead.set(1000 * DAY);
    legacy_token_cleaner::clean(&context, PERIOD).await.unwrap();
    assert_eq!(labels(&fixture, &namespace, &names).await, [today, "", "", "", ""]);
    ahead.set((800 + 366) * DAY);
    pods.delete("app", &DeleteParams::default().grace_period(0)).await.unwrap();
    legacy_token_cleaner::clean(&context, PERIOD).await.unwrap();
    let left = labels(&fixture, &namespace, &names).await;
    assert_eq!((left[0].as_str(), left[1].as_str(), left[4].as_str()), ("-", "", ""));
    assert!(!left[2].is_empty(), "nobody mounts it any more");
    assert!(!left[3].is_empty(), "its use is longer ago by now");
}

#[tokio::test(flavor = "multi_thread")]
async fn cln1_the_api_server_refuses_a_token_that_is_invalid() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("refuse").await;
    fixture.account(&namespace, "bot", &["s"]).await;
    fixture.secret(&namespace, "s", "bot").await;
    let key = std::fs::read(fixture.cluster.folder().join("service-accounts.key")).unwrap();
    let options = TokenOptions { key: Some(SigningKey::from_pem(&key).unwrap()), ..token_options(fixture.cluster) };
    let running = fixture.start_tokens(&Faults::none(), Clock::system(), options).await;
    let token = fixture.token(&namespace, "s", |_| true).await;
    running.kill().await;
    let (context, _) = cleaner(&fixture, &Faults::none()).await;

    // The token was never sent to the API server, so it counts as unused.
    legacy_token_cleaner::clean(&context, PERIOD).await.unwrap();

    let refused = async || fixture.bearer(&token).await.is_none().then_some(());
    until("the token being refused", SOON, refused).await.unwrap();
    let back = Patch::Merge(json!({"metadata": {"labels": {INVALID: null}}}));
    fixture.secrets(&namespace).patch("s", &PatchParams::default(), &back).await.unwrap();
    let accepted = async || fixture.bearer(&token).await;
    until("the token being taken", SOON, accepted).await.unwrap();
}
