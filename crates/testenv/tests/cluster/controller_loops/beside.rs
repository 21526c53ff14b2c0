//! Together with kube-controller-manager (RUN-7).

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use pillion_runtime::Clock;
use pillion_runtime::queue::run;
use pillion_service_accounts::token_controller::{self, Refusal, TokenController};
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, Options, until};
use serde_json::json;
use tokio::time::timeout;

use super::{SOON, context, namespace, settled, start_with, token_options};

#[tokio::test(flavor = "multi_thread")]
async fn run7_tokens_are_left_to_kube_controller_manager_unless_it_is_forced() {
    let cluster = Cluster::start(Options::new().controller_manager_flag("--leader-elect=true")).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let check = async || token_controller::check(&client, Clock::system().now()).await.err();
    let refusal = until("kube-controller-manager holding its Lease", SOON, check).await.unwrap();
    assert!(matches!(refusal, Refusal::Rival(_)), "{refusal}");

    // A waiting controller only reads the Lease.
    let faults = Faults::none();
    let config = cluster.as_admin().config().await.unwrap();
    let waiting = run::<TokenController>(context(config, &faults, Clock::system()), token_options(&cluster));
    timeout(Duration::from_secs(5), waiting).await.unwrap_err();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    assert!(faults.count() > 0 && faults.requests().iter().all(|request| request.contains(lease)));

    // If both run at once, they reach the same result, and neither keeps a namespace from being deleted.
    let faults = Faults::none();
    let config = cluster.as_admin().config().await.unwrap();
    let options = token_controller::Options { force: true, ..token_options(&cluster) };
    let running = start_with(config, &cluster, &faults, Clock::system(), options);
    let name = namespace(&client, "both").await;
    let manifest = format!(
        r"
apiVersion: v1
kind: ServiceAccount
metadata: {{name: bot, namespace: {name}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: s, namespace: {name}, annotations: {{kubernetes.io/service-account.name: bot}}}}
type: kubernetes.io/service-account-token
---
apiVersion: v1
kind: Secret
metadata: {{name: orphan, namespace: {name}, annotations: {{kubernetes.io/service-account.name: missing}}}}
type: kubernetes.io/service-account-token
"
    );
    pillion_testenv::apply(&client, &manifest, "test").await.unwrap();
    let secrets = Api::<k8s_openapi::api::core::v1::Secret>::namespaced(client.clone(), &name);
    let filled = async || super::value(&secrets.get("s").await.ok()?, "token");
    until("a token", SOON, filled).await.unwrap();
    let gone = async || secrets.get_opt("orphan").await.ok().filter(Option::is_none);
    until("the orphan being gone", SOON, gone).await.unwrap();
    let steady = settled(&faults).await;
    assert_eq!(settled(&faults).await, steady, "{:?}", json!(faults.requests()));

    let namespaces = Api::<Namespace>::all(client);
    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = async || namespaces.get_opt(&name).await.ok().filter(Option::is_none);
    until("the namespace being gone", SOON, gone).await.unwrap();
    running.kill().await;
}
