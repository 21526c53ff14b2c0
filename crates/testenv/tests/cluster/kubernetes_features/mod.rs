//! What versions of Kubernetes have: the table in docs/support.md, and what people are told about a cluster that is too old
//! (FIELD-4, FIELD-5).

mod table;
mod told;

use pillion_testenv::kubernetes;

/// Returns the minor version of the cluster.
fn minor() -> u32 {
    kubernetes().strip_prefix("1.").and_then(|minor| minor.parse().ok()).unwrap()
}
