//! Who speaks to the API server, and how: kubeconfigs, for this crate's clients as for anything else.

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

/// How a client shows who it is.
pub(crate) enum Credentials {
    /// With a certificate of the cluster's authority.
    Certificate(Certified),
    /// With a token, as Pods do.
    Token(String),
}

/// Somebody who speaks to a cluster's API server.
#[derive(Clone, Debug)]
pub struct Identity(Value);

impl Identity {
    pub(crate) fn new(port: u16, authority: &str, credentials: &Credentials) -> Self {
        Self(kubeconfig(port, authority, credentials))
    }

    /// A client, which belongs to the runtime that this is awaited in.
    ///
    /// # Errors
    ///
    /// Where the kubeconfig is not understood.
    pub async fn client(&self) -> Result<Client, Error> {
        Client::try_from(self.config().await?).map_err(Error::api("a client"))
    }

    /// The configuration of a client, for those that make it themselves.
    ///
    /// # Errors
    ///
    /// Where the kubeconfig is not understood.
    pub async fn config(&self) -> Result<Config, Error> {
        let kubeconfig: Kubeconfig =
            serde_json::from_value(self.0.clone()).map_err(|error| Error::Kubeconfig(error.to_string()))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| Error::Kubeconfig(error.to_string()))
    }

    /// A kubeconfig for other programs. It is JSON, and JSON is YAML.
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
    /// One who may do everything.
    pub fn as_admin(&self) -> &Identity {
        self.admin_identity()
    }

    /// A user, who shows a certificate with this name and group. RBAC gives a new user next to nothing.
    ///
    /// # Errors
    ///
    /// Where a certificate cannot be made.
    pub fn as_user(&self, user: &str, group: Option<&str>) -> Result<Identity, Error> {
        Ok(self.identity(&Credentials::Certificate(self.authority().client(user, group)?)))
    }

    /// Whoever has this token.
    pub fn as_bearer(&self, token: &str) -> Identity {
        self.identity(&Credentials::Token(token.to_owned()))
    }

    /// A ServiceAccount, with a token of an hour that is asked for here.
    ///
    /// # Errors
    ///
    /// Where there is no such ServiceAccount.
    pub async fn as_service_account(&self, namespace: &str, name: &str) -> Result<Identity, Error> {
        let token = self.token(namespace, name, &TokenRequestSpec::default()).await?;
        Ok(self.as_bearer(&token))
    }

    /// A client of one who may do everything.
    ///
    /// # Errors
    ///
    /// Where the client cannot be made.
    pub async fn admin(&self) -> Result<Client, Error> {
        self.as_admin().client().await
    }

    /// A client of a user: see [`Cluster::as_user`].
    ///
    /// # Errors
    ///
    /// Where a certificate cannot be made.
    pub async fn user(&self, user: &str, group: Option<&str>) -> Result<Client, Error> {
        self.as_user(user, group)?.client().await
    }

    /// A client of a ServiceAccount: see [`Cluster::as_service_account`].
    ///
    /// # Errors
    ///
    /// Where there is no such ServiceAccount.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Client, Error> {
        self.as_service_account(namespace, name).await?.client().await
    }

    /// A token of a ServiceAccount, as the TokenRequest API gives it out.
    ///
    /// # Errors
    ///
    /// Where there is no such ServiceAccount, or it cannot have such a token.
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
