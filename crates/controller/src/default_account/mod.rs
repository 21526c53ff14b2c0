//! `serviceaccount`: a ServiceAccount `default` in every Active namespace (`serviceaccounts.md` C1), for clusters where
//! kube-controller-manager does not see to it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, ResourceExt as _};
use pillion_plan::Step;
use pillion_plan::default_account::{NAME, plan};

use crate::context::Context;
use crate::preview::{Preview, namespaces};
use crate::queue::{ByNamespace, settle};
use crate::selection::Name;
use crate::watch::{Change, Kept, Own, Watch, phase};

/// Its name.
pub const CONTROLLER: &str = "serviceaccount";

/// Works for as long as it is polled. What the API server refuses is tried again without limit, each time later (C1.6);
/// accounts that are there already, and namespaces that are going or gone, are no failures (C1.3, C1.5, C1.7).
pub async fn run(context: Context) {
    let accounts = accounts(&context).await;
    let client = context.client.clone();
    let reconcile = move |namespace: Arc<Namespace>| {
        let (client, accounts) = (client.clone(), Arc::clone(&accounts));
        async move { settle(&client, step(&namespace, &accounts)).await }
    };
    let is_concerned = |change: &Change| matches!(change.kind, "Namespace" | "ServiceAccount");
    ByNamespace { controller: CONTROLLER, is_concerned, reconcile }.run(context).await;
}

/// Watches the accounts of this name; they were listed.
async fn accounts(context: &Context) -> Arc<Own<()>> {
    let api = Api::<ServiceAccount>::all(context.client.clone());
    let watch = Watch::new(api, "ServiceAccount").fields(&format!("metadata.name={NAME}"));
    let accounts = Arc::new(context.cluster.keep(CONTROLLER, watch, |_| Some(())));
    accounts.listed().await;
    accounts
}

fn step(namespace: &Namespace, accounts: &Kept<()>) -> Option<Step> {
    let name = namespace.name_any();
    plan(&name, phase(namespace), accounts.get(&name, NAME).is_some())
}

/// Adds what would be done now in every namespace (`pillion plan`).
pub(crate) async fn preview(context: &Context, all: &mut Preview) {
    let accounts = accounts(context).await;
    let steps: Vec<Step> = namespaces(context).iter().filter_map(|namespace| step(namespace, &accounts)).collect();
    all.steps(Name::ServiceAccount, &steps, "each namespace has one");
}
