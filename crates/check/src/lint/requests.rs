//! Warnings about injected containers without the requests and limits that autoscalers and quotas of the documents
//! need.

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_sidecarset::made;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar::{is_long_running, is_native};
use serde_json::Value;

use super::pods::{Created, Selection, namespace};
use crate::documents::{Document, Role};
use crate::report::{Finding, OptionalRule};

/// The halves of a container's resources.
const REQUESTS: &str = "requests";
const LIMITS: &str = "limits";

/// The resources whose use autoscalers measure.
const MEASURED: [&str; 2] = ["cpu", "memory"];

/// The amounts that a ResourceQuota asks of every container, by the keys of `spec.hard`. A key alone is a request.
const QUOTAS: [(&str, &str, &str); 6] = [
    ("cpu", REQUESTS, "cpu"),
    ("requests.cpu", REQUESTS, "cpu"),
    ("memory", REQUESTS, "memory"),
    ("requests.memory", REQUESTS, "memory"),
    ("limits.cpu", LIMITS, "cpu"),
    ("limits.memory", LIMITS, "memory"),
];

/// The objects of the documents that look at requests and limits.
struct Judges<'a> {
    scalers: Vec<&'a Value>,
    quotas: Vec<&'a Value>,
    ranges: Vec<&'a Value>,
}

/// Returns warnings about `SidecarSet`s that stop a HorizontalPodAutoscaler of the documents, or for which a
/// ResourceQuota of the documents refuses Pods.
pub(super) fn missing(selection: &Selection<'_>, documents: &[Document]) -> Vec<Finding> {
    let judges = Judges::find(documents);
    if judges.scalers.is_empty() && judges.quotas.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for subject in selection.group() {
        let pods = selection.pods(subject);
        for (list, index, container) in made::sidecars(&subject.prepared) {
            let resources = FieldPath::new("spec").item(list.key(), index).child("resources").to_string();
            let name = pod::name(container);
            for resource in MEASURED.into_iter().filter(|_| is_long_running(container, list)) {
                let stopped = pods.iter().find_map(|pod| Some((pod, judges.stopped(pod, container, resource)?)));
                if let Some((pod, scaler)) = stopped {
                    let message = format!(
                        "HorizontalPodAutoscaler {:?} stops scaling {}: its target is a percentage of the {resource} \
                         requests, and container {name:?} has none",
                        label(scaler),
                        pod.label
                    );
                    let remedy = format!("set requests.{resource}");
                    findings.push(
                        subject.spot.warning(&resources, message, remedy).with_rule(OptionalRule::MissingRequest),
                    );
                }
            }
            let refused = pods.iter().find_map(|pod| Some((pod, judges.refused(pod, container)?)));
            if let Some((pod, (quota, missing))) = refused {
                let message = format!(
                    "ResourceQuota {:?} refuses the Pods of {}: container {name:?} has no {}",
                    label(quota),
                    pod.label,
                    missing.join(", ")
                );
                let remedy = "set what is missing, or add a LimitRange with defaults to the namespace";
                findings.push(subject.spot.warning(&resources, message, remedy).with_rule(OptionalRule::ResourceQuota));
            }
        }
    }
    findings
}

impl<'a> Judges<'a> {
    fn find(documents: &'a [Document]) -> Self {
        let others = || documents.iter().filter(|document| document.role == Role::Other);
        let of = |group: &str, kind: &str| {
            let is_it = |object: &&Value| {
                let api_version = json::text(object, &["apiVersion"]);
                json::text(object, &["kind"]) == kind
                    && api_version.rsplit_once('/').map_or("", |(group, _)| group) == group
            };
            others().map(|document| &document.manifest.value).filter(is_it).collect()
        };
        Self {
            scalers: of("autoscaling", "HorizontalPodAutoscaler"),
            quotas: of("", "ResourceQuota"),
            ranges: of("", "LimitRange"),
        }
    }

