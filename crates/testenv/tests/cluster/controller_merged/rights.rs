//! The controllers' rights on a real API server, and the reports of missing ones (ESC-6).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::DeleteParams;
use kube::{Api, Client};
use pillion_controllers::merged::uninstall;
use pillion_controllers::registry::{self, Name};
use pillion_controllers::sidecar_tokens;
use pillion_install::rendering::crd;
use pillion_install::rendering::document::to_yaml;
use pillion_runtime::readiness::Readiness;
use pillion_runtime::{Context, health};
use pillion_testenv::faults::Faults;
use pillion_testenv::{apply, until};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Controller, both, cluster, finalizers, set, settings, uninstalling};
use crate::support::namespace::TestNamespace;
use crate::support::{SOON, create, dynamic, get};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the controller's own rights, with all verbs on the RBAC resources `of_rbac`. With these rights it may grant
/// merged accounts `list` and `watch` on Pods, but not `get`.
fn rights(of_rbac: &[&str]) -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let (watch, keep) = (&["list", "watch"], &["get", "list", "watch", "create", "patch", "delete"]);
    let rbac = RBAC;
    json!([
        rule("", &["namespaces", "pods"], watch),
        rule("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"], watch),
        rule("batch", &["cronjobs", "jobs"], watch),
        rule("apps.kruise.io", &["sidecarsets", "clonesets"], watch),
        rule("apps.kruise.io", &["sidecarsets/status"], &["patch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("", &["serviceaccounts"], keep),
        rule(rbac, of_rbac, keep),
    ])
}

/// Creates a ClusterRole and binds it to a user.
async fn grant(client: &Client, user: &str, name: &str, rules: Value) {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    create(&Api::<ClusterRole>::all(client.clone()), &role).await.unwrap();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]
    });
    create(&Api::<ClusterRoleBinding>::all(client.clone()), &binding).await.unwrap();
}

#[tokio::test]
async fn esc6_what_the_controller_does_not_hold_it_does_not_grant() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    let definition = crd::document("pillion", &crd::Conversion::None, &Value::Null);
    apply(&place.client, &to_yaml([&definition]).unwrap(), "test").await.unwrap();
    for set in [set("a", "get"), set("b", "list")] {
        apply(&place.client, &set.to_string(), "test").await.unwrap();
    }
    let sets = dynamic(&place.client, "apps.kruise.io/v1beta1", "SidecarSet", "sidecarsets");
    grant(&place.client, "controller", "controller", rights(&["roles", "rolebindings"])).await;
    let config = cluster.as_user("controller", None).unwrap().config().await.unwrap();
    let controller = Controller::start(config, Faults::none(), settings(&[]), 0);
    place.deployment(0).await;

    let exceeded = async |name: &str, status: &str| {
        let set = sets.get(name).await.unwrap();
        let conditions = set.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_it = |condition: &&Value| condition["type"] == "PermissionCeilingExceeded";
        conditions.iter().find(is_it).filter(|condition| condition["status"] == status).cloned()
    };
    let condition = until("the condition", SOON, async || exceeded("a", "True").await).await.unwrap();
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains(&place.name) && message.contains(r#"Verbs:["get"]"#), "{message}");
    place.noted("PermissionCeilingExceeded").await;
    let [_, role, binding] = place.objects().await;
    assert!(role.unwrap()["rules"].is_null() && binding.is_none());

    let ceiling = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    grant(&place.client, "controller", "ceiling", ceiling).await;
    place.ready(&both()).await;
    for name in ["a", "b"] {
        until("the condition being over", SOON, async || exceeded(name, "False").await).await.unwrap();
        sets.delete(name, &DeleteParams::default()).await.unwrap();
    }
    // Without the sets, nothing needs the merged objects any more.
    let is_released = |object: &Option<Value>| object.is_some() && finalizers(object.as_ref()).is_null();
    place.objects_that("finalizers being gone", |objects| objects.iter().all(is_released)).await;
    controller.kill().await;
    place.delete_deployment().await;
    uninstall(&uninstalling(&place.client)).await.unwrap();
    place.gone().await;
}

