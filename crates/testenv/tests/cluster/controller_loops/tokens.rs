//! `serviceaccount-token` (TKN-1).

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pillion_runtime::Clock;
use pillion_service_accounts::token_controller::SigningKey;
use pillion_testenv::faults::Faults;
use pillion_testenv::until;
use serde_json::json;

use super::{Fixture, SOON, fixture, settled, token_options, value};
use crate::support::clock::Ahead;

/// Returns an annotation of the Secret `s`.
async fn annotation(fixture: &Fixture, namespace: &str, key: &str) -> Option<String> {
    let secret = fixture.secrets(namespace).get("s").await.unwrap();
    secret.metadata.annotations?.get(key).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn run5_tkn6_a_token_secret_is_filled_with_a_token_that_ends_with_it() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("fill").await;
    let account = fixture.account(&namespace, "bot", &[]).await;
    let faults = Faults::none();
    let running = fixture.start_tokens(&faults, Clock::system(), token_options(fixture.cluster)).await;
    fixture.secret(&namespace, "s", "bot").await;

    let token = fixture.token(&namespace, "s", |_| true).await;

    let name = format!("system:serviceaccount:{namespace}:bot");
    assert_eq!(fixture.bearer(&token).await.as_deref(), Some(name.as_str()));
    let stored = fixture.secrets(&namespace).get("s").await.unwrap();
    assert_eq!(value(&stored, "ca.crt").unwrap(), fixture.cluster.authority_certificate());
    assert_eq!(value(&stored, "namespace").as_deref(), Some(namespace.as_str()));
    let uid = annotation(&fixture, &namespace, "kubernetes.io/service-account.uid").await;
    assert_eq!(uid, account.metadata.uid);
    assert!(annotation(&fixture, &namespace, "pillion.dev/token-expires-at").await.is_some());

    // TKN-2: no Secret is created for an account without one. TKN-6: a complete Secret is not written.
    fixture.account(&namespace, "other", &[]).await;
    let before = settled(&faults).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    fixture.secrets(&namespace).patch("s", &PatchParams::default(), &label).await.unwrap();
    assert_eq!(settled(&faults).await, before, "{:?}", faults.requests());
    let all = fixture.secrets(&namespace).list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);

    // Removed values are filled in again.
    let empty = Patch::Merge(json!({"data": {"token": null, "namespace": null, "ca.crt": "eA=="}}));
    fixture.secrets(&namespace).patch("s", &PatchParams::default(), &empty).await.unwrap();
    fixture.token(&namespace, "s", |again| again != token).await;
    let stored = fixture.secrets(&namespace).get("s").await.unwrap();
    assert_eq!(value(&stored, "ca.crt").unwrap(), fixture.cluster.authority_certificate());

    // TOK-6: the token ends with the Secret.
    fixture.secrets(&namespace).delete("s", &DeleteParams::default()).await.unwrap();
    let nobody = async || fixture.bearer(&token).await.is_none().then_some(());
    until("the token being refused", SOON, nobody).await.unwrap();
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tkn3_and_tkn5_secrets_go_with_their_account() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("go").await;
    fixture.account(&namespace, "bot", &[]).await;
    fixture.account(&namespace, "other", &[]).await;
    let running = fixture.start_tokens(&Faults::none(), Clock::system(), token_options(fixture.cluster)).await;
    // TKN-1: a Secret of another type, with the annotations of a token Secret.
    let opaque = json!({
        "metadata": {"name": "opaque", "annotations": {"kubernetes.io/service-account.name": "missing"}}
    });
    let opaque: Secret = serde_json::from_value(opaque).unwrap();
    fixture.secrets(&namespace).create(&PostParams::default(), &opaque).await.unwrap();
    for (name, account) in [("a", "bot"), ("b", "bot"), ("c", "other")] {
        fixture.secret(&namespace, name, account).await;
        fixture.token(&namespace, name, |_| true).await;
    }
    // TKN-5: a Secret for an account that never existed.
    fixture.secret(&namespace, "orphan", "missing").await;
    fixture.gone(&fixture.secrets(&namespace), "orphan").await;

    // TKN-3: an account that is recreated at once is a different account.
    fixture.accounts(&namespace).delete("bot", &DeleteParams::default()).await.unwrap();
    fixture.account(&namespace, "bot", &[]).await;
    fixture.gone(&fixture.secrets(&namespace), "a").await;
    fixture.gone(&fixture.secrets(&namespace), "b").await;

    for name in ["c", "opaque"] {
        assert!(fixture.secrets(&namespace).get_opt(name).await.unwrap().is_some(), "{name}");
    }
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tkn4_an_account_no_longer_names_a_secret_that_was_deleted() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("names").await;
    fixture.account(&namespace, "bot", &["a", "b", "config"]).await;
    let running = fixture.start_tokens(&Faults::none(), Clock::system(), token_options(fixture.cluster)).await;
    for name in ["a", "b"] {
        fixture.secret(&namespace, name, "bot").await;
        fixture.token(&namespace, name, |_| true).await;
    }

    fixture.secrets(&namespace).delete("a", &DeleteParams::default()).await.unwrap();

    let left = async || Some(fixture.named(&namespace, "bot").await).filter(|named| named == &["b", "config"]);
    until("the name being gone", SOON, left).await.unwrap();
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tkn9_what_was_missed_is_made_up_for_at_the_start() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("missed").await;
    fixture.account(&namespace, "bot", &["bot-token-x2b4z", "config", "bot-token-zzzzz"]).await;
    fixture.secret(&namespace, "orphan", "missing").await;
    fixture.secret(&namespace, "empty", "bot").await;
    let opaque: Secret = serde_json::from_value(json!({"metadata": {"name": "bot-token-zzzzz"}})).unwrap();
    fixture.secrets(&namespace).create(&PostParams::default(), &opaque).await.unwrap();

    let running = fixture.start_tokens(&Faults::none(), Clock::system(), token_options(fixture.cluster)).await;

    fixture.gone(&fixture.secrets(&namespace), "orphan").await;
    fixture.token(&namespace, "empty", |_| true).await;
    let left = ["config", "bot-token-zzzzz"];
    let named = async || Some(fixture.named(&namespace, "bot").await).filter(|named| named == &left);
    until("the name being gone", SOON, named).await.unwrap();
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tok7_a_token_is_replaced_before_it_ends() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("rotate").await;
    fixture.account(&namespace, "bot", &[]).await;
    fixture.secret(&namespace, "s", "bot").await;
    let (ahead, faults) = (Ahead::default(), Faults::none());
    let running = fixture.start_tokens(&faults, ahead.clock(), token_options(fixture.cluster)).await;
    let first = fixture.token(&namespace, "s", |_| true).await;
    // A Secret without its namespace wakes the controller.
    let touch = async || {
        let patch = Patch::Merge(json!({"data": {"namespace": null}}));
        fixture.secrets(&namespace).patch("s", &PatchParams::default(), &patch).await.unwrap();
    };

    ahead.set(40 * 60);
    touch().await;
    let before = settled(&faults).await;
    assert_eq!(fixture.token(&namespace, "s", |_| true).await, first, "after 67 % of its life");
    ahead.set(49 * 60);
    touch().await;
    let second = fixture.token(&namespace, "s", |token| token != first).await;
    ahead.set(0);
    settled(&faults).await;

    // TOK-6: the previous token stays valid, for clients that have already read it.
    let name = format!("system:serviceaccount:{namespace}:bot");
    for token in [&first, &second] {
        assert_eq!(fixture.bearer(token).await.as_deref(), Some(name.as_str()));
    }
    let of_account = |request: &&String| request.contains("/serviceaccounts/bot/token");
    assert!(faults.requests()[before..].iter().any(|request| of_account(&request)));
    running.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tkn10_with_the_key_of_the_cluster_a_token_does_not_end() {
    let fixture = fixture().await;
    let namespace = fixture.namespace("legacy").await;
    fixture.account(&namespace, "bot", &[]).await;
    fixture.secret(&namespace, "s", "bot").await;
    let key = std::fs::read(fixture.cluster.folder().join("service-accounts.key")).unwrap();
    let key = Some(SigningKey::from_pem(&key).unwrap());
    let (ahead, faults) = (Ahead::default(), Faults::none());
    let options = pillion_service_accounts::token_controller::Options { key, ..token_options(fixture.cluster) };

    let running = fixture.start_tokens(&faults, ahead.clock(), options).await;

    let token = fixture.token(&namespace, "s", |_| true).await;
    let name = format!("system:serviceaccount:{namespace}:bot");
    assert_eq!(fixture.bearer(&token).await.as_deref(), Some(name.as_str()));
    assert_eq!(annotation(&fixture, &namespace, "pillion.dev/token-expires-at").await, None);
    ahead.set(10 * 365 * 24 * 60 * 60);
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    fixture.secrets(&namespace).patch("s", &PatchParams::default(), &label).await.unwrap();
    settled(&faults).await;
    assert_eq!(fixture.token(&namespace, "s", |_| true).await, token, "nothing replaces it");
    assert!(faults.requests().iter().all(|request| !request.contains("/token")), "{:?}", faults.requests());
    running.kill().await;
}
