//! What sidecars trust, on a real API server: nobody but its publishers writes `kube-root-ca.crt`, and no Service takes
//! the API server's name (E25, TOK-12, TOK-13). kube-controller-manager publishes the ConfigMap, and deletes namespaces.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{Installation, SOON, create, dry_run, log_agent};

const ROOT_CA: &str = "kube-root-ca.crt";
/// The webhook that refuses.
const DENIED: &str = "admission webhook \"guards.pillion.dev\" denied the request: metadata.name: ";

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(async || Cluster::start(Options::new().controller_manager()).await.unwrap()).await
}

async fn installation() -> &'static Installation<'static> {
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let mut settings = log_agent();
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    let installation =
        INSTALLATION.get_or_init(async || Installation::start(cluster().await, &settings, &[], &[]).await).await;
    // Validating webhooks take effect on their own.
    let admin = installation.cluster.admin().await.unwrap();
    let services: Api<Service> = Api::namespaced(admin, "kube-public");
    let forged: Service = serde_json::from_value(service("kubernetes")).unwrap();
    let guarded = async || services.create(&dry_run(), &forged).await.err().filter(is_denied);
    until("the guards being asked", SOON, guarded).await.unwrap();
    installation
}

fn is_denied(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && status.message.starts_with(DENIED))
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 443}], "selector": {"app": "mine"}}})
}

fn authority(certificate: &str) -> Value {
    json!({"metadata": {"name": ROOT_CA}, "data": {"ca.crt": certificate}})
}

/// Returns a client of a user who has the role `edit` in a namespace. The role gets its rules by aggregation.
async fn editor(namespace: &str) -> Client {
    let admin = installation().await.cluster.admin().await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(admin, namespace);
    let binding = json!({
        "metadata": {"name": "editors"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    create(&bindings, &binding).await.unwrap();
    let jane = cluster().await.as_user("jane", None).unwrap().client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(jane.clone(), namespace);
    let allowed = async || maps.list(&ListParams::default()).await.ok();
    until("the role edit having its rules", SOON, allowed).await.unwrap();
    jane
}

/// Waits until kube-controller-manager has published the true authority. Returns the ConfigMap.
async fn published(namespace: &str) -> ConfigMap {
    let maps: Api<ConfigMap> = Api::namespaced(cluster().await.admin().await.unwrap(), namespace);
    let authority = cluster().await.authority_certificate();
    let is_true = |map: &ConfigMap| {
        let found = map.data.as_ref().and_then(|data| data.get("ca.crt"));
        found.is_some_and(|found| found.trim() == authority.trim()) && map.immutable != Some(true)
    };
    let found = async || maps.get(ROOT_CA).await.ok().filter(is_true);
    until("the true authority", SOON, found).await.unwrap()
}

#[tokio::test]
async fn e25_role_edit_replaces_no_trust_anchor() {
    installation().await;
    let namespace = cluster().await.namespace("edited").await.unwrap();
    let before = published(&namespace).await;
    let jane = editor(&namespace).await;
    let maps: Api<ConfigMap> = Api::namespaced(jane.clone(), &namespace);
    let denied = |what: &str, error: kube::Error| assert!(is_denied(&error), "{what}: {error}");

    let forged = Patch::Merge(json!({"data": {"ca.crt": "forged"}, "immutable": true}));
    denied("a patch", maps.patch(ROOT_CA, &PatchParams::default(), &forged).await.unwrap_err());
    let applied = Patch::Apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ROOT_CA}, "data": {"more.crt": "forged"}}),
    );
    let error = maps.patch(ROOT_CA, &PatchParams::apply("jane").force(), &applied).await.unwrap_err();
    denied("server-side apply", error);
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/mine"]}}));
    denied("a finalizer", maps.patch(ROOT_CA, &PatchParams::default(), &held).await.unwrap_err());
    denied("a creation", create(&maps, &authority("forged")).await.unwrap_err());
    denied("a deletion", maps.delete(ROOT_CA, &DeleteParams::default()).await.unwrap_err());
    let all = maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    denied("the deletion of all", all.err().unwrap());
    let after = maps.get(ROOT_CA).await.unwrap();
    assert_eq!((after.data, after.metadata.uid), (before.data, before.metadata.uid));

    let labelled = Patch::Merge(json!({"metadata": {"labels": {"team": "web"}, "annotations": {"a": "b"}}}));
    let changed = maps.patch(ROOT_CA, &PatchParams::default(), &labelled).await.unwrap();
    assert_eq!(changed.metadata.labels.unwrap()["team"], "web");
    create(&maps, &json!({"metadata": {"name": "settings"}, "data": {"a": "b"}})).await.unwrap();

    let services: Api<Service> = Api::namespaced(jane, &namespace);
    denied("a Service", create(&services, &service("kubernetes")).await.unwrap_err());
    let external =
        json!({"metadata": {"name": "kubernetes"}, "spec": {"type": "ExternalName", "externalName": "example.com"}});
    denied("another type", create(&services, &external).await.unwrap_err());
    create(&services, &service("web")).await.unwrap();
    create(&services, &json!({"metadata": {"generateName": "kubernetes"}, "spec": service("")["spec"]})).await.unwrap();
}

