use pillion_testenv::Cluster;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{World, audiences, boundaries, jobs, life, modes, starts, token_containers, users};
use crate::support::Installation;

async fn world() -> &'static World {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<World> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(World::cluster).await;
    WORLD.get_or_init(async || World::start(cluster, serve).await).await
}

/// Lets `pillion serve` admit. Accounts change right before they matter, so every look-up is a request.
async fn serve(cluster: &'static Cluster, settings: &Value) {
    Installation::start(cluster, settings, &[], &["--cache-max-staleness=0s"]).await;
}

#[tokio::test]
async fn in_mode_sidecars_only_the_sidecars_alone_hold_a_token() {
    modes::sidecars_only(world().await).await;
}

#[tokio::test]
async fn in_mode_isolate_each_sidecar_has_its_account_and_the_app_its_own() {
    modes::isolate(world().await).await;
}

#[tokio::test]
async fn tcn4_the_named_container_alone_holds_the_token() {
    token_containers::the_named_container_alone_holds_the_token(world().await).await;
}

#[tokio::test]
async fn in_mode_pod_the_app_holds_the_sidecars_token() {
    modes::pod(world().await).await;
}

#[tokio::test]
async fn with_merge_the_sidecars_share_an_account_with_the_rights_of_both() {
    modes::merge(world().await).await;
}

#[tokio::test]
async fn aud1_aud9_each_sidecar_logs_in_to_its_own_service() {
    audiences::each_sidecar_logs_in_to_its_own_service(world().await).await;
}

#[tokio::test]
async fn under_restricted_pod_security_who_is_not_root_can_read_its_token() {
    users::who_is_not_root_can_read_its_token(world().await).await;
}

#[tokio::test]
async fn tok5_a_pod_waits_for_its_secret_and_then_starts() {
    life::a_pod_waits_for_its_secret(world().await).await;
}

#[tokio::test]
async fn tok5_the_secret_can_be_made_by_hand() {
    life::the_secret_can_be_made_by_hand(world().await).await;
}

#[tokio::test]
async fn tok6_a_renewed_token_reaches_the_running_container() {
    life::a_renewed_token_reaches_the_running_container(world().await).await;
}

#[tokio::test]
async fn a_restarted_container_keeps_its_identity() {
    boundaries::a_restarted_container_keeps_its_identity(world().await).await;
}

#[tokio::test]
async fn e7_a_debugging_container_sees_no_token() {
    boundaries::e7_a_debugging_container_sees_no_token(world().await).await;
}

#[tokio::test]
async fn tok9_processes_in_sight_lead_to_the_token() {
    boundaries::tok9_processes_in_sight_lead_to_the_token(world().await).await;
}

#[tokio::test]
async fn sap9_e9_a_mirror_pod_does_not_run() {
    boundaries::sap9_e9_a_mirror_pod_does_not_run(world().await).await;
}

#[tokio::test]
async fn e4_the_apps_own_tokens_stay_its_own() {
    boundaries::e4_the_apps_own_tokens_stay_its_own(world().await).await;
}

#[tokio::test]
async fn nat2_a_job_with_a_sidecar_completes() {
    jobs::a_job_with_a_sidecar_completes(world().await).await;
}

#[tokio::test]
#[ignore = "prints figures: make bench-node"]
async fn seconds_until_a_pod_is_ready() {
    println!("{}", starts::table(world().await).await);
}
