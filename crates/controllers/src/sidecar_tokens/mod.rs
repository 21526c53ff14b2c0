//! `sidecar-tokens`: keeps Secrets with the tokens of isolated sidecars, in each namespace that needs them (TOK-5 to
//! TOK-7, AUD-7, AUD-8): one for each ServiceAccount, and one for each SidecarSet with tokens for other audiences.
//!
//! [`pillion_plan::sidecar_tokens`] makes the plans. The modules here carry them out: the watches ([`watches`]), the
//! needs of Pods and workloads ([`needs`]), the requests ([`requests`]), the attempts so far ([`memory`]), foreign
//! Secrets in the way ([`blocked`]) and reports to people ([`report`]). The controller never keeps, logs or reports a
//! token.

mod blocked;
mod memory;
pub(crate) mod metrics;
mod needs;
mod report;
mod requests;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pillion_plan::credential::Credential;
use pillion_plan::sidecar_tokens::{self as plan, LIFETIME, LIFETIME_MIN, LINGER, Move, Plan, Secret};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure};
use pillion_runtime::effects::{Effects, Journal};
use pillion_runtime::rights::{self, KEEP, Right, Scope, Situation};
use pillion_runtime::store::Facets;
use pillion_runtime::wakes::{Wakes, its_name, its_namespace};
use tokio::time::{Instant, sleep};

use blocked::Blocked;
use memory::{Attempt, Memory};
use metrics::TokenMetrics;
use needs::{Needed, needed};
pub(crate) use report::Trouble;
use requests::{Requests, Shortened, Stopped};
use watches::{NamespaceSecrets, TokenSecrets, accounts_of, is_there};

use crate::pods::{self, Pods};

/// The interval between updates of the metrics.
const MEASURE: Duration = Duration::from_secs(10);
/// The interval between reports while Secrets cannot be listed.
const LIST_AGAIN: Duration = Duration::from_secs(30);
/// The interval between checks for a list that is on its way.
const LIST_SOON: Duration = Duration::from_secs(1);

/// The controller's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The lifetime of tokens for the API server, in seconds; less than 600 counts as 600. The API server may shorten it.
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

/// The controller. Its keys are namespaces. If it is dropped halfway through a change, the next start completes the
/// change.
pub struct SidecarTokens {
    context: Context,
    effects: Effects,
    requests: Requests,
    lifetime: u32,
    pods: Arc<Pods>,
    secrets: TokenSecrets,
    metrics: TokenMetrics,
    /// Wakes a namespace when a foreign Secret in it is gone.
    wakes: Wakes<String>,
}

/// What is remembered about a namespace.
#[derive(Default)]
pub struct SidecarTokensState {
    memory: Memory,
    blocked: Blocked,
    journal: Journal,
    /// The lifetimes that the API server shortened when it was last asked.
    shortened: BTreeMap<Credential, Vec<Shortened>>,
}

impl Controller for SidecarTokens {
    const NAME: &'static str = "sidecar-tokens";
    const IS_ON_BY_DEFAULT: bool = true;

    type Options = Options;
    type Key = String;
    type KeyState = SidecarTokensState;

    async fn start(context: Context, options: Options, wakes: Wakes<String>) -> Self {
        let secrets = TokenSecrets::watch(&context, options.namespaces);
        let store = &context.store;
        // Until accounts are listed, a missing account may exist.
        store.accounts().listed().await;
        store.namespaces().listed().await;
        store.sidecar_sets().listed().await;
        let pods = pods::of_identities(&context);
        pods.subjects_listed(store).await;
        context.bundled.known().await;
        if context.recorder.is_some() {
            secrets.listed().await;
        }
        wakes.on(store.namespaces(), Facets::LABELS | Facets::PHASE, its_name);
        context.wake_for_sidecar_sets(&wakes);
        pods.wake_for_identities(store, &wakes);
        wakes.on(store.accounts(), Facets::IDENTITY, its_namespace);
        secrets.each().for_each(|kept| wakes.on(kept, Facets::CONTENT, its_namespace));
        wakes.follow(context.settings.clone());
        let effects = context.effects(Self::NAME);
        let metrics = TokenMetrics::new(&context.metrics);
        let lifetime = options.lifetime.max(LIFETIME_MIN);
        let requests =
            Requests { effects: effects.clone(), clock: context.clock.clone(), metrics: metrics.clone(), lifetime };
        Self { context, effects, requests, lifetime, pods, secrets, metrics, wakes }
    }