    /// Returns the HorizontalPodAutoscaler that a container without a request stops. One that a container of the
    /// application stops does not count.
    fn stopped(&self, created: &Created<'_>, sidecar: &Value, resource: &str) -> Option<&'a Value> {
        let is_given = |container: &Value| self.gives(created, container, REQUESTS, resource);
        if is_given(sidecar) || !containers(&created.pod).all(is_given) {
            return None;
        }
        let scales = |scaler: &&&Value| {
            let target = |field: &str| json::text(scaler, &["spec", "scaleTargetRef", field]);
            namespace(scaler) == created.namespace
                && target("kind") == json::text(created.object, &["kind"])
                && target("name") == json::text(created.object, &["metadata", "name"])
                && needs_requests(scaler, resource)
        };
        self.scalers.iter().find(scales).copied()
    }

    /// Returns the ResourceQuota that refuses the Pod because of a container, and what the container lacks. A quota
    /// with scopes may not be for the Pod, and what a container of the application lacks, too, does not count.
    fn refused(&self, created: &Created<'_>, sidecar: &Value) -> Option<(&'a Value, Vec<&'static str>)> {
        let counts = |quota: &&&Value| {
            namespace(quota) == created.namespace
                && json::at(quota, &["spec", "scopes"]).is_none()
                && json::at(quota, &["spec", "scopeSelector"]).is_none()
        };
        let missing = |quota: &Value| -> Vec<&'static str> {
            let hard = QUOTAS.into_iter().filter(|(key, ..)| json::at(quota, &["spec", "hard", key]).is_some());
            let is_missing = |(_, half, resource): &(&str, &str, &str)| {
                let is_given = |container: &Value| self.gives(created, container, half, resource);
                !is_given(sidecar) && containers(&created.pod).all(is_given)
            };
            hard.filter(is_missing).map(|(key, ..)| key).collect()
        };
        let mut found = self.quotas.iter().filter(counts).map(|quota| (*quota, missing(quota)));
        found.find(|(_, missing)| !missing.is_empty())
    }

    /// Whether a container in this Pod has an amount: written, computed, that of a LimitRange, or as part of the Pod's.
    fn gives(&self, created: &Created<'_>, container: &Value, half: &str, resource: &str) -> bool {
        // The API server takes a limit as the request.
        let halves: &[&str] = if half == REQUESTS { &[REQUESTS, LIMITS] } else { &[LIMITS] };
        let has = |object: &Value, keys: &[&str]| json::at(object, keys).is_some_and(|value| !value.is_null());
        let is_written = halves.iter().any(|half| {
            has(container, &["resources", half, resource])
                || has(container, &["resourcesPolicy", "resourcesExpr", half, resource])
                || has(&created.pod, &["spec", "resources", half, resource])
        });
        let defaults: &[&str] =
            if half == REQUESTS { &["defaultRequest", "default", "max", "min"] } else { &["default", "max"] };
        is_written
            || self.ranges.iter().filter(|range| namespace(range) == created.namespace).any(|range| {
                json::items(range, &["spec", "limits"]).iter().any(|item| {
                    json::text(item, &["type"]) == "Container"
                        && defaults.iter().any(|field| has(item, &[field, resource]))
                })
            })
    }
}

/// Whether a HorizontalPodAutoscaler compares the use of a resource with the requests of all containers.
fn needs_requests(scaler: &Value, resource: &str) -> bool {
    let metrics = json::items(scaler, &["spec", "metrics"]);
    // Without metrics, the target is 80 % of the cpu requests.
    (metrics.is_empty() && resource == "cpu")
        || metrics.iter().any(|metric| {
            json::text(metric, &["type"]) == "Resource"
                && json::text(metric, &["resource", "name"]) == resource
                && [&["resource", "target", "averageUtilization"][..], &["resource", "targetAverageUtilization"]]
                    .iter()
                    .any(|target| json::at(metric, target).is_some())
        })
}

/// Returns the containers of a Pod that run as long as it does.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let natives = json::items(pod, &["spec", "initContainers"]).iter().filter(|container| is_native(container));
    json::items(pod, &["spec", "containers"]).iter().chain(natives)
}

fn label(object: &Value) -> String {
    format!("{}/{}", namespace(object), json::text(object, &["metadata", "name"]))
}
