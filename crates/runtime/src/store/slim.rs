//! Objects of which a controller reads only some fields.
//!
//! `kube::core::Object` keeps all fields of an object in memory before it reads some, because it flattens the types, and
//! reads `managedFields`, the largest part of most objects. With thousands of Pods, whose statuses change all the time,
//! that takes most of a controller's time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};

/// An object with the fields of `P` in `spec` and those of `S` in `status`. Other fields are skipped.
#[derive(Clone, Debug, Deserialize)]
pub struct Slim<P, S> {
    /// The metadata without `managedFields`.
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    /// The fields of `spec`.
    pub spec: P,
    /// The fields of `status`, if there is one.
    #[serde(default = "none")]
    pub status: Option<S>,
}

/// serde would ask for a default of `S`.
fn none<S>() -> Option<S> {
    None
}

/// The metadata that is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        annotations: read.annotations,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        finalizers: read.finalizers,
        generation: read.generation,
        labels: read.labels,
        name: read.name,
        namespace: read.namespace,
        owner_references: read.owner_references,
        resource_version: read.resource_version,
        uid: read.uid,
        ..ObjectMeta::default()
    })
}

impl<P, S> Resource for Slim<P, S> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::whole(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "annotations": {"a": "b"}, "creationTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["f"], "generation": 2,
            "deletionTimestamp": "2026-01-02T03:04:05Z", "labels": {"c": "d"}, "name": "n", "namespace": "s",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
            "resourceVersion": "7", "uid": "u"
        },
        "spec": {"nodeName": "x"}, "status": {"phase": "Running"}
    }))]
    #[case::nulls(json!({"metadata": {"creationTimestamp": null, "labels": null, "name": "n"}, "spec": {}, "status": null}))]
    #[case::no_status(json!({"metadata": {"name": "n"}, "spec": {}}))]
    fn it_reads_the_same_as_kube(#[case] object: Value) {
        let slim: Slim<Value, Value> = serde_json::from_value(object.clone()).unwrap();
        let whole: kube::core::Object<Value, Value> = serde_json::from_value(object).unwrap();
        assert_eq!((slim.metadata, slim.spec, slim.status), (whole.metadata, whole.spec, whole.status));
    }

    #[test]
    fn managed_fields_are_skipped() {
        let fields = json!([{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}]);
        let object = json!({"metadata": {"name": "n", "managedFields": fields}, "spec": {}});
        let slim: Slim<Value, Value> = serde_json::from_value(object).unwrap();
        assert_eq!(slim.metadata, ObjectMeta { name: Some("n".to_owned()), ..ObjectMeta::default() });
    }
}
