//! The fields of Pods (FIELD-1 to FIELD-4). docs/spec/pod-fields.md decides about every field in the API server's schema.
//! Injection keeps the fields that came after Kubernetes 1.33.

mod decided;
mod newer;
mod rollouts;

use pillion_testenv::{Cluster, Options, kubernetes};
use tokio::sync::OnceCell;

/// The feature gates of fields that came after Kubernetes 1.33, with the minor version that has them first.
const GATES: [(u32, &str); 11] = [
    (34, "ContainerRestartRules"),
    (34, "EnvFiles"),
    (34, "HostnameOverride"),
    (34, "PodCertificateRequest"),
    (35, "GenericWorkload"),
    (35, "NodeDeclaredFeatures"),
    (37, "AtomicWriteVolumeUserFields"),
    (37, "EmptyDirVolumeMode"),
    (37, "GRPCContainerProbeTLS"),
    (37, "H2CContainerProbe"),
    (37, "VolumeBindMountOptions"),
];

/// Returns a cluster in which every field is on that its version has, and the minor version.
async fn cluster() -> (&'static Cluster, u32) {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    (CLUSTER.get_or_init(async || Cluster::start(options()).await.unwrap()).await, minor())
}

/// Returns the minor version of the cluster.
fn minor() -> u32 {
    kubernetes().strip_prefix("1.").and_then(|minor| minor.parse().ok()).unwrap()
}

/// Returns the options of a cluster in which every field is on.
fn options() -> Options {
    let gates = GATES.iter().filter(|(since, _)| *since <= minor());
    // The API server of a gate may have a kind that its admission watches.
    let options = Options::new().api_server_flag("--runtime-config=api/alpha=true");
    gates.fold(options, |options, (_, gate)| options.feature_gate(*gate, true))
}
