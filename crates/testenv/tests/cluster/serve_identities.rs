//! The accounts as which containers of a real API server's Pods can authenticate: the table of SAP-8 with Pillion's
//! modes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::DeleteParams;
use pillion_identity::names::token_secret;
use pillion_testenv::{Cluster, Options, until};
use pillion_testkit::identity::table::{accounts, mount_own, rows, shown, unchanged};
use pillion_testkit::identity::{Accounts, Scenario, Set, TOKEN_PATH};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::accounts::{bound_to, name_of, set_up};
use crate::support::{Installation, SOON, create, names, web};

const MODES: [&str; 3] = ["SidecarsOnly", "Isolate", "Pod"];
/// An API server caches the result of a token review for some seconds.
const REVOKED: Duration = Duration::from_mins(1);

/// Returns a SidecarSet called `name`, for Pods with the label `mode: <label>`.
fn set_for(name: &str, label: &str, set: Set) -> Value {
    let mut settings = Scenario::new(Value::Null, vec![set], Accounts::default()).settings();
    let mut set = settings["sidecarSets"][0].take();
    set["metadata"]["name"] = name.into();
    set["spec"]["selector"] = json!({"matchLabels": {"mode": label}});
    set
}

/// Returns settings with two SidecarSets for each mode; the sidecar of the second shares the mounts of the app.
fn settings() -> Value {
    let plain = |mode: &'static str| set_for(&mode.to_lowercase(), mode, Set::new("a", Some("x"), mode));
    let sharing = |mode: &'static str| {
        let set = Set { shares: true, ..Set::new("a", Some("x"), mode) };
        set_for(&format!("sharing-{}", mode.to_lowercase()), &format!("sharing-{mode}"), set)
    };
    let sets: Vec<Value> = MODES.map(plain).into_iter().chain(MODES.map(sharing)).collect();
    json!({
        "sidecarSets": sets,
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"onAppServiceAccount": "Keep", "allowPodMode": true},
    })
}

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    // Accounts change right before they matter, so every look-up must be a request.
    let live = ["--cache-max-staleness=0s"];
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &live).await).await
}

/// Creates a Pod in its own namespace with these accounts. Returns the stored Pod, or the refusal.
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

/// The rows with Pillion instead of a policy that only swaps the account: only in mode `Pod`, which must be allowed,
/// the app holds the token of `x`.
#[rstest]
#[tokio::test]
async fn sap8_who_holds_which_token(#[values("SidecarsOnly", "Isolate", "Pod")] mode: &str) {
    for row in rows() {
        let stored = created(mode, row.edit, &row.accounts).await.unwrap();
        let (wanted, runs_as) = row.result(mode);
        assert_eq!(shown(&stored, &row.accounts), wanted, "{}: {stored:#}", row.name);
        assert_eq!(stored["spec"]["serviceAccountName"], runs_as, "{}", row.name);
        assert_eq!(stored["spec"]["serviceAccount"], runs_as, "{}", row.name);
    }
}

/// Row l for the sidecar: if it shares the app's mounts, it does not get the app's mount in the place of its own token.
/// Otherwise the API server would find two mounts at one path, and answer with 422.
#[rstest]
#[case::plain(TOKEN_PATH, ["a-main:x", "a-main:x", "a-main:x"])]
#[case::with_a_slash(
    "/var/run/secrets/kubernetes.io/serviceaccount/",
    ["a-main:x", "a-main:x app:default", "a-main:x app:x"]
)]
#[tokio::test]
async fn sap8l_no_second_mount_is_made_at_one_path(#[case] path: &str, #[case] wanted: [&str; 3]) {
    let own: fn(&mut Value) = if path == TOKEN_PATH {
        |pod| mount_own(pod, TOKEN_PATH)
    } else {
        |pod| mount_own(pod, &format!("{TOKEN_PATH}/"))
    };
    for (mode, wanted) in MODES.into_iter().zip(wanted) {
        let stored = created(&format!("sharing-{mode}"), own, &accounts()).await.unwrap();
        assert_eq!(shown(&stored, &accounts()), wanted, "{mode}: {stored:#}");
    }
}

/// Row l for the app: two mounts are its author's mistake, which Pillion neither hides nor corrects.
#[rstest]
#[tokio::test]
async fn sap8l_two_mounts_of_the_app_are_refused_by_the_api_server(
    #[values("SidecarsOnly", "Isolate", "Pod")] mode: &str,
) {
    let twice = |pod: &mut Value| {
        let mount = json!({"name": "own", "mountPath": TOKEN_PATH});
        pod["spec"]["containers"][0]["volumeMounts"] = json!([mount, mount]);
    };
    let refusal = created(mode, twice, &accounts()).await.unwrap_err();
    assert!(refusal.contains("mountPath: Invalid value") && refusal.contains("must be unique"), "{refusal}");
}

/// Row b: the policy refuses with a remedy, instead of the API server's 403 after the webhooks.
#[rstest]
#[tokio::test]
async fn sap8b_a_missing_account_is_refused(#[values("SidecarsOnly", "Isolate", "Pod")] mode: &str) {
    let refusal = created(mode, unchanged, &Accounts::named(&["default"])).await.unwrap_err();
    let set = mode.to_lowercase();
    let wanted = format!(
        "admission webhook \"pods.pillion.dev\" denied the request: SidecarSet \"{set}\": spec.serviceAccountName: \
         ServiceAccount \"x\" does not exist in namespace \"<namespace>\"; create the ServiceAccount in the Pod's \
         namespace, or set serviceAccounts.onMissing to Skip"
    );
    assert_eq!(refusal, wanted);
}

/// SAP-9: a mirror Pod must not have an account, and only shows what already runs.
#[rstest]
#[tokio::test]
async fn sap9_a_mirror_pod_gets_no_account(#[values("SidecarsOnly", "Isolate", "Pod")] mode: &str) {
    let mirror = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
        pod["spec"]["nodeName"] = json!("node-0");
    };
    let stored = created(mode, mirror, &accounts()).await.unwrap();
    assert_eq!(names(&stored, "/spec/containers"), ["app"]);
    assert_eq!(stored["spec"].get("serviceAccountName"), None, "{stored:#}");
    assert_eq!(shown(&stored, &accounts()), "");
}

fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap()
}

/// The kubelet gets a token of the sidecar's account for the sidecar's volume, and no other account's token can be
/// bound to this Pod.
#[tokio::test]
async fn the_token_of_a_pod_in_mode_sidecars_only_is_the_sidecars() {
    let stored = created("SidecarsOnly", unchanged, &accounts()).await.unwrap();
    let cluster = installation().await.cluster;
    let namespace = namespace_of(&stored);

    let token = cluster.token(namespace, "x", &bound_to("Pod", &stored)).await.unwrap();

    assert_eq!(name_of(cluster, &token).await.unwrap(), format!("system:serviceaccount:{namespace}:x"));
    let refusal = cluster.token(namespace, "default", &bound_to("Pod", &stored)).await.unwrap_err().to_string();
    assert!(refusal.contains("cannot bind token"), "{refusal}");
}

/// TOK-5, TOK-6: the app's token is its own; the sidecar's token comes from a Secret and ends with it.
#[tokio::test]
async fn the_tokens_of_a_pod_in_mode_isolate_are_two() {
    let stored = created("Isolate", unchanged, &accounts()).await.unwrap();
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
