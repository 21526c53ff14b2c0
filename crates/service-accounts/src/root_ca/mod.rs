//! `root-ca-publisher`: publishes the certificates of the API server's authority in every Active namespace, where Pods
//! find them beside their tokens (RUN-6).

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pillion_plan::root_ca::{NAME as CONFIG_MAP, ObservedConfigMap, plan};
use pillion_runtime::context::Context;
use pillion_runtime::controller::{Controller, Done, Failure};
use pillion_runtime::rights::{self, Right, Scope, Situation};
use pillion_runtime::store::{Facets, Projection, Watch, Watched};
use pillion_runtime::wakes::{Wakes, its_name, its_namespace};

use crate::authority::Authority;

/// The controller's options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The certificates to publish. Without them, the controller publishes nothing.
    pub authority: Option<Authority>,
}

/// The controller. It writes a ConfigMap only if it differs from the wanted state.
pub struct RootCaPublisher {
    context: Context,
    authority: Arc<str>,
    maps: Watched<RootCa>,
}

/// A ConfigMap `kube-root-ca.crt`, as the table keeps it.
struct RootCa(ObservedConfigMap);

impl Projection for RootCa {
    fn differences(&self, Self(next): &Self) -> Facets {
        if self.0.needs_repair() || next.needs_repair() { Facets::CONTENT } else { Facets::empty() }
    }
}

impl Controller for RootCaPublisher {
    const NAME: &'static str = "root-ca-publisher";
    const IS_ON_BY_DEFAULT: bool = false;

    type Options = Options;
    type Key = String;
    type KeyState = ();

    async fn start(context: Context, options: Options, wakes: Wakes<String>) -> Self {
        let authority: Arc<str> = options.authority.as_ref().map_or("", Authority::as_pem).into();
        let wanted = Arc::clone(&authority);
        let see = move |map: ConfigMap| {
            serde_json::to_value(map).ok().map(|map| RootCa(ObservedConfigMap::compare(&map, &wanted)))
        };
        let watch = Watch::new(Api::<ConfigMap>::all(context.client.clone()), "ConfigMap");
        let maps = context.store.keep(Self::NAME, watch.field("metadata.name", CONFIG_MAP), see);
        maps.listed().await;
        context.store.namespaces().listed().await;
        wakes.on(context.store.namespaces(), Facets::PHASE, its_name);
        wakes.on(&maps, Facets::CONTENT, its_namespace);
        Self { context, authority, maps }
    }

    fn keys(&self) -> Vec<String> {
        self.context.store.namespaces().names()
    }

    fn exists(&self, namespace: &String) -> bool {
        self.context.store.namespaces().get("", namespace).is_some()
    }

    async fn reconcile(&self, name: &String, (): &mut ()) -> Result<Done, Failure> {
        let Some(namespace) = self.context.store.namespaces().get("", name) else { return Ok(Done::Settled) };
        if self.authority.is_empty() {
            return Ok(Done::Settled);
        }
        let map = self.maps.get(name, CONFIG_MAP);
        let step = plan(name, namespace.phase(), &self.authority, map.as_deref().map(|map| &map.0));
        let Some(step) = step else { return Ok(Done::Settled) };
        let effects = self.context.effects(Self::NAME);
        let is_written = effects.settle(&step, "the certificate of the API server's authority").await?;
        Ok(Done::after_write(is_written))
    }

    fn rights(_: &Situation) -> Vec<Right> {
        let create = "RBAC cannot say by which name something is created.";
        let why = "The ConfigMap kube-root-ca.crt of each namespace.";
        vec![
            rights::namespaces(),
            Right::new(Scope::Cluster, "", &["configmaps"], &["create"], create),
            Right::new(Scope::Cluster, "", &["configmaps"], &["list", "watch", "patch"], why).named(&[CONFIG_MAP]),
        ]
    }
}
