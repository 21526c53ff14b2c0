//! `sidecar-tokens`: keeps a Secret with a token for each ServiceAccount of an isolated sidecar, in each namespace that
//! needs it (TOK-5 to TOK-7).
//!
//! [`pillion_plan::sidecar_tokens`] makes the plans. The modules here carry them out: the watches ([`watches`]), the
//! needs of Pods and workloads ([`needs`]), the requests ([`requests`]), the attempts so far ([`memory`]), foreign
//! Secrets in the way ([`blocked`]) and reports to people ([`report`]). The controller never keeps, logs or reports a
//! token.

mod blocked;
mod memory;
mod needs;
mod preview;
mod report;
mod requests;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use pillion_plan::sidecar_tokens::{self as plan, LIFETIME, LIFETIME_MIN, Move, Plan, Secret};
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::queue::{ByNamespace, Done};
use crate::watch::{Change, SIDECAR_SET_STATUS, phase};
use blocked::Blocked;
use memory::{Attempt, Memory};
use needs::{Needed, needed};
use report::Trouble;
use requests::Stopped;
use watches::{Place, TokenWatches};

pub(crate) use preview::preview;

/// The controller's name, in metrics and logs.
pub const NAME: &str = "sidecar-tokens";
/// The kind of a change of the settings, which may concern every namespace.
const SETTINGS: &str = "Settings";
/// The interval between updates of the metrics.
const MEASURE: Duration = Duration::from_secs(10);

/// The interval between reports while Secrets cannot be listed.
const LIST_AGAIN: Duration = Duration::from_secs(30);

/// The controller's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The lifetime of tokens, in seconds; less than 600 counts as 600. The API server may shorten it.
    pub lifetime: u32,
    /// The namespaces whose Secrets the controller may read and write; `None` for all. Each named namespace has its own
    /// watch, so a Role in each of them is enough.
    pub namespaces: Option<BTreeSet<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { lifetime: LIFETIME, namespaces: None }
    }
}

/// Keeps tokens for as long as it is polled. If it is dropped halfway through a change, the next start completes the
/// change.
pub async fn run(context: Context, options: Options) {
    let seen = TokenWatches::watch(&context, options.namespaces);
    // Until accounts are listed, a missing account may exist.
    seen.accounts.listed().await;
    context.cluster.bundled.known().await;
    let tokens = Arc::new(Tokens {
        context: context.clone(),
        lifetime: options.lifetime.max(LIFETIME_MIN),
        seen,
        memory: Mutex::default(),
        blocked: Mutex::default(),
    });
    let measured = Arc::clone(&tokens);
    let reconcile = move |namespace: Arc<Namespace>| {
        let tokens = Arc::clone(&tokens);
        async move { Ok::<_, std::convert::Infallible>(tokens.reconcile(&namespace).await) }
    };
    let work = ByNamespace { controller: NAME, is_concerned, reconcile };
    tokio::join!(work.run(context.clone()), tell_of_settings(&context), measured.measure());
}

fn is_concerned(change: &Change) -> bool {
    // `watch` already reports the workloads that create Pods. The excluded kinds are those that only other controllers
    // need.
    !matches!(change.kind, SIDECAR_SET_STATUS | "Role" | "RoleBinding" | "ConfigMap" | "ControllerRevision" | "Secret")
}

async fn tell_of_settings(context: &Context) {
    let (mut settings, changes) = (context.settings.clone(), context.cluster.notify());
    while settings.changed().await.is_ok() {
        // This fails only if there is no subscriber yet.
        let _ = changes.send(Change { kind: SETTINGS, namespace: None });
    }
    pending::<()>().await;
}

struct Tokens {
    context: Context,
    lifetime: u32,
    seen: TokenWatches,
    memory: Mutex<Memory>,
    blocked: Mutex<Blocked>,
}

impl Tokens {
    /// Compares a namespace with its plan. This never fails as a whole: a problem with one account does not delay the
    /// others.
    async fn reconcile(&self, namespace: &Namespace) -> Done {
        let name = namespace.name_any();
        if is_terminating(namespace) {
            // The namespace accepts no new objects, and its contents are deleted with it.
            self.forget(&name);
            return Done::Settled;
        }
        let needed = needed(&self.context, namespace, &|account| self.seen.is_there(&name, account));
        let secrets = match self.seen.secrets(&name) {
            Place::Listed(secrets) => secrets,
            Place::NotListed(problem) => {
                // The completed list is announced as a change.
                let Some(problem) = problem else { return Done::Settled };
                self.tell_all(&name, &needed, &Trouble::NotListed(problem)).await;
                return Done::LookAgain(LIST_AGAIN);
            }
            Place::NotGiven => {
                self.tell_all(&name, &needed, &Trouble::NotGiven).await;
                return Done::Settled;
            }
        };
        if needed.needs.accounts.is_empty() && secrets.is_empty() {
            self.forget(&name);
            return Done::Settled;
        }
        let now = self.context.clock.now();
        let plan = plan_of(&self.context, &self.seen, &name, &needed, &secrets);

        // Look again after a tenth of the lifetime even if the clock is wrong or the machine was suspended.
        let mut again = Duration::from_secs(u64::from(self.lifetime / 10));
        if let Some(next) = plan.next {
            again =
                again.min(Duration::from_secs(u64::try_from(next.0.saturating_sub(now.0)).unwrap_or_default().max(1)));
        }
        if let Some(retry) = self.carry_out(&name, &needed, &plan).await {
            again = again.min(retry);
        }
        self.settle(&name, &plan, secrets.values().map(|secret| &secret.account).chain(&needed.needs.accounts));
        Done::LookAgain(again)
    }

