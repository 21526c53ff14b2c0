//! Who speaks to the API server, and how: kubeconfigs, for this crate's clients as for anything else.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::certificates::Certified;
use crate::{Cluster, Error};

/// How a client shows who it is.
pub(crate) enum Credentials {
    /// With a certificate of the cluster's authority.
    Certificate(Certified),
    /// With a token, as Pods do.
    Token(String),
}

/// A kubeconfig. JSON is YAML, too.
pub(crate) fn kubeconfig(port: u16, authority: &str, credentials: &Credentials) -> Value {
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
    use k8s_openapi::ByteString;

    serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap_or_default()
}

impl Cluster {
    /// The kubeconfig of a user: the certificate's name, and a group. RBAC gives a new user next to nothing.
    ///
    /// # Errors
    ///
    /// Where a certificate cannot be made.
    pub fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<Value, Error> {
        Ok(self.kubeconfig_of(&Credentials::Certificate(self.authority().client(user, group)?)))
    }

    /// A user, who shows a certificate.
    ///
    /// # Errors
    ///
    /// Where a certificate cannot be made.
    pub async fn user(&self, user: &str, group: Option<&str>) -> Result<Client, Error> {
        client(self.kubeconfig(user, group)?).await
    }

    /// One who may do everything.
    ///
    /// # Errors
    ///
    /// Where a certificate cannot be made.
    pub async fn admin(&self) -> Result<Client, Error> {
        client(self.admin_kubeconfig().clone()).await
    }

    /// The configuration of one who may do everything, for those that make their own client.
    ///
    /// # Errors
    ///
    /// Where the kubeconfig is not understood.
    pub async fn admin_config(&self) -> Result<Config, Error> {
        config(self.admin_kubeconfig().clone()).await
    }

    /// Whoever has this token.
    ///
    /// # Errors
    ///
    /// Where the token cannot be part of a request.
    pub async fn bearer(&self, token: &str) -> Result<Client, Error> {
        client(self.kubeconfig_of(&Credentials::Token(token.to_owned()))).await
    }

    /// A ServiceAccount, with a token of an hour that is asked for here.
    ///
    /// # Errors
    ///
    /// Where there is no such ServiceAccount.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Client, Error> {
        let token = self.token(namespace, name, &TokenRequestSpec::default()).await?;
        self.bearer(&token).await
    }

    /// A token of a ServiceAccount, as the TokenRequest API gives it out.
    ///
    /// # Errors
    ///
    /// Where there is no such ServiceAccount, or it cannot have such a token.
    pub async fn token(&self, namespace: &str, name: &str, wanted: &TokenRequestSpec) -> Result<String, Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, namespace);
        let request = TokenRequest { spec: Some(wanted.clone()), ..TokenRequest::default() };
        let what = || format!("the token of {namespace}/{name}");
        let answer =
            accounts.create_token_request(name, &PostParams::default(), &request).await.map_err(Error::api(what()))?;
        answer.status.and_then(|status| status.token).ok_or_else(|| Error::Kubeconfig(format!("{} is empty", what())))
    }
}

async fn config(kubeconfig: Value) -> Result<Config, Error> {
    let kubeconfig: Kubeconfig =
        serde_json::from_value(kubeconfig).map_err(|error| Error::Kubeconfig(error.to_string()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| Error::Kubeconfig(error.to_string()))
}

pub(crate) async fn client(kubeconfig: Value) -> Result<Client, Error> {
    Client::try_from(config(kubeconfig).await?).map_err(Error::api("a client"))
}
