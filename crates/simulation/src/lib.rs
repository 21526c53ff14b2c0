//! An API server in memory: it shows the objects of manifests, or a cluster as it would be with them. Previews and tests
//! give controllers its client.
//!
//! It takes writes, records them, and never passes one on. It knows neither controllers nor the rules of SidecarSets. It
//! runs no admission: it passes a dry run on to the cluster, if there is one. A watch shows its initial list and then
//! nothing more: the store of the controllers sees the writes of its own process without it.
//!
//! A simulation that [serves](Simulation::serving) is a cluster of its own instead, of any size: its watches show changes,
//! and it records no writes.
//!
//! Start with [`Simulation`]; `objects` has the kinds that it shows.

mod answer;
mod apply;
mod cluster;
mod log;
mod objects;
mod place;
mod read;
mod request;
mod strategic;
mod token;
mod world;
mod write;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;
use tower::service_fn;

pub use answer::AnswerBody;
pub use objects::{Situation, is_shown};

use answer::{Refusal, answer, passed_on};
use cluster::{ask, get, path};
use objects::Object;
use place::Place;
use read::List;
use request::{Asked, Query};
use world::World;
use write::{WriteTarget, body};

/// The number of objects that are looked up in the cluster at the same time.
const AT_ONCE: usize = 8;
/// The metadata that an existing object in the cluster has and its manifest lacks.
const OF_THE_CLUSTER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "managedFields",
];

/// A write that a simulation has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The kind of request.
    pub verb: Verb,
    /// The object. For a TokenRequest, the ServiceAccount.
    pub object: ObjectRef,
    /// The part of the object: `status`, `eviction`, `token`.
    pub subresource: Option<String>,
    /// The whole object before; `None` if it is new.
    pub before: Option<Arc<Value>>,
    /// The whole object after; `None` if it is gone.
    pub after: Option<Arc<Value>>,
}

/// The kind of request of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// Server-side apply.
    Apply,
    /// A merge patch or a JSON Patch.
    Patch,
    /// DELETE.
    Delete,
    /// The eviction of a Pod.
    Evict,
    /// A request for a token.
    TokenRequest,
}

/// Why there is no simulation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster could not be read: {0}")]
pub struct SimulationError(String);

/// A simulation of the cluster. Clones share its state.
#[derive(Clone)]
pub struct Simulation {
    world: Arc<World>,
    namespace: String,
}

impl Simulation {
    /// Returns the simulation of a cluster with these manifests; without a cluster, they are all there is.
    ///
    /// # Errors
    /// The cluster cannot be asked about the objects of the manifests.
    pub async fn new(
        situation: &Situation,
        cluster: Option<Client>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, SimulationError> {
        let objects = situation.objects();
        let objects = match &cluster {
            None => objects,
            Some(cluster) => {
                let on = |object: Object| on(object, cluster);
                let all: Vec<Option<Object>> = stream::iter(objects).map(on).buffered(AT_ONCE).try_collect().await?;
                all.into_iter().flatten().collect()
            }
        };
        Ok(Self { world: Arc::new(World::new(objects, cluster, None, clock)), namespace: situation.namespace.clone() })
    }

    /// Returns an empty cluster whose watches show changes.
    pub fn serving(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let world = World::new(Vec::new(), None, Some(Arc::default()), clock);
        Self { world: Arc::new(world), namespace: "default".to_owned() }
    }

    /// Adds an object that has always been there, completed as an API server would. Kinds that no controller reads are
    /// left out.
    pub fn put(&self, manifest: Value) {
        let situation = Situation { namespace: self.namespace.clone(), ..Situation::default() };
        if let Some(object) = situation.object(manifest, false) {
            self.world.put(object);
        }
    }

    /// Answers a request, as the API server does.
    pub async fn answer(&self, request: Request<Body>) -> Response<AnswerBody> {
        self.world.answer(request).await.unwrap_or_else(|refusal| refusal.answer())
    }

    /// Returns a client of the simulated API server.
    pub fn client(&self) -> Client {
        let simulation = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let simulation = simulation.clone();
            async move { Ok::<_, Infallible>(simulation.answer(request).await) }
        });
        Client::new(service, self.namespace.clone())
    }

    /// Returns the writes since the last call, oldest first.
    pub fn take_writes(&self) -> Vec<Write> {
        self.world.take_writes()
    }
}

