//! Writes of a simulation. They change what it knows, and never the cluster.

use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::{Value, json};

use super::Verb;
use super::answer::{AnswerBody, Refusal, answer};
use super::apply::applied;
use super::objects::{Key, Kind, group, resource};
use super::request::Query;
use super::strategic;
use super::token;
use super::world::{World, Written};

/// The fields of the metadata that only the API server writes.
const OF_THE_SERVER: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// One object to write.
pub(super) struct WriteTarget<'a> {
    pub(super) api_version: &'a str,
    pub(super) key: &'a Key,
    pub(super) part: Option<&'a str>,
}

/// Reads the JSON body of a request.
pub(super) async fn body(request: Request<Body>) -> Result<Value, Refusal> {
    let bytes = request.into_body().collect().await.map_err(|error| Refusal::unreachable(&error))?.to_bytes();
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|error| Refusal::bad_request(error.to_string()))
}

/// Names an object in a refusal.
fn named(key: &Key) -> String {
    format!("{} \"{}\"", key.resource, key.name)
}

impl World {
    /// Creates an object of a resource.
    pub(super) async fn create(
        &self,
        api_version: &str,
        resource: &str,
        namespace: Option<String>,
        mut object: Value,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let kind = Kind::of_resource(group(api_version), resource).ok_or_else(Refusal::not_allowed)?;
        let text = |path: &[&str]| json::text(&object, path).to_owned();
        let name = match text(&["metadata", "name"]) {
            name if name.is_empty() => format!("{}{}", text(&["metadata", "generateName"]), self.next_version()),
            name => name,
        };
        let key = Key {
            group: group(api_version).to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.unwrap_or_default(),
            name,
        };
        if self.current(api_version, &key).await?.is_some() {
            return Err(Refusal::already_exists(&named(&key)));
        }
        if kind.is_namespaced {
            self.accepts(&key.namespace).await?;
        }
        let version = self.next_version();
        let fields = object.as_object_mut().ok_or_else(|| Refusal::bad_request("not an object".to_owned()))?;
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.name.into());
        let metadata = json::object_mut(fields, "metadata");
        let metadata = metadata.ok_or_else(|| Refusal::bad_request("metadata is not an object".to_owned()))?;
        metadata.insert("name".to_owned(), key.name.as_str().into());
        if kind.is_namespaced {
            metadata.insert("namespace".to_owned(), key.namespace.as_str().into());
        }
        // An object that is deleted and created again gets another UID.
        metadata.insert("uid".to_owned(), format!("{resource}/{}/{}/{version}", key.namespace, key.name).into());
        metadata.insert("resourceVersion".to_owned(), version.into());
        metadata.insert("creationTimestamp".to_owned(), (self.clock)().to_string().into());
        let after = Some(object.clone());
        self.record(Written { verb: Verb::Create, api_version, key: &key, part: None, before: None, after });
        Ok(answer(StatusCode::CREATED, &object))
    }

    /// Checks that a namespace accepts new objects. Without a cluster, one that is in no manifest counts as active.
    async fn accepts(&self, namespace: &str) -> Result<(), Refusal> {
        let key = Key {
            group: String::new(),
            resource: resource("Namespace"),
            namespace: String::new(),
            name: namespace.to_owned(),
        };
        match self.current("v1", &key).await? {
            None if self.cluster.is_some() => Err(Refusal::not_found(&named(&key))),
            Some(there) if json::is_terminating(&there) => Err(Refusal::terminating(namespace)),
            _ => Ok(()),
        }
    }

    /// Replaces an object.
    pub(super) async fn update(
        &self,
        target: &WriteTarget<'_>,
        wanted: Value,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let before = self.there(target).await?;
        check(&before, &wanted, target.key)?;
        self.write(Verb::Update, target, before, wanted)
    }

    /// Patches an object by the content type: merge patch, strategic merge patch, JSON Patch or server-side apply.
    pub(super) async fn patch(
        &self,
        target: &WriteTarget<'_>,
        request: Request<Body>,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let type_ = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let type_ = type_.unwrap_or_default().to_owned();
        let manager = Query::from_request(&request).text("fieldManager");
        let patch = body(request).await?;
        match type_.as_str() {
            "application/merge-patch+json" => {
                let before = self.there(target).await?;
                check(&before, &patch, target.key)?;
                let mut after = before.clone();
                json_patch::merge(&mut after, &patch);
                self.write(Verb::Patch, target, before, after)
            }
            "application/strategic-merge-patch+json" => {
                let before = self.there(target).await?;
                check(&before, &patch, target.key)?;
                let mut after = before.clone();
                strategic::merge(&mut after, &patch);
                self.write(Verb::Patch, target, before, after)
            }
            "application/json-patch+json" => {
                let before = self.there(target).await?;
                let patch: json_patch::Patch =
                    serde_json::from_value(patch).map_err(|error| Refusal::bad_request(error.to_string()))?;
                let mut after = before.clone();
                json_patch::patch(&mut after, &patch).map_err(|error| Refusal::invalid(error.to_string()))?;
                self.write(Verb::Patch, target, before, after)
            }
            "application/apply-patch+yaml" => {
                let Some(before) = self.current(target.api_version, target.key).await? else {
                    let (resource, namespace) = (&target.key.resource, target.key.namespace.clone());
                    let namespace = (!namespace.is_empty()).then_some(namespace);
                    return self.create(target.api_version, resource, namespace, patch).await;
                };
                check(&before, &patch, target.key)?;
                let after = applied(&before, &patch, &manager);
                self.write(Verb::Apply, target, before, after)
            }
            _ => Err(Refusal::not_allowed()),
        }
    }

    /// Deletes an object, or marks it as being deleted if it has finalizers.
    pub(super) async fn delete(
        &self,
        target: &WriteTarget<'_>,
        options: &Value,
    ) -> Result<Response<AnswerBody>, Refusal> {
        self.go(Verb::Delete, target, options).await
    }

    /// Evicts a Pod.
    pub(super) async fn evict(
        &self,
        target: &WriteTarget<'_>,
        eviction: &Value,
    ) -> Result<Response<AnswerBody>, Refusal> {
        self.go(Verb::Evict, target, &eviction["deleteOptions"]).await
    }

    async fn go(&self, verb: Verb, target: &WriteTarget<'_>, options: &Value) -> Result<Response<AnswerBody>, Refusal> {
        let WriteTarget { api_version, key, part } = *target;
        let before = self.there(target).await?;
        check(&before, &json!({"metadata": options.get("preconditions")}), key)?;
        let is_kept = !json::items(&before, &["metadata", "finalizers"]).is_empty();
        if !is_kept {
            let before = Some(before);
            self.record(Written { verb, api_version, key, part, before, after: None });
            return Ok(answer(StatusCode::OK, &json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})));
        }
        let mut after = before.clone();
        if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("deletionTimestamp").or_insert_with(|| (self.clock)().to_string().into());
        }
        self.write(verb, target, before, after)
    }

    /// Answers a TokenRequest with a token that no API server accepts.
    pub(super) async fn token(
        &self,
        target: &WriteTarget<'_>,
        mut request: Value,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let WriteTarget { api_version, key, part } = *target;
        let account = self.there(target).await?;
        check(&account, &json!({"metadata": {"uid": request.pointer("/metadata/uid")}}), key)?;
        let Timestamp(now) = (self.clock)();
        token::answer(&mut request, &account, now);
        self.record(Written { verb: Verb::TokenRequest, api_version, key, part, before: None, after: None });
        Ok(answer(StatusCode::CREATED, &request))
    }

    async fn there(&self, target: &WriteTarget<'_>) -> Result<Value, Refusal> {
        let there = self.current(target.api_version, target.key).await?;
        there.ok_or_else(|| Refusal::not_found(&named(target.key)))
    }

    /// Records the new version of an object. A subresource writes its own part alone; the main resource leaves the
    /// status as it is. A write that changes nothing leaves the resource version.
    fn write(
        &self,
        verb: Verb,
        target: &WriteTarget<'_>,
        before: Value,
        mut after: Value,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let WriteTarget { api_version, key, part } = *target;
        if part == Some("resize") {
            after = resized(&before, &after);
        } else if part == Some("status") {
            let status = after.get("status").cloned();
            after = with(before.clone(), "status", status);
        } else if before.get("status").is_some() {
            after = with(after, "status", before.get("status").cloned());
        }
        let fields = after.get_mut("metadata").and_then(Value::as_object_mut);
        let metadata = fields.ok_or_else(|| Refusal::invalid("metadata is not an object".to_owned()))?;
        for field in OF_THE_SERVER.iter().chain(&["uid", "name", "namespace"]) {
            match before.get("metadata").and_then(|metadata| metadata.get(*field)) {
                Some(value) => drop(metadata.insert((*field).to_owned(), value.clone())),
                None => drop(metadata.remove(*field)),
            }
        }
        if after != before {
            let version = self.next_version();
            let has_new_spec = before.get("spec") != after.get("spec");
            if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("resourceVersion".to_owned(), version.into());
                if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|_| has_new_spec) {
                    metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
                }
            }
        }
        let is_released = json::is_terminating(&after) && json::items(&after, &["metadata", "finalizers"]).is_empty();
        let stays = (!is_released).then(|| after.clone());
        self.record(Written { verb, api_version, key, part, before: Some(before), after: stays });
        Ok(answer(StatusCode::OK, &after))
    }
}

/// Returns a Pod with the resources of the containers of another version, and nothing else of it.
fn resized(before: &Value, wanted: &Value) -> Value {
    let mut after = before.clone();
    for list in ["containers", "initContainers"] {
        let wanted = json::items(wanted, &["spec", list]);
        let containers = after.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for (container, wanted) in containers.into_iter().flatten().zip(wanted) {
            *container = with(container.take(), "resources", wanted.get("resources").cloned());
        }
    }
    after
}

/// Checks the preconditions in the metadata of a body: UID and resource version.
fn check(there: &Value, body: &Value, key: &Key) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        let wanted = json::text(body, &["metadata", field]);
        if !wanted.is_empty() && wanted != json::text(there, &["metadata", field]) {
            return Err(Refusal::conflict(&named(key)));
        }
    }
    Ok(())
}

/// Returns an object with this value of a field, or without the field.
fn with(mut object: Value, field: &str, value: Option<Value>) -> Value {
    if let Some(object) = object.as_object_mut() {
        match value {
            Some(value) => drop(object.insert(field.to_owned(), value)),
            None => drop(object.remove(field)),
        }
    }
    object
}
