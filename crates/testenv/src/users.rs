//! Clients of a cluster: an administrator, users and ServiceAccounts.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::Cluster;
use crate::Error;
use crate::identity::{Credentials, Identity};

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
