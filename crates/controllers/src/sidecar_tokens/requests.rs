//! Carries out the plan for one Secret.

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, Secret as SecretObject};
use kube::api::{ApiResource, ListParams};
use kube::{Api, Client};
use pillion_identity::audience::AudienceToken;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::Step;
use pillion_plan::credential::Credential;
use pillion_plan::sidecar_tokens::{self as plan, Foreign, Minted, Move, Secret, Tokens, Why};
use pillion_runtime::context::Clock;
use pillion_runtime::controller::Controller as _;
use pillion_runtime::effects::Effects;
use pillion_runtime::problem::{WriteError, WriteProblem};
use pillion_runtime::read;
use pillion_runtime::store::{PodObject, Subject};

use super::SidecarTokens;
use super::metrics::TokenMetrics;

/// Selects Pods that have not terminated; the others hold no Secret.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// What errors call a request for a token.
pub(super) const TOKEN_REQUEST: &str = "TokenRequest";

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
    /// An audience of the SidecarSet is one of the API server (AUD-7).
    ApiServerAudience(String),
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

/// What a move did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Whether it wrote tokens.
    pub(super) is_filled: bool,
    /// The audiences whose tokens live for a shorter time than asked for, each with both times in seconds.
    pub(super) shortened: Vec<Shortened>,
}

/// A lifetime that the API server shortened, in seconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token for \"{audience}\" lives for {granted} seconds, not for {requested}")]
pub(super) struct Shortened {
    audience: String,
    requested: u64,
    granted: i64,
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
    /// Carries out a move.
    pub(super) async fn carry_out(
        &self,
        namespace: &str,
        credential: &Credential,
        what: &Move,
    ) -> Result<Done, Stopped> {
        let of = |what: &str| format!("{what} {credential}");
        match what {
            Move::Create { account_uid, audiences } => {
                let secret = self.create(namespace, credential).await?;
                self.mint(&secret, account_uid, audiences, Why::Empty).await
            }
            Move::Mint { secret, account_uid, audiences, why } => self.mint(secret, account_uid, audiences, *why).await,
            Move::Write(step) => {
                let why = match step {
                    Step::Delete { .. } => of("no client can write the token of"),
                    _ => of("notes whether a Pod needs the token of"),
                };
                self.effects.carry_out(step, &why).await?;
                Ok(Done::default())
            }
            Move::Collect(secret) => {
                if is_mounted(self.effects.client(), secret).await? {
                    return Err(Stopped::InUse);
                }
                self.effects.carry_out(&plan::delete(secret), &of("no Pod needs the token of")).await?;
                tracing::info!(controller = SidecarTokens::NAME, namespace, %credential, "an unneeded Secret is deleted");
                Ok(Done::default())
            }
        }
    }

    async fn create(&self, namespace: &str, credential: &Credential) -> Result<Secret, Stopped> {
        let why = format!("the token of {credential}");
        let error = match self.effects.carry_out(&Step::Create(plan::seed(namespace, credential)), &why).await {
            Ok(created) => return Secret::from_object(&created.unwrap_or_default()).map_err(Stopped::Foreign),
            Err(error) if error.problem == WriteProblem::AlreadyExists => error,
            Err(error) => return Err(error.into()),
        };
        // Either Pillion's own Secret has not reached the watch yet, or another object has the name.
        let foreign = in_the_way(self.effects.client(), namespace, credential).await?;
        Err(foreign.map_or_else(|| error.into(), Stopped::Foreign))
    }

    /// Requests all tokens and writes them into the Secret at once. If a request fails, nothing is written.
    async fn mint(
        &self,
        secret: &Secret,
        account_uid: &str,
        audiences: &[AudienceToken],
        why: Why,
    ) -> Result<Done, Stopped> {
        let Secret { namespace, credential, .. } = secret;
        let text = match why {
            Why::Empty => "a first token of",
            Why::Edited => "an edit replaced the token of",
            Why::NewAccount => "the token is of an older",
            Why::Changed => "the list of audiences has changed of",
            Why::Due => "in time, another token of",
        };
        let text = format!("{text} {credential}");
        let asked_at = self.clock.now();
        // Its answer tells the audiences of the API server, so it comes first (AUD-7).
        let (api_server, accepted) = self.request(secret, account_uid, None, &text).await?;
        if let Some(token) = audiences.iter().find(|token| accepted.contains(&token.audience)) {
            return Err(Stopped::ApiServerAudience(token.audience.clone()));
        }
        let mut tokens = Tokens { api_server, audiences: Vec::new() };
        let mut shortened = Vec::new();
        for token in audiences {
            let text = format!("{text}, for the audience \"{}\"", token.audience);
            let (minted, _) = self.request(secret, account_uid, Some(token), &text).await?;
            if u64::try_from(minted.lifetime).is_ok_and(|granted| granted < token.expiration_seconds) {
                let (audience, requested) = (token.audience.clone(), token.expiration_seconds);
                shortened.push(Shortened { audience, requested, granted: minted.lifetime });
            }
            tokens.audiences.push((token, minted));
        }
        self.effects.carry_out(&plan::fill(secret, account_uid, &tokens, asked_at), &text).await?;
        tracing::info!(controller = SidecarTokens::NAME, namespace, %credential, ?why, "the tokens are written");
        Ok(Done { is_filled: true, shortened })
    }

