//! What the commands share that stay until they are told to end.

pub mod logging;
pub mod settings;
pub mod signals;
pub mod units;

/// The namespace that is rendered for Pillion's processes.
const NAMESPACE: &str = "pillion-system";
/// Where a Pod finds its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of this process: the one it was told, else that of its Pod.
pub fn own_namespace(told: Option<&str>) -> String {
    let own = || std::fs::read_to_string(OWN_NAMESPACE).ok().map(|name| name.trim().to_owned());
    told.map(str::to_owned).or_else(own).unwrap_or_else(|| NAMESPACE.to_owned())
}