/// Completes an object with the data that the cluster has about it. Returns `None` if the object is only assumed and
/// the cluster has one.
async fn on(mut object: Object, cluster: &Client) -> Result<Option<Object>, SimulationError> {
    let api_version = json::text(&object.value, &["apiVersion"]).to_owned();
    let there = match ask(cluster, get(&path(&api_version, &object.key))).await {
        Ok((StatusCode::OK, there)) => there,
        Ok((StatusCode::NOT_FOUND, _)) => return Ok(Some(object)),
        Ok((_, status)) => return Err(SimulationError(json::text(&status, &["message"]).to_owned())),
        Err(error) => return Err(SimulationError(error.to_string())),
    };
    if object.is_implied {
        return Ok(None);
    }
    if let Some(fields) = object.value.as_object_mut() {
        if let Some(status) = there.get("status") {
            fields.insert("status".to_owned(), status.clone());
        }
        if let (Some(metadata), Some(known)) =
            (json::object_mut(fields, "metadata"), json::object(&there, &["metadata"]))
        {
            for key in OF_THE_CLUSTER {
                if let Some(value) = known.get(key) {
                    metadata.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    Ok(Some(object))
}

impl World {
    async fn answer(self: &Arc<Self>, request: Request<Body>) -> Result<Response<AnswerBody>, Refusal> {
        let (method, query) = (request.method().clone(), Query::from_request(&request));
        if method == Method::GET {
            return self.read(request, &query).await;
        }
        let request = arrived(request).await?;
        let _turn = match &self.log {
            Some(log) => Some(log.turn().await),
            None => None,
        };
        let asked = Asked::parse(request.uri().path()).ok_or_else(Refusal::not_allowed)?;
        if query.text("dryRun") == "All" {
            // Only admission in the cluster knows the answer, and a dry run stores nothing there.
            let cluster = self.cluster.as_ref().ok_or_else(Refusal::without_admission)?;
            return cluster.send(request).await.map(passed_on).map_err(|error| Refusal::unreachable(&error));
        }
        match (&method, &asked) {
            (&Method::POST, Asked::List { api_version, resource, namespace }) => {
                self.create(api_version, resource, namespace.clone(), body(request).await?).await
            }
            (&Method::POST, Asked::Part { api_version, key, part }) => {
                let target = WriteTarget { api_version, key, part: Some(part) };
                match part.as_str() {
                    "eviction" => self.evict(&target, &body(request).await?).await,
                    "token" => self.token(&target, body(request).await?).await,
                    _ => Err(Refusal::not_allowed()),
                }
            }
            (_, Asked::One { api_version, key }) => {
                self.write_one(&WriteTarget { api_version, key, part: None }, request).await
            }
            (_, Asked::Part { api_version, key, part }) if method != Method::DELETE => {
                self.write_one(&WriteTarget { api_version, key, part: Some(part) }, request).await
            }
            _ => Err(Refusal::not_allowed()),
        }
    }

    async fn write_one(
        &self,
        target: &WriteTarget<'_>,
        request: Request<Body>,
    ) -> Result<Response<AnswerBody>, Refusal> {
        match request.method().as_str() {
            "PUT" => self.update(target, body(request).await?).await,
            "PATCH" => self.patch(target, request).await,
            "DELETE" => self.delete(target, &body(request).await?).await,
            _ => Err(Refusal::not_allowed()),
        }
    }

    async fn read(self: &Arc<Self>, request: Request<Body>, query: &Query) -> Result<Response<AnswerBody>, Refusal> {
        if query.is("watch") {
            return self.watch(request.uri().path(), query).await;
        }
        let Some(asked) = Asked::parse(request.uri().path()) else { return self.pass_on(request).await };
        match asked {
            Asked::Resources { api_version } => Ok(self.resources(request, &api_version).await),
            Asked::One { api_version, key } => match self.current(&api_version, &key).await? {
                Some(object) => Ok(answer(StatusCode::OK, &object)),
                None => Err(Refusal::not_found(&format!("{} \"{}\"", key.resource, key.name))),
            },
            Asked::List { api_version, resource, namespace } => {
                self.list(request, List::new(Place::new(&api_version, resource, namespace), query)).await
            }
            Asked::Part { .. } => self.pass_on(request).await,
        }
    }

    async fn watch(self: &Arc<Self>, path: &str, query: &Query) -> Result<Response<AnswerBody>, Refusal> {
        let Some(log) = &self.log else { return pending().await };
        let Some(Asked::List { api_version, resource, namespace }) = Asked::parse(path) else {
            return Err(Refusal::not_allowed());
        };
        let asked = log::Asked {
            place: Place::new(&api_version, resource, namespace),
            api_version,
            selection: query.selection(),
            after: query.number("resourceVersion").unwrap_or_else(|| self.version()),
            time: query.number("timeoutSeconds").map(Duration::from_secs),
            bookmarks: query.is("allowWatchBookmarks"),
        };
        let world = Arc::clone(self);
        Ok(log.watch(asked, move || world.version()))
    }

    async fn pass_on(&self, request: Request<Body>) -> Result<Response<AnswerBody>, Refusal> {
        let Some(cluster) = &self.cluster else { return Err(Refusal::not_found("the path")) };
        cluster.send(request).await.map(passed_on).map_err(|error| Refusal::unreachable(&error))
    }
}

/// Waits until the whole body of a request is there.
async fn arrived(request: Request<Body>) -> Result<Request<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| Refusal::unreachable(&error))?.to_bytes();
    Ok(Request::from_parts(parts, Body::from(body)))
}
