//! Carries out the task for one Secret: first reads the live objects that decide, then writes once.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret as SecretObject, ServiceAccount};
use kube::Api;
use kube::api::PartialObjectMeta;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::Step;
use pillion_plan::token_controller::write::{self, NewToken};
use pillion_plan::token_controller::{Fill, Gone, Secret, Token, share};
use pillion_runtime::controller::Controller as _;
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read::{in_time, one};
use serde_json::Value;
use tokio::time::sleep;

use super::{SHORTEST, Stopped, TokenController, claims};
use crate::authority::Authority;

/// Attempts to remove a name from a ServiceAccount, which other clients write too, and the minimum pause between
/// attempts. Up to the same time is added to the pause (TKN-4).
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

impl TokenController {
    fn accounts(&self, namespace: &str) -> Api<ServiceAccount> {
        Api::namespaced(self.context.client.clone(), namespace)
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<Option<Value>, Stopped> {
        let account = one(&self.accounts(namespace), name).await;
        let account = account.map_err(|problem| Stopped::Read(format!("ServiceAccount \"{name}\""), problem))?;
        Ok(account.and_then(|account| serde_json::to_value(account).ok()))
    }

    /// Deletes a Secret if its ServiceAccount is gone or replaced (TKN-3, TKN-5). Returns whether it did.
    pub(super) async fn delete(&self, secret: &Secret) -> Result<bool, Stopped> {
        let live = self.account(&secret.namespace, &secret.account).await?;
        let Some(step) = write::delete(secret, live.as_ref()) else { return Ok(false) };
        let Secret { namespace, name, account, .. } = secret;
        let why = format!("ServiceAccount \"{account}\" is gone, or another one by now");
        let is_written = self.effects.settle(&step, &why).await?;
        tracing::info!(
            controller = Self::NAME,
            namespace,
            secret = name,
            account,
            "its ServiceAccount is gone, deleted"
        );
        Ok(is_written)
    }

    /// Fills a Secret. The write applies only if the Secret has not changed since it was observed (TKN-6, TKN-7).
    /// Returns whether it did.
    pub(super) async fn fill(&self, fill: &Fill) -> Result<bool, Stopped> {
        let token = if fill.token { self.token(fill).await? } else { None };
        if fill.token && token.is_none() {
            return Ok(false);
        }
        let authority = self.options.authority.as_ref().map(Authority::as_pem);
        let account = &fill.secret.account;
        let why = if fill.token {
            format!("a token of ServiceAccount \"{account}\"")
        } else {
            format!("what the token of ServiceAccount \"{account}\" needs beside it")
        };
        Ok(self.effects.settle(&write::fill(fill, authority, token.as_ref()), &why).await?)
    }

    /// Returns a new token; `None` if the Secret or its ServiceAccount is gone.
    async fn token(&self, fill: &Fill) -> Result<Option<NewToken>, Stopped> {
        let Fill { secret, account_uid, .. } = fill;
        let Secret { namespace, account, name, uid, .. } = secret;
        if let Some(key) = &self.options.key {
            let token = key.sign(&write::claims(namespace, account, account_uid, name))?;
            return Ok(Some(NewToken { token, expires: None }));
        }
        let seconds = i64::try_from(self.options.life.max(SHORTEST).as_secs()).unwrap_or(i64::MAX);
        let step = Step::RequestToken {
            account: ObjectRef {
                api_version: "v1",
                kind: "ServiceAccount",
                namespace: Some(namespace.clone()),
                name: account.clone(),
            },
            request: write::request(secret, seconds),
        };
        let answer = match self.effects.carry_out(&step, &format!("a token of ServiceAccount \"{account}\"")).await {
            Ok(answer) => answer.unwrap_or_default(),
            Err(error) if error.problem.is_overtaken() => return Ok(None),
            Err(error) => return Err(Stopped::Token(account.clone(), error.problem)),
        };
        let answer: Option<TokenRequest> = serde_json::from_value(answer).ok();
        let token = answer.and_then(|answer| answer.status?.token).unwrap_or_default();
        // The returned token decides: the API server may grant a shorter lifetime (TOK-7), or may issue the token for a
        // ServiceAccount that was created again since it was observed.
        match claims::token(token.as_bytes(), uid) {
            Token::Bound(life) if life.account_uid == *account_uid => {
                Ok(Some(NewToken { token, expires: Some(life.expires) }))
            }
            _ => Err(Stopped::NotBound(account.clone())),
        }
    }

    /// Removes the name of a Secret from a ServiceAccount (TKN-4). Retries a few times at once, unless the API server
    /// asks to wait.
    ///
    /// # Errors
    /// If the name is still there.
    pub(super) async fn dereference(&self, namespace: &str, gone: &Gone) -> Result<(), Stopped> {
        let Gone { secret, account, account_uid } = gone;
        let mut attempt = 1;
        loop {
            let Err(problem) = self.try_to_dereference(namespace, gone).await else { return Ok(()) };
            if attempt == TRIES || problem.retry_after().is_some() {
                tracing::warn!(controller = Self::NAME, namespace, account, secret, %problem, attempt, "is still named");
                return Err(problem);
            }
            let more = u64::try_from((100 * share(&format!("{account_uid}{attempt}"))) >> 32).unwrap_or_default();
            sleep(PAUSE + Duration::from_millis(more)).await;
            attempt += 1;
        }
    }

    async fn try_to_dereference(
        &self,
        namespace: &str,
        Gone { secret, account, account_uid }: &Gone,
    ) -> Result<(), Stopped> {
        let secrets = Api::<PartialObjectMeta<SecretObject>>::namespaced(self.context.client.clone(), namespace);
        let there = in_time(secrets.get_metadata_opt(secret)).await;
        if there.map_err(|problem| Stopped::Read(format!("Secret \"{secret}\""), problem))?.is_some() {
            return Ok(());
        }
        let Some(live) = self.account(namespace, account).await? else { return Ok(()) };
        let Some(step) = write::dereference(&live, account_uid, secret) else { return Ok(()) };
        let why = format!("names the Secret \"{secret}\", which is gone");
        match self.effects.carry_out(&step, &why).await {
            Ok(_) => {
                tracing::info!(controller = Self::NAME, namespace, account, secret, "is gone, not named any more");
                Ok(())
            }
            Err(error) if error.problem == WriteProblem::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
