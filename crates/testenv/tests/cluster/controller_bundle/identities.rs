//! Identities are prepared for the injected versions.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::Role;
use kube::Api;
use pillion_controllers::registry::{self, Name, Options};
use pillion_identity::names::merged;
use pillion_runtime::Context;
use pillion_testenv::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{A_WHILE, NEW, SOON, Stage, decoded, impatient, set, with};
use crate::support::{create, poke};

/// Returns the SidecarSet `a` or `b`, which merges its account with the other's, with this verb on Pods.
fn merging(name: &str, image: &str, verb: &str) -> Value {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    let fields = json!({
        "serviceAccountName": format!("{name}-account"), "behaviorWhenServiceAccountInjection": "Merge",
        "serviceAccountPermissions": [rule], "serviceAccountPartners": [if name == "a" { "b" } else { "a" }],
    });
    with(set(NEW, name, image), &fields)
}

#[tokio::test]
async fn a_merged_role_is_of_the_version_in_the_bundle() {
    let stage = Stage::new().await;
    for name in ["a", "b"] {
        stage.put(&merging(name, "agent:1", if name == "a" { "get" } else { "list" })).await;
    }
    let mut settings = stage.settings();
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    let (_settings, settings) = tokio::sync::watch::channel(decoded(&settings));
    let context = Context::new(stage.cluster.admin().await.unwrap(), settings);
    let mut tasks = JoinSet::new();
    let chosen = BTreeSet::from([Name::MergedServiceAccounts, Name::Bundle]);
    let options = Options { bundle: impatient(), ..Options::default() };
    tasks.spawn(async move { panic!("{} ended", registry::run(context, &chosen, options).await) });

    let namespace = stage.cluster.namespace("merged").await.unwrap();
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    create(&Api::<Deployment>::namespaced(stage.client.clone(), &namespace), &deployment).await.unwrap();
    let roles: Api<Role> = Api::namespaced(stage.client.clone(), &namespace);
    let verbs = async || -> Vec<String> {
        let role = roles.get_opt(&merged(&["a", "b"])).await.unwrap();
        role.and_then(|role| role.rules).unwrap_or_default().into_iter().flat_map(|rule| rule.verbs).collect()
    };
    let becomes = async |expected: &[&str]| {
        let are = async || (verbs().await == expected).then_some(());
        if let Err(error) = until(&format!("the Role having {expected:?}"), SOON, are).await {
            panic!("{error}; it has {:?}", verbs().await);
        }
    };
    becomes(&["get", "list"]).await;

    // Pods get the previous version, so the policy requires that version's permissions.
    stage.put(&merging("a", "", "watch")).await;
    stage.says("a", "False", "Invalid").await;
    poke(&stage.client, &namespace).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(verbs().await, ["get", "list"]);

    stage.put(&merging("a", "agent:2", "watch")).await;
    becomes(&["list", "watch"]).await;
}