    fn keys(&self) -> Vec<String> {
        self.context.store.namespaces().names()
    }

    fn exists(&self, namespace: &String) -> bool {
        self.context.store.namespaces().get("", namespace).is_some()
    }

    /// A problem with one account does not delay the others, so this never fails as a whole.
    async fn reconcile(&self, name: &String, state: &mut SidecarTokensState) -> Result<Done, Failure> {
        let store = &self.context.store;
        let namespace = store.namespaces().get("", name).filter(|namespace| !namespace.is_terminating());
        let Some(namespace) = namespace else {
            // The namespace accepts no new objects, and its contents are deleted with it.
            *state = SidecarTokensState::default();
            return Ok(Done::Settled);
        };
        let place = self.secrets.secrets(name);
        let subjects = self.pods.subjects(store, name);
        let is_there = |account: &str| is_there(store, name, account);
        let needed = needed(&self.context, &namespace, subjects, place.credentials(), &is_there);
        let secrets = match place {
            NamespaceSecrets::Listed(secrets) => secrets,
            NamespaceSecrets::NotListed(None) => return Ok(Done::LookAgain(LIST_SOON)),
            NamespaceSecrets::NotListed(Some(problem)) => {
                self.tell_all(name, &needed, &Trouble::NotListed(problem), &mut state.journal).await;
                state.journal.end(true);
                return Ok(Done::LookAgain(LIST_AGAIN));
            }
            NamespaceSecrets::NotGiven => {
                self.tell_all(name, &needed, &Trouble::NotGiven, &mut state.journal).await;
                state.journal.end(true);
                return Ok(Done::Settled);
            }
        };
        if needed.needs.credentials.is_empty() && secrets.is_empty() {
            *state = SidecarTokensState::default();
            return Ok(Done::Settled);
        }
        let now = self.context.clock.now();
        let plan = self.plan(name, &needed, &secrets);

        // Look again after a tenth of the lifetime even if the clock is wrong or the machine was suspended.
        let mut again = Duration::from_secs(u64::from(self.lifetime / 10));
        if let Some(next) = plan.next {
            again =
                again.min(Duration::from_secs(u64::try_from(next.0.saturating_sub(now.0)).unwrap_or_default().max(1)));
        }
        if let Some(retry) = self.carry_out(name, &needed, &plan, state).await {
            again = again.min(retry);
        }
        self.foresee(name, &plan, &secrets);
        let all = secrets.values().map(|secret| &secret.credential).chain(needed.needs.credentials.keys());
        let all: BTreeSet<&Credential> = all.collect();
        state.memory.settle(&all);
        state.shortened.retain(|credential, _| all.contains(credential));
        let missing = plan.moves.iter().filter(|(_, what)| matches!(what, Move::Create { .. }));
        state.blocked.settle(&missing.map(|(credential, _)| credential).collect());
        Ok(Done::LookAgain(again))
    }

    async fn beside(&self) {
        loop {
            self.metrics.measured(self.secrets.measure(self.context.clock.now()));
            sleep(MEASURE).await;
        }
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let secrets = "The Secrets with the tokens. RBAC cannot say \"names that start with sidecarset-token-\"; no \
                       other is written, and only those with Pillion's label are read.";
        let own = [
            rights::accounts(),
            Right::new(Scope::Tokens, "", &["secrets"], KEEP, secrets),
            Right::new(Scope::Tokens, "", &["serviceaccounts/token"], &["create"], "The tokens."),
        ];
        let shared = std::iter::once(rights::namespaces()).chain(rights::sidecar_sets()).chain(rights::subjects());
        shared.chain(own).collect()
    }
}

impl SidecarTokens {
    /// Plans for a namespace with these Secrets of Pillion's.
    fn plan(&self, namespace: &str, needed: &Needed, secrets: &BTreeMap<String, Secret>) -> Plan {
        let all = needed.needs.credentials.keys().chain(secrets.values().map(|secret| &secret.credential));
        let accounts = accounts_of(&self.context.store, namespace, all.map(|credential| credential.account.as_str()));
        let seen = plan::SidecarTokenInput { namespace, needs: &needed.needs, accounts: &accounts, secrets };
        plan::plan(&seen, &self.context.settings().service_accounts, self.context.clock.now())
    }

