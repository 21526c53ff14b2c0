//! Carries out the steps of a plan.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::Step;
use serde_json::{Value, json};

/// The field manager of every field that the controller applies.
pub const FIELD_MANAGER: &str = "pillion-controller";
/// The time limit of one request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Why a step was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} {kind} \"{}{name}\": {problem}", .namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default())]
pub struct WriteError {
    /// `create`, `apply`, `patch`, `delete`.
    pub verb: &'static str,
    /// The kind of the object.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The problem.
    pub problem: WriteProblem,
}

/// The problem with a write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteProblem {
    /// An object of this name exists already. The next plan sees it.
    #[error("it is there already")]
    AlreadyExists,
    /// The object has changed since it was observed. The next plan sees its current state.
    #[error("it was changed since it was read")]
    Conflict,
    /// The object or its namespace is gone.
    #[error("it is not there")]
    NotFound,
    /// The namespace is being deleted and accepts no new objects.
    #[error("its namespace is being deleted")]
    NamespaceTerminating,
    /// The controller tried to grant a permission that it does not hold itself; the API server refuses that (ESC-6).
    #[error("{0}")]
    Escalation(String),
    /// The controller lacks the permission for this write.
    #[error("{0}")]
    Forbidden(String),
    /// The object is invalid; a retry does not help.
    #[error("{0}")]
    Invalid(String),
    /// Anything else: no connection, no answer in time, an error of the API server.
    #[error("{0}")]
    Failed(String),
}

impl WriteProblem {
    /// Classifies an error of the client. Texts come from the API server and contain no values of Secrets.
    pub fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Failed(error.to_string()) };
        let cause = |reason: &str| {
            status.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
        };
        match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Self::AlreadyExists,
            (409, _) => Self::Conflict,
            (404, _) => Self::NotFound,
            (403, _) if cause("NamespaceTerminating") => Self::NamespaceTerminating,
            // The API server has no reason code for this.
            (403, _) if status.message.contains("attempting to grant RBAC permissions not currently held") => {
                Self::Escalation(status.message.clone())
            }
            (403, _) => Self::Forbidden(status.message.clone()),
            (400 | 422, _) => Self::Invalid(status.message.clone()),
            _ => Self::Failed(status.message.clone()),
        }
    }

    /// Whether another client was faster. The watch shows the current state and the next plan covers it, so no retry is
    /// needed.
    pub fn is_overtaken(&self) -> bool {
        matches!(self, Self::AlreadyExists | Self::Conflict | Self::NotFound | Self::NamespaceTerminating)
    }
}

/// Carries out one step. Returns the object after the write; `None` after a deletion.
///
/// # Errors
/// [`WriteError`]. Deleting an object that is gone is no error.
pub async fn carry_out(client: &Client, step: &Step) -> Result<Option<Value>, WriteError> {
    let verb = match step {
        Step::Create(_) => "create",
        Step::Apply(_) => "apply",
        Step::Patch { .. } => "patch",
        Step::Delete { .. } => "delete",
    };
    let object = target(step);
    let problem = match tokio::time::timeout(PATIENCE, send(client, step, &object)).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(problem)) => problem,
        Err(_) => WriteProblem::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    let Named { kind, namespace, name, .. } = object;
    Err(WriteError { verb, kind, namespace, name, problem })
}

/// The object that a step writes.
pub(crate) struct Named {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// The object that a step writes.
pub(crate) fn target(step: &Step) -> Named {
    match step {
        Step::Create(object) | Step::Apply(object) => reference(object),
        Step::Patch { object, .. } | Step::Delete { object, .. } => named(object),
    }
}

fn reference(object: &Value) -> Named {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    let namespace = text(&["metadata", "namespace"]);
    Named {
        api_version: text(&["apiVersion"]),
        kind: text(&["kind"]),
        namespace: (!namespace.is_empty()).then_some(namespace),
        name: text(&["metadata", "name"]),
    }
}

fn named(object: &ObjectRef) -> Named {
    let ObjectRef { api_version, kind, namespace, name } = object;
    Named {
        api_version: (*api_version).to_owned(),
        kind: (*kind).to_owned(),
        namespace: namespace.clone(),
        name: name.clone(),
    }
}

async fn send(client: &Client, step: &Step, object: &Named) -> Result<Option<Value>, WriteProblem> {
    let failed = |error: kube::Error| WriteProblem::of(&error);
    let api = api(client, object);
    let answer = match step {
        Step::Create(body) => {
            let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            api.create(&params, &typed(body)?).await.map_err(failed)?
        }
        Step::Apply(body) => api
            .patch(&object.name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(body))
            .await
            .map_err(failed)?,
        Step::Patch { uid, resource_version, patch, .. } => {
            let mut body = patch.clone();
            let mut precondition = json!({"metadata": {"uid": uid}});
            if let (Some(version), Some(metadata)) = (resource_version, precondition.pointer_mut("/metadata")) {
                *metadata = json!({"uid": uid, "resourceVersion": version});
            }
            merge(&mut body, precondition);
            let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            api.patch(&object.name, &params, &Patch::Merge(body)).await.map_err(failed)?
        }
        Step::Delete { uid, resource_version, .. } => {
            let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: resource_version.clone() };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            return match api.delete(&object.name, &params).await.map_err(failed) {
                Ok(_) | Err(WriteProblem::NotFound) => Ok(None),
                Err(problem) => Err(problem),
            };
        }
    };
    serde_json::to_value(answer).map(Some).map_err(|error| WriteProblem::Failed(error.to_string()))
}

fn typed(body: &Value) -> Result<DynamicObject, WriteProblem> {
    serde_json::from_value(body.clone()).map_err(|error| WriteProblem::Invalid(error.to_string()))
}

/// Merges `more` into an object.
fn merge(body: &mut Value, more: Value) {
    match (body, more) {
        (Value::Object(body), Value::Object(more)) => {
            for (key, value) in more {
                merge(body.entry(key).or_insert(Value::Null), value);
            }
        }
        (body, more) => *body = more,
    }
}

/// Returns the API of an object. The plurals of all kinds that are written are regular: the kind in lower case with an
/// `s`.
fn api(client: &Client, object: &Named) -> Api<DynamicObject> {
    let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &object.kind));
    match &object.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
