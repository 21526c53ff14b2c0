//! Secrets of other owners, and missing rights of the controller.

use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use pillion_identity::names::token_secret;
use pillion_testenv::apply;
use pillion_testenv::faults::Faults;
use serde_json::json;

use super::{Controller, QUIET, cluster, namespace, settings, sidecar_set};
use crate::support::create;

#[tokio::test]
async fn mrg2_a_foreign_secret_is_left_alone_and_told_of_until_it_is_gone() {
    let place = namespace().await;
    place.account().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": token_secret("logs")}, "data": {"token": "bWluZQ=="},
    });
    let foreign = create(&place.api::<Secret>(), &foreign).await.unwrap();
    let controller = place.controller(Faults::none()).await;

    place.deployment(1).await;

    let note = place.event_note("Deployment", "TokenSecretNotOurs").await;
    let problems = |count| {
        format!("pillion_controller_problems{{controller=\"sidecar-tokens\",reason=\"TokenSecretNotOurs\"}} {count}\n")
    };
    assert!(controller.metrics.encoded().contains(&problems(1)), "{}", controller.metrics.encoded());
    assert!(note.contains(&token_secret("logs")) && !note.contains("bWluZQ"), "{note}");
    let sent = controller.faults.count();
    place.poke().await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(controller.faults.count(), sent, "{:?}", controller.faults.requests());
    assert_eq!(place.secret().await, Some(foreign));

    // Once the other Secret is deleted, the controller creates its own.
    place.api::<Secret>().delete(&token_secret("logs"), &DeleteParams::default()).await.unwrap();
    let secret = place.filled().await;
    assert_eq!(place.bearer(cluster().await, &secret).await.unwrap(), place.username());
    let made = &controller.faults.requests()[sent..];
    assert_eq!(made.len(), 3, "created, token, filled: {made:?}");
}

/// If the controller may read Secrets only in its given namespaces, a Role in each of them is enough. If a right is
/// missing, the Event names it, and other namespaces still get their tokens.
#[tokio::test]
async fn tok11_esc6_a_role_in_each_namespace_is_enough_and_a_missing_right_is_told() {
    let cluster = cluster().await;
    let [allowed, restricted] = [namespace().await, namespace().await];
    let user = format!("controller-of-{}", allowed.name);
    let role = |namespace: &str, rules: &str| {
        format!(
            "
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: tokens, namespace: {namespace}}}
rules:
{rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: tokens, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: tokens}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
"
        )
    };
    let secrets = "- {apiGroups: [''], resources: [secrets], verbs: [get, list, watch, create, patch, delete]}";
    let tokens = "- {apiGroups: [''], resources: [serviceaccounts/token], verbs: [create]}";
    let manifest = format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {user}}}
rules:
- {{apiGroups: [''], resources: [namespaces, pods, serviceaccounts], verbs: [list, watch]}}
- {{apiGroups: [apps], resources: [deployments, statefulsets, daemonsets, replicasets], verbs: [list, watch]}}
- {{apiGroups: [batch], resources: [jobs, cronjobs], verbs: [list, watch]}}
- {{apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {user}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {user}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
{}{}",
        role(&allowed.name, &format!("{secrets}\n{tokens}")),
        role(&restricted.name, secrets),
    );
    apply(&allowed.client, &manifest, "test").await.unwrap();
    for place in [&allowed, &restricted] {
        place.account().await;
        place.deployment(1).await;
    }
    let config = cluster.as_user(&user, None).unwrap().config().await.unwrap();
    let sets = [sidecar_set("one", &allowed.name), sidecar_set("other", &restricted.name)];
    let given = [allowed.name.as_str(), restricted.name.as_str()];
    let _controller = Controller::start(config, Faults::none(), settings(&sets), Some(&given), 0);

    let note = restricted.event_note("Deployment", "TokenForbidden").await;

    assert!(note.contains("resources: [\"serviceaccounts/token\"], verbs: [\"create\"]"), "{note}");
    let secret = allowed.filled().await;
    assert_eq!(allowed.bearer(cluster, &secret).await.unwrap(), allowed.username());
    apply(&allowed.client, &role(&restricted.name, &format!("{secrets}\n{tokens}")), "test").await.unwrap();
    let secret = restricted.filled().await;
    assert_eq!(restricted.bearer(cluster, &secret).await.unwrap(), restricted.username());
}

#[tokio::test]
async fn esc6_a_namespace_that_is_not_given_is_told() {
    let (place, other) = (namespace().await, namespace().await);
    place.account().await;
    place.deployment(1).await;
    let config = cluster().await.as_admin().config().await.unwrap();
    let settings = settings(&[sidecar_set("logs", &place.name)]);
    let controller = Controller::start(config, Faults::none(), settings, Some(&[&other.name]), 0);

    place.event_note("Deployment", "TokenNamespaceNotGiven").await;

    assert_eq!(place.secret().await, None);
    assert!(controller.faults.requests().iter().all(|request| request.contains("/events")));
}
