//! Scenarios of the features of a SidecarSet, one at a time: each with a single matching set, as a bundle.

use pillion_identity::names;
use serde_json::{Map, Value, json};

use super::{Input, SEED, SMALL, bundled};
use crate::corpus::pods::{self, NAMESPACE};
use crate::corpus::requests::{Resource, create};
use crate::objects::Objects;

/// A feature that a SidecarSet can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Only a container: the reference for the others.
    Plain,
    /// A native sidecar.
    Native,
    /// A container pair for upgrades in place.
    HotUpgrade,
    /// A Pod with 20 containers of 20 mounts each, all of which the sidecar shares.
    SharedMounts,
    /// 60 variables from containers of the Pod.
    TransferEnv,
    /// Resources computed from those of 20 containers with expressions.
    Resources,
    /// Annotations kept, overwritten and merged as JSON.
    PatchMetadata,
    /// A namespaceSelector, for which the Namespace is looked up.
    NamespaceSelector,
    /// A `ServiceAccount` in a Pod that has none.
    ServiceAccount,
    /// The same in mode `Isolate`: the Pod keeps its account, and the sidecar gets its token from a Secret.
    Isolate,
    /// Two SidecarSets with different accounts, for which a merged one exists.
    Merge,
    /// The asserting twin, on a Pod without sidecars.
    Assert,
}

impl Feature {
    /// All features.
    pub const ALL: [Self; 12] = [
        Self::Plain,
        Self::Native,
        Self::HotUpgrade,
        Self::SharedMounts,
        Self::TransferEnv,
        Self::Resources,
        Self::PatchMetadata,
        Self::NamespaceSelector,
        Self::ServiceAccount,
        Self::Isolate,
        Self::Merge,
        Self::Assert,
    ];

    /// Returns the name, which is part of the scenario's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Native => "native",
            Self::HotUpgrade => "hot-upgrade",
            Self::SharedMounts => "shared-mounts",
            Self::TransferEnv => "transfer-env",
            Self::Resources => "resources-policy",
            Self::PatchMetadata => "patch-metadata",
            Self::NamespaceSelector => "namespace-selector",
            Self::ServiceAccount => "service-account",
            Self::Isolate => "isolate",
            Self::Merge => "merge",
            Self::Assert => "assert",
        }
    }

    /// Returns the input of the policy.
    pub fn input(self) -> Input {
        let mut pod = pods::pod(SEED, SMALL);
        let (mut container, mut spec) = (Map::new(), Map::new());
        let mut settings = Map::new();
        let mut objects = Vec::new();
        let mut injected = Some(1);
        let mut others = Vec::new();
        match self {
            Self::Plain => {}
            Self::Native => add(&mut container, &json!({"restartPolicy": "Always"})),
            Self::HotUpgrade => {
                let strategy =
                    json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "registry.example.com/empty:1"});
                add(&mut container, &json!({"upgradeStrategy": strategy}));
                injected = Some(2);
            }
            Self::SharedMounts => {
                add(&mut container, &json!({"shareVolumePolicy": {"type": "enabled"}}));
                fill(&mut pod, |container| {
                    let mount =
                        |index| json!({"name": format!("data-{index}"), "mountPath": format!("/{container}/{index}")});
                    json!({"volumeMounts": (0..20).map(mount).collect::<Vec<_>>()})
                });
                let volumes = (0..20).map(|index| json!({"name": format!("data-{index}"), "emptyDir": {}}));
                put(&mut pod, "volumes", volumes.collect());
            }
            Self::TransferEnv => {
                let names: Vec<String> = (0..3).map(|index| format!("VARIABLE_{index}")).collect();
                let transfer = |index| json!({"sourceContainerName": format!("app-{index}"), "envNames": names});
                add(&mut container, &json!({"transferEnv": (0..20).map(transfer).collect::<Vec<_>>()}));
                fill(&mut pod, |container| {
                    let variable =
                        |index| json!({"name": format!("VARIABLE_{index}"), "value": format!("{container}-{index}")});
                    json!({"env": (0..20).map(variable).collect::<Vec<_>>()})
                });
            }
            Self::Resources => {
                let policy = json!({
                    "targetContainersMode": "sum", "targetContainersNameRegex": "^app-[0-9]+$",
                    "resourcesExpr": {
                        "limits": {"cpu": "max(cpu*20%, 100m)", "memory": "max(memory*25%, 64Mi)"},
                        "requests": {"cpu": "min(max(cpu*10%, 50m), 2)", "memory": "min(memory*25%, 256Mi) + 16Mi"},
                    },
                });
                add(&mut container, &json!({"resourcesPolicy": policy}));
                fill(&mut pod, |_| {
                    let amounts = json!({"cpu": "250m", "memory": "512Mi"});
                    json!({"resources": {"limits": amounts, "requests": amounts}})
                });
            }
            Self::PatchMetadata => {
                let patches = json!([
                    {"patchPolicy": "Retain", "annotations": {"agent.example.com/a": "1", "agent.example.com/b": "2"}},
                    {"patchPolicy": "Overwrite", "annotations": {"prometheus.io/scrape": "false"}},
                    {"patchPolicy": "MergePatchJson",
                     "annotations": {"agent.example.com/config": r#"{"sidecar":{"level":"info","ports":[1,2,3]}}"#}},
                ]);
                add(&mut spec, &json!({"patchPodMetadata": patches}));
            }
            Self::NamespaceSelector => {
                add(&mut spec, &json!({"namespaceSelector": {"matchLabels": {"environment": "production"}}}));
                objects.push(json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": NAMESPACE, "labels": {
                        "kubernetes.io/metadata.name": NAMESPACE, "environment": "production",
                    }},
                }));
            }
            Self::ServiceAccount | Self::Isolate | Self::Merge => {
                add(&mut spec, &identity("agent"));
                for key in ["serviceAccount", "serviceAccountName"] {
                    put_text(&mut pod, key, "default");
                }
                add(&mut settings, &json!({"featureGates": {"SidecarSetServiceAccountInjection": true}}));
                objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
                    "name": NAMESPACE, "labels": {"kubernetes.io/metadata.name": NAMESPACE},
                }}));
                objects.extend(["agent", "default", "reloader"].map(|name| account(&json!({"name": name}))));
                if self == Self::Isolate {
                    add(&mut spec, &json!({"serviceAccountMode": "Isolate"}));
                }
                if self == Self::Merge {
                    add(&mut spec, &mergeable("pods"));
                    let (mut other, container) = (Map::new(), Map::new());
                    add(&mut other, &identity("reloader"));
                    add(&mut other, &mergeable("configmaps"));
                    others.push(set("reloader", container, other, false));
                    objects.extend(merged());
                    injected = Some(2);
                }
            }
            Self::Assert => {
                add(&mut settings, &json!({"role": "Assert"}));
                injected = None;
            }
        }
        others.push(set("agent", container, spec, self == Self::Native));
        settings.extend(bundled(&others));
        Input { request: create(Resource::POD, &pod), settings, objects: Objects::new(objects), injected }
    }
}

