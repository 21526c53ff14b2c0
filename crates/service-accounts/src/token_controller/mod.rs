//! `serviceaccount-token`: fills Secrets of the type `kubernetes.io/service-account-token` and deletes them with their
//! ServiceAccounts (TKN-1, RUN-5), for clusters in which kube-controller-manager does not do so.

mod claims;
mod retries;
mod signing;
mod start;
mod watches;
mod work;

use std::time::Duration;

use pillion_kubernetes::time::Timestamp;
use pillion_plan::default_account::ACTIVE;
use pillion_plan::token_controller::rival::LEASE;
use pillion_plan::token_controller::{Fill, Gone, Secret, Task, TokenControllerInput, plan};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure};
use pillion_runtime::effects::Effects;
use pillion_runtime::problem::{WriteError, WriteProblem};
use pillion_runtime::rights::{self, Right, Scope, Situation};
use pillion_runtime::store::{Facets, Watched};
use pillion_runtime::wakes::{Wakes, its_name, its_namespace};
use serde_json::json;
use tokio::time::sleep;

use crate::authority::Authority;
use retries::{After, Retries};
use watches::{Deleted, TokenSecret};

pub use signing::{KeyError, SigningKey};
pub use start::{Refusal, check};

/// The shortest lifetime that the API server gives a token (TOK-6).
pub const SHORTEST: Duration = Duration::from_mins(10);
/// The intervals between checks of kube-controller-manager: while it is running, and if its Lease could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The controller's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The certificates for `ca.crt`. Without them, that key is left as it is.
    pub authority: Option<Authority>,
    /// The key of the cluster's ServiceAccounts. With it, tokens never expire, like those of kube-controller-manager.
    /// Without it, they come from TokenRequest, are bound to their Secret, and are replaced before they expire.
    pub key: Option<SigningKey>,
    /// The requested lifetime of tokens from TokenRequest; at least [`SHORTEST`]. The API server may shorten it.
    pub life: Duration,
    /// Whether to work even if kube-controller-manager is running.
    pub force: bool,
}

impl Default for Options {
    /// Tokens of one hour from TokenRequest (TOK-7); does not work while kube-controller-manager is running.
    fn default() -> Self {
        Self { authority: None, key: None, life: Duration::from_hours(1), force: false }
    }
}

/// Why a task was not carried out. It contains nothing secret.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error("could not look at {0}: {1}")]
    Read(String, WriteProblem),
    #[error("could not get a token of ServiceAccount \"{0}\": {1}")]
    Token(String, WriteProblem),
    #[error("the API server gave a token of ServiceAccount \"{0}\" that is not bound to the Secret")]
    NotBound(String),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The controller. Its keys are namespaces. It starts with every namespace, and removes references that became stale
/// during a pause (TKN-9).
pub struct TokenController {
    context: Context,
    effects: Effects,
    options: Options,
    secrets: Watched<TokenSecret>,
    deleted: Deleted,
    /// Whether another controller does the work. Then a preview has nothing to show.
    is_idle: bool,
}

/// What is remembered about a namespace.
#[derive(Default)]
pub struct TokenControllerState {
    /// Whether the references that became stale before the start were removed.
    is_swept: bool,
    /// The Secrets that are gone and that a ServiceAccount still names, because a request failed.
    still_named: Vec<Gone>,
    retries: Retries,
}

impl Controller for TokenController {
    const NAME: &'static str = "serviceaccount-token";
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = Options;
    type Key = String;
    type KeyState = TokenControllerState;

    /// While kube-controller-manager is running, only waits, unless `force` is set.
    async fn start(context: Context, options: Options, wakes: Wakes<String>) -> Self {
        let effects = context.effects(Self::NAME);
        let is_idle = !options.force && !may_work(&context, &effects).await;
        let secrets = watches::secrets(&context, options.authority.clone());
        if !is_idle {
            secrets.listed().await;
            context.store.accounts().listed().await;
            context.store.namespaces().listed().await;
        }
        let deleted = Deleted::default();
        deleted.follow(&secrets);
        wakes.on(context.store.namespaces(), Facets::PHASE, its_name);
        wakes.on(context.store.accounts(), Facets::CONTENT, its_namespace);
        wakes.on(&secrets, Facets::CONTENT, its_namespace);
        Self { context, effects, options, secrets, deleted, is_idle }
    }

    fn keys(&self) -> Vec<String> {
        if self.is_idle { Vec::new() } else { self.context.store.namespaces().names() }
    }

    fn exists(&self, namespace: &String) -> bool {
        self.context.store.namespaces().get("", namespace).is_some()
    }

