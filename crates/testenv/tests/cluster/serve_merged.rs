//! Merged accounts on a real API server (MRG-1, E6): when Pods get them, which containers hold their tokens, and which
//! Pods must not name them. The test creates the controller's objects.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use pillion_identity::decision::Asking;
use pillion_identity::declared::Declared;
use pillion_identity::partners::Origin;
use pillion_identity::{merged, names};
use pillion_testenv::{Cluster, Options};
use pillion_testkit::identity::table::{Row, rows, shown, unchanged};
use pillion_testkit::identity::{Account, Accounts, Scenario, Set};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::accounts::{bound_to, name_of, set_up};
use crate::support::burst::client;
use crate::support::{Installation, create, names as names_in, web};

/// Returns two SidecarSets with different accounts and `Merge`, for Pods with the label of this mode.
fn pair(mode: &'static str) -> [Value; 2] {
    let set = |name: &'static str, account, volume| Set {
        on_conflict: "Merge",
        volume,
        ..Set::new(name, Some(account), mode)
    };
    let sets = vec![set("a", "x", "a-data"), set("b", "y", "b-data")];
    let mut manifests = Scenario::new(Value::Null, sets, Accounts::default()).settings()["sidecarSets"].take();
    [0, 1].map(|index| {
        let mut manifest = manifests[index].take();
        manifest["metadata"]["name"] = set_names(mode)[index].clone().into();
        manifest["spec"]["selector"] = json!({"matchLabels": {"mode": mode}});
        manifest
    })
}

fn set_names(mode: &str) -> [String; 2] {
    ["a", "b"].map(|name| format!("{name}-{}", mode.to_lowercase()))
}

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    let sets = [pair("SidecarsOnly"), pair("Pod")].concat();
    let settings = json!({
        "sidecarSets": sets,
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        // The test creates the merged objects instead of the controller.
        "serviceAccounts": {"allowPodMode": true, "controllerUser": "testenv-admin"},
    });
    // Accounts are created right before they matter, so every look-up must be a request.
    let live = ["--cache-max-staleness=0s"];
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings, &[], &live).await).await
}

/// Creates a namespace with these accounts, and a client that does not retry.
async fn namespace(accounts: &Accounts) -> (Client, String) {
    let cluster = installation().await.cluster;
    let client = client(cluster).await;
    let namespace = cluster.namespace("merged").await.unwrap();
    set_up(&client, &namespace, accounts).await;
    (client, namespace)
}

fn accounts() -> Accounts {
    Accounts::named(&["default", "x", "y"])
}

/// Returns the name of the merged account of a mode.
fn merged_name(mode: &str) -> String {
    names::merged(&set_names(mode).each_ref().map(String::as_str))
}

/// Returns the objects that the controller would create for the SidecarSets of a mode.
fn objects(mode: &'static str, namespace: &str) -> [Value; 3] {
    let asking = pair(mode).map(|set| Asking {
        sidecar_set: set["metadata"]["name"].as_str().unwrap().to_owned(),
        account: set["spec"]["serviceAccountName"].as_str().unwrap().to_owned(),
        declared: Declared {
            permissions: serde_json::from_value(set["spec"]["serviceAccountPermissions"].clone()).unwrap(),
            ..Declared::default()
        },
        origin: Origin::Settings,
    });
    merged::objects(&asking.each_ref(), namespace)
}

async fn make(client: &Client, namespace: &str, [account, role, binding]: &[Value; 3]) {
    create(&Api::<ServiceAccount>::namespaced(client.clone(), namespace), account).await.unwrap();
    create(&Api::<Role>::namespaced(client.clone(), namespace), role).await.unwrap();
    create(&Api::<RoleBinding>::namespaced(client.clone(), namespace), binding).await.unwrap();
}

/// Creates an object. Returns the stored object, or the status code and the message.
async fn created<K>(client: &Client, namespace: &str, object: &Value) -> Result<Value, (u16, String)>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    create(&api, object).await.map_err(|error| match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        error => panic!("{error}"),
    })
}

