//! `serviceaccount-token`: fills Secrets of the type `kubernetes.io/service-account-token` and deletes them with their
//! ServiceAccounts (TKN-1, RUN-5), for clusters in which kube-controller-manager does not do so.

mod claims;
mod preview;
mod retries;
mod signing;
mod start;
mod watches;
mod work;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::default_account::ACTIVE;
use pillion_plan::token_controller::{Fill, Plan, Secret, Task, TokenControllerInput, plan};
use serde_json::json;
use tokio::time::sleep;

use crate::authority::Authority;
use crate::context::Context;
use crate::queue::{ByNamespace, Done};
use crate::watch::{Change, phase};
use crate::write::WriteError;
use retries::{After, Retries};
use watches::TokenSecretWatches;

pub(crate) use preview::preview;
pub use signing::{KeyError, SigningKey};
pub use start::{Refusal, check};

/// The controller's name.
pub const CONTROLLER: &str = "serviceaccount-token";
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
enum Failure {
    #[error("could not look at {0}: {1}")]
    Read(String, crate::write::WriteProblem),
    #[error("could not get a token of ServiceAccount \"{0}\": {1}")]
    Token(String, crate::write::WriteProblem),
    #[error("the API server gave a token of ServiceAccount \"{0}\" that is not bound to the Secret")]
    NotBound(String),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The number of tasks in a namespace that must be retried. Each failure was logged.
#[derive(Debug, thiserror::Error)]
#[error("{0} to be tried again")]
struct TryAgain(usize);

/// Works for as long as it is polled. While kube-controller-manager is running, it only waits, unless `force` is set.
/// It starts with every namespace, and removes references that became stale during a pause (TKN-9).
pub async fn run(context: Context, options: Options) {
    let may_work = context.cluster.progress(CONTROLLER, "Lease");
    while !options.force
        && let Err(refusal) = check(&context.client, context.clock.now()).await
    {
        may_work.fail(refusal.to_string());
        tracing::error!(controller = CONTROLLER, %refusal, "not started");
        context.metrics.reconciled(CONTROLLER, "waiting", Duration::ZERO);
        sleep(if matches!(refusal, Refusal::Rival(_)) { LOOK_AGAIN } else { ASK_AGAIN }).await;
    }
    may_work.done();
    let seen = Arc::new(TokenSecretWatches::watch(&context, options.authority.clone()).await);
    let looker = Looker { context: context.clone(), options: Arc::new(options), seen, retries: Arc::default() };
    let reconcile = move |namespace: Arc<Namespace>| {
        let looker = looker.clone();
        async move { looker.look(&namespace).await }
    };
    let is_concerned = |change: &Change| matches!(change.kind, "Namespace" | "ServiceAccount" | "Secret");
    ByNamespace { controller: CONTROLLER, is_concerned, reconcile }.run(context).await;
}

/// Plans for a namespace.
fn plan_of(seen: &TokenSecretWatches, namespace: &Namespace, now: Timestamp) -> Plan {
    let name = namespace.name_any();
    let (accounts, secrets) = (seen.accounts.of(&name), seen.secrets.of(&name));
    let there = TokenControllerInput {
        is_active: phase(namespace) == ACTIVE,
        accounts: &accounts.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
        secrets: &secrets.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
        gone: &seen.gone(&name),
        sweeps: seen.is_first_look(&name),
    };
    plan(&there, now)
}

#[derive(Clone)]
struct Looker {
    context: Context,
    options: Arc<Options>,
    seen: Arc<TokenSecretWatches>,
    retries: Arc<Retries>,
}

impl Looker {
    /// Compares a namespace with its wanted state. A failed task does not stop the others.
    async fn look(&self, namespace: &Namespace) -> Result<Done, TryAgain> {
        let (name, now) = (namespace.name_any(), self.context.clock.now());
        self.retries.forget_gone(&name, |secret| self.seen.secrets.get(&name, secret).is_none());
        let plan = plan_of(&self.seen, namespace, now);
        let (mut next, mut again) = (plan.next, 0);
        let mut sooner = |time: Timestamp| next = Some(next.map_or(time, |next| next.min(time)));
        for task in &plan.tasks {
            let (secret, done) = match task {
                Task::Dereference { account, account_uid, secret } => {
                    self.dereference(&name, (account, account_uid), secret).await;
                    continue;
                }
                Task::Delete(secret) | Task::Fill(Fill { secret, .. })
                    if let Some(until) = self.retries.dropped(&name, &secret.name, &secret.resource_version, now) =>
                {
                    sooner(until);
                    continue;
                }
                Task::Delete(secret) => (secret, self.delete(secret).await),
                Task::Fill(fill) => (&fill.secret, self.fill(fill).await),
            };
            match done {
                Ok(()) => self.retries.succeeded(&name, &secret.name),
                Err(failure) => match self.failed(secret, &failure, now).await {
                    After::Again => again += 1,
                    After::Dropped(until) => sooner(until),
                },
            }
        }
        match next {
            _ if again > 0 => Err(TryAgain(again)),
            None => Ok(Done::Settled),
            Some(next) => {
                let seconds = u64::try_from(next.0.saturating_sub(now.0)).unwrap_or_default();
                Ok(Done::LookAgain(Duration::from_secs(seconds.max(1))))
            }
        }
    }

    /// Records a failure of a Secret. If the Secret is dropped, an Event on it tells why.
    async fn failed(&self, secret: &Secret, failure: &Failure, now: Timestamp) -> After {
        let Secret { namespace, name, resource_version, uid, .. } = secret;
        let after = self.retries.failed(namespace, name, resource_version, now);
        let After::Dropped(_) = after else {
            tracing::warn!(controller = CONTROLLER, namespace, secret = name, error = %failure, "to be tried again");
            return after;
        };
        tracing::error!(controller = CONTROLLER, namespace, secret = name, error = %failure, "tried too often, dropped");
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, "uid": uid}
        });
        self.context.events.warning(&object, "Fill", "TokenSecretDropped", failure.to_string()).await;
        after
    }
}
