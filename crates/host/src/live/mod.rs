//! A real cluster, read through its API server.

mod fields;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::future::Future;
use std::iter;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{self as authorization, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectList, PostParams, TypeMeta};
use kube::{Api, Client, Config, ResourceExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use self::fields::Mask;
use crate::cluster::{AccessRequest, AccessReview, Cluster, ClusterError, ListRequest, ResourceRequest};

/// Timeout for connecting to the API server.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the API server may send nothing.
const READ: Duration = Duration::from_secs(10);

/// Why the cluster cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Neither a kubeconfig nor the environment of a Pod names a cluster.
    #[error("no cluster to ask: {0}")]
    Config(kube::config::InferConfigError),
    /// The configuration is not usable.
    #[error("the cluster cannot be asked: {0}")]
    Client(kube::Error),
    /// The system cannot create an event loop.
    #[error("the cluster cannot be asked: {0}")]
    Runtime(std::io::Error),
}

/// The resource that the API server serves for a kind.
#[derive(Clone)]
pub struct Served {
    /// The resource, for requests.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// A real cluster. Calls block until the API server answers, at most for some seconds.
///
/// It owns an event loop, so do not call it from an asynchronous task; a server calls it from its threads for blocking
/// work.
pub struct Live {
    /// Always present until this is dropped.
    runtime: Option<Runtime>,
    client: Client,
    /// Cached discovery results, by apiVersion and kind.
    served: Mutex<BTreeMap<(String, String), Served>>,
}

impl Live {
    /// Connects to the cluster of the current context of the kubeconfig (`KUBECONFIG`, `~/.kube/config`), or to the
    /// cluster in which this process runs.
    ///
    /// # Errors
    /// [`LiveError`] if there is no usable configuration. This sends no request.
    pub fn infer() -> Result<Self, LiveError> {
        let runtime = event_loop()?;
        let config = runtime.block_on(Config::infer()).map_err(LiveError::Config)?;
        Self::with(runtime, config)
    }

    /// Connects to the cluster of this configuration.
    ///
    /// # Errors
    /// [`LiveError`] if the configuration is not usable. This sends no request.
    pub fn new(config: Config) -> Result<Self, LiveError> {
        Self::with(event_loop()?, config)
    }

    fn with(runtime: Runtime, mut config: Config) -> Result<Self, LiveError> {
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(READ);
        // By default, the client retries for minutes when an API server answers 429, 503 or 504. The caller has given
        // up long before.
        config.default_retry = false;
        // The client spawns a task, which needs the event loop.
        let entered = runtime.enter();
        let client = Client::try_from(config).map_err(LiveError::Client)?;
        drop(entered);
        Ok(Self { runtime: Some(runtime), client, served: Mutex::default() })
    }

    /// Returns a client for watches: it has no read timeout. Its requests run on the current runtime.
    ///
    /// # Errors
    /// [`LiveError`] if the configuration is not usable. This sends no request.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watching_client(mut config: Config) -> Result<Client, LiveError> {
        config.connect_timeout = Some(CONNECT);
        // The code that watches has its own limit on silence.
        config.read_timeout = None;
        Client::try_from(config).map_err(LiveError::Client)
    }

    fn wait<T>(&self, question: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let gone = || ClusterError::Failed("the event loop is gone".to_owned());
        self.runtime.as_ref().ok_or_else(gone)?.block_on(question)
    }

