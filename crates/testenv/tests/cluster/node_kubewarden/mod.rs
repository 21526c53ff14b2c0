//! The stories of the module `node_identities` through Kubewarden's own policy server. They need it on the search path
//! (CONTRIBUTING.md).

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pillion_install::rendering::document::to_yaml;
use pillion_install::rendering::kubewarden as rendering;
use pillion_install::rendering::options::Kubewarden;
use pillion_testenv::{Cluster, apply, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::node_identities::{World, audiences, boundaries, life, modes, users};
use crate::support::kubewarden::{self, policy_server};
use crate::support::{SOON, dry_run, options, pod};

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// Lets Kubewarden's policy server admit, with the policies that `pillion manifest kubewarden` renders.
async fn admit(cluster: &'static Cluster, settings: &Value) {
    kubewarden::install(cluster).await;
    let client = cluster.admin().await.unwrap();
    // There is no namespace of OpenKruise.
    let policies = rendering::render(settings, &options::<Kubewarden>(&["--no-system-role"])).unwrap().documents;
    apply(&client, &to_yaml(&policies).unwrap(), "manifests").await.unwrap();
    kubewarden::serve(cluster).await;

    // The API server applies a new configuration within a second or two.
    let pods: Api<Pod> = Api::namespaced(client, "modes");
    let probe = pod(&json!({"metadata": {"name": "probe", "labels": {"story": "sidecars-only"}}}));
    let injected = async || {
        let stored = pods.create(&dry_run(), &serde_json::from_value(probe.clone()).unwrap()).await.ok()?;
        (stored.spec?.containers.len() > 1).then_some(())
    };
    if let Err(error) = until("a Pod being injected", SOON, injected).await {
        panic!("{error}\n{}", cluster.log(policy_server::PROGRAM));
    }
}

#[tokio::test]
async fn the_identities_of_containers_are_the_same_through_a_policy_server() {
    if policy_server::find().is_none() {
        println!("policy-server is not on the search path: Kubewarden's own server is not tested (CONTRIBUTING.md)");
        return;
    }
    let world = World::start(CLUSTER.get_or_init(World::cluster).await, admit).await;
    tokio::join!(
        modes::sidecars_only(&world),
        modes::isolate(&world),
        modes::pod(&world),
        modes::merge(&world),
        audiences::each_sidecar_logs_in_to_its_own_service(&world),
        users::who_is_not_root_can_read_its_token(&world),
        life::a_pod_waits_for_its_secret(&world),
        boundaries::e7_a_debugging_container_sees_no_token(&world),
        boundaries::e4_the_apps_own_tokens_stay_its_own(&world),
    );
}
