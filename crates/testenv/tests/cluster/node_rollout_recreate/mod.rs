//! Rollouts that evict Pods whose containers run: Deployments make them anew, with the admission server and budgets.

use pillion_testenv::{Cluster, Image, Options};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::rollout::audit;
use crate::rollout_recreate::{RolloutNamespace, start};
use crate::support::is_ready;

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let images = ["app:1", "agent:v1"].map(|name| Image::busybox(format!("docker.io/library/{name}")));
    CLUSTER.get_or_init(|| start(images.into_iter().fold(Options::new().real_nodes(2), Options::image))).await
}

/// Returns the smallest number of Pods that were ready at the same time after the first `since` writes. A Pod that is
/// being deleted does not count.
fn fewest_ready(place: &RolloutNamespace<'_>, since: usize) -> usize {
    let writes = audit::writes(place.cluster, &place.name);
    let mut ready = std::collections::BTreeMap::<&str, bool>::new();
    let counts = writes.iter().map(|write| {
        ready.insert(&write.name, write.pod.as_ref().is_some_and(is_ready));
        ready.values().filter(|is_ready| **is_ready).count()
    });
    counts.skip(since).min().unwrap_or_default()
}

#[rstest]
#[case::within_max_unavailable(json!({"maxUnavailable": "50%"}), None, 2)]
#[case::within_a_disruption_budget(json!({"maxUnavailable": 3}), Some(1), 3)]
#[tokio::test(flavor = "multi_thread")]
async fn roll66_deployments_make_pods_anew_within_budgets_at_every_moment(
    #[case] strategy: Value,
    #[case] budget: Option<usize>,
    #[case] fewest: usize,
) {
    let pods = 4;
    let place = RolloutNamespace::new(cluster().await).await;
    place.create_set(&strategy).await;
    place.run(&[place.workload("Deployment", &place.name, pods)], pods).await;
    if let Some(most) = budget {
        place.apply(&[place.budget("web", most)]).await;
        place.counted("web", 4).await;
    }
    place.ended("Complete").await;
    let since = audit::writes(place.cluster, &place.name).len();
    let started = std::time::Instant::now();

    place.release("debug").await;

    place.evicted(pods).await;
    place.ended("Complete").await;
    place.ready(pods).await;
    println!("{strategy}: {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!(place.levels(&place.name).await, vec!["debug"; pods]);
    assert_eq!(place.evictions(pods).len(), pods, "each Pod once");
    assert_eq!(fewest_ready(&place, since), fewest, "{}", place.logs());
}
