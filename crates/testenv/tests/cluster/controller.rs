//! `pillion controller` as it is installed: two replicas with the rights that `pillion manifest controller` renders,
//! together with `pillion serve`, from SidecarSets in the cluster to tokens in Pods.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use pillion_testkit::metrics::Catalogue;
use serde_json::{Value, json};

use crate::support::accounts::name_of;
use crate::support::controllers::{ACCOUNT, Controllers, NAMESPACE};
use crate::support::sidecar_sets::{merging, set};
use crate::support::{Installation, SOON, create, dynamic, get, names, program};

/// Returns the settings of policy and controllers, which only name the bundle of the cluster's SidecarSets.
fn settings() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "bundleRef": {"namespace": NAMESPACE, "name": "pillion-bundle"}
    })
}

/// Returns the replica that holds the Lease.
async fn holder(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let holder = leases.get_opt(ACCOUNT).await.unwrap()?.spec?.holder_identity?;
    holder.split_once('_').map(|(replica, _)| replica.to_owned())
}

fn logs(controllers: &Controllers<'_>) -> String {
    ["one", "two"].map(|replica| format!("{replica}:\n{}", controllers.cluster.log(replica))).join("\n")
}

async fn wait<T, F>(what: &str, controllers: &Controllers<'_>, check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    match until(what, SOON, check).await {
        Ok(found) => found,
        Err(error) => panic!("{error}\n{}", logs(controllers)),
    }
}

/// Creates SidecarSets, and waits until their conditions say that Pods get them.
async fn write_sets(client: &Client, controllers: &Controllers<'_>, sets: &[Value]) {
    let api = dynamic(client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    for set in sets {
        let object: DynamicObject = serde_json::from_value(set.clone()).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    for set in sets {
        let name = set["metadata"]["name"].as_str().unwrap();
        wait("a SidecarSet in the bundle", controllers, async || {
            let stored = api.get(name).await.unwrap().data;
            let conditions = stored.pointer("/status/conditions").and_then(Value::as_array)?.clone();
            conditions.iter().any(|it| it["type"] == "InBundle" && it["status"] == "True").then_some(())
        })
        .await;
    }
}

async fn web(client: &Client, namespace: &str) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]}
            }
        }
    });
    create(&deployments, &deployment).await.unwrap();
}

async fn accounts(client: &Client, namespace: &str, names: &[&str]) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    for name in names {
        create(&accounts, &json!({"metadata": {"name": name}})).await.unwrap();
    }
}