    /// Carries out the plan. Returns when to retry moves that failed or whose result the watch has not shown yet.
    async fn carry_out(&self, namespace: &str, needed: &Needed, plan: &Plan) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let mut wait = |duration: Duration| again = Some(again.map_or(duration, |again| again.min(duration)));
        for (account, what) in &plan.moves {
            let attempt = Attempt::of(what);
            if self.blocked().is_gone(namespace, account) {
                self.remember(|memory| memory.free(namespace, account));
            }
            if let Err(duration) = self.remember(|memory| memory.may(namespace, account, &attempt, Instant::now())) {
                wait(duration);
                continue;
            }
            match requests::carry_out(&self.context, namespace, account, what, self.lifetime).await {
                Ok(is_filled) => {
                    self.remember(|memory| memory.wrote(namespace, account, attempt, is_filled, Instant::now()));
                }
                Err(Stopped::Terminating) => {}
                Err(Stopped::NotSeenYet(problem)) => {
                    tracing::debug!(controller = NAME, namespace, account, %problem, "to be looked at again");
                    wait(self.remember(|memory| memory.not_seen_yet(namespace, account, Instant::now())));
                }
                Err(Stopped::InUse) => {
                    wait(self.remember(|memory| memory.in_use(namespace, account, Instant::now())));
                }
                Err(Stopped::Foreign(foreign)) => {
                    wait(self.remember(|memory| memory.foreign(namespace, account, Instant::now())));
                    self.blocked().add(&self.context, namespace, account);
                    self.tell(namespace, account, needed, &Trouble::Foreign(foreign)).await;
                }
                Err(Stopped::Failed(error)) => {
                    tracing::warn!(controller = NAME, namespace, account, %error, "a token is not as it should be");
                    wait(self.remember(|memory| memory.failed(namespace, account, Instant::now())));
                    if let Some(trouble) = Trouble::of(&error) {
                        self.tell(namespace, account, needed, &trouble).await;
                    }
                }
            }
        }
        for (account, lack) in &plan.lacks {
            self.tell(namespace, account, needed, &Trouble::Lack(*lack)).await;
        }
        again
    }

    /// Forgets the notes about accounts that have recovered, and everything about accounts that are no longer relevant.
    fn settle<'a>(&self, namespace: &str, plan: &Plan, accounts: impl Iterator<Item = &'a String>) {
        let all: BTreeSet<&str> = accounts.map(String::as_str).collect();
        let ailing = plan.moves.iter().map(|(account, _)| account).chain(plan.lacks.keys());
        let ailing: BTreeSet<&str> = ailing.map(String::as_str).collect();
        let missing = plan.moves.iter().filter(|(_, what)| matches!(what, Move::Create { .. }));
        self.blocked().settle(namespace, &missing.map(|(account, _)| account.as_str()).collect());
        self.remember(|memory| memory.settle(namespace, &all, &ailing));
    }

    async fn tell_all(&self, namespace: &str, needed: &Needed, trouble: &Trouble) {
        for account in &needed.needs.accounts {
            self.tell(namespace, account, needed, trouble).await;
        }
    }

    /// Reports each trouble once, until it is over or changes.
    async fn tell(&self, namespace: &str, account: &str, needed: &Needed, trouble: &Trouble) {
        let note = trouble.note(account);
        if self.remember(|memory| memory.tell(namespace, account, &note)) {
            tracing::info!(controller = NAME, namespace, account, reason = trouble.reason(), note);
            report::publish(&self.context.events, &needed.who(account), trouble.reason(), &note).await;
        }
    }

    fn forget(&self, namespace: &str) {
        self.remember(|memory| memory.forget(namespace));
        self.blocked().forget(namespace);
    }

    fn blocked(&self) -> MutexGuard<'_, Blocked> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember<T>(&self, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn measure(&self) {
        loop {
            let (count, first) = self.seen.measure();
            self.context.metrics.objects("Secret", count);
            self.context.metrics.token_expiry(first.map_or(0, |first| first.0));
            sleep(MEASURE).await;
        }
    }
}

/// Plans for a namespace with these Secrets of Pillion's.
fn plan_of(
    context: &Context,
    seen: &TokenWatches,
    namespace: &str,
    needed: &Needed,
    secrets: &BTreeMap<String, Secret>,
) -> Plan {
    let all = needed.needs.accounts.iter().chain(secrets.values().map(|secret| &secret.account));
    let accounts = seen.accounts_of(namespace, all.map(String::as_str));
    let seen = plan::SidecarTokenInput { namespace, needs: &needed.needs, accounts: &accounts, secrets };
    let settings = context.settings.borrow().clone();
    plan::plan(&seen, &settings.service_accounts, context.clock.now())
}

fn is_terminating(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some() || phase(namespace) == "Terminating"
}
