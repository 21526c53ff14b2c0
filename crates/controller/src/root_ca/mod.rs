//! `root-ca-publisher`: publishes the certificates of the API server's authority in every Active namespace, where Pods
//! find them beside their tokens (RUN-6).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, ResourceExt as _};
use pillion_plan::Step;
use pillion_plan::root_ca::{NAME, ObservedConfigMap, plan};

use crate::authority::Authority;
use crate::context::Context;
use crate::preview::{Preview, namespaces};
use crate::queue::{ByNamespace, settle};
use crate::selection::Name;
use crate::watch::{Change, Kept, Own, Watch, phase};

/// The controller's name.
pub const CONTROLLER: &str = "root-ca-publisher";

/// The controller's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The certificates to publish.
    pub authority: Authority,
}

/// Works for as long as it is polled. Writes a ConfigMap only if it differs from the wanted state.
pub async fn run(context: Context, options: Options) {
    let authority: Arc<str> = options.authority.as_pem().into();
    let maps = maps(&context, &authority).await;
    let client = context.client.clone();
    let reconcile = move |namespace: Arc<Namespace>| {
        let (client, maps, authority) = (client.clone(), Arc::clone(&maps), Arc::clone(&authority));
        async move { settle(&client, step(&namespace, &maps, &authority)).await }
    };
    let is_concerned = |change: &Change| matches!(change.kind, "Namespace" | "ConfigMap");
    ByNamespace { controller: CONTROLLER, is_concerned, reconcile }.run(context).await;
}

/// Watches the ConfigMaps and compares them with their wanted contents. Returns once all were listed.
async fn maps(context: &Context, authority: &Arc<str>) -> Arc<Own<ObservedConfigMap>> {
    let wanted = Arc::clone(authority);
    let see = move |map: ConfigMap| serde_json::to_value(map).ok().map(|map| ObservedConfigMap::of(&map, &wanted));
    let watch = Watch::new(Api::all(context.client.clone()), "ConfigMap").fields(&format!("metadata.name={NAME}"));
    let maps = Arc::new(context.cluster.keep(CONTROLLER, watch, see));
    maps.listed().await;
    maps
}

fn step(namespace: &Namespace, maps: &Kept<ObservedConfigMap>, authority: &str) -> Option<Step> {
    let name = namespace.name_any();
    plan(&name, phase(namespace), authority, maps.get(&name, NAME).as_deref())
}

/// Adds the steps that are due now in every namespace (`pillion plan`).
pub(crate) async fn preview(context: &Context, options: &Options, all: &mut Preview) {
    let authority: Arc<str> = options.authority.as_pem().into();
    let maps = maps(context, &authority).await;
    let steps =
        namespaces(context).iter().filter_map(|namespace| step(namespace, &maps, &authority)).collect::<Vec<_>>();
    all.steps(Name::RootCaPublisher, &steps, "the certificate of the API server's authority");
}
