//! Shared parts of the commands that run until they are told to end.

pub mod logging;
pub mod settings;
pub mod signals;

/// The default namespace of Pillion's processes in rendered manifests.
const NAMESPACE: &str = "pillion-system";
/// The file from which a Pod reads its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns the namespace of this process: `named` if set, otherwise the namespace of its Pod, otherwise the default.
pub fn own_namespace(named: Option<&str>) -> String {
    let own = || std::fs::read_to_string(OWN_NAMESPACE).ok().map(|name| name.trim().to_owned());
    named.map(str::to_owned).or_else(own).unwrap_or_else(|| NAMESPACE.to_owned())
}
