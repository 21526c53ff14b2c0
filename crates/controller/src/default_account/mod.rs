//! `serviceaccount`: creates a ServiceAccount `default` in every Active namespace (ACC-1), for clusters in which
//! kube-controller-manager does not do so.

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

/// The controller's name.
pub const CONTROLLER: &str = "serviceaccount";

/// Works for as long as it is polled. Requests that the API server refuses are retried without limit, with growing
/// delays (ACC-6). An account that exists already, and a namespace that is being deleted or gone, are not failures
/// (ACC-3, ACC-5, ACC-7).
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

/// Watches the accounts of this name. Returns once all were listed.
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

/// Adds the steps that are due now in every namespace (`pillion plan`).
pub(crate) async fn preview(context: &Context, all: &mut Preview) {
    let accounts = accounts(context).await;
    let steps: Vec<Step> = namespaces(context).iter().filter_map(|namespace| step(namespace, &accounts)).collect();
    all.steps(Name::ServiceAccount, &steps, "each namespace has one");
}
