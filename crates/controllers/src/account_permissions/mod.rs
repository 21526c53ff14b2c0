//! `account-permissions`: asks again and again whether the ServiceAccounts of SidecarSets hold what no SidecarSet may have,
//! and tells people (ESC-9). It changes no Pod and no permission. `pillion_plan::account_permissions` chooses the questions.

mod ask;
mod report;
mod watches;

use std::time::Duration;

use pillion_identity::rules::Rules;
use pillion_plan::account_permissions::{Account, Accounts, Index, Input, Limits, Memory, accounts, ordered};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure, Pace};
use pillion_runtime::effects::{Effects, Journal};
use pillion_runtime::rights::{self, Right, Scope, Situation, WATCH};
use pillion_runtime::store::{Facets, Kept};
use pillion_runtime::wakes::{Keys, Wakes};

use self::report::Reports;
use self::watches::Watches;

/// The controller's options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What bounds the questions.
    pub limits: Limits,
}

/// The controller. Its only key is [`Pass`].
pub struct AccountPermissions {
    context: Context,
    effects: Effects,
    options: Options,
    watches: Watches,
}

/// A pass over all accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pass;

impl std::fmt::Display for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the pass")
    }
}

/// What was asked and told.
#[derive(Default)]
pub struct PassState {
    memory: Memory,
    journal: Journal,
}

impl Controller for AccountPermissions {
    const NAME: &'static str = "account-permissions";
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = Options;
    type Key = Pass;
    type KeyState = PassState;

    async fn start(context: Context, options: Options, wakes: Wakes<Pass>) -> Self {
        let watches = Watches::start(&context).await;
        let store = &context.store;
        store.accounts().listed().await;
        store.namespaces().listed().await;
        store.sidecar_sets().listed().await;
        context.bundled.known().await;
        watches.wake(&wakes);
        wakes.on(store.namespaces(), Facets::LABELS | Facets::PHASE, |_| Keys::One(Pass));
        wakes.on(store.accounts(), Facets::IDENTITY, |_| Keys::One(Pass));
        context.wake_for_sidecar_sets(&wakes);
        wakes.follow(context.settings.clone());
        let effects = context.effects(Self::NAME);
        Self { context, effects, options, watches }
    }

    fn keys(&self) -> Vec<Pass> {
        vec![Pass]
    }

    fn exists(&self, _: &Pass) -> bool {
        true
    }

    async fn reconcile(&self, _: &Pass, state: &mut PassState) -> Result<Done, Failure> {
        let settings = self.context.settings();
        let is_on = settings.gates.service_account_injection;
        let accounts = if is_on { self.accounts(&settings.service_accounts) } else { Accounts::new() };
        let (round, limits) = {
            let (roles, bindings) = (self.watches.roles(), self.watches.bindings());
            let denied = ordered(&settings.service_accounts.denied());
            let roles = roles.iter().map(|role| &role.0);
            let bindings = bindings.iter().map(|binding| &binding.0);
            let index = Index::new(roles, bindings, &denied);
            let limits = self.options.limits;
            let now = self.context.clock.now();
            (state.memory.round(&Input { accounts: &accounts, index: &index, denied: &denied, now, limits }), limits)
        };
        let mut failure = None;
        for question in round.questions {
            // The simulation of a preview answers no such question, and RBAC's own rules are all that it knows.
            let answer = if self.effects.is_preview() {
                Ok(question.binding.is_some())
            } else {
                ask::allows(&self.context.client, &question).await
            };
            match answer {
                Ok(is_held) => state.memory.answered(question, is_held, self.context.clock.now()),
                Err(problem) => {
                    let text = format!("the API server did not say what ServiceAccounts may do: {problem}");
                    failure = Some(Failure { retry_after: problem.retry_after(), text });
                    break;
                }
            }
        }
        let is_complete = round.is_complete && failure.is_none();
        let reports = Reports { context: &self.context, effects: &self.effects, is_complete };
        let written = reports.tell(&state.memory, &accounts, &mut state.journal).await;
        let failure = written.err().map(|later| later.after(failure.take())).or(failure);
        if let Some(failure) = failure {
            return Err(failure);
        }
        if !round.is_complete {
            return Ok(Done::LookAgain(Duration::from_secs(1)));
        }
        let seconds = state.memory.look_again(self.context.clock.now(), limits);
        Ok(Done::LookAgain(Duration::from_secs(u64::try_from(seconds).unwrap_or(1))))
    }

    fn pace(&self) -> Pace {
        // Roles and bindings often change together, and a pass looks at all accounts.
        Pace { gather: Duration::from_secs(2), ..Pace::default() }
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let rules = "What RBAC gives to the ServiceAccounts of SidecarSets: it says which question to ask first.";
        let review = "Whether a ServiceAccount may do what no sidecar may. It asks, and changes nothing.";
        let accounts = "Which ServiceAccounts there are. A ServiceAccount holds no token.";
        let kinds = &["clusterrolebindings", "clusterroles", "rolebindings", "roles"];
        let own = [
            Right::new(Scope::Cluster, "", &["serviceaccounts"], WATCH, accounts),
            Right::new(Scope::Cluster, rights::RBAC, kinds, WATCH, rules),
            Right::new(Scope::Cluster, "authorization.k8s.io", &["subjectaccessreviews"], &["create"], review),
        ];
        std::iter::once(rights::namespaces()).chain(rights::sidecar_sets()).chain(own).collect()
    }
}

impl AccountPermissions {
    /// Returns the accounts that SidecarSets can give, and merged ones.
    fn accounts(&self, rules: &Rules) -> Accounts {
        let store = &self.context.store;
        let namespaces = store.namespaces().all();
        let staying = namespaces.iter().filter(|namespace| !namespace.is_terminating());
        let staying: Vec<_> = staying.map(|namespace| namespace.object()).collect();
        let all = store.accounts().all();
        let merged: Vec<_> = all.iter().filter_map(|account| account.merged.as_ref().map(Kept::value)).collect();
        let is_there = |account: &Account| {
            store.accounts().get(&account.namespace, &account.name).is_some_and(|account| !account.known.is_terminating)
        };
        accounts(&self.context.sidecar_sets().sets, rules, &staying, &merged, &is_there)
    }
}

#[cfg(test)]
mod tests;
