//! Checks whether the controller may write token Secrets at all (RUN-7).

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use pillion_kubernetes::time::Timestamp;
use pillion_plan::token_controller::rival::{LEASE, NAMESPACE, Rival, rival};
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read::one;

/// Why the controller does nothing.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// kube-controller-manager is running.
    #[error("{0}")]
    Rival(#[from] Rival),
    /// It is unknown whether kube-controller-manager is running.
    #[error("the Lease \"{NAMESPACE}/{LEASE}\" of kube-controller-manager could not be read: {0}")]
    Unknown(WriteProblem),
}

/// Checks that no other controller fills token Secrets.
///
/// # Errors
/// [`Refusal`].
pub async fn check(client: &Client, now: Timestamp) -> Result<(), Refusal> {
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    let lease = one(&leases, LEASE).await.map_err(Refusal::Unknown)?;
    let lease = lease.and_then(|lease| serde_json::to_value(lease).ok());
    lease.and_then(|lease| rival(&lease, now)).map_or(Ok(()), |rival| Err(rival.into()))
}
