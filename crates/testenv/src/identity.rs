//! Clients' identities for the API server, as kubeconfigs for this crate's clients and for other programs.

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::Cluster;
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

impl Cluster {
    /// Returns the identity of an administrator with all rights.
    pub fn as_admin(&self) -> &Identity {
        self.admin_identity()
    }

    /// Returns the identity of a user, with a certificate for this name and group. RBAC gives a new user almost no
    /// rights.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be created.
    pub fn as_user(&self, user: &str, group: Option<&str>) -> Result<Identity, Error> {
        Ok(self.identity(&Credentials::Certificate(self.authority().client(user, group)?)))
    }

    /// Returns the identity of the bearer of this token.
    pub fn as_bearer(&self, token: &str) -> Identity {
        self.identity(&Credentials::Token(token.to_owned()))
    }

    /// Returns the identity of a ServiceAccount, with a new token for an hour.
    ///
    /// # Errors
    ///
    /// If the ServiceAccount does not exist.
    pub async fn as_service_account(&self, namespace: &str, name: &str) -> Result<Identity, Error> {
        let token = self.token(namespace, name, &TokenRequestSpec::default()).await?;
        Ok(self.as_bearer(&token))
    }

    /// Returns a client of an administrator with all rights.
    ///
    /// # Errors
    ///
    /// If the client cannot be created.
    pub async fn admin(&self) -> Result<Client, Error> {
        self.as_admin().client().await
    }

    /// Returns a client of a user: see [`Cluster::as_user`].
    ///
    /// # Errors
    ///
    /// If the certificate cannot be created.
    pub async fn user(&self, user: &str, group: Option<&str>) -> Result<Client, Error> {
        self.as_user(user, group)?.client().await
    }

    /// Returns a client of a ServiceAccount: see [`Cluster::as_service_account`].
    ///
    /// # Errors
    ///
    /// If the ServiceAccount does not exist.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Client, Error> {
        self.as_service_account(namespace, name).await?.client().await
    }

    /// Requests a token of a ServiceAccount from the TokenRequest API.
    ///
    /// # Errors
    ///
    /// If the ServiceAccount does not exist, or cannot have such a token.
    pub async fn token(&self, namespace: &str, name: &str, wanted: &TokenRequestSpec) -> Result<String, Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, namespace);
        let request = TokenRequest { spec: Some(wanted.clone()), ..TokenRequest::default() };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .map_err(Error::api(format!("the token of {namespace}/{name}")))?;
        let token = answer.status.and_then(|status| status.token);
        token.ok_or_else(|| Error::NoToken(format!("{namespace}/{name}")))
    }
}
