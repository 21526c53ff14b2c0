//! Admission requests, as kube-apiserver sends them.

use serde_json::{Value, json};

use super::pods::NAMESPACE;

/// A kind of object: its group, version, kind and plural.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
}

impl Resource {
    /// `v1`, `pods`.
    pub const POD: Self = Self { group: "", version: "v1", kind: "Pod", plural: "pods" };
    /// `v1`, `secrets`.
    pub const SECRET: Self = Self { group: "", version: "v1", kind: "Secret", plural: "secrets" };
    /// `v1`, `serviceaccounts`.
    pub const SERVICE_ACCOUNT: Self =
        Self { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts" };
    /// `apps/v1`, `deployments`.
    pub const DEPLOYMENT: Self = Self { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" };
    /// `apps.kruise.io/v1beta1`, `sidecarsets`.
    pub const SIDECAR_SET: Self =
        Self { group: "apps.kruise.io", version: "v1beta1", kind: "SidecarSet", plural: "sidecarsets" };
}

/// The `request` of an `AdmissionReview` for the creation of this object, by the controller manager.
pub fn create(resource: Resource, object: &Value) -> Value {
    let Resource { group, version, kind, plural } = resource;
    let name = object.pointer("/metadata/name").cloned();
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "requestKind": {"group": group, "version": version, "kind": kind},
        "requestResource": {"group": group, "version": version, "resource": plural},
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "5f2c6b0e-2f0c-4a55-a5d0-3f6b6f2f4c11",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        "object": object,
    });
    if let Some(request) = request.as_object_mut() {
        if kind != "SidecarSet" {
            request.insert("namespace".to_owned(), NAMESPACE.into());
        }
        if let Some(name) = name {
            request.insert("name".to_owned(), name);
        }
    }
    request
}
