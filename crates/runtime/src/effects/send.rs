//! The requests of steps.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use pillion_json::{Budget, ParseError, Part, Partial};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use pillion_plan::Step;
use serde_json::{Value, json};

use crate::problem::{WriteError, WriteProblem, classify, classify_status};
use crate::store::resource;

/// The field manager of every field that the controllers write.
pub const FIELD_MANAGER: &str = "pillion-controller";
/// The time limit of one request.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// The object that a step writes.
pub(super) struct StepTarget {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// The answer to a step.
pub(super) enum Answer {
    /// The object after the write.
    Object(Value),
    /// The object is gone. Holds its UID.
    Gone(String),
    /// The Pod will go, in its own time.
    Evicted,
    /// The TokenRequest with its status.
    Token(Value),
}

impl StepTarget {
    /// Returns the object that a step writes.
    pub(super) fn from_step(step: &Step) -> Self {
        match step {
            Step::Create(object) | Step::Apply(object) => Self::from_object(object),
            Step::Patch { object, .. }
            | Step::JsonPatch { object, .. }
            | Step::Evict { object, .. }
            | Step::RequestToken { account: object, .. }
            | Step::Delete { object, .. } => Self::from_reference(object),
        }
    }

    fn from_object(object: &Value) -> Self {
        let text = |path: &[&str]| json::text(object, path).to_owned();
        let namespace = text(&["metadata", "namespace"]);
        Self {
            api_version: text(&["apiVersion"]),
            kind: text(&["kind"]),
            namespace: (!namespace.is_empty()).then_some(namespace),
            name: text(&["metadata", "name"]),
        }
    }

    fn from_reference(object: &ObjectRef) -> Self {
        let ObjectRef { api_version, kind, namespace, name } = object;
        Self {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
        }
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        let resource = resource(&self.api_version, &self.kind);
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }
}

/// Sends a step. Deleting or evicting an object that is gone is no error.
pub(super) async fn send(client: &Client, step: &Step) -> Result<Answer, WriteError> {
    let target = StepTarget::from_step(step);
    let problem = match tokio::time::timeout(PATIENCE, request(client, step, &target)).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(problem)) => problem,
        Err(_) => WriteProblem::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    let (verb, kind) = match step {
        Step::Create(_) => ("create", target.kind),
        Step::Apply(_) => ("apply", target.kind),
        Step::Patch { .. } | Step::JsonPatch { .. } => ("patch", target.kind),
        Step::Delete { .. } => ("delete", target.kind),
        Step::Evict { .. } => ("evict", target.kind),
        Step::RequestToken { .. } => ("create", "TokenRequest".to_owned()),
    };
    Err(WriteError { verb, kind: kind.into(), namespace: target.namespace, name: target.name, problem })
}

async fn request(client: &Client, step: &Step, target: &StepTarget) -> Result<Answer, WriteProblem> {
    let (api, name) = (target.api(client), &target.name);
    let at = kube::core::Request::new(api.resource_url());
    let patching = || PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let failed = |error: kube::Error| classify(&error);
    let request = match step {
        Step::Create(body) => {
            let post = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            at.create(&post, body_of(body))
        }
        Step::Apply(body) => at.patch(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(body)),
        Step::Patch { uid, resource_version, patch, .. } => {
            let mut precondition = json!({"metadata": {"uid": uid}});
            if let Some(version) = resource_version {
                precondition = json!({"metadata": {"uid": uid, "resourceVersion": version}});
            }
            let mut body = patch.clone();
            merge(&mut body, precondition);
            at.patch(name, &patching(), &Patch::Merge(body))
        }
        Step::JsonPatch { subresource, operations, .. } => {
            let operations =
                serde_json::from_value(Value::Array(operations.clone())).map_err(|error| unusable(&error))?;
            let patch = Patch::<Value>::Json(operations);
            match subresource {
                Some(part) => at.patch_subresource(part.as_str(), name, &patching(), &patch),
                None => at.patch(name, &patching(), &patch),
            }
        }
        Step::Delete { uid, resource_version, .. } => {
            let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: resource_version.clone() };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            return match api.delete(name, &params).await.map_err(failed) {
                // A finalizer, or the kubelet, keeps the object for a while.
                Ok(either) => Ok(either.left().map_or_else(
                    || Ok(Answer::Gone(uid.clone())),
                    |mut object| {
                        object.metadata.managed_fields = None;
                        serde_json::to_value(object).map(Answer::Object).map_err(|error| unusable(&error))
                    },
                )?),
                Err(WriteProblem::NotFound) => Ok(Answer::Gone(uid.clone())),
                Err(problem) => Err(problem),
            };
        }
        Step::Evict { uid, .. } => {
            // kube's own request for an eviction has no preconditions that the API server knows.
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": target.namespace},
                "deleteOptions": {"preconditions": {"uid": uid}}
            });
            at.create_subresource("eviction", name, &PostParams::default(), eviction.to_string().into_bytes())
        }
        Step::RequestToken { request, .. } => {
            let body = serde_json::to_vec(request).map_err(|error| unusable(&error))?;
            at.create_subresource("token", name, &PostParams::default(), body)
        }
    };
    let request = request.map_err(|error| WriteProblem::Invalid(error.to_string()))?;
    let answer = match client.request_text(request).await {
        Ok(text) => Ok(read(&text)?),
        Err(error) => Err(error),
    };
    match step {
        Step::RequestToken { .. } => answer.map(Answer::Token).map_err(failed),
        Step::Evict { .. } => match answer.map_err(failed) {
            Ok(answer) => refusal(answer).map_or(Ok(Answer::Evicted), Err),
            Err(WriteProblem::NotFound) => Ok(Answer::Evicted),
            Err(problem) => Err(problem),
        },
        Step::JsonPatch { .. } => answer.map(Answer::Object).map_err(|error| of_json_patch(&error)),
        _ => answer.map(Answer::Object).map_err(failed),
    }
}

