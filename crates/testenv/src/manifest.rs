//! Applies manifests like `kubectl apply --server-side`.

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::Error;
use crate::until;

/// How long the API server may take to serve a kind after its definition was applied.
const SERVED: Duration = Duration::from_secs(20);

/// Applies every document of a YAML text in order, with server-side apply and this field manager. Objects without a
/// namespace go into `default`. Returns the stored objects.
///
/// # Errors
///
/// If a document is not an object, its kind is not served, or the API server refuses it, for example because of a
/// conflict with another field manager.
pub async fn apply(client: &Client, yaml: &str, manager: &str) -> Result<Vec<DynamicObject>, Error> {
    let unreadable = |problem: pillion_yaml::Problem| Error::Manifest { number: 1, reason: problem.to_string() };
    let documents = pillion_yaml::documents(yaml).into_iter().map(|read| read.map(|document| document.value));
    let documents: Vec<Value> = documents.collect::<Result<_, _>>().map_err(unreadable)?;
    let mut applied = Vec::new();
    for (index, document) in documents.into_iter().filter(|document| !document.is_null()).enumerate() {
        applied.push(apply_one(client, index + 1, document, manager).await?);
    }
    Ok(applied)
}

async fn apply_one(client: &Client, number: usize, document: Value, manager: &str) -> Result<DynamicObject, Error> {
    let invalid = |reason: String| Error::Manifest { number, reason };
    let object: DynamicObject = serde_json::from_value(document).map_err(|error| invalid(error.to_string()))?;
    let types = object.types.clone().ok_or_else(|| invalid("it has no apiVersion and kind".to_owned()))?;
    let name = object.metadata.name.clone().ok_or_else(|| invalid("it has no name".to_owned()))?;
    let kind = GroupVersionKind::try_from(&types).map_err(|error| invalid(error.to_string()))?;

    let what = format!("{} {} being served", types.api_version, types.kind);
    let (resource, capabilities) = until(&what, SERVED, async || pinned_kind(client, &kind).await.ok()).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    api.patch(&name, &PatchParams::apply(manager), &Patch::Apply(&object))
        .await
        .map_err(Error::api(format!("{} \"{name}\"", types.kind)))
}
