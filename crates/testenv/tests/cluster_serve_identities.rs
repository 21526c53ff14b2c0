//! Who can authenticate as whom in Pods of a real API server: table A1 of `serviceaccounts.md` with Pillion's modes.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod support;

use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, SelfSubjectReview, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_core::service_account::names::token_secret;
use pillion_testenv::{Cluster, Options, until};
use pillion_testkit::identity::{Account, Accounts, Scenario, Set, TOKEN_PATH, pairs};
use rstest::rstest;
use serde_json::{Value, json};
use support::{Installation, SOON, create, names, pod};
use tokio::sync::OnceCell;

const NONE: fn(&mut Value) = |_| {};
const MODES: [&str; 2] = ["SidecarsOnly", "Isolate"];
/// An API server keeps the answer about a token for some seconds.
const REVOKED: Duration = Duration::from_mins(1);

/// A SidecarSet of each mode, for the Pods that are labelled with it.
fn settings() -> Value {
    let set = |mode: &'static str| {
        let scenario = Scenario::new(Value::Null, vec![Set::new("a", Some("x"), mode)], Accounts::default());
        let mut settings = scenario.settings();
        let mut set = settings["sidecarSets"][0].take();
        set["metadata"]["name"] = mode.to_lowercase().into();
        set["spec"]["selector"] = json!({"matchLabels": {"mode": mode}});
        set
    };
    json!({
        "sidecarSets": MODES.map(set),
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"onAppServiceAccount": "Keep"},
    })
}

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    // Accounts are changed right before they count: every look-up is a request.
    let live = ["--cache-max-staleness=0s"];
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &live).await).await
}

fn accounts() -> Accounts {
    Accounts::of(&["default", "x"])
}

fn manual(name: &str) -> Accounts {
    accounts().with(name, Account { automount: Some(false), ..Account::default() })
}

fn pulling(names: &[&str]) -> Accounts {
    names.iter().fold(accounts(), |accounts, name| {
        accounts.with(name, Account { pull_secrets: vec![format!("of-{name}")], ..Account::default() })
    })
}

/// Puts the accounts into a namespace, which has its `default` already.
async fn set_up(client: &Client, namespace: &str, accounts: &Accounts) {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    for (name, account) in &accounts.0 {
        let secrets: Vec<Value> = account.pull_secrets.iter().map(|name| json!({"name": name})).collect();
        let mut object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "imagePullSecrets": secrets,
        });
        if let Some(automount) = account.automount {
            object["automountServiceAccountToken"] = automount.into();
        }
        let apply = PatchParams::apply("test").force();
        api.patch(name, &apply, &Patch::Apply(&object)).await.unwrap();
    }
}

/// A Pod with one container, as its author writes it, for the SidecarSet of a mode.
fn web(mode: &str, edit: fn(&mut Value)) -> Value {
    let mut pod = pod(&json!({
        "metadata": {"name": "web", "labels": {"mode": mode}},
        "spec": {"volumes": [{"name": "own", "emptyDir": {}}]},
    }));
    edit(&mut pod);
    pod
}

fn mounts_own_volume(pod: &mut Value, path: &str) {
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": path}]);
}

/// The pairs of a Pod as `a-main:x app:default`, and its pull secrets.
fn shown(pod: &Value, accounts: &Accounts) -> String {
    let mut text = String::new();
    for pair in pairs(pod, accounts) {
        let _ = write!(text, "{}:{} ", pair.container, pair.account);
    }
    for secret in pod["spec"]["imagePullSecrets"].as_array().into_iter().flatten() {
        let _ = write!(text, "pulls {} ", secret["name"].as_str().unwrap());
    }
    text.trim_end().to_owned()
}

/// Creates a Pod in a namespace of its own with these accounts: the stored Pod, or the refusal.
async fn created(mode: &str, edit: fn(&mut Value), accounts: &Accounts) -> Result<Value, String> {
    let cluster = installation().await.cluster;
    let client = cluster.admin().await.unwrap();
    let namespace = cluster.namespace("identities").await.unwrap();
    set_up(&client, &namespace, accounts).await;
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    match create(&pods, &web(mode, edit)).await {
        Ok(pod) => Ok(pod),
        Err(kube::Error::Api(status)) => Err(status.message.replace(&namespace, "<namespace>")),
        Err(error) => panic!("{error}"),
    }
}

/// The rows with Pillion in place of a policy that only swaps the account: the app never holds the token of `x`.
#[rstest]
#[case::a_sidecar_without_mount(NONE, accounts(), "a-main:x", "a-main:x app:default")]
#[case::c_account_without_automounting(NONE, manual("x"), "a-main:x", "a-main:x app:default")]
#[case::d_default_without_automounting(NONE, manual("default"), "a-main:x", "a-main:x")]
#[case::e_pod_without_automounting(
    |pod: &mut Value| pod["spec"]["automountServiceAccountToken"] = json!(false), accounts(), "a-main:x", "a-main:x"
)]
#[case::f_g_a_pod_that_asks_for_automounting(
    |pod: &mut Value| pod["spec"]["automountServiceAccountToken"] = json!(true),
    accounts(),
    "a-main:x",
    "a-main:x app:default"
)]
#[case::h_pull_secrets_are_kept(
    NONE, pulling(&["default", "x"]), "a-main:x pulls of-default", "a-main:x app:default pulls of-default"
)]
#[case::h_pull_secrets_are_added(NONE, pulling(&["x"]), "a-main:x pulls of-x", "a-main:x app:default")]
#[case::i_own_volume_at_the_path(
    |pod: &mut Value| mounts_own_volume(pod, TOKEN_PATH), accounts(), "a-main:x", "a-main:x"
)]
#[case::j_own_volume_with_a_slash(
    |pod: &mut Value| mounts_own_volume(pod, &format!("{TOKEN_PATH}/")), accounts(), "a-main:x", "a-main:x app:default"
)]
#[case::k_volume_is_adopted(
    |pod: &mut Value| pod["spec"]["volumes"][0]["name"] = json!("kube-api-access-own"),
    accounts(),
    "a-main:x",
    "a-main:x"
)]
#[tokio::test]
async fn a1_the_app_goes_without_the_sidecars_token(
    #[case] edit: fn(&mut Value),
    #[case] accounts: Accounts,
    #[case] sidecars_only: &str,
    #[case] isolate: &str,
) {
    for (mode, wanted, runs_as) in [("SidecarsOnly", sidecars_only, "x"), ("Isolate", isolate, "default")] {
        let stored = created(mode, edit, &accounts).await.unwrap();
        assert_eq!(shown(&stored, &accounts), wanted, "{mode}: {stored:#}");
        assert_eq!(stored["spec"]["serviceAccountName"], runs_as, "{mode}");
        assert_eq!(stored["spec"]["serviceAccount"], runs_as, "{mode}");
    }
}

