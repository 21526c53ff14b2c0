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
    /// `v1`, `configmaps`.
    pub const CONFIG_MAP: Self = Self { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps" };
    /// `v1`, `services`.
    pub const SERVICE: Self = Self { group: "", version: "v1", kind: "Service", plural: "services" };
    /// `v1`, `serviceaccounts`.
    pub const SERVICE_ACCOUNT: Self =
        Self { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts" };
    /// `rbac.authorization.k8s.io/v1`, `roles`.
    pub const ROLE: Self = Self { group: "rbac.authorization.k8s.io", version: "v1", kind: "Role", plural: "roles" };
    /// `apps/v1`, `deployments`.
    pub const DEPLOYMENT: Self = Self { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" };
    /// `apps.kruise.io/v1beta1`, `sidecarsets`.
    pub const SIDECAR_SET: Self =
        Self { group: "apps.kruise.io", version: "v1beta1", kind: "SidecarSet", plural: "sidecarsets" };
    /// `apps.kruise.io/v1alpha1`, `sidecarsets`.
    pub const SIDECAR_SET_V1ALPHA1: Self = Self { version: "v1alpha1", ..Self::SIDECAR_SET };
    /// `rbac.authorization.k8s.io/v1`, `rolebindings`.
    pub const ROLE_BINDING: Self =
        Self { group: "rbac.authorization.k8s.io", version: "v1", kind: "RoleBinding", plural: "rolebindings" };
    /// `batch/v1`, `cronjobs`.
    pub const CRON_JOB: Self = Self { group: "batch", version: "v1", kind: "CronJob", plural: "cronjobs" };
    /// `core.gardener.cloud/v1beta1`, `shoots`.
    pub const SHOOT: Self = Self { group: "core.gardener.cloud", version: "v1beta1", kind: "Shoot", plural: "shoots" };
    /// Workloads with a Pod template at `spec.template`.
    pub const WORKLOADS: [Self; 6] = [
        Self::DEPLOYMENT,
        Self { group: "apps", version: "v1", kind: "StatefulSet", plural: "statefulsets" },
        Self { group: "apps", version: "v1", kind: "DaemonSet", plural: "daemonsets" },
        Self { group: "apps", version: "v1", kind: "ReplicaSet", plural: "replicasets" },
        Self { group: "batch", version: "v1", kind: "Job", plural: "jobs" },
        Self { group: "apps.kruise.io", version: "v1beta1", kind: "CloneSet", plural: "clonesets" },
    ];

    /// Returns the kind.
    pub const fn kind(self) -> &'static str {
        self.kind
    }

    /// Returns group and version, as in `apiVersion`.
    pub fn api_version(self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// Returns the `request` of an `AdmissionReview` for the creation of this object.
pub fn create(resource: Resource, object: &Value) -> Value {
    let mut request = request(resource, "CREATE", object);
    set(&mut request, "object", object);
    request
}

/// Returns the request for the deletion of this object.
pub fn delete(resource: Resource, object: &Value) -> Value {
    let mut request = request(resource, "DELETE", object);
    set(&mut request, "oldObject", object);
    request
}

/// Returns the request for an update of a subresource; an empty name stands for the object itself.
pub fn update(resource: Resource, subresource: &str, before: &Value, after: &Value) -> Value {
    let mut request = request(resource, "UPDATE", after);
    set(&mut request, "oldObject", before);
    set(&mut request, "object", after);
    set(&mut request, "subResource", &subresource.into());
    request
}

fn set(request: &mut Value, key: &str, value: &Value) {
    if let Some(request) = request.as_object_mut() {
        request.insert(key.to_owned(), value.clone());
    }
}

fn request(resource: Resource, operation: &str, object: &Value) -> Value {
    let Resource { group, version, kind, plural } = resource;
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "requestKind": {"group": group, "version": version, "kind": kind},
        "requestResource": {"group": group, "version": version, "resource": plural},
        "operation": operation,
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "5f2c6b0e-2f0c-4a55-a5d0-3f6b6f2f4c11",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "dryRun": false,
        "options": {"kind": format!("{}Options", title(operation)), "apiVersion": "meta.k8s.io/v1"},
    });
    if kind != Resource::SIDECAR_SET.kind {
        set(&mut request, "namespace", &NAMESPACE.into());
    }
    if let Some(name) = object.pointer("/metadata/name") {
        set(&mut request, "name", name);
    }
    request
}

/// Turns `CREATE` into `Create`.
fn title(operation: &str) -> String {
    let mut letters = operation.chars();
    letters.next().into_iter().chain(letters.flat_map(char::to_lowercase)).collect()
}
