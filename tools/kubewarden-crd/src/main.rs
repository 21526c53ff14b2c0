//! Prints the JSON Schema of Kubewarden's `ClusterAdmissionPolicy`, as the policy SDK generates it:
//!
//! ```sh
//! cd tools/kubewarden-crd && cargo run --quiet > ../../crates/install/tests/install/rendering/cluster-admission-policy.schema.json
//! ```

use std::io;

use kubewarden_policy_sdk::crd::policies::ClusterAdmissionPolicy;

fn main() -> Result<(), serde_json::Error> {
    serde_json::to_writer_pretty(io::stdout(), &schemars::schema_for!(ClusterAdmissionPolicy))
}