/// Row b: in place of the API server's 403 after the webhooks, one that says what to do.
#[rstest]
#[tokio::test]
async fn a1_b_a_missing_account_is_refused(#[values("SidecarsOnly", "Isolate")] mode: &str) {
    let refusal = created(mode, NONE, &Accounts::of(&["default"])).await.unwrap_err();
    let set = mode.to_lowercase();
    let wanted = format!(
        "admission webhook \"pods.pillion.dev\" denied the request: SidecarSet \"{set}\": spec.serviceAccountName: \
         ServiceAccount \"x\" does not exist in namespace \"<namespace>\"; create the ServiceAccount in the Pod's \
         namespace, or set serviceAccounts.onMissing to Skip"
    );
    assert_eq!(refusal, wanted);
}

/// A1-9: a mirror Pod may not have an account, and shows what runs already.
#[rstest]
#[tokio::test]
async fn a1_9_a_mirror_pod_gets_no_account(#[values("SidecarsOnly", "Isolate")] mode: &str) {
    let mirror = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
        pod["spec"]["nodeName"] = json!("node-0");
    };
    let stored = created(mode, mirror, &accounts()).await.unwrap();
    assert_eq!(names(&stored, "/spec/containers"), ["app"]);
    assert_eq!(stored["spec"].get("serviceAccountName"), None, "{stored:#}");
    assert_eq!(shown(&stored, &accounts()), "");
}

/// Who the API server takes the bearer of a token for.
async fn name_of(cluster: &Cluster, token: &str) -> Result<String, kube::Error> {
    let client = cluster.as_bearer(token).client().await.unwrap();
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&kube::api::PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.unwrap().user_info.unwrap().username.unwrap())
}

fn bound_to(kind: &str, object: &Value) -> TokenRequestSpec {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    TokenRequestSpec {
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            name: text(&object["metadata"]["name"]),
            uid: text(&object["metadata"]["uid"]),
        }),
        expiration_seconds: Some(3600),
        ..TokenRequestSpec::default()
    }
}

fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap()
}

/// What the kubelet gets for the sidecar's volume is a token of the sidecar's account, and no other one can be bound
/// to this Pod.
#[tokio::test]
async fn the_token_of_a_pod_in_mode_sidecars_only_is_the_sidecars() {
    let stored = created("SidecarsOnly", NONE, &accounts()).await.unwrap();
    let cluster = installation().await.cluster;
    let namespace = namespace_of(&stored);

    let token = cluster.token(namespace, "x", &bound_to("Pod", &stored)).await.unwrap();

    assert_eq!(name_of(cluster, &token).await.unwrap(), format!("system:serviceaccount:{namespace}:x"));
    let refusal = cluster.token(namespace, "default", &bound_to("Pod", &stored)).await.unwrap_err().to_string();
    assert!(refusal.contains("cannot bind token"), "{refusal}");
}

/// B5, B6: the app's token is its own, the sidecar's comes from a Secret and ends with it.
#[tokio::test]
async fn the_tokens_of_a_pod_in_mode_isolate_are_two() {
    let stored = created("Isolate", NONE, &accounts()).await.unwrap();
    let cluster = installation().await.cluster;
    let namespace = namespace_of(&stored);
    let secrets: Api<Secret> = Api::namespaced(cluster.admin().await.unwrap(), namespace);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": token_secret("x")}});
    let secret = create(&secrets, &secret).await.unwrap();

    let apps = cluster.token(namespace, "default", &bound_to("Pod", &stored)).await.unwrap();
    let sidecars = cluster.token(namespace, "x", &bound_to("Secret", &secret)).await.unwrap();

    assert_eq!(name_of(cluster, &apps).await.unwrap(), format!("system:serviceaccount:{namespace}:default"));
    assert_eq!(name_of(cluster, &sidecars).await.unwrap(), format!("system:serviceaccount:{namespace}:x"));
    let refusal = cluster.token(namespace, "x", &bound_to("Pod", &stored)).await.unwrap_err().to_string();
    assert!(refusal.contains("cannot bind token"), "{refusal}");
    secrets.delete(&token_secret("x"), &DeleteParams::default()).await.unwrap();
    let is_unknown = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 401);
    let revoked = async || name_of(cluster, &sidecars).await.err().filter(is_unknown);
    until("the token ending with its Secret", REVOKED.max(SOON), revoked).await.unwrap();
}