/// Returns the expected row for two SidecarSets: the merged account replaces `x`, and both sidecars hold it.
fn wanted(row: &Row, mode: &str) -> String {
    let (pairs, secrets) = row.result(mode).0.split_once(" pulls").unwrap_or((row.result(mode).0, ""));
    let both = pairs.replace("a-main:x", "a-main:x b-main:x");
    let mut pairs: Vec<&str> = both.split(' ').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    let secrets = if secrets.is_empty() { String::new() } else { format!(" pulls{secrets}") };
    pairs.join(" ").replace(":x", &format!(":{}", merged_name(mode))) + &secrets
}

/// Table SAP-8 with a merged account instead of `x`: in mode `SidecarsOnly`, no container of the app holds its token.
#[rstest]
#[tokio::test]
async fn sap8_who_holds_the_merged_accounts_token(#[values("SidecarsOnly", "Pod")] mode: &'static str) {
    for row in rows() {
        let ours = row.accounts.0["x"].clone();
        let (client, namespace) = namespace(&row.accounts.clone().with("y", Account::default())).await;
        let mut made = objects(mode, &namespace);
        made[0]["automountServiceAccountToken"] = ours.automount.unwrap_or(true).into();
        made[0]["imagePullSecrets"] = ours.pull_secrets.iter().map(|name| json!({"name": name})).collect();
        make(&client, &namespace, &made).await;

        let stored = created::<Pod>(&client, &namespace, &web(mode, row.edit)).await.unwrap();

        let name = merged_name(mode);
        let accounts = row.accounts.clone().with(&name, ours);
        assert_eq!(shown(&stored, &accounts), wanted(&row, mode), "{}: {stored:#}", row.name);
        assert_eq!(stored["spec"]["serviceAccountName"], name.as_str(), "{}", row.name);
    }
}

/// MRG-5: the policy tells a Pod that comes too early to retry, whichever object is missing, and admits it once all
/// exist.
#[tokio::test]
async fn mrg5_pods_wait_for_the_merged_objects() {
    let (client, namespace) = namespace(&accounts()).await;
    let refused = async || created::<Pod>(&client, &namespace, &web("SidecarsOnly", unchanged)).await.unwrap_err();
    let [account, role, binding] = objects("SidecarsOnly", &namespace);
    let name = merged_name("SidecarsOnly");
    let missing = |kind: &str| {
        format!(
            "{kind} \"{name}\" in namespace \"{namespace}\", merged for the SidecarSets a-sidecarsonly,b-sidecarsonly, \
             is not there yet; the controller prepares it; try again"
        )
    };
    let assert_waits = |(code, message): (u16, String), kind: &str| {
        assert_eq!(code, 503, "{message}");
        assert!(message.contains(&missing(kind)), "{message}");
    };

    assert_waits(refused().await, "ServiceAccount");
    create(&Api::<ServiceAccount>::namespaced(client.clone(), &namespace), &account).await.unwrap();
    assert_waits(refused().await, "Role");
    create(&Api::<Role>::namespaced(client.clone(), &namespace), &role).await.unwrap();
    assert_waits(refused().await, "RoleBinding");
    create(&Api::<RoleBinding>::namespaced(client.clone(), &namespace), &binding).await.unwrap();

    let stored = created::<Pod>(&client, &namespace, &web("SidecarsOnly", unchanged)).await.unwrap();
    assert_eq!(names_in(&stored, "/spec/containers"), ["app", "a-main", "b-main"]);
}

/// MRG-2: an account of this name for other SidecarSets is not ours, and waiting does not help.
#[tokio::test]
async fn mrg2_an_account_for_other_sets_is_refused() {
    let (client, namespace) = namespace(&accounts()).await;
    let mut made = objects("SidecarsOnly", &namespace);
    made[0]["metadata"]["annotations"][names::SIDECAR_SETS] = json!("a-sidecarsonly,c");
    make(&client, &namespace, &made).await;

    let (code, message) = created::<Pod>(&client, &namespace, &web("SidecarsOnly", unchanged)).await.unwrap_err();

    assert_eq!(code, 403, "{message}");
    assert!(message.contains("\"a-sidecarsonly,c\" where \"a-sidecarsonly,b-sidecarsonly\" belongs"), "{message}");
}

