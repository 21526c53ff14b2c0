//! `sidecar-tokens`: a Secret with a token for each ServiceAccount of an isolated sidecar, in each namespace that needs
//! it (`serviceaccounts.md` B5 to B7).
//!
//! What is to be done is [`pillion_plan::tokens`]. Here is what it takes to do it: what is watched ([`seen`]), who
//! needs what ([`needs`]), the requests ([`requests`]), what was tried already ([`memory`]), who is in the way
//! ([`blocked`]), and telling people ([`report`]). Nothing of a token is kept, logged or told.

mod blocked;
mod memory;
mod needs;
mod preview;
mod report;
mod requests;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use pillion_plan::tokens::{self as plan, LIFETIME, LIFETIME_MIN, Move, Plan, Secret};
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::queue::{ByNamespace, Done};
use crate::watch::{Change, SIDECAR_SET_STATUS, phase};
use blocked::Blocked;
use memory::{Attempt, Memory};
use needs::{Needed, needed};
use report::Trouble;
use requests::Stopped;
use seen::{Place, Seen};

pub(crate) use preview::preview;

/// Its name, in metrics and logs.
pub const NAME: &str = "sidecar-tokens";
/// A change of the settings, which may concern every namespace.
const SETTINGS: &str = "Settings";
/// How often the numbers for Prometheus are brought up to date.
const MEASURE: Duration = Duration::from_secs(10);

/// How often it is looked why Secrets cannot be listed.
const LIST_AGAIN: Duration = Duration::from_secs(30);

/// How tokens are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long they live, in seconds; less than 600 is taken for 600. The API server may shorten it.
    pub lifetime: u32,
    /// The namespaces whose Secrets may be read and written; `None` for all. With names, each is watched on its own, so
    /// that a Role in each of them is enough.
    pub namespaces: Option<BTreeSet<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { lifetime: LIFETIME, namespaces: None }
    }
}

/// Keeps tokens for as long as it is polled. What was done halfway when it is dropped, the next start completes.
pub async fn run(context: Context, options: Options) {
    let seen = Seen::watch(&context, options.namespaces);
    // Before that, an account that is not seen may be there.
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
    // Whatever makes Pods is listed in `watch`; what others write is not looked at here.
    !matches!(change.kind, SIDECAR_SET_STATUS | "Role" | "RoleBinding" | "ConfigMap" | "ControllerRevision" | "Secret")
}

async fn tell_of_settings(context: &Context) {
    let (mut settings, changes) = (context.settings.clone(), context.cluster.notify());
    while settings.changed().await.is_ok() {
        // Nobody may be listening yet.
        let _ = changes.send(Change { kind: SETTINGS, namespace: None });
    }
    pending::<()>().await;
}

struct Tokens {
    context: Context,
    lifetime: u32,
    seen: Seen,
    memory: Mutex<Memory>,
    blocked: Mutex<Blocked>,
}

impl Tokens {
    /// Never fails as a whole: an account for which something does not work keeps none of the others waiting.
    async fn reconcile(&self, namespace: &Namespace) -> Done {
        let name = namespace.name_any();
        if is_terminating(namespace) {
            // It takes nothing new, and what is in it goes with it.
            self.forget(&name);
            return Done::Settled;
        }
        let needed = needed(&self.context, namespace, &|account| self.seen.is_there(&name, account));
        let secrets = match self.seen.secrets(&name) {
            Place::Listed(secrets) => secrets,
            Place::NotListed(problem) => {
                // A change follows on the list.
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

        // However the clock is set, and however long the machine has slept: there is a tenth of each life left.
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

    /// Answers when to try again what could not be done, or is not seen yet.
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

    /// Forgets what was told of accounts that are well now, and all of those that nobody speaks of any more.
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

    /// Tells each trouble once, until it is over or becomes another.
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

/// What there is to do in a namespace with these Secrets of ours.
fn plan_of(
    context: &Context,
    seen: &Seen,
    namespace: &str,
    needed: &Needed,
    secrets: &BTreeMap<String, Secret>,
) -> Plan {
    let all = needed.needs.accounts.iter().chain(secrets.values().map(|secret| &secret.account));
    let accounts = seen.accounts_of(namespace, all.map(String::as_str));
    let seen = plan::Seen { namespace, needs: &needed.needs, accounts: &accounts, secrets };
    let settings = context.settings.borrow().clone();
    plan::plan(&seen, &settings.service_accounts, context.clock.now())
}

fn is_terminating(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some() || phase(namespace) == "Terminating"
}