    /// Requests one token. Returns it with the audiences that the answer names.
    async fn request(
        &self,
        secret: &Secret,
        account_uid: &str,
        token: Option<&AudienceToken>,
        why: &str,
    ) -> Result<(Minted, Vec<String>), WriteError> {
        let Secret { namespace, credential, .. } = secret;
        let audience = token.map(|token| token.audience.as_str());
        let lifetime = token.map_or(u64::from(self.lifetime), |token| token.expiration_seconds);
        let step = Step::RequestToken {
            account: ObjectRef {
                api_version: "v1",
                kind: "ServiceAccount",
                namespace: Some(namespace.clone()),
                name: credential.account.clone(),
            },
            request: plan::request(secret, account_uid, lifetime, audience),
        };
        let answer = self.effects.carry_out(&step, why).await;
        self.metrics.requested(audience.is_some(), answer.is_ok());
        let kind = || match audience {
            Some(audience) => format!("{TOKEN_REQUEST} for the audience \"{audience}\" of"),
            None => TOKEN_REQUEST.to_owned(),
        };
        let answer = answer.map_err(|error| WriteError { kind: kind().into(), ..error })?;
        let answer: TokenRequest = serde_json::from_value(answer.unwrap_or_default()).unwrap_or_default();
        let status = answer.status.and_then(|status| Some((status.token?, status.expiration_timestamp?)));
        let (text, expires) = status.ok_or_else(|| {
            let problem = WriteProblem::Failed("there is no token in the answer".to_owned());
            failure("create", &kind(), namespace, &credential.account, problem)
        })?;
        let spec = answer.spec.unwrap_or_default();
        let data = serde_json::to_value(ByteString(text.into_bytes())).unwrap_or_default();
        let minted = Minted {
            data: data.as_str().unwrap_or_default().to_owned(),
            expires: Timestamp(expires.0.as_second()),
            lifetime: spec.expiration_seconds.unwrap_or_else(|| i64::try_from(lifetime).unwrap_or(i64::MAX)),
        };
        Ok((minted, spec.audiences.unwrap_or_default()))
    }
}

/// Returns why the existing Secret of this name is not Pillion's; `None` if there is no Secret or it is Pillion's.
async fn in_the_way(client: &Client, namespace: &str, credential: &Credential) -> Result<Option<Foreign>, WriteError> {
    let name = credential.secret();
    let api: Api<SecretObject> = Api::namespaced(client.clone(), namespace);
    let found = read::one(&api, &name).await.map_err(|problem| failure("get", "Secret", namespace, &name, problem))?;
    let found = found.and_then(|found| serde_json::to_value(found).ok());
    Ok(found.and_then(|found| Secret::from_object(&found).err()))
}

/// Asks the API server whether a Pod that has not terminated mounts a Secret.
async fn is_mounted(client: &Client, secret: &Secret) -> Result<bool, WriteError> {
    let Secret { namespace, name, .. } = secret;
    let api: Api<PodObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let mut is_mounted = false;
    let see = |pod: PodObject| {
        let pod = Subject::of_pod(&pod, None);
        is_mounted |= !pod.is_finished && pod.token_secrets.contains(name);
    };
    let listed = read::pages(&api, ListParams::default().fields(ALIVE), see).await;
    listed.map_err(|problem| failure("list", "Pod", namespace, name, problem))?;
    Ok(is_mounted)
}

fn failure(verb: &'static str, kind: &str, namespace: &str, name: &str, problem: WriteProblem) -> WriteError {
    WriteError { verb, kind: kind.into(), namespace: Some(namespace.to_owned()), name: name.to_owned(), problem }
}