/// The sidecars' token authenticates as the merged account and has the rights of the merged Role. The app has no token,
/// and no token of another account can be bound to this Pod.
#[tokio::test]
async fn the_token_of_the_sidecars_is_the_merged_accounts() {
    let (client, namespace) = namespace(&accounts()).await;
    make(&client, &namespace, &objects("SidecarsOnly", &namespace)).await;
    let stored = created::<Pod>(&client, &namespace, &web("SidecarsOnly", unchanged)).await.unwrap();
    let (cluster, name) = (installation().await.cluster, merged_name("SidecarsOnly"));
    assert_eq!(stored["spec"]["containers"][0]["name"], "app");
    assert_eq!(stored["spec"]["containers"][0].get("volumeMounts"), None, "{stored:#}");

    let token = cluster.token(&namespace, &name, &bound_to("Pod", &stored)).await.unwrap();

    assert_eq!(name_of(cluster, &token).await.unwrap(), format!("system:serviceaccount:{namespace}:{name}"));
    let bearer = cluster.as_bearer(&token).client().await.unwrap();
    let may = async |resource: &str, verb: &str| {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.clone()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(bearer.clone());
        reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
    };
    assert_eq!([may("a", "get").await, may("b", "get").await], [true, true], "the union of both");
    assert_eq!([may("a", "list").await, may("c", "get").await], [false, false], "and nothing else");
    for other in ["default", "x", "y"] {
        let refusal = cluster.token(&namespace, other, &bound_to("Pod", &stored)).await.unwrap_err().to_string();
        assert!(refusal.contains("cannot bind token"), "{refusal}");
    }
}

/// E6: users cannot choose a merged account, neither in a Pod nor in a template. The same object with another account
/// is accepted.
#[tokio::test]
async fn e6_who_is_not_due_to_a_merged_account_may_not_name_it() {
    let (client, namespace) = namespace(&accounts()).await;
    make(&client, &namespace, &objects("SidecarsOnly", &namespace)).await;
    let name = merged_name("SidecarsOnly");
    let labels = json!({"app": "web"});
    let spec = |account: &str| json!({"serviceAccountName": account, "restartPolicy": "Always", "containers": [{"name": "app", "image": "app:1"}]});
    let bare = |account: &str| json!({"metadata": {"generateName": "p-", "labels": labels}, "spec": spec(account)});
    let deployment = |account: &str| {
        let template = json!({"metadata": {"labels": labels}, "spec": spec(account)});
        json!({"metadata": {"generateName": "d-"}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
    };
    let cron_job = |account: &str| {
        let mut pod = spec(account);
        pod["restartPolicy"] = "Never".into();
        let template = json!({"spec": {"template": {"spec": pod}}});
        json!({"metadata": {"generateName": "c-"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template}})
    };
    let pod = async |account: &str| created::<Pod>(&client, &namespace, &bare(account)).await;
    let deployment = async |account: &str| created::<Deployment>(&client, &namespace, &deployment(account)).await;
    let cron_job = async |account: &str| created::<CronJob>(&client, &namespace, &cron_job(account)).await;

    for refusal in [pod(&name).await, deployment(&name).await, cron_job(&name).await].map(Result::unwrap_err) {
        assert_eq!(refusal.0, 403, "{refusal:?}");
        let says = ["denied the request", "merged", name.as_str()];
        assert!(says.iter().all(|text| refusal.1.contains(text)), "{refusal:?}");
    }
    for stored in [pod("x").await, deployment("x").await, cron_job("x").await] {
        stored.unwrap();
    }
}
