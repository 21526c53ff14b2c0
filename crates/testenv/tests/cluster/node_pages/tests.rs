use std::time::Duration;

use pillion_testenv::until;

use super::cluster;
use crate::pages::{Reader, WAY_BACK};
use crate::support::kubewarden;

/// How long Helm may take to install the chart, whose containers start.
const INSTALLED: Duration = Duration::from_mins(5);

#[tokio::test]
async fn the_quick_start_without_kubewarden_proves_in_containers_who_holds_which_token() {
    let cluster = cluster().await;
    let reader = Reader::start(&cluster).await;
    let printed = reader.read_with_containers("docs/quickstart-standalone.md", &[]).await;
    // Both ways to a cluster, and those to its end.
    assert!(printed.contains(" blocks ran, 4 were skipped"), "{printed}");
    reader.leaves_nothing().await;
}

#[tokio::test]
async fn the_quick_start_with_kubewarden_proves_in_containers_who_holds_which_token() {
    let cluster = cluster().await;
    let reader = Reader::start(&cluster).await;
    // The controller runs in a container, and the policies in a policy server.
    kubewarden::install(&cluster).await;
    let page = "docs/quickstart.md";
    let policies = async || kubewarden::has_policies(&cluster).await.then_some(());
    let served = async {
        until("the policies", INSTALLED, policies).await.unwrap();
        kubewarden::serve(&cluster).await;
    };
    let (printed, ()) = tokio::join!(reader.read_with_containers(page, &["--until", WAY_BACK]), served);
    // Both ways to a cluster, and Kubewarden.
    assert!(printed.contains(" blocks ran, 3 were skipped"), "{printed}");
    reader.read_with_containers(page, &["--from", WAY_BACK]).await;
}
