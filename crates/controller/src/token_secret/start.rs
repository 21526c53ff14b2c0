//! Whether token Secrets may be touched at all (`serviceaccounts.md` C4).

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use pillion_kubernetes::time::Timestamp;
use pillion_plan::token_secret::rival::{LEASE, NAMESPACE, Rival, rival};

use crate::read::one;
use crate::write::Problem;

/// Why nothing is done.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// kube-controller-manager does it.
    #[error("{0}")]
    Rival(#[from] Rival),
    /// It is not known whether kube-controller-manager does it.
    #[error("the Lease \"{NAMESPACE}/{LEASE}\" of kube-controller-manager could not be read: {0}")]
    Unknown(Problem),
}

/// Whether nobody else is at work on token Secrets.
///
/// # Errors
/// [`Refusal`].
pub async fn check(client: &Client, now: Timestamp) -> Result<(), Refusal> {
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    let lease = one(&leases, LEASE).await.map_err(Refusal::Unknown)?;
    let lease = lease.and_then(|lease| serde_json::to_value(lease).ok());
    lease.and_then(|lease| rival(&lease, now)).map_or(Ok(()), |rival| Err(rival.into()))
}
