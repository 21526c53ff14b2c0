//! Scenarios of other requests than new Pods: ones that the policy ignores, ones that the guards check, and
//! SidecarSets.

use pillion_identity::names;
use serde_json::{Value, json};

use super::{Input, SEED, SMALL, bundled};
use crate::corpus::pods::{self, NAMESPACE};
use crate::corpus::requests::{Resource, create, delete, update};
use crate::corpus::{Corpus, Style, sidecar_sets};
use crate::objects::Objects;

/// A request of another kind, with a bundle of a hundred SidecarSets in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A Secret of type `Opaque`, which the policy ignores.
    Secret,
    /// A Deployment whose template names no merged `ServiceAccount`.
    Deployment,
    /// A debug container that a user adds to a Pod.
    EphemeralContainer,
    /// The deletion of a `ServiceAccount` that is not in use.
    ServiceAccount,
    /// A Secret for a non-expiring token of an existing account, whose UID the policy adds.
    TokenSecret,
    /// The deletion of the Role of a merged `ServiceAccount` together with its namespace.
    Role,
    /// A new `SidecarSet` besides this many others.
    SidecarSet(usize),
}

impl Other {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Secret,
        Self::Deployment,
        Self::EphemeralContainer,
        Self::ServiceAccount,
        Self::TokenSecret,
        Self::Role,
        Self::SidecarSet(1),
        Self::SidecarSet(100),
    ];

    /// Returns the name of the scenario.
    pub fn name(self) -> String {
        match self {
            Self::Secret => "other/secret".to_owned(),
            Self::Deployment => "guard/deployment".to_owned(),
            Self::EphemeralContainer => "guard/ephemeral-container".to_owned(),
            Self::ServiceAccount => "guard/service-account".to_owned(),
            Self::TokenSecret => "guard/secret".to_owned(),
            Self::Role => "guard/role".to_owned(),
            Self::SidecarSet(others) => format!("sidecarset/{others}"),
        }
    }

    /// Returns the input of the policy.
    pub fn input(self) -> Input {
        let (mut objects, mut injected) = (Vec::new(), None);
        let request = match self {
            Self::Secret => create(
                Resource::SECRET,
                &json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                    "metadata": {"name": "database", "namespace": NAMESPACE},
                    "data": {"password": "aHVudGVyMg==", "url": "cG9zdGdyZXM6Ly9kYXRhYmFzZQ=="},
                }),
            ),
            Self::Deployment => create(Resource::DEPLOYMENT, &deployment()),
            Self::EphemeralContainer => {
                let before = pods::pod(SEED, SMALL);
                let mut after = before.clone();
                if let Some(spec) = after.get_mut("spec").and_then(Value::as_object_mut) {
                    let debugger = json!({"name": "debugger", "image": "registry.example.com/busybox:1.36"});
                    spec.insert("ephemeralContainers".to_owned(), json!([debugger]));
                }
                update(Resource::POD, "ephemeralcontainers", &before, &after)
            }
            Self::ServiceAccount => delete(
                Resource::SERVICE_ACCOUNT,
                &json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": "robot", "namespace": NAMESPACE, "uid": "0f1c7a5e-2b3d-4c58-8f0e-6a1b2c3d4e5f"},
                }),
            ),
            Self::TokenSecret => {
                objects.push(json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": "robot", "namespace": NAMESPACE, "uid": "0f1c7a5e-2b3d-4c58-8f0e-6a1b2c3d4e5f"},
                }));
                injected = Some(0);
                create(
                    Resource::SECRET,
                    &json!({
                        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                        "metadata": {
                            "name": "robot-token", "namespace": NAMESPACE,
                            "annotations": {"kubernetes.io/service-account.name": "robot"},
                        },
                    }),
                )
            }
            Self::Role => {
                objects.push(json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": NAMESPACE, "deletionTimestamp": "2026-01-02T03:04:05Z"},
                    "status": {"phase": "Terminating"},
                }));
                delete(
                    Resource::ROLE,
                    &json!({
                        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                        "metadata": {"name": names::merged(&["agent", "reloader"]), "namespace": NAMESPACE},
                        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
                    }),
                )
            }
            Self::SidecarSet(others) => return sidecar_set(others),
        };
        let Corpus { sets, .. } = sidecar_sets(SEED, Style::Realistic, 100, 1);
        let mut settings = bundled(&sets);
        settings.insert("featureGates".to_owned(), json!({"SidecarSetServiceAccountInjection": true}));
        Input { request, settings, objects: Objects::new(objects), injected }
    }
}

/// Returns the creation of a SidecarSet. The policy adds defaults and a hash, and no containers.
fn sidecar_set(others: usize) -> Input {
    let Corpus { mut sets, .. } = sidecar_sets(SEED, Style::Realistic, others + 1, 0);
    let set = sets.pop().unwrap_or_default();
    let request = create(Resource::SIDECAR_SET, &set);
    Input { request, settings: bundled(&sets), objects: Objects::default(), injected: Some(0) }
}

fn deployment() -> Value {
    let template = json!({
        "metadata": {"labels": pods::labels()},
        "spec": pods::pod(SEED, SMALL).get("spec"),
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "checkout", "namespace": NAMESPACE, "labels": pods::labels()},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "checkout"}}, "template": template},
    })
}
