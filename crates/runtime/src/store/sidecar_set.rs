//! A SidecarSet of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::DynamicObject;
use pillion_kubernetes::json;
use pillion_plan::condition::{self, PERMISSION_CEILING_EXCEEDED};
use serde_json::Value;

use super::change::{Facets, Projection};

/// The fields of the metadata that the API server counts.
const COUNTED: [&str; 2] = ["resourceVersion", "generation"];

/// A SidecarSet of the cluster: the whole object without `managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub struct SidecarSetObject(pub Arc<Value>);

impl SidecarSetObject {
    pub(super) fn from_object(mut object: DynamicObject) -> Option<Self> {
        object.metadata.managed_fields = None;
        serde_json::to_value(object).ok().map(|object| Self(Arc::new(object)))
    }
}

impl SidecarSetObject {
    /// The group of those whose condition `PermissionCeilingExceeded` is true.
    pub const EXCEEDED: &'static str = PERMISSION_CEILING_EXCEEDED;
}

impl Projection for SidecarSetObject {
    fn groups(&self) -> BTreeSet<String> {
        let condition = condition::find(&self.0, PERMISSION_CEILING_EXCEEDED);
        let is_exceeded = condition.is_some_and(|condition| json::text(condition, &["status"]) == "True");
        is_exceeded.then(|| Self::EXCEEDED.to_owned()).into_iter().collect()
    }

    /// Tells the content from the status: OpenKruise counts Pods in the status all the time.
    fn differences(&self, next: &Self) -> Facets {
        fn metadata(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
            let fields = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
            fields.filter(|(key, _)| !COUNTED.contains(&key.as_str()))
        }
        let ceiling = |object| condition::find(object, PERMISSION_CEILING_EXCEEDED);
        let (before, now) = (&*self.0, &*next.0);
        let mut facets = Facets::empty();
        facets.set(Facets::CONTENT, before.get("spec") != now.get("spec") || !metadata(before).eq(metadata(now)));
        let revision = |object| json::text(object, &["status", "latestRevision"]);
        facets.set(Facets::REVISION, revision(before) != revision(now));
        facets.set(Facets::CEILING, ceiling(before) != ceiling(now));
        facets.set(Facets::STATUS, before.get("status") != now.get("status"));
        facets
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::counts(json!({"status": {"matchedPods": 2}}), Facets::STATUS)]
    #[case::a_condition(json!({"status": {"conditions": [{"type": "InBundle", "status": "True"}]}}), Facets::STATUS)]
    #[case::a_revision(json!({"status": {"latestRevision": "logs-1"}}), Facets::STATUS | Facets::REVISION)]
    #[case::what_was_not_granted(
        json!({"status": {"conditions": [{"type": PERMISSION_CEILING_EXCEEDED, "status": "True"}]}}),
        Facets::STATUS | Facets::CEILING
    )]
    #[case::the_spec(json!({"spec": {"paused": true}}), Facets::CONTENT)]
    #[case::a_label(json!({"metadata": {"labels": {"a": "b"}}}), Facets::CONTENT)]
    #[case::its_deletion(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), Facets::CONTENT)]
    #[case::a_write_that_changes_nothing(json!({}), Facets::empty())]
    fn the_status_of_a_sidecar_set_is_not_its_content(#[case] change: Value, #[case] expected: Facets) {
        let before =
            json!({"metadata": {"name": "logs", "resourceVersion": "1"}, "spec": {}, "status": {"matchedPods": 1}});
        let mut now = before.clone();
        for (part, fields) in change.as_object().into_iter().flatten() {
            for (key, value) in fields.as_object().into_iter().flatten() {
                now[part][key] = value.clone();
            }
        }
        now["metadata"]["resourceVersion"] = json!("2");
        let of = |object| SidecarSetObject(Arc::new(object));
        assert_eq!(of(before).differences(&of(now)), expected);
    }
}
