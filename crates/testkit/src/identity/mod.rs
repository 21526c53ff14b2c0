//! A model of the identities in a Pod, by the rules of the API server and the kubelet (SAP-8, TOK-1).
//!
//! The model is independent of the policy: it shares no code with it except the names of Secrets, volumes and merged
//! accounts.

pub mod draw;
pub mod expect;
pub mod kubelet;
pub mod plugin;
pub mod scenario;
pub mod table;

pub use draw::scenario;
pub use expect::Expected;
pub use kubelet::{Pair, Secrets, pairs, pairs_with};
pub use plugin::{Account, Accounts, NAMESPACE, admit, invalid};
pub use scenario::{Scenario, Set};

use pillion_kubernetes::json;
use serde_json::Value;

/// The mount path of ServiceAccount tokens.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A CSI driver that asks for tokens.
pub const ASKING_DRIVER: &str = "vault.csi.example";

/// Returns the ways in which a volume lets the containers that mount it authenticate as the Pod's account. Each way is
/// the audience of a token, or a word in its place.
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

/// Returns the Secrets that a volume names for all of their keys. Texts may be empty.
fn secrets_in_full(volume: &Value) -> [&str; 3] {
    [
        json::text(volume, &["secret", "secretName"]),
        json::text(volume, &["csi", "nodePublishSecretRef", "name"]),
        json::text(volume, &["flexVolume", "secretRef", "name"]),
    ]
}

/// Returns the Secrets that a volume names. Texts may be empty.
pub fn secrets(volume: &Value) -> Vec<&str> {
    let mut found = Vec::from(secrets_in_full(volume));
    found.extend(json::items(volume, &["projected", "sources"]).iter().map(|s| json::text(s, &["secret", "name"])));
    found
}

/// Whether a volume looks like the API server's own: one token for the API server itself, and only the sources that
/// every Pod has.
pub fn is_automount(volume: &Value) -> bool {
    let sources = json::items(volume, &["projected", "sources"]);
    let is_usual = |source: &Value| {
        ["serviceAccountToken", "configMap", "downwardAPI"].iter().any(|key| source.get(key).is_some())
    };
    json::text(volume, &["name"]).starts_with("kube-api-access-")
        && audiences(volume) == [""]
        && sources.iter().all(is_usual)
}

/// Whether a container runtime reads a mount path as [`TOKEN_PATH`], in whatever spelling.
pub fn is_token_path(path: &str) -> bool {
    let segments = |path: &str| -> Vec<String> {
        path.split('/').filter(|segment| !matches!(*segment, "" | ".")).map(str::to_owned).collect()
    };
    segments(path) == segments(TOKEN_PATH)
}
