//! The fields of Pods (FIELD-1 to FIELD-4). docs/spec/pod-fields.md decides about every field in the API server's schema.
//! Injection keeps the fields that came after Kubernetes 1.33.

mod decided;
mod newer;
mod rollouts;

use pillion_sidecarset::newer::FEATURES;
use pillion_testenv::{Cluster, Options};
use tokio::sync::OnceCell;

use crate::support::minor;

/// The oldest minor version that is tested.
const OLDEST: u32 = 33;

/// The feature gates of fields of a Pod that no SidecarSet has, and of what such fields need, with the minor version that
/// has them first.
const OF_PODS: [(u32, &str); 3] = [(34, "HostnameOverride"), (35, "GenericWorkload"), (35, "NodeDeclaredFeatures")];

/// Returns a cluster in which every field is on that its version has, and the minor version.
async fn cluster() -> (&'static Cluster, u32) {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    (CLUSTER.get_or_init(async || Cluster::start(options()).await.unwrap()).await, minor())
}

/// Returns the options of a cluster in which every field is on.
fn options() -> Options {
    let of_sidecars = FEATURES.map(|feature| (feature.since.0, feature.gate));
    let newer = of_sidecars.into_iter().chain(OF_PODS).filter(|(since, _)| (OLDEST + 1..=minor()).contains(since));
    // The API server of a gate may have a kind that its admission watches.
    let options = Options::new().api_server_flag("--runtime-config=api/alpha=true");
    newer.fold(options, |options, (_, gate)| options.feature_gate(gate, true))
}