/// What was there before the guards can be put right: an immutable ConfigMap is deleted, and published anew.
#[tokio::test]
async fn e25_a_frozen_authority_is_deleted_and_published_again() {
    installation().await;
    let namespace = cluster().await.namespace("frozen").await.unwrap();
    published(&namespace).await;
    let jane = editor(&namespace).await;
    // Whoever froze it counts as a publisher here: the guards let nobody else.
    let publisher = "system:serviceaccount:kube-system:root-ca-cert-publisher";
    let publisher = cluster().await.as_user(publisher, Some("system:masters")).unwrap().client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(publisher, &namespace);
    let frozen = Patch::Merge(json!({"data": {"ca.crt": "forged"}, "immutable": true}));
    maps.patch(ROOT_CA, &PatchParams::default(), &frozen).await.unwrap();

    let maps: Api<ConfigMap> = Api::namespaced(jane, &namespace);
    maps.delete(ROOT_CA, &DeleteParams::default()).await.unwrap();
    published(&namespace).await;
}

/// Namespaces come and go, also while no server answers: kube-controller-manager needs no answer for the authority.
#[tokio::test]
async fn e25_a_namespace_goes_with_its_authority() {
    // Not the installation of the other tests: this one stops its server.
    let cluster = Cluster::start(Options::new().controller_manager()).await.unwrap();
    let mut settings = log_agent();
    settings["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    let installation = Installation::start(&cluster, &settings, &[], &[]).await;
    let admin = cluster.admin().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let came = async |namespace: &str| {
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), namespace);
        let there = async || maps.get(ROOT_CA).await.ok();
        until("the authority of a new namespace", SOON, there).await.unwrap();
    };
    let goes = async |namespace: &str| {
        namespaces.delete(namespace, &DeleteParams::default()).await.unwrap();
        let gone = async || namespaces.get_opt(namespace).await.unwrap().is_none().then_some(());
        until("the namespace being gone", SOON, gone).await.unwrap();
    };
    let before = cluster.namespace("before").await.unwrap();
    came(&before).await;
    let during = cluster.namespace("during").await.unwrap();
    came(&during).await;
    goes(&before).await;

    installation.stop_server().await;
    let new = cluster.namespace("new").await.unwrap();
    came(&new).await;
    goes(&during).await;
    goes(&new).await;
    // Other ConfigMaps and Services are written as ever. A forgery fails with the webhook, not into the cluster.
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "default");
    create(&maps, &json!({"metadata": {"name": "settings"}, "data": {"a": "b"}})).await.unwrap();
    let services: Api<Service> = Api::namespaced(admin.clone(), "default");
    create(&services, &service("web")).await.unwrap();
    let forged = Patch::Merge(json!({"data": {"ca.crt": "forged"}}));
    let error = maps.patch(ROOT_CA, &PatchParams::default(), &forged).await.unwrap_err().to_string();
    assert!(error.contains("failed calling webhook \"guards.pillion.dev\""), "{error}");
}
