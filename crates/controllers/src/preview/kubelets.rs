//! The kubelets of a preview: between two waves, the containers of Pods with a new image restart, and new resources are
//! in effect.

use std::collections::BTreeMap;

use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use pillion_kubernetes::json;
use pillion_runtime::store::Store;
use pillion_sidecarset::sidecar::is_native;
use serde_json::{Value, json};

use super::{PreviewError, Wave};

/// Restarts the containers whose images a wave has changed, and gives containers their new resources.
///
/// # Errors
/// The simulation refused the status of a Pod.
pub(super) async fn restart(client: &Client, store: &Store, wave: &Wave) -> Result<(), PreviewError> {
    for pod in restarted(wave) {
        let text = |key: &str| json::text(&pod, &["metadata", key]);
        let (namespace, name) = (text("namespace"), text("name"));
        let failed = |error: &dyn std::fmt::Display| {
            PreviewError::Unreadable(format!("the status of Pod \"{namespace}/{name}\": {error}"))
        };
        let body = pod.to_string().into_bytes();
        let at = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
        let request = at.replace_subresource("status", name, &PostParams::default(), body);
        let request = request.map_err(|error| failed(&error))?;
        let stored: Value = client.request(request).await.map_err(|error| failed(&error))?;
        store.written(&stored);
    }
    Ok(())
}

/// A Pod that a wave has changed.
struct Changed<'a> {
    /// The Pod after its last change.
    pod: &'a Value,
    /// The containers with new images.
    restarting: Vec<&'a str>,
    /// The containers with new resources.
    resized: Vec<&'a str>,
}

/// Returns the Pods whose images or resources a wave has changed, as they are once their containers have restarted.
fn restarted(wave: &Wave) -> Vec<Value> {
    let mut pods: BTreeMap<(Option<&str>, &str), Changed<'_>> = BTreeMap::new();
    for change in wave.changes.iter().filter(|change| change.object.kind == "Pod") {
        if let (Some(before), Some(after)) = (&change.before, &change.after) {
            let place = (change.object.namespace.as_deref(), change.object.name.as_str());
            let seen = pods.entry(place).or_insert(Changed { pod: after, restarting: Vec::new(), resized: Vec::new() });
            seen.pod = after;
            seen.restarting.extend(changed(before, after, "image"));
            seen.resized.extend(changed(before, after, "resources"));
        }
    }
    let pods = pods.into_values().filter(|seen| !seen.restarting.is_empty() || !seen.resized.is_empty());
    pods.map(|seen| with_statuses(&seen)).collect()
}

/// The lists of containers in the spec, each with its list in the status.
const LISTS: [(&str, &str); 2] = [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")];

/// Returns the containers that run for as long as the Pod does, and native sidecars.
fn containers(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let all =
        LISTS.into_iter().flat_map(|(list, _)| json::items(pod, &["spec", list]).iter().map(move |it| (list, it)));
    let running = all.filter(|(list, container)| *list == "containers" || is_native(container));
    running.map(|(_, container)| (json::text(container, &["name"]), container))
}

/// Returns the names of the containers of which a field differs.
fn changed<'a>(before: &Value, after: &'a Value, field: &'static str) -> impl Iterator<Item = &'a str> {
    let known: BTreeMap<String, Option<Value>> =
        containers(before).map(|(name, container)| (name.to_owned(), container.get(field).cloned())).collect();
    containers(after)
        .filter(move |(name, container)| known.get(*name).is_some_and(|before| before.as_ref() != container.get(field)))
        .map(|(name, _)| name)
}

/// Returns a Pod in which the containers with new images were started anew, and those with new resources have them.
fn with_statuses(changed: &Changed<'_>) -> Value {
    let mut pod = changed.pod.clone();
    let wanted: BTreeMap<&str, &Value> = containers(changed.pod).collect();
    for (_, list) in LISTS {
        let statuses = pod.pointer_mut(&format!("/status/{list}")).and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = status.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let Some(container) = wanted.get(name.as_str()) else { continue };
            let [restarts, is_resized] =
                [&changed.restarting, &changed.resized].map(|names| names.contains(&name.as_str()));
            if restarts {
                start_anew(status, &name, json::text(container, &["image"]));
            }
            if let Some(resources) = container.get("resources").filter(|_| restarts || is_resized) {
                status.insert("resources".to_owned(), resources.clone());
            }
        }
    }
    pod
}

/// Writes that a container was started anew and is ready.
fn start_anew(status: &mut json::Object, name: &str, image: &str) {
    let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default().saturating_add(1);
    status.insert("restartCount".to_owned(), restarts.into());
    if status.get("containerID").is_some() {
        status.insert("containerID".to_owned(), format!("preview://{name}-{restarts}").into());
    }
    // An image that is named by its digest has it in its id as well; other ids only have to differ.
    status.insert("imageID".to_owned(), image.into());
    status.insert("image".to_owned(), image.into());
    status.insert("ready".to_owned(), true.into());
    status.insert("state".to_owned(), json!({"running": {}}));
}
