//! The fields of a Pod's spec that decide about identities. Controllers read them from thousands of Pods, and nothing else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields that are read from `spec` of a Pod.
#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// `serviceAccountName`.
    pub service_account_name: Option<String>,
    /// `automountServiceAccountToken`.
    pub automount_service_account_token: Option<bool>,
    /// `initContainers`.
    pub init_containers: Option<Vec<Container>>,
    /// `containers`.
    pub containers: Option<Vec<Container>>,
    /// `volumes`.
    pub volumes: Option<Vec<Volume>>,
}

/// The fields that are read from a container.
#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// `name`.
    pub name: String,
    /// `volumeMounts`.
    pub volume_mounts: Option<Vec<Mount>>,
}

/// An item of `volumeMounts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mount {
    /// `name`, of a volume.
    pub name: String,
    /// `mountPath`.
    pub mount_path: String,
}

/// A volume. Of its source, what can hold a token is read.
#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct Volume {
    /// `name`.
    pub name: String,
    secret: Option<SecretVolume>,
    projected: Option<Projected>,
    /// An inline volume of a CSI driver, which may get tokens (E19).
    csi: Option<Value>,
}

#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct SecretVolume {
    secret_name: Option<String>,
}

#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(default)]
struct Projected {
    sources: Option<Vec<Source>>,
}

#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(default)]
struct Source {
    secret: Option<SecretSource>,
    #[serde(rename = "serviceAccountToken")]
    token: Option<Value>,
    #[serde(rename = "podCertificate")]
    certificate: Option<Value>,
}

#[derive(Clone, Debug, Default, Hash, Deserialize, Serialize)]
#[serde(default)]
struct SecretSource {
    name: Option<String>,
}

impl Volume {
    /// Whether it contains, or may contain, a token of the Pod's account or a certificate for it (E19).
    pub fn may_hold_a_token(&self) -> bool {
        let holds = |source: &Source| source.token.is_some() || source.certificate.is_some();
        self.csi.is_some() || self.sources().any(holds)
    }

    /// Returns the names of the Secrets that it mounts.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let whole = self.secret.iter().filter_map(|secret| secret.secret_name.as_deref());
        whole.chain(self.sources().filter_map(|source| source.secret.as_ref()?.name.as_deref()))
    }

    fn sources(&self) -> impl Iterator<Item = &Source> {
        self.projected.iter().flat_map(|projected| projected.sources.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_token(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}), true, &[])]
    #[case::a_certificate(json!({"projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}), true, &[])]
    #[case::of_a_driver(json!({"csi": {"driver": "vault.example"}}), true, &[])]
    #[case::a_secret(json!({"secret": {"secretName": "a"}}), false, &["a"])]
    #[case::projected_secrets(
        json!({"projected": {"sources": [{"secret": {"name": "a"}}, {"configMap": {"name": "c"}}, {"secret": {"name": "b"}}]}}),
        false,
        &["a", "b"]
    )]
    #[case::nulls(json!({"secret": null, "projected": {"sources": null}, "csi": null}), false, &[])]
    #[case::nothing(json!({"emptyDir": {}}), false, &[])]
    fn e19_volumes_tell_what_they_hold(#[case] volume: Value, #[case] token: bool, #[case] secrets: &[&str]) {
        let volume: Volume = serde_json::from_value(volume).unwrap();
        assert_eq!(volume.may_hold_a_token(), token);
        assert_eq!(volume.secrets().collect::<Vec<_>>(), secrets);
    }
}
