//! A model of the kubelet: the tokens that it gives to containers (SAP-4, TOK-1).

use std::collections::BTreeSet;

use pillion_identity::names;
use pillion_kubernetes::json;
use serde_json::Value;

use super::Accounts;

/// A container, an account as which it can authenticate, and the audience of the token unless that is the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The container.
    pub container: String,
    /// The ServiceAccount.
    pub account: String,
    /// The audience; `""` for the API server itself.
    pub audience: String,
}

impl Pair {
    /// Returns the pair of a container that can authenticate at the API server.
    pub fn new(container: &str, account: &str) -> Self {
        Self { container: container.to_owned(), account: account.to_owned(), audience: String::new() }
    }
}

/// Returns the identities of all containers in a stored Pod.
///
/// A mounted volume with a `serviceAccountToken`, with a `podCertificate`, or of a CSI driver that asks for tokens
/// gives its container the account under which the Pod runs, whatever the volume's name and mount path. A Secret
/// `sidecarset-token-<h>`, in any kind of volume or in the environment, gives the account of that hash. There are no
/// other sources. A mount that hides another one does not protect it: both count.
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

/// Returns the accounts of a container, with audiences.
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
