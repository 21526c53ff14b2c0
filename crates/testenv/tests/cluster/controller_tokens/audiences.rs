//! Tokens for audiences other than the API server, in mode `Isolate` (AUD-4, AUD-5, AUD-7, AUD-8).
//!
//! A service that knows only what the issuer publishes verifies each token.

use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams};
use pillion_plan::credential::Credential;
use pillion_plan::sidecar_tokens::AUDIENCES;
use pillion_testenv::faults::{Fault, Faults};
use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;
use serde_json::{Value, json};

use super::{Controller, QUIET, cluster, decoded, namespace, namespace_in, settings, sidecar_set};
use crate::support::kubelet::{Files, now, secret};
use crate::support::namespace::TestNamespace;
use crate::support::verifier::{Refused, Verifier};
use crate::support::{SOON, create, pod};

const STS: &str = "sts.amazonaws.com";
/// The audience of the API server in tests, as the answer to a request without audiences names it.
const API_SERVER: &str = "https://kubernetes.default.svc.cluster.local";

/// Returns settings with one set, `logs`, that has this list, and that allow these audiences.
fn settings_of(place: &TestNamespace, list: &Value, allowed: &[&str]) -> Value {
    let mut set = sidecar_set("logs", &place.name);
    set["spec"]["serviceAccountTokens"] = list.clone();
    let mut settings = settings(&[set]);
    settings["serviceAccounts"] = json!({"allowedAudiences": allowed, "apiServerAudiences": ["unknown"]});
    settings
}

fn vault_alone() -> Value {
    json!([{"audience": "vault", "path": "vault-token", "expirationSeconds": 600}])
}

fn vault_and_sts() -> Value {
    json!([
        {"audience": "vault", "path": "vault-token", "expirationSeconds": 600},
        {"audience": STS, "path": "aws", "expirationSeconds": 1200},
    ])
}

/// The set's Secret in a namespace.
struct Own<'a>(&'a TestNamespace);

impl Own<'_> {
    fn name() -> String {
        Credential::own("logs", "logs").secret()
    }

    async fn files(&self) -> Files {
        secret(&self.0.client, &self.0.name, &Self::name()).await.unwrap_or_default()
    }

    /// Waits until the files fulfil a condition.
    async fn that(&self, what: &str, is: impl Fn(&Files) -> bool) -> Files {
        until(what, SOON, async || Some(self.files().await).filter(&is)).await.unwrap()
    }

    /// Waits until the Secret has these files.
    async fn with(&self, names: &[&str]) -> Files {
        self.that(&format!("the files {names:?}"), |files| files.keys().eq(names)).await
    }

    async fn object(&self) -> Value {
        serde_json::to_value(self.0.api::<Secret>().get(&Self::name()).await.unwrap()).unwrap()
    }

    /// Creates a Pod that mounts the Secret, in the form that the policy would give it.
    async fn mounting_pod(&self, name: &str) {
        let sources = json!([
            {"secret": {"name": Self::name(), "items": [{"key": "token", "path": "token"}], "optional": false}},
            {"secret": {"name": Self::name(), "optional": false}},
        ]);
        let pod = pod(&json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"volumes": [{"name": "identity", "projected": {"sources": sources}}]},
        }));
        create(&self.0.api::<Pod>(), &pod).await.unwrap();
    }
}

async fn start(place: &TestNamespace, settings: Value, faults: Faults) -> Controller {
    let config = cluster().await.as_admin().config().await.unwrap();
    Controller::start(config, faults, settings, Some(&[&place.name]), 0)
}