    /// Carries out the plan. Returns when to retry moves that failed or came too early.
    async fn carry_out(
        &self,
        namespace: &str,
        needed: &Needed,
        plan: &Plan,
        state: &mut SidecarTokensState,
    ) -> Option<Duration> {
        let SidecarTokensState { memory, blocked, journal, shortened } = state;
        let mut waits: Vec<Duration> = Vec::new();
        for (credential, what) in &plan.moves {
            if blocked.is_gone(credential) {
                memory.free(credential);
            }
            if let Err(duration) = memory.may(credential, Attempt::from_move(what), Instant::now()) {
                waits.push(duration);
                waits.extend(blocked.look_again(credential));
                continue;
            }
            let stopped = match self.requests.carry_out(namespace, credential, what).await {
                Ok(done) => {
                    memory.wrote(credential, done.is_filled, Instant::now());
                    if done.is_filled {
                        shortened.insert(credential.clone(), done.shortened);
                    }
                    continue;
                }
                Err(stopped) => stopped,
            };
            match stopped {
                Stopped::Terminating => {}
                Stopped::NotSeenYet(problem) => {
                    tracing::debug!(controller = Self::NAME, namespace, %credential, %problem, "to be looked at again");
                    waits.push(memory.not_seen_yet(credential, Instant::now()));
                }
                Stopped::InUse => waits.push(memory.in_use(credential, Instant::now())),
                Stopped::Foreign(foreign) => {
                    waits.push(memory.foreign(credential, Instant::now()));
                    blocked.add(&self.context, &self.wakes, namespace, credential);
                    waits.extend(blocked.look_again(credential));
                    self.tell(namespace, credential, needed, &Trouble::Foreign(foreign), journal).await;
                }
                Stopped::ApiServerAudience(audience) => {
                    waits.push(memory.failed(credential, None, Instant::now()));
                    self.tell(namespace, credential, needed, &Trouble::ApiServerAudience(audience), journal).await;
                }
                Stopped::Failed(error) => {
                    tracing::warn!(controller = Self::NAME, namespace, %credential, %error, "a token is not as it should be");
                    waits.push(memory.failed(credential, error.problem.retry_after(), Instant::now()));
                    match Trouble::from_error(&error) {
                        Some(trouble) => self.tell(namespace, credential, needed, &trouble, journal).await,
                        None => self.effects.problem(Some(namespace), error.to_string()),
                    }
                }
            }
        }
        for (credential, lack) in &plan.lacks {
            self.tell(namespace, credential, needed, &Trouble::Lack(lack.clone()), journal).await;
        }
        for (credential, lifetimes) in shortened.iter().filter(|(_, lifetimes)| !lifetimes.is_empty()) {
            let texts: Vec<String> = lifetimes.iter().map(Shortened::to_string).collect();
            let note = report::shortened(credential, &texts);
            if journal.is_news(&note) {
                tracing::info!(controller = Self::NAME, namespace, %credential, reason = report::SHORTENED, note);
                report::publish(&self.context.events, &needed.who(credential), report::SHORTENED, &note).await;
            }
        }
        // A Secret that waits may still be in the trouble that people were told of.
        journal.end(waits.is_empty());
        waits.into_iter().min()
    }

    async fn tell_all(&self, namespace: &str, needed: &Needed, trouble: &Trouble, journal: &mut Journal) {
        for credential in needed.needs.credentials.keys() {
            self.tell(namespace, credential, needed, trouble, journal).await;
        }
    }

    /// Reports each trouble once, until it is over or changes.
    async fn tell(
        &self,
        namespace: &str,
        credential: &Credential,
        needed: &Needed,
        trouble: &Trouble,
        journal: &mut Journal,
    ) {
        let note = trouble.note(credential);
        let raise = || self.context.metrics.problem(Self::NAME, trouble.reason());
        if journal.is_new_problem(&note, raise) {
            tracing::info!(controller = Self::NAME, namespace, %credential, reason = trouble.reason(), note);
            self.effects.problem(Some(namespace), note.clone());
            report::publish(&self.context.events, &needed.who(credential), trouble.reason(), &note).await;
        }
    }

    /// Tells a preview which Secrets are deleted later.
    fn foresee(&self, namespace: &str, plan: &Plan, secrets: &BTreeMap<String, Secret>) {
        for secret in secrets.values() {
            let is_left = plan.moves.iter().all(|(credential, _)| *credential != secret.credential);
            if let Some(since) = secret.unneeded_since.filter(|_| is_left) {
                let name = &secret.name;
                let text = format!("Secret \"{name}\" is not needed since {since}: it is deleted {LINGER} s later");
                self.effects.later(Some(namespace), text);
            }
        }
    }
}
