//! Reads objects of a cluster.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use pillion_kubernetes::version::KubernetesVersion;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::kind::Kind;
use super::trouble::Trouble;

/// Time limit for connecting to the API server.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// How long the API server may send nothing. It waits up to 30 seconds for a webhook, and then says which one failed.
pub(super) const SILENCE: Duration = Duration::from_secs(40);
/// The time that all reads together take before a progress message.
const PATIENCE: Duration = Duration::from_secs(1);

/// `apiVersion`, `kind`, namespace (empty for none), name.
type Key = (String, String, String, String);

/// The result of reading an object; `None` if it does not exist.
type Found = Result<Option<Value>, Trouble>;

/// Reads a cluster, and remembers each object: later reads of it send no request. Calls block until the API server
/// answers, so do not call it from an asynchronous task.
pub struct Reader {
    pub(super) runtime: Runtime,
    client: Client,
    found: Mutex<BTreeMap<Key, Found>>,
    /// The first read that failed.
    trouble: Mutex<Option<Trouble>>,
    /// The time that reads took; `None` after the progress message.
    spent: Mutex<Option<Duration>>,
}

impl Reader {
    /// Returns a reader of the cluster of this configuration. Sends no request.
    ///
    /// # Errors
    /// If the configuration is not usable.
    pub fn new(runtime: Runtime, mut config: Config) -> Result<Self, kube::Error> {
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        // By default, the client retries for minutes when an API server answers 429, 503 or 504.
        config.default_retry = false;
        // The client spawns a task, which needs the event loop.
        let entered = runtime.enter();
        let client = Client::try_from(config)?;
        drop(entered);
        let spent = Mutex::new(Some(Duration::ZERO));
        Ok(Self { runtime, client, found: Mutex::default(), trouble: Mutex::default(), spent })
    }

    /// Leaves out the message that reading takes long.
    pub fn be_quiet(&self) {
        *self.spent.lock() = None;
    }

    /// Returns an object, or `None` if the cluster has none of this name. `namespace` is that of a namespaced kind.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow the request.
    pub fn get(&self, kind: Kind<'_>, namespace: Option<&str>, name: &str) -> Found {
        let key = (kind.0.to_owned(), kind.1.to_owned(), namespace.unwrap_or_default().to_owned(), name.to_owned());
        if let Some(found) = self.found.lock().get(&key) {
            return found.clone();
        }
        let found = self.try_get(kind, namespace, name).map_err(|trouble| self.note(trouble));
        self.found.lock().insert(key, found.clone());
        found
    }

    /// Like [`Self::get`], for an object that the command can do without: [`Self::check`] does not tell of the failure, and
    /// nothing is remembered.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow the request.
    pub fn try_get(&self, kind: Kind<'_>, namespace: Option<&str>, name: &str) -> Found {
        match self.wait(self.api(kind, namespace).get(name)) {
            Ok(object) => Ok(plain(object)),
            // An API server that does not serve the kind answers with a text, and not with a Status.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => {
                let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
                Err(Trouble::from_kube(&error, "get", format!("{} {place}{name}", kind.1), kind))
            }
        }
    }

    /// Returns all objects of a kind, or `None` if the API server does not serve the kind. `labels` is a selector in the
    /// syntax of `kubectl get --selector`.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow the request.
    pub fn list(
        &self,
        kind: Kind<'_>,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Option<Vec<Value>>, Trouble> {
        self.try_list(kind, namespace, labels).map_err(|trouble| self.note(trouble))
    }

    /// Like [`Self::list`], for objects that the command can do without: [`Self::check`] does not tell of the failure.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow the request.
    pub fn try_list(
        &self,
        kind: Kind<'_>,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Option<Vec<Value>>, Trouble> {
        let params = ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() };
        match self.wait(self.api(kind, namespace).list(&params)) {
            Ok(list) => {
                let of_kind = |mut object: DynamicObject| {
                    // Items of a list do not say what they are.
                    object.types =
                        Some(kube::api::TypeMeta { api_version: kind.0.to_owned(), kind: kind.1.to_owned() });
                    plain(object)
                };
                Ok(Some(list.items.into_iter().filter_map(of_kind).collect()))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Trouble::from_kube(&error, "list", plural(kind), kind)),
        }
    }

    /// Returns the version of the API server; `None` if it says none that can be read.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow the request.
    pub fn version(&self) -> Result<Option<KubernetesVersion>, Trouble> {
        match self.wait(self.client.apiserver_version()) {
            Ok(answer) => Ok(KubernetesVersion::new(&answer.major, &answer.minor)),
            Err(kube::Error::SerdeError(_)) => Ok(None),
            // A proxy may pass only the paths of APIs.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Trouble::from_kube(&error, "get", "its version".to_owned(), Kind("v1", "Version"))),
        }
    }

    /// Returns the first read that failed: answers that were made without it may be wrong.
    ///
    /// # Errors
    /// That read's [`Trouble`].
    pub fn check(&self) -> Result<(), Trouble> {
        self.trouble.lock().clone().map_or(Ok(()), Err)
    }

    pub(super) fn note(&self, trouble: Trouble) -> Trouble {
        self.trouble.lock().get_or_insert(trouble.clone());
        trouble
    }

    pub(super) fn api(&self, kind: Kind<'_>, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.api()),
            None => Api::all_with(self.client.clone(), &kind.api()),
        }
    }

    /// Waits for an answer. Says on `stderr`, once, that reading takes long.
    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let left = self.spent.lock().map(|spent| PATIENCE.saturating_sub(spent));
        self.runtime.block_on(async {
            tokio::pin!(answer);
            if let Some(left) = left {
                if let Ok(answer) = timeout(left, &mut answer).await {
                    if let Some(spent) = self.spent.lock().as_mut() {
                        *spent += started.elapsed();
                    }
                    return answer;
                }
                *self.spent.lock() = None;
                pillion_terminal::progress("looking at the cluster");
            }
            answer.await
        })
    }
}

/// Returns how messages name all objects of a kind.
fn plural(kind: Kind<'_>) -> String {
    let name = kind.1;
    name.strip_suffix('y').map_or_else(|| format!("{name}s"), |start| format!("{start}ies"))
}

/// Returns an object as a value, without the record of who set which field.
pub(super) fn plain(mut object: DynamicObject) -> Option<Value> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).ok()
}
