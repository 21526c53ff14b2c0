//! Carries out the plan for one Secret.

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, Secret as SecretObject};
use kube::api::{ApiResource, ListParams};
use kube::{Api, Client};
use pillion_identity::names;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::sidecar_tokens::{self as plan, Foreign, Minted, Move, Secret, Why};
use serde_json::Value;

use super::SidecarTokens;
use super::metrics::TokenMetrics;
use crate::context::Clock;
use crate::controller::Controller as _;
use crate::effects::Effects;
use crate::problem::{WriteError, WriteProblem};
use crate::read;
use crate::store::{PodObject, Subject};

/// Selects Pods that have not terminated; the others hold no Secret.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Why a move was not carried out.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The namespace is being deleted.
    Terminating,
    /// The live object differs from what is known. The next plan will see the current state.
    NotSeenYet(WriteProblem),
    /// A Pod mounts the Secret that was to be deleted.
    InUse,
    /// A Secret of that name exists and is not Pillion's.
    Foreign(Foreign),
    /// Any other failure.
    Failed(WriteError),
}

impl From<WriteError> for Stopped {
    fn from(error: WriteError) -> Self {
        match error.problem {
            WriteProblem::NamespaceTerminating => Self::Terminating,
            problem @ (WriteProblem::AlreadyExists | WriteProblem::Conflict | WriteProblem::NotFound) => {
                Self::NotSeenYet(problem)
            }
            _ => Self::Failed(error),
        }
    }
}

/// Carries out moves.
pub(super) struct Requests {
    pub(super) effects: Effects,
    pub(super) clock: Clock,
    pub(super) metrics: TokenMetrics,
    /// The requested lifetime of tokens, in seconds.
    pub(super) lifetime: u32,
}

impl Requests {
    /// Carries out a move. Returns whether a token was written.
    pub(super) async fn carry_out(&self, namespace: &str, account: &str, what: &Move) -> Result<bool, Stopped> {
        let of = |what: &str| format!("{what} ServiceAccount \"{account}\"");
        match what {
            Move::Create { account_uid } => {
                let secret = self.create(namespace, account).await?;
                self.mint(&secret, account_uid, Why::Empty).await?;
                Ok(true)
            }
            Move::Mint { secret, account_uid, why } => {
                self.mint(secret, account_uid, *why).await?;
                Ok(true)
            }
            Move::Write(step) => {
                let why = match step {
                    Step::Delete { .. } => of("no client can write the token of"),
                    _ => of("notes whether a Pod needs the token of"),
                };
                self.effects.carry_out(step, &why).await?;
                Ok(false)
            }
            Move::Collect(secret) => {
                if is_mounted(&self.effects.client, secret).await? {
                    return Err(Stopped::InUse);
                }
                self.effects.carry_out(&plan::delete(secret), &of("no Pod needs the token of")).await?;
                tracing::info!(controller = SidecarTokens::NAME, namespace, account, "an unneeded Secret is deleted");
                Ok(false)
            }
        }
    }

    async fn create(&self, namespace: &str, account: &str) -> Result<Secret, Stopped> {
        let why = format!("the token of ServiceAccount \"{account}\"");
        let error = match self.effects.carry_out(&Step::Create(plan::seed(namespace, account)), &why).await {
            Ok(created) => return Secret::of(&created.unwrap_or_default()).map_err(Stopped::Foreign),
            Err(error) if error.problem == WriteProblem::AlreadyExists => error,
            Err(error) => return Err(error.into()),
        };
        // Either Pillion's own Secret has not reached the watch yet, or another object has the name.
        let foreign = in_the_way(&self.effects.client, namespace, account).await?;
        Err(foreign.map_or_else(|| error.into(), Stopped::Foreign))
    }

    /// Requests a token and writes it into the Secret.
    async fn mint(&self, secret: &Secret, account_uid: &str, why: Why) -> Result<(), Stopped> {
        let Secret { namespace, account, .. } = secret;
        let text = match why {
            Why::Empty => "a first token of",
            Why::Edited => "an edit replaced the token of",
            Why::NewAccount => "the token is of an older",
            Why::Due => "in time, another token of",
        };
        let text = format!("{text} ServiceAccount \"{account}\"");
        let asked_at = self.clock.now();
        let request = Step::RequestToken {
            account: ObjectRef {
                api_version: "v1",
                kind: "ServiceAccount",
                namespace: Some(namespace.clone()),
                name: account.clone(),
            },
            request: plan::request(secret, account_uid, self.lifetime),
        };
        let answer = self.effects.carry_out(&request, &text).await;
        self.metrics.requested(answer.is_ok());
        let step = self.filled(secret, account_uid, answer?.unwrap_or_default(), asked_at)?;
        self.effects.carry_out(&step, &text).await?;
        tracing::info!(controller = SidecarTokens::NAME, namespace, account, ?why, "a token is written");
        Ok(())
    }

    /// Returns the step that writes the token of an answer into the Secret.
    fn filled(
        &self,
        secret: &Secret,
        account_uid: &str,
        answer: Value,
        asked_at: Timestamp,
    ) -> Result<Step, WriteError> {
        let answer: Option<TokenRequest> = serde_json::from_value(answer).ok();
        let granted = answer.as_ref().and_then(|answer| answer.spec.as_ref()?.expiration_seconds);
        let status = answer.and_then(|answer| answer.status);
        let status = status.and_then(|status| Some((status.token?, status.expiration_timestamp?)));
        let (token, expires) = status.ok_or_else(|| {
            let problem = WriteProblem::Failed("there is no token in the answer".to_owned());
            failure("create", "TokenRequest", &secret.namespace, &secret.account, problem)
        })?;
        let data = serde_json::to_value(ByteString(token.into_bytes())).unwrap_or_default();
        let lifetime = granted.unwrap_or_else(|| self.lifetime.into());
        let expires = Timestamp(expires.0.as_second());
        let minted = Minted { data: data.as_str().unwrap_or_default(), expires, lifetime };
        Ok(plan::fill(secret, account_uid, &minted, asked_at))
    }
}

/// Returns why the existing Secret for this account is not Pillion's; `None` if there is no Secret or it is Pillion's.
async fn in_the_way(client: &Client, namespace: &str, account: &str) -> Result<Option<Foreign>, WriteError> {
    let name = names::token_secret(account);
    let api: Api<SecretObject> = Api::namespaced(client.clone(), namespace);
    let found = read::one(&api, &name).await.map_err(|problem| failure("get", "Secret", namespace, &name, problem))?;
    let found = found.and_then(|found| serde_json::to_value(found).ok());
    Ok(found.and_then(|found| Secret::of(&found).err()))
}

/// Asks the API server whether a Pod that has not terminated mounts a Secret.
async fn is_mounted(client: &Client, secret: &Secret) -> Result<bool, WriteError> {
    let Secret { namespace, name, .. } = secret;
    let api: Api<PodObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let mut is_mounted = false;
    let see = |pod: PodObject| {
        let pod = Subject::of_pod(pod, None);
        is_mounted |= !pod.is_finished && pod.token_secrets.contains(name);
    };
    let listed = read::pages(&api, ListParams::default().fields(ALIVE), see).await;
    listed.map_err(|problem| failure("list", "Pod", namespace, name, problem))?;
    Ok(is_mounted)
}

fn failure(verb: &'static str, kind: &str, namespace: &str, name: &str, problem: WriteProblem) -> WriteError {
    WriteError { verb, kind: kind.into(), namespace: Some(namespace.to_owned()), name: name.to_owned(), problem }
}
