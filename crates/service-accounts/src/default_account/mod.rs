//! `serviceaccount`: creates a ServiceAccount `default` in every Active namespace (ACC-1), for clusters in which
//! kube-controller-manager does not do so.

use pillion_plan::default_account::{NAME as ACCOUNT, plan};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure};
use pillion_runtime::rights::{self, Right, Scope, Situation};
use pillion_runtime::store::Facets;
use pillion_runtime::wakes::{Keys, Wakes, its_name};

/// The controller. Requests that the API server refuses are retried without limit, with growing delays (ACC-6). An
/// account that exists already, and a namespace that is being deleted or gone, are not failures (ACC-3, ACC-5, ACC-7).
pub struct DefaultAccounts {
    context: Context,
}

impl Controller for DefaultAccounts {
    const NAME: &'static str = "serviceaccount";
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = ();
    type Key = String;
    type KeyState = ();

    async fn start(context: Context, (): (), wakes: Wakes<String>) -> Self {
        context.store.accounts().listed().await;
        context.store.namespaces().listed().await;
        wakes.on(context.store.namespaces(), Facets::PHASE, its_name);
        wakes.on(context.store.accounts(), Facets::IDENTITY, |change| {
            if change.name == ACCOUNT { Keys::One(change.namespace.clone()) } else { Keys::None }
        });
        Self { context }
    }

    fn keys(&self) -> Vec<String> {
        self.context.store.namespaces().names()
    }

    fn exists(&self, namespace: &String) -> bool {
        self.context.store.namespaces().get("", namespace).is_some()
    }

    async fn reconcile(&self, name: &String, (): &mut ()) -> Result<Done, Failure> {
        let Some(namespace) = self.context.store.namespaces().get("", name) else { return Ok(Done::Settled) };
        let is_there = self.context.store.accounts().get(name, ACCOUNT).is_some();
        let Some(step) = plan(name, namespace.phase(), is_there) else { return Ok(Done::Settled) };
        let is_written = self.context.effects(Self::NAME).settle(&step, "each namespace has one").await?;
        Ok(Done::after_write(is_written))
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let why =
            "The ServiceAccount \"default\" of each namespace. RBAC cannot say by which name something is created.";
        vec![
            rights::namespaces(),
            rights::accounts(),
            Right::new(Scope::Cluster, "", &["serviceaccounts"], &["create"], why),
        ]
    }
}