/// Returns the fields of a SidecarSet that names this ServiceAccount.
fn identity(account: &str) -> Value {
    json!({
        "serviceAccountName": account,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
    })
}

/// Returns the fields of a SidecarSet that shares a merged ServiceAccount with others, and reads these objects.
fn mergeable(resource: &str) -> Value {
    let rule = json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
    json!({"behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": [rule]})
}

fn account(metadata: &Value) -> Value {
    let mut account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    if let Some(metadata) = account.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), NAMESPACE.into());
    }
    account
}

/// Returns the merged objects that replace the accounts of `agent` and `reloader` in one Pod.
fn merged() -> [Value; 3] {
    let sets = ["agent", "reloader"];
    let name = names::merged(&sets);
    let metadata = json!({
        "name": name, "namespace": NAMESPACE,
        "annotations": {names::SIDECAR_SETS: names::merged_annotation(&sets)},
    });
    let group = "rbac.authorization.k8s.io";
    let rule = json!({"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get"]});
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE});
    [
        account(&metadata),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name}, "subjects": [subject],
        }),
    ]
}

/// Returns a SidecarSet with one container of the same name, which has these fields.
fn set(name: &str, container: Map<String, Value>, extra: Map<String, Value>, native: bool) -> Value {
    let mut sidecar = Map::new();
    add(
        &mut sidecar,
        &json!({
            "name": name, "image": "registry.example.com/agent:1.0", "podInjectPolicy": "AfterAppContainer",
        }),
    );
    sidecar.extend(container);
    let mut spec = Map::new();
    add(&mut spec, &json!({"selector": {"matchLabels": {"app": "checkout"}}}));
    spec.insert(if native { "initContainers" } else { "containers" }.to_owned(), json!([sidecar]));
    spec.extend(extra);
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": spec})
}

fn add(object: &mut Map<String, Value>, fields: &Value) {
    object.extend(fields.as_object().cloned().unwrap_or_default());
}

/// Gives the Pod 20 containers with these fields.
fn fill(pod: &mut Value, fields: impl Fn(&str) -> Value) {
    let containers = (0..20).map(|index| {
        let name = format!("app-{index}");
        let mut container = Map::new();
        add(&mut container, &json!({"name": name, "image": "registry.example.com/app:1.0"}));
        add(&mut container, &fields(&name));
        Value::Object(container)
    });
    put(pod, "containers", containers.collect());
}

fn put(pod: &mut Value, key: &str, value: Value) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert(key.to_owned(), value);
    }
}

fn put_text(pod: &mut Value, key: &str, value: &str) {
    put(pod, key, value.into());
}
