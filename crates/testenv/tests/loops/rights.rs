//! What the controllers may do is what they need: these rules, and no others.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use pillion_controller::{Clock, legacy_token};
use pillion_testenv::faults::Faults;
use pillion_testenv::{apply, until};
use serde_json::json;

use super::{SOON, context, fixture, settled, start};

/// What each of the four needs.
const RULES: &str = r"
  # Each of them.
  - {apiGroups: [''], resources: [namespaces], verbs: [list, watch]}
  - {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
  # serviceaccount
  - {apiGroups: [''], resources: [serviceaccounts], verbs: [create]}
  - {apiGroups: [''], resources: [serviceaccounts], resourceNames: [default], verbs: [list, watch]}
  # root-ca-publisher
  - {apiGroups: [''], resources: [configmaps], verbs: [create]}
  - {apiGroups: [''], resources: [configmaps], resourceNames: [kube-root-ca.crt], verbs: [list, watch, patch]}
  # serviceaccount-token
  - {apiGroups: [''], resources: [serviceaccounts], verbs: [list, watch, get, patch]}
  - {apiGroups: [''], resources: [serviceaccounts/token], verbs: [create]}
  - {apiGroups: [''], resources: [secrets], verbs: [list, watch, get, patch, delete]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [kube-controller-manager], verbs: [get]}
  # legacy-token-cleaner
  - {apiGroups: [''], resources: [serviceaccounts], verbs: [get]}
  - {apiGroups: [''], resources: [secrets], verbs: [list, patch, delete]}
  - {apiGroups: [''], resources: [pods], verbs: [list]}
  - apiGroups: ['']
    resources: [configmaps]
    resourceNames: [kube-apiserver-legacy-service-account-token-tracking]
    verbs: [get]
";

#[tokio::test(flavor = "multi_thread")]
async fn c4_the_controllers_need_these_rights_and_no_others() {
    let fixture = fixture().await;
    let home = fixture.namespace("home").await;
    let controller = ServiceAccount {
        metadata: kube::api::ObjectMeta { name: Some("controller".to_owned()), ..Default::default() },
        ..Default::default()
    };
    fixture.accounts(&home).create(&PostParams::default(), &controller).await.unwrap();
    let manifest = format!(
        r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {home}}}
rules:{RULES}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {home}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {home}}}
subjects: [{{kind: ServiceAccount, name: controller, namespace: {home}}}]
"
    );
    apply(&fixture.client, &manifest, "test").await.unwrap();
    let identity = fixture.cluster.as_service_account(&home, "controller").await.unwrap();
    let config = identity.config().await.unwrap();
    let faults = Faults::none();
    let namespace = fixture.namespace("work").await;
    fixture.account(&namespace, "bot", &["bot-token-x2b4z", "s"]).await;
    fixture.secret(&namespace, "s", "bot").await;
    fixture.secret(&namespace, "orphan", "missing").await;

    let running = start(config.clone(), fixture.cluster, &faults, Clock::system());

    fixture.token(&namespace, "s", |_| true).await;
    fixture.gone(&fixture.secrets(&namespace), "orphan").await;
    let named = async || Some(fixture.named(&namespace, "bot").await).filter(|named| named == &["s"]);
    until("the name being gone", SOON, named).await.unwrap();
    let maps = fixture.maps(&namespace);
    until("the certificates", SOON, async || maps.get("kube-root-ca.crt").await.ok()).await.unwrap();
    maps.patch("kube-root-ca.crt", &Default::default(), &kube::api::Patch::Merge(json!({"data": {"more": "x"}})))
        .await
        .unwrap();
    let repaired = async || maps.get("kube-root-ca.crt").await.ok()?.data.filter(|data| data.len() == 1);
    until("the certificates being repaired", SOON, repaired).await.unwrap();
    settled(&faults).await;
    running.kill().await;

    let day = 24 * 60 * 60;
    let system = Clock::system();
    let clock = Clock::new(move || pillion_core::time::Timestamp(system.now().0 + 800 * day));
    let context = context(config, &Faults::none(), clock);
    let period = legacy_token::Options::default().period;
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(fixture.client.clone(), "kube-system");
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    until("the ConfigMap of the API server", SOON, async || maps.get(name).await.ok()).await.unwrap();
    legacy_token::clean(&context, period).await.unwrap();
    let secret = fixture.secrets(&namespace).get("s").await.unwrap();
    assert!(
        secret.metadata.labels.is_some_and(|labels| labels.contains_key("kubernetes.io/legacy-token-invalid-since"))
    );
    fixture.secrets(&namespace).delete("s", &DeleteParams::default()).await.unwrap();
}
