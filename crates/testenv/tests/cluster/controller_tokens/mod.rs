//! A controller of tokens, and a namespace for it.

mod audiences;
mod life;
mod rights;
mod services;
mod tests;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::Config;
use kube::api::ListParams;
use pillion_admission::settings::Settings;
use pillion_controllers::sidecar_tokens::{Options as TokenOptions, SidecarTokens};
use pillion_identity::names::token_secret;
use pillion_runtime::Context;
use pillion_runtime::metrics::Metrics;
use pillion_runtime::queue::run;
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::support::accounts::name_of;
use crate::support::clock::Ahead;
use crate::support::namespace::TestNamespace;
use crate::support::{SOON, create, pod};

/// An API server caches the result of a token review for some seconds.
pub const REVOKED: Duration = Duration::from_mins(2);
/// Maximum delay of a change: without one in this time, none will come.
pub const QUIET: Duration = Duration::from_secs(4);

/// Returns an API server without kube-controller-manager: namespaces stay Terminating.
pub async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await
}

/// Returns a SidecarSet for the Pods of one namespace that are labelled `app: web`.
pub fn sidecar_set(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "containers": [{"name": format!("{name}-agent"), "image": "agent:1"}],
            "updateStrategy": {"type": "NotUpdate"},
            "serviceAccountName": "logs", "serviceAccountMode": "Isolate",
        },
    })
}

pub fn settings(sets: &[Value]) -> Value {
    json!({"sidecarSets": sets, "featureGates": {"SidecarSetServiceAccountInjection": true}})
}

pub fn decoded(settings: Value) -> Arc<Settings> {
    Arc::new(Settings::decode(settings).unwrap())
}

/// A controller that runs until it is dropped.
pub struct Controller {
    task: JoinHandle<()>,
    ahead: Ahead,
    pub faults: Faults,
    pub metrics: Arc<Metrics>,
    pub settings: tokio::sync::watch::Sender<Arc<Settings>>,
}

impl Controller {
    pub fn start(config: Config, faults: Faults, settings: Value, namespaces: Option<&[&str]>, ahead: i64) -> Self {
        let client = faults.client(config).unwrap();
        let (ahead, clock) = Ahead::by(ahead);
        let (sender, settings) = tokio::sync::watch::channel(decoded(settings));
        let context = Context { clock, ..Context::new(client, settings) };
        let metrics = Arc::clone(&context.metrics);
        let namespaces = namespaces.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
        let task = tokio::spawn(run::<SidecarTokens>(context, TokenOptions { lifetime: 600, namespaces }));
        Self { task, ahead, faults, metrics, settings: sender }
    }

    /// Sets its clock ahead by this many seconds.
    pub fn set_ahead(&self, seconds: i64) {
        self.ahead.set(seconds);
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a namespace in the cluster of these tests.
pub async fn namespace() -> TestNamespace {
    namespace_in(cluster().await).await
}

pub async fn namespace_in(cluster: &Cluster) -> TestNamespace {
    TestNamespace::create(cluster, "tokens").await
}

impl TestNamespace {
    /// Starts a controller only for this namespace, with one SidecarSet.
    pub async fn controller(&self, faults: Faults) -> Controller {
        let config = cluster().await.as_admin().config().await.unwrap();
        let settings = settings(&[sidecar_set("logs", &self.name)]);
        Controller::start(config, faults, settings, Some(&[&self.name]), 0)
    }

    pub async fn account(&self) -> Value {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "logs"}});
        create(&self.api::<ServiceAccount>(), &account).await.unwrap()
    }

    /// Creates a Pod that mounts the Secret, in the form that the policy would give it.
    pub async fn mounting_pod(&self, name: &str) {
        let source = json!({"secret": {"name": token_secret("logs"), "items": [{"key": "token", "path": "token"}]}});
        let pod = pod(&json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"volumes": [{"name": "identity", "projected": {"sources": [source]}}]},
        }));
        create(&self.api::<Pod>(), &pod).await.unwrap();
    }

    pub async fn secret(&self) -> Option<Value> {
        let secret = self.api::<Secret>().get_opt(&token_secret("logs")).await.unwrap()?;
        Some(serde_json::to_value(secret).unwrap())
    }

    /// Waits until the Secret fulfils a condition.
    pub async fn secret_that(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        until(what, SOON, async || self.secret().await.filter(&is)).await.unwrap()
    }

    pub async fn filled(&self) -> Value {
        self.secret_that("a token being in the Secret", |secret| !token(secret).is_empty()).await
    }

    /// Pokes until `ask` returns an answer.
    pub async fn poke_until<T, F: Future<Output = Option<T>>>(&self, what: &str, mut ask: impl FnMut() -> F) -> T {
        for _ in 0..30 {
            self.poke().await;
            if let Ok(answer) = until(what, Duration::from_secs(2), &mut ask).await {
                return answer;
            }
        }
        panic!("{what} did not happen");
    }

    /// Returns the user name that the API server sees for the bearer of the Secret's token.
    pub async fn bearer(&self, cluster: &Cluster, secret: &Value) -> Result<String, kube::Error> {
        name_of(cluster, &token(secret)).await
    }

    pub fn username(&self) -> String {
        format!("system:serviceaccount:{}:logs", self.name)
    }

    pub async fn events(&self) -> Vec<(String, String, String)> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        let parts = |event: Event| {
            (event.regarding.unwrap().kind.unwrap(), event.reason.unwrap_or_default(), event.note.unwrap_or_default())
        };
        events.items.into_iter().map(parts).collect()
    }

    pub async fn event_note(&self, kind: &str, reason: &str) -> String {
        let found = async || {
            let events = self.events().await;
            events.into_iter().find(|event| event.0 == kind && event.1 == reason).map(|event| event.2)
        };
        until(&format!("the event {reason} on a {kind}"), SOON, found).await.unwrap()
    }
}

pub fn token(secret: &Value) -> String {
    let secret: Secret = serde_json::from_value(secret.clone()).unwrap();
    let token = secret.data.unwrap_or_default().remove("token").unwrap_or_default();
    String::from_utf8(token.0).unwrap()
}

pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}
