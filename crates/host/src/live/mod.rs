//! A real cluster, through its API server.

mod fields;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{self as authorization, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectList, PostParams, TypeMeta};
use kube::{Api, Client, Config, ResourceExt as _};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use self::fields::Mask;
use crate::cluster::{AccessRequest, AccessReview, Cluster, ClusterError, ListRequest, ResourceRequest};

/// How long it may take to reach the API server.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the API server may be silent.
const READ: Duration = Duration::from_secs(10);

/// Why there is no way to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Neither a kubeconfig nor the environment of a Pod says where the cluster is.
    #[error("no cluster to ask: {0}")]
    Config(kube::config::InferConfigError),
    /// What they say cannot be used.
    #[error("the cluster cannot be asked: {0}")]
    Client(kube::Error),
    /// The system gives no event loop.
    #[error("the cluster cannot be asked: {0}")]
    Runtime(std::io::Error),
}

/// What the API server serves for a kind.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// A real cluster. Blocks until the API server has answered; at most some seconds.
///
/// It has an event loop of its own, so it must not be asked from within an asynchronous task; a server asks from its
/// threads for blocking work.
pub struct Live {
    /// There as long as this is.
    runtime: Option<Runtime>,
    client: Client,
    /// By apiVersion and kind.
    served: Mutex<BTreeMap<(String, String), Served>>,
}

impl Live {
    /// The cluster of the current context of the kubeconfig (`KUBECONFIG`, `~/.kube/config`), or the one that this
    /// runs in.
    ///
    /// # Errors
    /// [`LiveError`] where there is none, or it cannot be used. Nothing is asked yet.
    pub fn infer() -> Result<Self, LiveError> {
        let runtime = event_loop()?;
        let config = runtime.block_on(Config::infer()).map_err(LiveError::Config)?;
        Self::with(runtime, config)
    }

    /// The cluster of this configuration.
    ///
    /// # Errors
    /// [`LiveError`] where it cannot be used. Nothing is asked yet.
    pub fn new(config: Config) -> Result<Self, LiveError> {
        Self::with(event_loop()?, config)
    }

    fn with(runtime: Runtime, mut config: Config) -> Result<Self, LiveError> {
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(READ);
        // The client would ask an API server that answers 429, 503 or 504 again for minutes, in a thread that nobody
        // waits for any more.
        config.default_retry = false;
        // The client puts a task onto the event loop.
        let entered = runtime.enter();
        let client = Client::try_from(config).map_err(LiveError::Client)?;
        drop(entered);
        Ok(Self { runtime: Some(runtime), client, served: Mutex::default() })
    }

    /// A client for this configuration that lets an answer take as long as a watch does; its requests run on the
    /// current runtime.
    ///
    /// # Errors
    /// [`LiveError`] where the configuration cannot be used. Nothing is asked yet.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watching_client(mut config: Config) -> Result<Client, LiveError> {
        config.connect_timeout = Some(CONNECT);
        // Whoever watches knows how long it may be silent.
        config.read_timeout = None;
        Client::try_from(config).map_err(LiveError::Client)
    }

    fn wait<T>(&self, question: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let gone = || ClusterError::Failed("the event loop is gone".to_owned());
        self.runtime.as_ref().ok_or_else(gone)?.block_on(question)
    }

    /// What the API server serves for a kind; asked once.
    async fn served(&self, api_version: &str, kind: &str) -> Result<Served, ClusterError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.served.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let served = discover(&self.client, api_version, kind).await?;
        self.served.lock().unwrap_or_else(PoisonError::into_inner).insert(key, served.clone());
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
            // What the policy server drops to keep its copy of the cluster small; it leaves them empty.
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
    /// Ends without waiting: a server may drop this from within an asynchronous task, where waiting panics.
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

/// What the API server serves for a kind.
pub(crate) async fn discover(client: &Client, api_version: &str, kind: &str) -> Result<Served, ClusterError> {
    let list = if api_version == "v1" {
        client.list_core_api_resources(api_version).await.map_err(|error| failed(&error))?
    } else {
        client
            .list_api_group_resources(api_version)
            .await
            .map_err(|error| ClusterError::Failed(format!("error finding resource {api_version} / {kind}: {error}")))?
    };
    // Subresources have the kind of what they are a part of, or another.
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

/// Leaves what the masks name. `apiVersion`, `kind` and `metadata` always stay whole.
fn mask(object: &mut DynamicObject, masks: Option<&BTreeSet<String>>) {
    if let Some(masks) = masks {
        Mask::new(masks).prune(&mut object.data);
    }
}

/// The JSON of an object, with only what the masks name.
pub(crate) fn masked(object: &[u8], masks: &BTreeSet<String>) -> Result<Vec<u8>, ClusterError> {
    let failed = |error: serde_json::Error| ClusterError::Failed(error.to_string());
    let mut object: DynamicObject = serde_json::from_slice(object).map_err(failed)?;
    mask(&mut object, Some(masks));
    json(&object)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(value).map_err(|error| ClusterError::Failed(error.to_string()))
}

/// The text that the policy gets to see of an error.
fn failed(error: &kube::Error) -> ClusterError {
    ClusterError::Failed(with_causes(error))
}

/// An error and what led to it, as the policy server prints it: the causes numbered where there are several.
pub(crate) fn with_causes(error: &dyn StdError) -> String {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    let mut text = error.to_string();
    match causes.as_slice() {
        [] => {}
        [cause] => {
            let _ = write!(text, "\n\nCaused by:\n    {cause}");
        }
        causes => {
            text.push_str("\n\nCaused by:");
            for (number, cause) in causes.iter().enumerate() {
                let _ = write!(text, "\n{number:>5}: {cause}");
            }
        }
    }
    text
}