    /// A failed task does not stop the others.
    async fn reconcile(&self, name: &String, state: &mut TokenControllerState) -> Result<Done, Failure> {
        let store = &self.context.store;
        let Some(namespace) = store.namespaces().get("", name) else { return Ok(Done::Settled) };
        let now = self.context.clock.now();
        let (accounts, secrets) = (store.accounts().in_namespace(name), self.secrets.in_namespace(name));
        state.retries.keep(|secret| secrets.iter().any(|known| known.0.name == secret));
        let mut gone = std::mem::take(&mut state.still_named);
        gone.extend(self.deleted.take(name));
        let plan = plan(
            &TokenControllerInput {
                is_active: namespace.phase() == ACTIVE,
                accounts: &accounts.iter().map(|account| &account.known).collect::<Vec<_>>(),
                secrets: &secrets.iter().map(|secret| &secret.0).collect::<Vec<_>>(),
                gone: &gone,
                sweeps: !state.is_swept,
            },
            now,
        );
        let (mut next, mut again, mut retry_after) = (plan.next, 0_usize, None);
        let mut sooner = |time| next = Some(next.map_or(time, |next| time.min(next)));
        for task in &plan.tasks {
            let (secret, done) = match task {
                Task::Dereference { account, account_uid, secret } => {
                    let (secret, account, account_uid) = (secret.clone(), account.clone(), account_uid.clone());
                    let gone = Gone { secret, account, account_uid };
                    if let Err(stopped) = self.dereference(name, &gone).await {
                        again += 1;
                        retry_after = retry_after.max(stopped.retry_after());
                        self.effects.problem(Some(name), stopped.to_string());
                        state.still_named.push(gone);
                    }
                    continue;
                }
                Task::Delete(secret) | Task::Fill(Fill { secret, .. })
                    if let Some(until) = state.retries.dropped(&secret.name, &secret.resource_version, now) =>
                {
                    sooner(until);
                    continue;
                }
                Task::Delete(secret) => (secret, self.delete(secret).await),
                Task::Fill(fill) => (&fill.secret, self.fill(fill).await),
            };
            let stopped = match done {
                Ok(is_written) => {
                    state.retries.succeeded(&secret.name);
                    if !is_written {
                        sooner(Timestamp(now.0.saturating_add(1)));
                    }
                    continue;
                }
                Err(stopped) => stopped,
            };
            retry_after = retry_after.max(stopped.retry_after());
            match state.retries.failed(&secret.name, &secret.resource_version, now) {
                After::Again => {
                    again += 1;
                    let secret = &secret.name;
                    tracing::warn!(controller = Self::NAME, namespace = name, secret, error = %stopped, "to be tried again");
                    self.effects.problem(Some(name), stopped.to_string());
                }
                After::Dropped(until) => {
                    sooner(until);
                    self.tell(secret, &stopped).await;
                }
            }
        }
        state.is_swept = true;
        match next {
            _ if again > 0 => Err(Failure { text: format!("{again} to be tried again"), retry_after }),
            None => Ok(Done::Settled),
            Some(next) => {
                let seconds = u64::try_from(next.0.saturating_sub(now.0)).unwrap_or_default();
                Ok(Done::LookAgain(Duration::from_secs(seconds.max(1))))
            }
        }
    }

    fn forget(&self, namespace: &String) {
        self.deleted.take(namespace);
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let secrets = "Token Secrets: what is missing in them, those whose ServiceAccount is gone, and whether one is \
                       gone that a ServiceAccount names.";
        let lease = "Whether kube-controller-manager is running: two controllers that create tokens would interfere with \
                     each other.";
        let references = "References to token Secrets that are gone.";
        let keep = &["get", "list", "watch", "patch", "delete"];
        vec![
            rights::namespaces(),
            rights::accounts(),
            Right::new(Scope::Cluster, "", &["serviceaccounts"], &["patch"], references),
            Right::new(Scope::Cluster, "", &["serviceaccounts/token"], &["create"], "Tokens for token Secrets."),
            Right::new(Scope::EverySecret, "", &["secrets"], keep, secrets),
            Right::new(Scope::KubeSystem, "coordination.k8s.io", &["leases"], &["get"], lease).named(&[LEASE]),
        ]
    }
}

/// Waits until no other controller fills token Secrets. A preview does not wait, but says so; then returns false.
async fn may_work(context: &Context, effects: &Effects) -> bool {
    let progress = context.store.progress(format!("{}: Lease", TokenController::NAME));
    while let Err(refusal) = check(&context.client, context.clock.now()).await {
        if context.recorder.is_some() {
            effects.problem(None, format!("nothing is done: {refusal}"));
            progress.done();
            return false;
        }
        progress.fail(refusal.to_string());
        tracing::error!(controller = TokenController::NAME, %refusal, "not started");
        context.metrics.reconciled(TokenController::NAME, "waiting", Duration::ZERO);
        sleep(if matches!(refusal, Refusal::Rival(_)) { LOOK_AGAIN } else { ASK_AGAIN }).await;
    }
    progress.done();
    true
}

impl TokenController {
    /// Reports that a Secret is not tried again for a while, as an Event on it.
    async fn tell(&self, secret: &Secret, stopped: &Stopped) {
        let Secret { namespace, name, uid, .. } = secret;
        tracing::error!(controller = Self::NAME, namespace, secret = name, error = %stopped, "tried too often, dropped");
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, "uid": uid}
        });
        self.context.events.warning(&object, "Fill", "TokenSecretDropped", stopped.to_string()).await;
    }
}

impl Stopped {
    /// Returns how long the API server asks to wait, if it does.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Read(_, problem) | Self::Token(_, problem) => problem.retry_after(),
            Self::Write(error) => error.problem.retry_after(),
            Self::NotBound(_) | Self::Key(_) => None,
        }
    }
}