/// One Secret has all tokens of the set. A rotation renews all of them once the first is due: one TokenRequest for each,
/// and one write. The earlier tokens stay valid.
#[tokio::test]
async fn aud7_aud8_a_service_accepts_the_token_before_and_after_its_rotation() {
    let (cluster, place) = (cluster().await, namespace().await);
    let vault = Verifier::new(cluster, "vault").await;
    place.account().await;
    place.deployment(1).await;
    let controller = start(&place, settings_of(&place, &vault_and_sts(), &["*"]), Faults::none()).await;
    let first = Own(&place).with(&["aws", "token", "vault-token"]).await;
    assert_eq!(place.secret().await, None, "nobody needs a Secret of the account alone");
    assert_eq!(controller.faults.count(), 5, "{:?}", controller.faults.requests());

    let bearer = vault.verify(&first["vault-token"], now()).unwrap();
    assert_eq!((bearer.subject, bearer.audiences), (place.username(), vec!["vault".to_owned()]));
    assert_eq!(bearer.expires - bearer.issued, 600);
    let object = Own(&place).object().await;
    assert_eq!(bearer.kubernetes["namespace"], place.name.as_str());
    assert_eq!(bearer.kubernetes["serviceaccount"]["name"], "logs");
    assert_eq!(bearer.kubernetes["secret"]["uid"], object["metadata"]["uid"]);
    let refused = |token: &str| vault.verify(token, now()).unwrap_err();
    assert_eq!(refused(&first["aws"]), Refused::Audience(vec![STS.to_owned()]));
    assert_eq!(refused(&first["token"]), Refused::Audience(vec![API_SERVER.to_owned()]));
    let stranger = Cluster::start(Options::new()).await.unwrap();
    let other = Verifier::new(&stranger, "vault").await;
    assert_eq!(other.verify(&first["vault-token"], now()), Err(Refused::Signature), "another cluster's keys");
    drop(stranger);

    controller.set_ahead(360);
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(controller.faults.count(), 5, "{:?}", controller.faults.requests());
    controller.set_ahead(481);
    let renewed = async || Some(Own(&place).files().await).filter(|files| files["vault-token"] != first["vault-token"]);
    let second = place.poke_until("other tokens", renewed).await;
    place.poke().await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(controller.faults.count(), 9, "{:?}", controller.faults.requests());
    assert!(first.iter().all(|(name, token)| second[name] != *token), "all tokens are renewed");
    for files in [&first, &second] {
        assert_eq!(vault.verify(&files["vault-token"], now()).unwrap().subject, place.username());
        assert_eq!(vault.called(STS).verify(&files["aws"], now()).unwrap().subject, place.username());
    }
    let late = vault.verify(&first["vault-token"], now() + 600).unwrap_err();
    assert!(matches!(late, Refused::Time { .. }), "{late:?}");
}

