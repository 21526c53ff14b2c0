//! Deletes what the processes of an installation have made in their namespace for themselves.

use pillion_cluster::{Kind, Trouble, Writer};
use pillion_kubernetes::json;

/// The labels of the ConfigMaps with compiled SidecarSets, and a label of the Secret with the certificate.
const BUNDLE: &str = "app.kubernetes.io/managed-by=pillion,app.kubernetes.io/component=bundle";
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "pillion");

const SECRET: Kind<'static> = Kind("v1", "Secret");
const CONFIG_MAP: Kind<'static> = Kind("v1", "ConfigMap");
const LEASE: Kind<'static> = Kind("coordination.k8s.io/v1", "Lease");

/// The names of these objects.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    pub namespace: &'a str,
    /// The Secret with the server's certificate; empty if the server makes none.
    pub tls_secret: &'a str,
    /// The Leases of the controllers.
    pub leases: &'a [String],
}

/// Deletes the objects that exist, and returns a sentence about each.
///
/// # Errors
/// The first request that fails.
pub async fn delete(writer: &Writer, own: Own<'_>) -> Result<Vec<String>, Trouble> {
    let Own { namespace, tls_secret, leases } = own;
    let mut said = Vec::new();
    let name_secret = |rest: &str| format!("Secret {namespace}/{tls_secret}: {rest}");
    if !tls_secret.is_empty()
        && let Some(secret) = writer.get(SECRET, Some(namespace), tls_secret).await?
    {
        if json::text(&secret, &["metadata", "labels", MANAGED_BY.0]) == MANAGED_BY.1 {
            writer.delete(SECRET, namespace, tls_secret).await?;
            said.push(name_secret("deleted"));
        } else {
            said.push(name_secret("left as it is: it lacks the label app.kubernetes.io/managed-by=pillion"));
        }
    }
    let bundles = writer.list(CONFIG_MAP, Some(namespace), BUNDLE).await?.unwrap_or_default();
    let bundles = bundles.iter().map(|bundle| (CONFIG_MAP, json::text(bundle, &["metadata", "name"])));
    for (kind, name) in bundles.chain(leases.iter().map(|lease| (LEASE, lease.as_str()))) {
        if writer.delete(kind, namespace, name).await? {
            said.push(format!("{} {namespace}/{name}: deleted", kind.1));
        }
    }
    Ok(said)
}
