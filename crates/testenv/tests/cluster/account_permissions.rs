//! What the ServiceAccounts of SidecarSets may do, and who can get at them: the controller `account-permissions` with the
//! rendered rights (ESC-9), and `pillion check --cluster` (ESC-8).

use std::process::Command;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use pillion_install::rendering::crd;
use pillion_testenv::{Cluster, Options, apply, free_port, until};
use serde_json::{Value, json};

use crate::support::controllers::{Controllers, NAMESPACE};
use crate::support::sidecar_sets::set;
use crate::support::{SOON, create, dynamic, program};

const RBAC: &str = "rbac.authorization.k8s.io";

fn reading_secrets() -> Value {
    json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
}

fn binding(name: &str, kind: &str, role: &str, subject: &Value) -> Value {
    json!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": [subject]
    })
}

fn account(namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": namespace, "name": "logs"})
}

/// Two namespaces with the account of an open SidecarSet.
async fn scene(cluster: &Cluster) -> Client {
    let client = cluster.admin().await.unwrap();
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&client, &definition.to_yaml().unwrap(), "manifests").await.unwrap();
    for namespace in ["shop", "web"] {
        create(&Api::<Namespace>::all(client.clone()), &json!({"metadata": {"name": namespace}})).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        create(&accounts, &json!({"metadata": {"name": "logs"}})).await.unwrap();
    }
    let sets = [set("logs", &json!({})), set("other", &json!({}))].map(|set| set.to_string()).join("\n---\n");
    until("the definition being served", SOON, async || apply(&client, &sets, "manifests").await.ok()).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn esc9_what_an_account_gains_later_is_told() {
    let cluster = Cluster::start(Options::new().audit_log()).await.unwrap();
    let client = scene(&cluster).await;
    let settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}});
    create(&Api::<Namespace>::all(client.clone()), &json!({"metadata": {"name": NAMESPACE}})).await.unwrap();
    let controllers =
        Controllers::install(&cluster, &program(), &settings, &["--controllers", "account-permissions"]).await;
    controllers.start("one", free_port().unwrap()).await;
    let sets = dynamic(&client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    let condition = async |name: &str, status: &str| {
        let set = sets.get(name).await.unwrap();
        let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|it| it["type"] == "DeniedPermissionHeld" && it["status"] == status)
    };
    let wait =
        async |what: &str, name: &str, status: &str| match until(what, SOON, async || condition(name, status).await)
            .await
        {
            Ok(condition) => condition["message"].as_str().unwrap().to_owned(),
            Err(error) => panic!("{error}\n{}", cluster.log("one")),
        };

    // A ClusterRole that grows after it was bound, as aggregated ones do.
    let grows = |rules: Value| {
        let version = format!("{RBAC}/v1");
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "grows"}, "rules": rules}).to_string()
    };
    apply(&client, &grows(json!([])), "somebody").await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    create(&bindings, &binding("grows", "ClusterRole", "grows", &account("web"))).await.unwrap();
    assert!(condition("logs", "True").await.is_none());
    apply(&client, &grows(reading_secrets()), "somebody").await.unwrap();
    let message = wait("the condition", "logs", "True").await;
    assert_eq!(
        message,
        "ServiceAccount \"web/logs\" may get secrets in every namespace (ClusterRoleBinding \"grows\"); no sidecar may have \
         that: take the permission away, or change serviceAccounts.denyPermissions"
    );
    let events: Api<Event> = Api::all(client.clone());
    let told = async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        all.into_iter().find(|event| event.reason.as_deref() == Some("DeniedPermissionHeld"))
    };
    let event = until("the Event", SOON, told).await.unwrap();
    assert_eq!(event.regarding.and_then(|object| object.name).as_deref(), Some("logs"));
    assert!(condition("other", "True").await.is_none(), "its account is not there");

    // In one namespace, through a Role; then all of it is taken away.
    let local: Api<Role> = Api::namespaced(client.clone(), "shop");
    create(&local, &json!({"metadata": {"name": "own"}, "rules": reading_secrets()})).await.unwrap();
    let of_shop: Api<RoleBinding> = Api::namespaced(client.clone(), "shop");
    create(&of_shop, &binding("own", "Role", "own", &account("shop"))).await.unwrap();
    bindings.delete("grows", &DeleteParams::default()).await.unwrap();
    let only_shop = async || {
        let condition = condition("logs", "True").await?;
        let message = condition["message"].as_str()?.to_owned();
        (message.contains("\"shop/logs\"") && !message.contains("\"web/logs\"")).then_some(message)
    };
    let message = until("the account of shop alone", SOON, only_shop).await.unwrap();
    assert!(
        message.starts_with(
            "ServiceAccount \"shop/logs\" may get secrets in namespace \"shop\" (RoleBinding \"shop/own\")"
        )
    );
    of_shop.delete("own", &DeleteParams::default()).await.unwrap();
    wait("the condition being over", "logs", "False").await;

    // It asked a bounded number of questions, and wrote nothing but status and Events.
    let user = "system:serviceaccount:pillion-system:pillion-controller";
    let log = cluster.audit_log();
    let own = log.iter().filter(|event| event["user"]["username"] == user);
    let writes = own.filter(|event| !matches!(event["verb"].as_str(), Some("get" | "list" | "watch")));
    let resources: Vec<String> = writes
        .map(|event| {
            let text = |key: &str| event["objectRef"][key].as_str().unwrap_or_default();
            format!("{}/{}", text("resource"), text("subresource"))
        })
        .collect();
    let count = |resource: &str| resources.iter().filter(|found| *found == resource).count();
    assert!((1..600).contains(&count("subjectaccessreviews/")), "{}", count("subjectaccessreviews/"));
    let known = ["subjectaccessreviews/", "sidecarsets/status", "events/", "leases/"];
    assert!(resources.iter().all(|resource| known.contains(&resource.as_str())), "{resources:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn esc8_check_lists_who_can_get_at_identities() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = scene(&cluster).await;
    // What `edit` may do, which no controller aggregates here.
    let rules = json!([
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    ]);
    create(&Api::<ClusterRole>::all(client.clone()), &json!({"metadata": {"name": "devs"}, "rules": rules}))
        .await
        .unwrap();
    let devs = json!({"apiGroup": RBAC, "kind": "Group", "name": "devs"});
    let of_shop: Api<RoleBinding> = Api::namespaced(client.clone(), "shop");
    create(&of_shop, &binding("devs", "ClusterRole", "devs", &devs)).await.unwrap();
    let nodes = json!([{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}]);
    create(&Api::<ClusterRole>::all(client.clone()), &json!({"metadata": {"name": "nodes"}, "rules": nodes}))
        .await
        .unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let prometheus = json!({"kind": "ServiceAccount", "namespace": "monitoring", "name": "prometheus"});
    create(&bindings, &binding("nodes", "ClusterRole", "nodes", &prometheus)).await.unwrap();
    let output = Command::new(program())
        .current_dir(cluster.folder())
        .env("KUBECONFIG", cluster.admin_kubeconfig_file())
        .args(["check", "--cluster", "-o", "json"])
        .output()
        .unwrap();
    let found: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let mine = found.iter().filter(|finding| finding["rule"] == "identity-access");
    let messages: Vec<&str> = mine.map(|finding| finding["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages,
        [
            "ServiceAccount \"monitoring/prometheus\" can get at identities of sidecars: may get nodes/proxy in every namespace",
            "Group \"devs\" can get at identities of sidecars: may impersonate serviceaccounts, create pods/exec in namespace \"shop\"",
        ]
    );
}
