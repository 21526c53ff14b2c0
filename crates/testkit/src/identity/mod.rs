//! Who can authenticate as whom in a Pod, by the rules of the API server and the kubelet (`serviceaccounts.md` A1, B).
//!
//! A model beside the policy: it shares no code with what it judges but the names of Secrets, volumes and merged
//! accounts.

pub mod draw;
pub mod expect;
pub mod kubelet;
pub mod plugin;
pub mod scenario;
pub mod table;

pub use draw::scenario;
pub use expect::Expected;
pub use kubelet::{Pair, pairs};
pub use plugin::{Account, Accounts, NAMESPACE, admit, invalid};
pub use scenario::{Scenario, Set};

use pillion_kubernetes::json;
use serde_json::Value;

/// Where ServiceAccounts are mounted.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A CSI driver that asks for tokens.
pub const ASKING_DRIVER: &str = "vault.csi.example";

/// How a volume lets whoever mounts it authenticate as the Pod's account, once for each way: the audience of a token,
/// or what stands for one.
pub fn audiences(volume: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for source in json::items(volume, &["projected", "sources"]) {
        found.extend(source.get("serviceAccountToken").map(|token| json::text(token, &["audience"])));
        found.extend(source.get("podCertificate").map(|_| "podCertificate"));
    }
    if json::text(volume, &["csi", "driver"]) == ASKING_DRIVER {
        found.push("csi");
    }
    found
}

/// The Secrets that a volume names.
pub fn secrets(volume: &Value) -> Vec<&str> {
    let mut found = vec![
        json::text(volume, &["secret", "secretName"]),
        json::text(volume, &["csi", "nodePublishSecretRef", "name"]),
        json::text(volume, &["flexVolume", "secretRef", "name"]),
    ];
    found.extend(json::items(volume, &["projected", "sources"]).iter().map(|s| json::text(s, &["secret", "name"])));
    found
}

/// Whether a volume is as the API server writes it: one token for the API server itself, and nothing but what every
/// Pod has.
pub fn is_automount(volume: &Value) -> bool {
    let sources = json::items(volume, &["projected", "sources"]);
    let is_usual = |source: &Value| {
        ["serviceAccountToken", "configMap", "downwardAPI"].iter().any(|key| source.get(key).is_some())
    };
    json::text(volume, &["name"]).starts_with("kube-api-access-")
        && audiences(volume) == [""]
        && sources.iter().all(is_usual)
}

/// Whether a mount path is [`TOKEN_PATH`] for a container runtime, however it is written.
pub fn is_token_path(path: &str) -> bool {
    let segments = |path: &str| -> Vec<String> {
        path.split('/').filter(|segment| !matches!(*segment, "" | ".")).map(str::to_owned).collect()
    };
    segments(path) == segments(TOKEN_PATH)
}
