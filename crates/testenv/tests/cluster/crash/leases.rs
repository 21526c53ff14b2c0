//! The Lease of two replicas.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use pillion_testenv::until;

/// The flags that let a program take part in leader election, except that for the namespace.
pub const ELECTION: [&str; 1] = ["--lease=crash"];
/// The flags without leader election.
pub const NO_ELECTION: [&str; 1] = ["--no-leader-election"];
/// How long a Lease is valid without renewal.
pub const DURATION: Duration = Duration::from_secs(15);

/// Returns the replica that holds the Lease, by its name.
pub async fn holder(client: &Client, namespace: &str) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let holder = leases.get_opt("crash").await.unwrap()?.spec?.holder_identity?;
    holder.split_once('_').map(|(replica, _)| replica.to_owned())
}

/// Waits until this replica holds the Lease.
pub async fn held_by(client: &Client, namespace: &str, replica: &str) {
    let is_it = async || (holder(client, namespace).await.as_deref() == Some(replica)).then_some(());
    until(&format!("replica {replica} holding the Lease"), Duration::from_mins(1), is_it).await.unwrap();
}