/// Each change of the list reaches the Secret of running Pods at once, and what is removed leaves it.
#[tokio::test]
async fn aud8_a_changed_list_reaches_the_secret_and_removed_entries_leave_it() {
    let (cluster, place) = (cluster().await, namespace().await);
    let vault = Verifier::new(cluster, "vault").await;
    place.account().await;
    Own(&place).mounting_pod("web").await;
    let change = |list: &Value| decoded(settings_of(&place, list, &["*"]));
    let controller = start(&place, settings_of(&place, &vault_alone(), &["*"]), Faults::none()).await;
    let uid = async || Own(&place).object().await["metadata"]["uid"].clone();
    Own(&place).with(&["token", "vault-token"]).await;
    let before = uid().await;

    controller.settings.send_replace(change(&vault_and_sts()));
    let files = Own(&place).with(&["aws", "token", "vault-token"]).await;
    assert_eq!(vault.called(STS).verify(&files["aws"], now()).unwrap().subject, place.username());

    controller.settings.send_replace(change(&json!([{"audience": "vault-2", "path": "vault-token"}])));
    let other = Own(&place).with(&["token", "vault-token"]).await;
    let bearer = vault.called("vault-2").verify(&other["vault-token"], now()).unwrap();
    assert_eq!(bearer.expires - bearer.issued, 3600, "the lifetime without expirationSeconds");
    assert_eq!(vault.verify(&other["vault-token"], now()), Err(Refused::Audience(vec!["vault-2".to_owned()])));
    let stated = Own(&place).object().await["metadata"]["annotations"][AUDIENCES].clone();
    assert_eq!(stated, r#"[{"audience":"vault-2","expirationSeconds":3600,"path":"vault-token"}]"#);

    controller.settings.send_replace(change(&json!([])));
    Own(&place).with(&["token"]).await;
    assert_eq!(uid().await, before, "the Pod still mounts the same Secret");
}

/// Pods that run keep their tokens although their SidecarSet is gone, and the tokens are renewed.
#[tokio::test]
async fn aud8_without_its_set_a_running_pod_keeps_its_tokens() {
    let (cluster, place) = (cluster().await, namespace().await);
    let vault = Verifier::new(cluster, "vault").await;
    place.account().await;
    Own(&place).mounting_pod("web").await;
    let controller = start(&place, settings_of(&place, &vault_alone(), &["*"]), Faults::none()).await;
    let first = Own(&place).with(&["token", "vault-token"]).await;

    let mut without = settings_of(&place, &vault_alone(), &["*"]);
    without["sidecarSets"] = json!([]);
    controller.settings.send_replace(decoded(without));
    controller.set_ahead(481);
    let renewed = async || Some(Own(&place).files().await).filter(|files| files["vault-token"] != first["vault-token"]);
    let second = place.poke_until("another token", renewed).await;

    assert_eq!(vault.verify(&second["vault-token"], now()).unwrap().subject, place.username());
}

#[tokio::test]
async fn aud8_a_recreated_account_gets_tokens_for_each_audience_at_once() {
    let (cluster, place) = (cluster().await, namespace().await);
    let vault = Verifier::new(cluster, "vault").await;
    let account = place.account().await;
    place.deployment(1).await;
    let _controller = start(&place, settings_of(&place, &vault_alone(), &["*"]), Faults::none()).await;
    let first = Own(&place).with(&["token", "vault-token"]).await;
    let claimed = |files: &Files| vault.verify(&files["vault-token"], now()).unwrap().kubernetes;
    assert_eq!(claimed(&first)["serviceaccount"]["uid"], account["metadata"]["uid"]);

    place.api::<ServiceAccount>().delete("logs", &DeleteParams::default()).await.unwrap();
    place.event_note("Deployment", "ServiceAccountMissing").await;
    let account = place.account().await;

    let changed = |files: &Files| files.len() == 2 && first.iter().all(|(name, token)| files[name] != *token);
    let second = Own(&place).that("other tokens", changed).await;
    assert_eq!(claimed(&second)["serviceaccount"]["uid"], account["metadata"]["uid"]);
}

/// No token is requested for an audience that the settings do not allow: neither for a new Secret, nor for the Secret of
/// a Pod that runs already. That one loses the token that it has.
#[tokio::test]
async fn aud5_an_audience_that_is_not_allowed_gets_no_token_and_loses_the_one_it_has() {
    let place = namespace().await;
    place.account().await;
    place.deployment(1).await;
    let controller = start(&place, settings_of(&place, &vault_and_sts(), &["vault"]), Faults::none()).await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(controller.faults.count(), 0, "the policy refuses its Pods: {:?}", controller.faults.requests());

    controller.settings.send_replace(decoded(settings_of(&place, &vault_and_sts(), &["*"])));
    Own(&place).mounting_pod("web").await;
    Own(&place).with(&["aws", "token", "vault-token"]).await;
    controller.settings.send_replace(decoded(settings_of(&place, &vault_and_sts(), &["vault"])));

    Own(&place).with(&["token", "vault-token"]).await;
    let note = place.event_note("Pod", "TokenAudienceNotAllowed").await;
    assert!(note.contains(STS) && note.contains("serviceAccounts.allowedAudiences"), "{note}");
}

/// The settings cannot know the audiences of each API server. The controller asks it, and writes no token at all.
#[tokio::test]
async fn aud7_an_audience_of_the_api_server_is_noticed_and_nothing_is_written() {
    let place = namespace().await;
    place.account().await;
    place.deployment(1).await;
    let list = json!([{"audience": "vault", "path": "vault-token"}, {"audience": API_SERVER, "path": "api"}]);
    let controller = start(&place, settings_of(&place, &list, &["*"]), Faults::none()).await;

    let note = place.event_note("Deployment", "TokenAudienceOfApiServer").await;

    assert!(note.contains(API_SERVER) && note.contains("serviceAccounts.apiServerAudiences"), "{note}");
    assert_eq!(Own(&place).files().await, Files::new());
    controller.settings.send_replace(decoded(settings_of(&place, &vault_alone(), &["*"])));
    Own(&place).with(&["token", "vault-token"]).await;
}

/// If one of the requests is refused, nothing is written, and the Event names the audience.
#[tokio::test]
async fn aud7_all_tokens_are_written_or_none() {
    let place = namespace().await;
    place.account().await;
    place.deployment(1).await;
    // Create the Secret, request the token for the API server, for vault, for AWS.
    let faults = Faults::at(4, Fault::Refused(403));
    let controller = start(&place, settings_of(&place, &vault_and_sts(), &["*"]), faults).await;

    let note = place.event_note("Deployment", "TokenForbidden").await;

    assert!(note.contains(&format!("TokenRequest for the audience \"{STS}\"")), "{note}");
    let requests = controller.faults.requests();
    let writes = |requests: &[String]| requests.iter().filter(|request| request.starts_with("PATCH")).count();
    assert_eq!(writes(&requests[..4]), 0, "{requests:?}");
    Own(&place).with(&["aws", "token", "vault-token"]).await;
    let requests = controller.faults.requests();
    let secrets: Vec<String> = requests.into_iter().filter(|request| !request.contains("/events")).collect();
    assert_eq!(writes(&secrets), 1, "{secrets:?}");
}

/// The API server shortens lifetimes above its flag. People are told, and the rotation follows the real lifetime.
#[tokio::test]
async fn aud7_a_lifetime_that_the_api_server_shortens_is_told() {
    let flag = "--service-account-max-token-expiration=1h";
    let cluster = Cluster::start(Options::new().api_server_flag(flag)).await.unwrap();
    let place = namespace_in(&cluster).await;
    place.account().await;
    place.deployment(1).await;
    let list = json!([
        {"audience": "vault", "path": "vault-token", "expirationSeconds": 7200},
        {"audience": STS, "path": "aws", "expirationSeconds": 3600},
    ]);
    let config = cluster.as_admin().config().await.unwrap();
    let _controller =
        Controller::start(config, Faults::none(), settings_of(&place, &list, &["*"]), Some(&[&place.name]), 0);

    let note = place.event_note("Deployment", "TokenLifetimeShortened").await;

    assert!(note.contains("\"vault\" lives for 3600 seconds, not for 7200") && !note.contains(STS), "{note}");
    let files = Own(&place).with(&["aws", "token", "vault-token"]).await;
    let bearer = Verifier::new(&cluster, "vault").await.verify(&files["vault-token"], now()).unwrap();
    assert_eq!(bearer.expires - bearer.issued, 3600);
    let events = place.events().await.len();
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(place.events().await.len(), events, "it is told once");
}

/// A Secret with the name of the set's is left alone if it is not Pillion's, even if it is that of the account.
#[rstest]
#[case::foreign(json!({}), json!({}))]
#[case::of_the_account_alone(
    json!({"app.kubernetes.io/managed-by": "pillion", "app.kubernetes.io/component": "sidecar-token"}),
    json!({"pillion.dev/service-account-name": "logs"})
)]
#[tokio::test]
async fn mrg2_a_foreign_secret_in_the_way_is_left_alone(#[case] labels: Value, #[case] annotations: Value) {
    let place = namespace().await;
    place.account().await;
    let metadata = json!({"name": Own::name(), "labels": labels, "annotations": annotations});
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": "bWluZQ=="}});
    create(&place.api::<Secret>(), &foreign).await.unwrap();
    let _controller = start(&place, settings_of(&place, &vault_alone(), &["*"]), Faults::none()).await;
    place.deployment(1).await;

    let note = place.event_note("Deployment", "TokenSecretNotOurs").await;

    assert!(note.contains(&Own::name()) && note.contains("SidecarSet \"logs\""), "{note}");
    assert_eq!(Own(&place).files().await, Files::from([("token".to_owned(), "mine".to_owned())]));
    place.api::<Secret>().delete(&Own::name(), &DeleteParams::default()).await.unwrap();
    Own(&place).with(&["token", "vault-token"]).await;
}

#[rstest]
#[case::another_token(json!({"data": {"vault-token": "b3RoZXI="}}))]
#[case::one_more_file(json!({"data": {"more": "b3RoZXI="}}))]
#[case::one_less(json!({"data": {"vault-token": null}}))]
#[case::another_list(json!({"metadata": {"annotations": {AUDIENCES: "[]"}}}))]
#[tokio::test]
async fn aud8_edits_of_the_secret_are_repaired(#[case] edit: Value) {
    let (cluster, place) = (cluster().await, namespace().await);
    let vault = Verifier::new(cluster, "vault").await;
    place.account().await;
    place.deployment(1).await;
    let _controller = start(&place, settings_of(&place, &vault_alone(), &["*"]), Faults::none()).await;
    let first = Own(&place).with(&["token", "vault-token"]).await;

    let secrets = place.api::<Secret>();
    secrets.patch(&Own::name(), &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();

    let is_new = |files: &Files| {
        files.keys().eq(["token", "vault-token"])
            && files["token"] != first["token"]
            && vault.verify(&files["vault-token"], now()).is_ok()
    };
    Own(&place).that("other tokens", is_new).await;
}