    /// Returns the resource that the API server serves for a kind, from memory after the first request.
    async fn served(&self, api_version: &str, kind: &str) -> Result<Served, ClusterError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.served.lock().get(&key) {
            return Ok(known.clone());
        }
        let served = discover(&self.client, api_version, kind).await?;
        self.served.lock().insert(key, served.clone());
        Ok(served)
    }

    async fn read(&self, request: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        let ResourceRequest { api_version, kind, name, namespace, field_masks, disable_cache: _ } = request;
        let Served { resource, namespaced } = self.served(api_version, kind).await?;
        let api = if namespaced {
            let namespace = namespace.as_deref().ok_or_else(|| {
                ClusterError::Failed(format!(
                    "Resource {api_version}/{kind} is namespaced, but no namespace was provided"
                ))
            })?;
            Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let found = api.get_opt(name).await.map_err(|error| failed(&error))?;
        let mut object = found.ok_or(ClusterError::NotFound)?;
        mask(&mut object, field_masks.as_ref());
        json(&object)
    }

    async fn read_list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        let ListRequest { api_version, kind, namespace, label_selector, field_selector, field_masks } = request;
        let Served { resource, namespaced } = self.served(api_version, kind).await?;
        let api = match namespace {
            Some(_) if !namespaced => {
                return Err(ClusterError::Failed(format!(
                    "resource {api_version}/{kind} is cluster wide. Cannot search for it inside of a namespace"
                )));
            }
            Some(namespace) => Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let params = ListParams {
            label_selector: label_selector.clone(),
            field_selector: field_selector.clone(),
            ..ListParams::default()
        };
        let mut items = api.list(&params).await.map_err(|error| failed(&error))?.items;
        for object in &mut items {
            // The policy server drops these fields to keep its copy of the cluster small, and leaves them empty.
            object.managed_fields_mut().clear();
            object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
            mask(object, field_masks.as_ref());
        }
        let types = TypeMeta { api_version: api_version.clone(), kind: format!("{kind}List") };
        json(&ObjectList { types, metadata: kube::api::ListMeta::default(), items })
    }

    async fn review(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        let review = SubjectAccessReview { spec: spec(&request.subject_access_review), ..Default::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await.map_err(|error| failed(&error))?;
        let status = answer
            .status
            .ok_or_else(|| ClusterError::Failed("SubjectAccessReview did not return a response".to_owned()))?;
        json(&status)
    }
}

impl Drop for Live {
    /// Stops the runtime without waiting: a server may drop this within an asynchronous task, where waiting panics.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Cluster for Live {
    fn get(&self, resource: &ResourceRequest) -> Result<Vec<u8>, ClusterError> {
        self.wait(self.read(resource))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, ClusterError> {
        self.wait(self.read_list(request))
    }

    fn can_i(&self, request: &AccessRequest) -> Result<Vec<u8>, ClusterError> {
        self.wait(self.review(request))
    }
}

/// Asks the API server for the resource that it serves for a kind.
///
/// # Errors
/// [`ClusterError::Failed`] with a text for the policy: no answer, or no such resource.
pub async fn discover(client: &Client, api_version: &str, kind: &str) -> Result<Served, ClusterError> {
    let list = if api_version == "v1" {
        client.list_core_api_resources(api_version).await.map_err(|error| failed(&error))?
    } else {
        client
            .list_api_group_resources(api_version)
            .await
            .map_err(|error| ClusterError::Failed(format!("error finding resource {api_version} / {kind}: {error}")))?
    };
    // Subresources are listed too, some with the same kind as the resource.
    let found = list.resources.into_iter().find(|resource| resource.kind == kind && !resource.name.contains('/'));
    let found = found.ok_or_else(|| ClusterError::Failed(format!("Cannot find resource {api_version}/{kind}")))?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Ok(Served {
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: found.name,
        },
        namespaced: found.namespaced,
    })
}

fn event_loop() -> Result<Runtime, LiveError> {
    Builder::new_current_thread().enable_all().build().map_err(LiveError::Runtime)
}

fn spec(review: &AccessReview) -> SubjectAccessReviewSpec {
    let AccessReview { groups, resource_attributes: attributes, user } = review.clone();
    SubjectAccessReviewSpec {
        user: Some(user),
        groups,
        resource_attributes: Some(authorization::ResourceAttributes {
            group: attributes.group,
            name: attributes.name,
            namespace: attributes.namespace,
            resource: Some(attributes.resource),
            subresource: attributes.subresource,
            verb: Some(attributes.verb),
            version: attributes.version,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Keeps only the fields of the masks. `apiVersion`, `kind` and `metadata` always stay complete.
fn mask(object: &mut DynamicObject, masks: Option<&BTreeSet<String>>) {
    if let Some(masks) = masks {
        Mask::new(masks).prune(&mut object.data);
    }
}

/// Returns the JSON of an object with only the fields of the masks ([`ResourceRequest::field_masks`]).
///
/// # Errors
/// [`ClusterError::Failed`] if `object` is not the JSON of an object.
pub fn masked(object: &[u8], masks: &BTreeSet<String>) -> Result<Vec<u8>, ClusterError> {
    let failed = |error: serde_json::Error| ClusterError::Failed(error.to_string());
    let mut object: DynamicObject = serde_json::from_slice(object).map_err(failed)?;
    mask(&mut object, Some(masks));
    json(&object)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(value).map_err(|error| ClusterError::Failed(error.to_string()))
}

/// Converts an error into the text that the policy sees.
fn failed(error: &kube::Error) -> ClusterError {
    ClusterError::Failed(with_causes(error))
}

/// Returns the text of an error and its causes in the policy server's format: several causes are numbered.
pub fn with_causes(error: &dyn StdError) -> String {
    let causes: Vec<String> =
        iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string).collect();
    match causes.as_slice() {
        [] => error.to_string(),
        [cause] => format!("{error}\n\nCaused by:\n    {cause}"),
        causes => {
            let lines: Vec<String> =
                causes.iter().enumerate().map(|(number, cause)| format!("\n{number:>5}: {cause}")).collect();
            format!("{error}\n\nCaused by:{}", lines.concat())
        }
    }
}