/// Reads an answer as JSON: an object of kube would be read into types and written back. `managedFields`, which are
/// half of the values of a Pod, are left out.
fn read(text: &str) -> Result<Value, WriteProblem> {
    const PART: Part = Part::Except(&["metadata", "managedFields"]);
    // The API server limits the length of its answers.
    let budget = Budget::for_length(usize::MAX);
    let failed = |error: ParseError| WriteProblem::Failed(error.to_string());
    let mut answer = Partial::read(text.as_bytes(), PART, &budget).map_err(failed)?;
    if let Some(metadata) = answer.get_mut("metadata") {
        metadata.take("managedFields");
    }
    answer.complete(&budget).map_err(failed)
}

/// Returns the refusal in the body of an answer: the API server sends that of an eviction with several budgets with the
/// HTTP status of a success.
fn refusal(answer: Value) -> Option<WriteProblem> {
    let is_refusal = json::text(&answer, &["kind"]) == "Status" && json::text(&answer, &["status"]) == "Failure";
    let status: kube::core::Status = serde_json::from_value(is_refusal.then_some(answer)?).ok()?;
    Some(classify_status(&status))
}

/// Asks the API server what it would store for a new object. It runs admission and stores nothing.
pub(super) async fn dry_run(client: &Client, object: &Value) -> Result<Value, WriteError> {
    let target = StepTarget::from_object(object);
    let api = target.api(client);
    let params = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let request = kube::core::Request::new(api.resource_url()).create(&params, body_of(object));
    let problem = match request {
        Err(error) => WriteProblem::Invalid(error.to_string()),
        Ok(request) => match tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => classify(&error),
            Err(_) => WriteProblem::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
        },
    };
    let name = format!("{}{}", target.name, json::text(object, &["metadata", "generateName"]));
    Err(WriteError { verb: "create", kind: target.kind.into(), namespace: target.namespace, name, problem })
}

/// Classifies the refusal of a JSON Patch. The API server answers 422 without causes if a `test` fails: the object has
/// changed since it was observed.
fn of_json_patch(error: &kube::Error) -> WriteProblem {
    match error {
        kube::Error::Api(status)
            if status.code == 422 && status.details.as_ref().is_none_or(|details| details.causes.is_empty()) =>
        {
            WriteProblem::Conflict
        }
        error => classify(error),
    }
}

/// Returns the body of the request that creates an object, as a client in Go writes it: the API server stores the data of
/// a ControllerRevision byte by byte (REV-2), and OpenKruise compares these bytes.
fn body_of(object: &Value) -> Vec<u8> {
    pillion_json::go::to_string_sorted(object).into_bytes()
}

fn unusable(error: &serde_json::Error) -> WriteProblem {
    WriteProblem::Failed(error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_no_managed_fields() {
        let answer = |fields: &str| format!(r#"{{"kind":"Pod","metadata":{{"name":"a"{fields}}},"x":1.50}}"#);
        let expected = serde_json::from_str::<Value>(&answer("")).expect("JSON");
        assert_eq!(read(&answer(r#","managedFields":[{"f:a":{}}]"#)), Ok(expected));
        assert_eq!(read("[1]"), Ok(json!([1])));
        assert!(matches!(read("no JSON"), Err(WriteProblem::Failed(_))));
    }

    #[test]
    fn a_body_has_the_escapes_and_the_order_of_go() {
        let revision = json!({"kind": "ControllerRevision", "data": {"spec": {"b": "<a> & b", "a": null}}});
        let expected = r#"{"data":{"spec":{"a":null,"b":"\u003ca\u003e \u0026 b"}},"kind":"ControllerRevision"}"#;
        assert_eq!(String::from_utf8(body_of(&revision)).as_deref(), Ok(expected));
    }
}