#[tokio::test]
async fn esc6_readyz_names_the_right_that_is_missing_until_it_is_granted() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    grant(&place.client, "watcher", "watcher", rights(&["roles"])).await;
    let client = cluster.as_user("watcher", None).unwrap().client().await.unwrap();
    let (_settings, settings) = tokio::sync::watch::channel(both());
    let chosen = BTreeSet::from([Name::MergedServiceAccounts, Name::SidecarTokens]);
    let context = Context::new(client, settings);
    let readiness = Readiness::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let reporting = readiness.clone();
    let metrics = Arc::clone(&context.metrics);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { health::serve(listener, metrics, Arc::new(move || reporting.report())).await.unwrap() });
    // A replica that waits for its turn is ready.
    let answer = async || get(port, "/readyz").await.unwrap();
    assert!(answer().await.ends_with("\r\n\r\nok\n"), "{}", answer().await);

    readiness.works(Arc::clone(&context.store));
    let tokens =
        sidecar_tokens::Options { namespaces: Some([place.name.clone()].into()), ..sidecar_tokens::Options::default() };
    let options = registry::Options { sidecar_tokens: tokens, ..registry::Options::default() };
    tasks.spawn(async move { panic!("{} ended", registry::run(context, &chosen, options).await) });
    let rule = |group: &str, resource: &str| {
        format!(
            "it needs the rule {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"list\", \"watch\"]}}"
        )
    };
    let says = async |status: &str, lines: &[&str]| {
        let what = format!("{status} {lines:?}");
        let is_it = async || {
            let answer = answer().await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let body: Vec<&str> = body.lines().collect();
            (head.contains(status)
                && body.len() == lines.len()
                && body.iter().zip(lines).all(|(line, start)| line.starts_with(start)))
            .then(|| answer.clone())
        };
        match until(&what, SOON, is_it).await {
            Ok(answer) => answer,
            Err(error) => panic!("{error}: {}", answer().await),
        }
    };
    let secrets = format!("warning: sidecar-tokens: Secret of namespace \"{}\": secrets is forbidden", place.name);
    let bindings = "merged-serviceaccounts: RoleBinding: rolebindings.rbac.authorization.k8s.io is forbidden";
    let message = says("503", &["not ready", bindings, &secrets]).await;
    assert!(message.contains(&rule(RBAC, "rolebindings")) && message.contains(&rule("", "secrets")), "{message}");

    let bindings = json!([{"apiGroups": [RBAC], "resources": ["rolebindings"], "verbs": ["list", "watch"]}]);
    grant(&place.client, "watcher", "watcher-of-bindings", bindings).await;
    says("200", &["ok", &secrets]).await;
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}]);
    grant(&place.client, "watcher", "watcher-of-secrets", secrets).await;
    says("200", &["ok"]).await;
}

/// IDC-5: a merged account gets the permissions that SidecarSets list, but not those that are bound to the accounts it
/// replaces.
#[tokio::test]
async fn idc5_what_is_bound_to_an_account_and_not_listed_is_told() {
    let (cluster, _turn) = cluster().await;
    let place = TestNamespace::create(cluster, "merged").await;
    let account = json!({"kind": "ServiceAccount", "name": "a-account", "namespace": place.name});
    let bind = async |name: &str, kind: &str, role: &str| {
        let role = json!({"apiGroup": RBAC, "kind": kind, "name": role});
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [account]});
        create(&place.api::<RoleBinding>(), &binding).await.unwrap();
    };
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch"]});
    create(&place.api::<Role>(), &json!({"metadata": {"name": "reader"}, "rules": [rule]})).await.unwrap();
    bind("reading", "Role", "reader").await;
    bind("viewing", "ClusterRole", "view").await;
    let controller = Controller::admin(cluster, Faults::none()).await;
    place.deployment(0).await;
    place.ready(&both()).await;

    let note = place.noted("PermissionsNotMerged").await;

    assert!(note.contains("\"a-account\"") && note.contains(": watch pods (RoleBinding \"reading\")"), "{note}");
    assert!(note.contains("RoleBinding \"viewing\" with ClusterRole \"view\""), "{note}");
    controller.kill().await;
    place.delete_deployment().await;
    uninstall(&uninstalling(&place.client)).await.unwrap();
    place.gone().await;
}