/// Both user stories, from `kubectl apply` to tokens, with a leader that dies in between.
#[tokio::test(flavor = "multi_thread")]
async fn from_sidecar_sets_in_the_cluster_to_tokens_in_pods() {
    let cluster = Cluster::start(Options::new().controller_manager()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    // A ClusterRole with the label limits the permissions of merged accounts.
    let ceiling = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "agents", "labels": {"pillion.dev/merged-ceiling": "true"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    });
    apply(&client, &ceiling.to_string(), "manifests").await.unwrap();
    for name in ["merged", "audited", "kruise-system"] {
        create(&Api::<Namespace>::all(client.clone()), &json!({"metadata": {"name": name}})).await.unwrap();
    }
    let installation = Installation::prepare(&cluster, &settings(), &[], &[]).await;
    let controllers = Controllers::install(&cluster, &program(), &settings(), &["--token-namespaces", "audited"]).await;
    installation.start_server().await;
    installation.register(&installation.authority()).await;
    controllers.start("one", free_port().unwrap()).await;
    let first = wait("a replica holding the Lease", &controllers, async || holder(&client).await).await;
    assert_eq!(first, "one");
    let port = free_port().unwrap();
    controllers.start("two", port).await;
    let bundles: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    wait("the bundle", &controllers, async || bundles.get_opt("pillion-bundle").await.unwrap()).await;

    // Two sidecars that share an identity.
    write_sets(&client, &controllers, &[merging("logs", "get"), merging("metrics", "list")]).await;
    accounts(&client, "merged", &["logs", "metrics"]).await;
    web(&client, "merged").await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "merged");
    let stored = async || {
        let pods = pods.list(&ListParams::default()).await.unwrap();
        pods.items.into_iter().next().map(|pod| serde_json::to_value(pod).unwrap())
    };
    let pod = wait("a Pod of the Deployment", &controllers, stored).await;
    assert_eq!(names(&pod, "/spec/containers"), ["logs", "metrics", "app"]);
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap().to_owned();
    assert!(account.starts_with("sidecarset-merged-"), "{account}");
    let roles: Api<Role> = Api::namespaced(client.clone(), "merged");
    let verbs = async || -> Vec<String> {
        let granted = roles.get_opt(&account).await.unwrap().and_then(|role| role.rules).unwrap_or_default();
        granted.into_iter().flat_map(|rule| rule.verbs).collect()
    };
    assert_eq!(verbs().await, ["get", "list"]);
    let as_merged: Api<Pod> = Api::namespaced(cluster.service_account("merged", &account).await.unwrap(), "merged");
    assert_eq!(as_merged.list(&ListParams::default()).await.unwrap().items.len(), 1);

    // The leader dies; the other replica takes over, and follows an edit.
    cluster.stop_program("one", 0).await.unwrap();
    let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let edit = merging("metrics", "watch");
    let edit = json!({"spec": {"serviceAccountPermissions": edit["spec"]["serviceAccountPermissions"]}});
    sets.patch("metrics", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    wait("the other replica following the edit", &controllers, async || {
        (verbs().await == ["get", "watch"]).then_some(())
    })
    .await;
    assert_eq!(holder(&client).await.as_deref(), Some("two"));
    sets.delete("logs", &DeleteParams::default()).await.unwrap();
    sets.delete("metrics", &DeleteParams::default()).await.unwrap();

    // A sidecar with its own identity, beside an app that keeps its identity.
    write_sets(&client, &controllers, &[set("audit", &json!({"serviceAccountMode": "Isolate"}))]).await;
    accounts(&client, "audited", &["audit"]).await;
    web(&client, "audited").await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "audited");
    let minted = async || {
        let secrets = secrets.list(&ListParams::default()).await.unwrap();
        let token = secrets.items.into_iter().find_map(|secret| secret.data?.remove("token"))?;
        String::from_utf8(token.0).ok().filter(|token| !token.is_empty())
    };
    let token = wait("a token for the sidecar", &controllers, minted).await;
    assert_eq!(name_of(&cluster, &token).await.unwrap(), "system:serviceaccount:audited:audit");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "audited");
    let audited = async || {
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let pods = pods.items.into_iter().map(|pod| serde_json::to_value(pod).unwrap());
        pods.into_iter().find(|pod| names(pod, "/spec/containers") == ["audit", "app"])
    };
    let pod = wait("a Pod with the sidecar", &controllers, audited).await;
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    let mounts = |container: usize| names(&pod, &format!("/spec/containers/{container}/volumeMounts"));
    assert!(mounts(1).iter().all(|name| name.starts_with("kube-api-access-")), "{:?}", mounts(1));
    assert!(mounts(0).iter().any(|name| name.starts_with("sidecarset-sa-")), "{:?}", mounts(0));

    // Alerts and dashboards ask for metrics that are listed.
    let listed = |answer: Option<String>, process: &str| {
        let answer = answer.unwrap();
        let (_, text) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(Catalogue::of_text(text).surprises(&Catalogue::listed(process)), [""; 0]);
        text.to_owned()
    };
    let text = listed(get(port, "/metrics").await, "controller");
    for line in [
        "pillion_controller_leader{lease=\"pillion-controller\"} 1",
        "pillion_controller_ready 1",
        "pillion_controller_settings_current 1",
        "pillion_controller_bundle_refused_sidecarsets 0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is not in:\n{text}");
    }
    let renewed = "pillion_controller_bundle_correct_timestamp_seconds{config_map=\"pillion-system/pillion-bundle\"} ";
    let renewed = text.lines().find_map(|line| line.strip_prefix(renewed));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now - renewed.unwrap().parse::<u64>().unwrap() < 150, "{renewed:?}");
    let text = listed(installation.get("/metrics").await, "server");
    assert!(text.contains("pillion_settings_current 1\n"), "{text}");

    // The API server refused the controllers only grants of permissions that they did not hold yet:
    // kube-controller-manager fills the aggregated role shortly after its creation.
    let logs = logs(&controllers);
    let refused = logs.lines().filter(|line| line.contains("is forbidden") && !line.contains("attempting to grant"));
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The ServiceAccount of the controllers, as an attacker uses it.
#[tokio::test(flavor = "multi_thread")]
async fn e15_a_stolen_controller_gains_no_further_rights() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let admin = cluster.admin().await.unwrap();
    for name in [NAMESPACE, "kruise-system", "shop", "other"] {
        create(&Api::<Namespace>::all(admin.clone()), &json!({"metadata": {"name": name}})).await.unwrap();
    }
    Controllers::install(&cluster, &program(), &settings(), &["--token-namespaces=shop"]).await;
    let stolen = cluster.as_service_account(NAMESPACE, ACCOUNT).await.unwrap().client().await.unwrap();
    let answer = async |method: &str, path: &str, headers: &[(&str, &str)], body: Value| {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", media);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match stolen.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let binding = json!({
        "metadata": {"name": "taken"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
    });
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]);
    let role = json!({"metadata": {"name": "taken"}, "rules": secrets});
    let pod = json!({"metadata": {"name": "taken"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let become_admin = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    let attempts = [
        ("POST", format!("{rbac}/clusterrolebindings"), &binding),
        ("POST", format!("{rbac}/namespaces/other/rolebindings"), &binding),
        ("POST", format!("{rbac}/namespaces/other/roles"), &role),
        ("PATCH", format!("{rbac}/clusterroles/pillion-controller"), &json!({"rules": secrets})),
        ("PATCH", format!("{rbac}/clusterroles/pillion-controller-ceiling"), &json!({"rules": secrets})),
        ("GET", "/api/v1/secrets".to_owned(), &Value::Null),
        ("GET", "/api/v1/namespaces/other/secrets".to_owned(), &Value::Null),
        ("POST", "/api/v1/namespaces/other/serviceaccounts/default/token".to_owned(), &token),
        ("POST", "/api/v1/namespaces/other/pods".to_owned(), &pod),
    ];
    for (method, path, body) in attempts {
        assert_eq!(answer(method, &path, &[], body.clone()).await, 403, "{method} {path}");
    }
    assert_eq!(answer("GET", "/api/v1/namespaces", &become_admin, Value::Null).await, 403);
    // Its own work is allowed.
    assert_eq!(answer("GET", "/api/v1/namespaces", &[], Value::Null).await, 200);
    assert_eq!(answer("GET", "/api/v1/namespaces/shop/secrets", &[], Value::Null).await, 200);
    let account = json!({"metadata": {"name": "made"}});
    assert_eq!(answer("POST", "/api/v1/namespaces/other/serviceaccounts", &[], account).await, 200);
}
