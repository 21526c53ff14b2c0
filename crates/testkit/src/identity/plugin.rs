//! A model of the API server around the webhooks: its `ServiceAccount` admission plugin, which runs before and after
//! them, and the validation that follows (SAP-1 to SAP-8, SAP-13).

use std::collections::BTreeMap;

use pillion_host::ClusterError;
use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::TOKEN_PATH;
use crate::FakeCluster;

/// The namespace of the Pods and of their accounts.
pub const NAMESPACE: &str = "default";
/// The prefix of the volumes that the API server adds. Five random characters follow.
const AUTOMOUNT: &str = "kube-api-access-";

/// A ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// `automountServiceAccountToken`.
    pub automount: Option<bool>,
    /// `imagePullSecrets`.
    pub pull_secrets: Vec<String>,
    /// Whether it has a `deletionTimestamp`: Pods may still name it, but its tokens are invalid (SAP-11).
    pub is_terminating: bool,
    /// Whether the policy's look-up fails. The API server itself still knows the account.
    pub is_unreadable: bool,
    /// The SidecarSets of a merged account, as in its annotation (MRG-2).
    pub merged_for: Option<String>,
}

/// The ServiceAccounts of the namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts(pub BTreeMap<String, Account>);

impl Accounts {
    /// Returns accounts with these names and default properties.
    pub fn named(names: &[&str]) -> Self {
        Self(names.iter().map(|name| ((*name).to_owned(), Account::default())).collect())
    }

    /// Changes or adds an account.
    #[must_use]
    pub fn with(mut self, name: &str, account: Account) -> Self {
        self.0.insert(name.to_owned(), account);
        self
    }

    /// Whether tokens of this account are valid.
    pub fn is_alive(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|account| !account.is_terminating)
    }

    /// Returns the cluster as the policy sees it, including the objects `others`.
    pub fn cluster(&self, others: impl IntoIterator<Item = Value>) -> FakeCluster {
        let mut cluster = FakeCluster::with(others);
        for (name, account) in &self.0 {
            let mut object = json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE},
            });
            if let Some(automount) = account.automount {
                object["automountServiceAccountToken"] = json!(automount);
            }
            if let Some(sets) = &account.merged_for {
                object["metadata"]["annotations"] = json!({"pillion.dev/sidecarsets": sets});
            }
            if account.is_terminating {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let answer = if account.is_unreadable {
                Err(ClusterError::Failed("the API server is on holiday".to_owned()))
            } else {
                Ok(object.to_string().into_bytes())
            };
            cluster = cluster.answering(&object, answer);
        }
        cluster
    }
}

/// Applies the admission plugin to a Pod, as before and after the webhooks: it sets the alias to the name (SAP-3), sets
/// a missing account to `default` (SAP-2), mounts its token unless a mount has exactly that path (SAP-4, SAP-8), and
/// copies its pull secrets if the Pod has none (SAP-5).
///
/// # Errors
/// The text of the 403 response if the account does not exist.
pub fn admit(pod: &Value, accounts: &Accounts) -> Result<Value, String> {
    let mut pod = pod.clone();
    let named = ["serviceAccountName", "serviceAccount"].map(|key| json::text(&pod, &["spec", key]));
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or("default").to_owned();
    pod["spec"]["serviceAccountName"] = json!(name);
    pod["spec"]["serviceAccount"] = json!(name);
    let Some(account) = accounts.0.get(&name) else {
        return Err(format!(
            "error looking up service account {NAMESPACE}/{name}: serviceaccount \"{name}\" not found"
        ));
    };
    let automounts = pod["spec"]["automountServiceAccountToken"].as_bool().or(account.automount).unwrap_or(true);
    if automounts {
        mount(&mut pod["spec"]);
    }
    if json::items(&pod, &["spec", "imagePullSecrets"]).is_empty() && !account.pull_secrets.is_empty() {
        pod["spec"]["imagePullSecrets"] = account.pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    }
    Ok(pod)
}

/// Mounts the token of the Pod's account. A volume with the prefix of the plugin's own counts as such (SAP-8k).
fn mount(spec: &mut Value) {
    let names = json::items(spec, &["volumes"]).iter().map(|volume| json::text(volume, &["name"]));
    let adopted = names.into_iter().find(|name| name.starts_with(AUTOMOUNT)).map(str::to_owned);
    let name = adopted.clone().unwrap_or_else(|| format!("{AUTOMOUNT}x7k2p"));
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container.as_object_mut().unwrap().entry("volumeMounts").or_insert(json!([]));
            let mounts = mounts.as_array_mut().unwrap();
            // The paths are compared literally: one with a trailing slash differs (SAP-8j).
            if mounts.iter().all(|mount| mount["mountPath"] != TOKEN_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
                is_needed = true;
            }
        }
    }
    if adopted.is_none() && is_needed {
        let volumes = spec.as_object_mut().unwrap().entry("volumes").or_insert(json!([]));
        volumes.as_array_mut().unwrap().push(automount_volume(&name));
    }
}

/// Returns the volume that the API server adds. It names no account: the kubelet requests a token for the Pod's account
/// (SAP-4).
pub fn automount_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
        ]}},
    ]}})
}

/// Returns the validation errors of a Pod that concern tokens (SAP-13): volumes with the same name, mounts of missing
/// volumes, two mounts at one path (SAP-8l).
pub fn invalid(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let name = |value: &Value| json::text(value, &["name"]).to_owned();
    let mut volumes = Vec::new();
    for volume in json::items(pod, &["spec", "volumes"]) {
        if volumes.contains(&name(volume)) {
            found.push(format!("spec.volumes: Duplicate value: {}", name(volume)));
        }
        volumes.push(name(volume));
    }
    for list in ["initContainers", "containers"] {
        for container in json::items(pod, &["spec", list]) {
            let mut paths = Vec::new();
            for mount in json::items(container, &["volumeMounts"]) {
                let path = json::text(mount, &["mountPath"]);
                if !volumes.contains(&name(mount)) {
                    found.push(format!("{}: volumeMounts: Not found: {}", name(container), name(mount)));
                }
                if paths.contains(&path) {
                    found.push(format!("{}: mountPath: Invalid value: {path}: must be unique", name(container)));
                }
                paths.push(path);
            }
        }
    }
    found
}
