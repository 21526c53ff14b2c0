//! Clients' identities for the API server, as kubeconfigs for this crate's clients and for other programs.

use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::Error;
use crate::certificates::Certified;

/// The credentials of a client.
pub(crate) enum Credentials {
    /// A certificate of the cluster's authority.
    Certificate(Certified),
    /// A token, as Pods use it.
    Token(String),
}

/// The identity of a client of a cluster's API server.
#[derive(Clone, Debug)]
pub struct Identity(Value);

impl Identity {
    pub(crate) fn new(port: u16, authority: &str, credentials: &Credentials) -> Self {
        Self(kubeconfig(port, authority, credentials))
    }

    /// Returns a client, which belongs to the current runtime.
    ///
    /// # Errors
    ///
    /// If the kubeconfig is invalid.
    pub async fn client(&self) -> Result<Client, Error> {
        Client::try_from(self.config().await?).map_err(Error::api("a client"))
    }

    /// Returns a client configuration, for callers that create their own client.
    ///
    /// # Errors
    ///
    /// If the kubeconfig is invalid.
    pub async fn config(&self) -> Result<Config, Error> {
        let kubeconfig: Kubeconfig =
            serde_json::from_value(self.0.clone()).map_err(|error| Error::Kubeconfig(error.to_string()))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| Error::Kubeconfig(error.to_string()))
    }

    /// Returns a kubeconfig for other programs. It is JSON, which is valid YAML.
    pub fn kubeconfig(&self) -> String {
        self.0.to_string()
    }
}

fn kubeconfig(port: u16, authority: &str, credentials: &Credentials) -> Value {
    let user = match credentials {
        Credentials::Certificate(Certified { certificate, key }) => json!({
            "client-certificate-data": base64(certificate),
            "client-key-data": base64(key),
        }),
        Credentials::Token(token) => json!({ "token": token }),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "testenv",
            "cluster": { "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": base64(authority) },
        }],
        "users": [{ "name": "testenv", "user": user }],
        "contexts": [{ "name": "testenv", "context": { "cluster": "testenv", "user": "testenv" } }],
        "current-context": "testenv",
    })
}

fn base64(text: &str) -> Value {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap_or_default()
}
