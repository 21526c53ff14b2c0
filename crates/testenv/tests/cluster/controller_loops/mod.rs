//! The control loops of kube-controller-manager for ServiceAccounts, if Pillion runs them: ACC-1 to RUN-7. The API server
//! has no other controllers.

mod accounts;
mod beside;
mod cleaner;
mod rights;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Config, ResourceExt as _};
use pillion_admission::settings::Settings;
use pillion_runtime::queue::run;
use pillion_runtime::{Clock, Context};
use pillion_service_accounts::authority::Authority;
use pillion_service_accounts::default_account::DefaultAccounts;
use pillion_service_accounts::root_ca::{self, RootCaPublisher};
use pillion_service_accounts::token_controller::{self, TokenController};
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, Options, until};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::task::JoinHandle;

use crate::support::accounts::name_of;

/// Timeout for asynchronous effects on a busy machine.
pub const SOON: Duration = Duration::from_mins(2);
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

/// The cluster of these tests. Only one test uses it at a time, because controllers see all namespaces. The objects of
/// earlier tests that controllers would work on are removed.
pub struct Fixture {
    pub cluster: &'static Cluster,
    pub client: Client,
    _only: MutexGuard<'static, ()>,
}

pub async fn fixture() -> Fixture {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static ONLY: Mutex<()> = Mutex::const_new(());
    let only = ONLY.lock().await;
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    let client = cluster.admin().await.unwrap();
    let of_type = ListParams::default().fields(&format!("type={TOKEN_TYPE}"));
    for secret in Api::<Secret>::all(client.clone()).list(&of_type).await.unwrap() {
        let api = Api::<Secret>::namespaced(client.clone(), &secret.namespace().unwrap());
        api.delete(&secret.name_any(), &DeleteParams::default()).await.unwrap();
    }
    Fixture { cluster, client, _only: only }
}

/// Returns the context of controllers, with all their watches, which end with it.
pub fn context(config: Config, faults: &Faults, clock: Clock) -> Context {
    let client = faults.client(config).unwrap();
    let settings = tokio::sync::watch::channel(Arc::new(Settings::default())).1;
    Context { clock, ..Context::new(client, settings) }
}

/// Running controllers.
pub struct Running(pub JoinHandle<()>);

impl Running {
    /// Kills them at once, whatever they are doing.
    pub async fn kill(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

pub fn authority(cluster: &Cluster) -> Authority {
    Authority::from_pem(cluster.authority_certificate()).unwrap()
}

pub fn token_options(cluster: &Cluster) -> token_controller::Options {
    token_controller::Options { authority: Some(authority(cluster)), ..token_controller::Options::default() }
}

impl Fixture {
    pub async fn config(&self) -> Config {
        self.cluster.as_admin().config().await.unwrap()
    }

    /// Starts `serviceaccount`, `root-ca-publisher` and `serviceaccount-token` with all rights.
    pub async fn start(&self, faults: &Faults) -> Running {
        start(self.config().await, self.cluster, faults, Clock::system())
    }

    /// Starts `serviceaccount-token`.
    pub async fn start_tokens(&self, faults: &Faults, clock: Clock, options: token_controller::Options) -> Running {
        let context = context(self.config().await, faults, clock);
        Running(tokio::spawn(run::<TokenController>(context, options)))
    }

    /// Creates an empty namespace, as users do.
    pub async fn namespace(&self, name: &str) -> String {
        namespace(&self.client, name).await
    }

    pub fn accounts(&self, namespace: &str) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates a ServiceAccount that names these Secrets.
    pub async fn account(&self, namespace: &str, name: &str, secrets: &[&str]) -> ServiceAccount {
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let account = json!({"metadata": {"name": name}, "secrets": secrets});
        let account = serde_json::from_value(account).unwrap();
        self.accounts(namespace).create(&PostParams::default(), &account).await.unwrap()
    }

    /// Creates an empty token Secret of a ServiceAccount.
    pub async fn secret(&self, namespace: &str, name: &str, account: &str) -> Secret {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        let secret = json!({"metadata": {"name": name, "annotations": annotations}, "type": TOKEN_TYPE});
        let secret = serde_json::from_value(secret).unwrap();
        self.secrets(namespace).create(&PostParams::default(), &secret).await.unwrap()
    }

    /// Waits for a token in a Secret that `is_wanted` accepts.
    pub async fn token(&self, namespace: &str, name: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let secrets = self.secrets(namespace);
        let token = async || value(&secrets.get(name).await.ok()?, "token").filter(|token| is_wanted(token));
        until(&format!("a token in {namespace}/{name}"), SOON, token).await.unwrap()
    }

    /// Returns the user name that the API server sees for the bearer of a token; `None` if it rejects the token.
    pub async fn bearer(&self, token: &str) -> Option<String> {
        match name_of(self.cluster, token).await {
            Ok(name) => Some(name),
            Err(kube::Error::Api(status)) if status.code == 401 => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until the object no longer exists.
    pub async fn gone<K>(&self, api: &Api<K>, name: &str)
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let gone = async || api.get_opt(name).await.ok().filter(Option::is_none);
        until(&format!("\"{name}\" being gone"), SOON, gone).await.unwrap();
    }

    /// Returns the names in the `secrets` of a ServiceAccount.
    pub async fn named(&self, namespace: &str, account: &str) -> Vec<String> {
        let account = self.accounts(namespace).get(account).await.unwrap();
        account.secrets.unwrap_or_default().into_iter().filter_map(|secret| secret.name).collect()
    }
}

/// Starts `serviceaccount`, `root-ca-publisher` and `serviceaccount-token`.
pub fn start(config: Config, cluster: &Cluster, faults: &Faults, clock: Clock) -> Running {
    start_with(config, cluster, faults, clock, token_options(cluster))
}

pub fn start_with(
    config: Config,
    cluster: &Cluster,
    faults: &Faults,
    clock: Clock,
    tokens: token_controller::Options,
) -> Running {
    let context = context(config, faults, clock);
    let roots = root_ca::Options { authority: Some(authority(cluster)) };
    Running(tokio::spawn(async move {
        tokio::join!(
            run::<DefaultAccounts>(context.clone(), ()),
            run::<RootCaPublisher>(context.clone(), roots),
            run::<TokenController>(context, tokens)
        );
    }))
}

pub async fn namespace(client: &Client, name: &str) -> String {
    let metadata = ObjectMeta { generate_name: Some(format!("{name}-")), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap().name_any()
}

/// Returns a value of a Secret as text; `None` if it is empty.
pub fn value(secret: &Secret, key: &str) -> Option<String> {
    let value = secret.data.as_ref()?.get(key)?;
    Some(String::from_utf8(value.0.clone()).unwrap()).filter(|value| !value.is_empty())
}

/// Waits until no more requests are sent for two seconds, and returns their number. The absence of an event can only be
/// checked with a pause.
pub async fn settled(faults: &Faults) -> usize {
    let last = std::cell::Cell::new(usize::MAX);
    let same = async || {
        let count = faults.count();
        tokio::time::sleep(Duration::from_secs(2)).await;
        (last.replace(count) == count && faults.count() == count).then_some(count)
    };
    until("controllers settling", SOON, same).await.unwrap()
}
