//! The kubelet: which tokens it puts where (`serviceaccounts.md` A1-4, B).

use std::collections::BTreeSet;

use pillion_identity::names;
use pillion_kubernetes::json;
use serde_json::Value;

use super::Accounts;

/// A container, an account as which it can authenticate, and the audience of the token where it is not the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The container.
    pub container: String,
    /// The ServiceAccount.
    pub account: String,
    /// The audience, `""` for the API server itself.
    pub audience: String,
}

impl Pair {
    /// A container that can authenticate at the API server.
    pub fn new(container: &str, account: &str) -> Self {
        Self { container: container.to_owned(), account: account.to_owned(), audience: String::new() }
    }
}

/// Everybody's identities in a Pod as it is stored.
///
/// A mounted volume with a `serviceAccountToken`, a `podCertificate` or of a CSI driver that asks for tokens gives its
/// container the account that the Pod runs under, whatever the volume is called and wherever it is mounted. A Secret
/// `sidecarset-token-<h>`, in a volume of whatever kind or in the environment, gives the account of that hash. Nothing
/// else gives any. A mount that hides another one is no
/// protection: both count.
pub fn pairs(pod: &Value, accounts: &Accounts) -> BTreeSet<Pair> {
    let runs_as = json::text(pod, &["spec", "serviceAccountName"]);
    let mut found = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for container in json::items(pod, &["spec", list]) {
            for (account, audience) in held(pod, container, runs_as, accounts) {
                if accounts.is_alive(&account) {
                    let container = json::text(container, &["name"]).to_owned();
                    found.insert(Pair { container, account, audience });
                }
            }
        }
    }
    found
}

/// The accounts of a container, with audiences.
fn held(pod: &Value, container: &Value, runs_as: &str, accounts: &Accounts) -> Vec<(String, String)> {
    let mut held = Vec::new();
    let mut secrets = Vec::new();
    for mount in json::items(container, &["volumeMounts"]) {
        let name = json::text(mount, &["name"]);
        let volumes = json::items(pod, &["spec", "volumes"]);
        let Some(volume) = volumes.iter().find(|volume| json::text(volume, &["name"]) == name) else { continue };
        secrets.extend(super::secrets(volume));
        held.extend(super::audiences(volume).into_iter().map(|audience| (runs_as.to_owned(), audience.to_owned())));
    }
    for variable in json::items(container, &["env"]) {
        secrets.push(json::text(variable, &["valueFrom", "secretKeyRef", "name"]));
    }
    for from in json::items(container, &["envFrom"]) {
        secrets.push(json::text(from, &["secretRef", "name"]));
    }
    for account in accounts.0.keys() {
        if secrets.contains(&names::token_secret(account).as_str()) {
            held.push((account.clone(), String::new()));
        }
    }
    held
}
