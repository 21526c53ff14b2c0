//! Carries out the plan for one Secret.

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, Secret as SecretObject, ServiceAccount};
use kube::Api;
use kube::api::{ApiResource, ListParams, PostParams};
use pillion_identity::names;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::sidecar_tokens::{self as plan, Foreign, Minted, Move, Secret, Why};

use super::NAME;
use crate::context::Context;
use crate::read;
use crate::watch::{PodObject, Subject};
use crate::write::{self, WriteError, WriteProblem};

/// Selects Pods that have not terminated; the others hold no Secret.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Why a move was not carried out.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The namespace is being deleted.
    Terminating,
    /// The live object differs from what the watch has shown. The next plan will see the current state.
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

/// Carries out a move. Returns whether a token was written.
pub(super) async fn carry_out(
    context: &Context,
    namespace: &str,
    account: &str,
    what: &Move,
    lifetime: u32,
) -> Result<bool, Stopped> {
    match what {
        Move::Create { account_uid } => {
            let secret = create(context, namespace, account).await?;
            mint(context, &secret, account_uid, Why::Empty, lifetime).await?;
            Ok(true)
        }
        Move::Mint { secret, account_uid, why } => {
            mint(context, secret, account_uid, *why, lifetime).await?;
            Ok(true)
        }
        Move::Write(step) => {
            write::carry_out(&context.client, step).await?;
            Ok(false)
        }
        Move::Collect(secret) => {
            if is_mounted(context, secret).await? {
                return Err(Stopped::InUse);
            }
            write::carry_out(&context.client, &plan::delete(secret)).await?;
            tracing::info!(controller = NAME, namespace, account, "an unneeded Secret is deleted");
            Ok(false)
        }
    }
}

async fn create(context: &Context, namespace: &str, account: &str) -> Result<Secret, Stopped> {
    let error = match write::carry_out(&context.client, &Step::Create(plan::seed(namespace, account))).await {
        Ok(created) => return Secret::of(&created.unwrap_or_default()).map_err(Stopped::Foreign),
        Err(error) if error.problem == WriteProblem::AlreadyExists => error,
        Err(error) => return Err(error.into()),
    };
    // Either Pillion's own Secret has not reached the watch yet, or another object has the name.
    Err(in_the_way(context, namespace, account).await?.map_or_else(|| error.into(), Stopped::Foreign))
}

/// Returns why the existing Secret for this account is not Pillion's; `None` if there is no Secret or it is Pillion's.
pub(super) async fn in_the_way(
    context: &Context,
    namespace: &str,
    account: &str,
) -> Result<Option<Foreign>, WriteError> {
    let name = names::token_secret(account);
    let api: Api<SecretObject> = Api::namespaced(context.client.clone(), namespace);
    let found = read::one(&api, &name).await.map_err(|problem| failure("get", "Secret", namespace, &name, problem))?;
    let found = found.and_then(|found| serde_json::to_value(found).ok());
    Ok(found.and_then(|found| Secret::of(&found).err()))
}

/// Requests a token and writes it into the Secret.
async fn mint(context: &Context, secret: &Secret, account_uid: &str, why: Why, lifetime: u32) -> Result<(), Stopped> {
    let asked_at = context.clock.now();
    let step = ask_for_token(context, secret, account_uid, lifetime, asked_at).await;
    context.metrics.token_requested(if step.is_ok() { "ok" } else { "error" });
    write::carry_out(&context.client, &step?).await?;
    let Secret { namespace, account, .. } = secret;
    tracing::info!(controller = NAME, namespace, account, ?why, "a token is written");
    Ok(())
}

async fn ask_for_token(
    context: &Context,
    secret: &Secret,
    account_uid: &str,
    lifetime: u32,
    asked_at: Timestamp,
) -> Result<Step, WriteError> {
    let Secret { namespace, account, .. } = secret;
    let api: Api<ServiceAccount> = Api::namespaced(context.client.clone(), namespace);
    let unusable =
        |what: &str| failure("create", "TokenRequest", namespace, account, WriteProblem::Failed(what.to_owned()));
    let request: TokenRequest = serde_json::from_value(plan::request(secret, account_uid, lifetime))
        .map_err(|_| unusable("the request has another form than the API server's"))?;
    let params = PostParams::default();
    let asked = read::in_time(api.create_token_request(account, &params, &request)).await;
    let answer = asked.map_err(|problem| failure("create", "TokenRequest", namespace, account, problem))?;
    let status = answer.status.and_then(|status| Some((status.token?, status.expiration_timestamp?)));
    let (token, expires) = status.ok_or_else(|| unusable("there is no token in the answer"))?;
    let data = serde_json::to_value(ByteString(token.into_bytes())).unwrap_or_default();
    let lifetime = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or_else(|| lifetime.into());
    let expires = Timestamp(expires.0.as_second());
    let minted = Minted { data: data.as_str().unwrap_or_default(), expires, lifetime };
    Ok(plan::fill(secret, account_uid, &minted, asked_at))
}

/// Asks the API server whether a Pod that has not terminated mounts a Secret.
async fn is_mounted(context: &Context, secret: &Secret) -> Result<bool, WriteError> {
    let Secret { namespace, name, .. } = secret;
    let api: Api<PodObject> = Api::namespaced_with(context.client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let mut is_mounted = false;
    let see = |pod: PodObject| {
        let pod = Subject::of_pod(pod);
        is_mounted |= !pod.is_finished && pod.token_secrets.contains(name);
    };
    let listed = read::pages(&api, ListParams::default().fields(ALIVE), see).await;
    listed.map_err(|problem| failure("list", "Pod", namespace, name, problem))?;
    Ok(is_mounted)
}

fn failure(verb: &'static str, kind: &str, namespace: &str, name: &str, problem: WriteProblem) -> WriteError {
    WriteError { verb, kind: kind.to_owned(), namespace: Some(namespace.to_owned()), name: name.to_owned(), problem }
}
