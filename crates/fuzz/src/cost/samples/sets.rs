//! Valid SidecarSets that use every feature, and the settings around them.

use pillion_bench::corpus::pods::NAMESPACE;
use serde_json::{Value, json};

use super::{merge, with};

/// Returns a SidecarSet that matches the Pods of the samples. Its containers and volumes have its name.
#[allow(clippy::too_many_lines, reason = "one object with an entry in every list")]
pub(super) fn rich(name: &str) -> Value {
    let volume = format!("{name}-data");
    let resources = json!({"limits": {"cpu": "200m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "64Mi"}});
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": 8080, "httpHeaders": [{"name": "X-Probe", "value": "1"}]},
        "periodSeconds": 10,
    });
    let container = json!({
        "name": name, "image": "registry.example.com/agent:1.0", "command": ["/agent"], "args": ["--level=info"],
        "workingDir": "/srv", "podInjectPolicy": "AfterAppContainer",
        "ports": [{"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
        "env": [
            {"name": "LEVEL", "value": "info"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        ],
        "envFrom": [{"prefix": "A_", "configMapRef": {"name": "agent"}}],
        "resources": resources,
        "volumeMounts": [{"name": volume, "mountPath": "/data"}],
        "volumeDevices": [{"name": format!("{name}-disk"), "devicePath": "/dev/agent"}],
        "livenessProbe": probe, "readinessProbe": probe,
        "lifecycle": {"preStop": {"exec": {"command": ["/agent", "drain"]}}},
        "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}, "runAsUser": 1000},
        "shareVolumePolicy": {"type": "enabled"}, "shareVolumeDevicePolicy": {"type": "enabled"},
        "transferEnv": [
            {"sourceContainerName": "web", "envName": "SERVICE_URL"},
            {"sourceContainerName": "web", "envNames": ["REGION"]},
            {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "envName": "ZONE"},
        ],
    });
    let sized = json!({
        "name": format!("{name}-sized"), "image": "registry.example.com/sized:1.0",
        "podInjectPolicy": "BeforeAppContainer",
        "resourcesPolicy": {
            "targetContainersMode": "sum", "targetContainersNameRegex": "^(web|worker-[0-9]+)$",
            "resourcesExpr": {
                "limits": {"cpu": "max(cpu*20%, 100m)", "memory": "max(memory*25%, 64Mi)"},
                "requests": {"cpu": "min(max(cpu*10%, 50m), 2)", "memory": "min(memory*25%, 256Mi) + 16Mi"},
            },
        },
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "registry.example.com/empty:1"},
    });
    let init = json!({
        "name": format!("{name}-init"), "image": "registry.example.com/init:1.0", "restartPolicy": "Always",
        "env": [{"name": "LEVEL", "value": "info"}], "ports": [{"containerPort": 9091}],
        "volumeMounts": [{"name": volume, "mountPath": "/data", "subPath": "init"}],
        "shareVolumePolicy": {"type": "enabled"},
        "transferEnv": [{"sourceContainerName": "web", "envName": "SERVICE_URL"}],
        "resources": resources, "startupProbe": {"tcpSocket": {"port": 9091}},
    });
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {
            "name": name, "uid": "1d2c3b4a-0000-4000-8000-000000000001",
            "labels": {"team": "observability"}, "annotations": {"owner": "observability"},
            "finalizers": ["example.com/keep"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "origin", "uid": "u"}],
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "edge"]}],
            },
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": NAMESPACE},
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [NAMESPACE]},
                    {"key": "stage", "operator": "NotIn", "values": ["test"]},
                ],
            },
            "containers": [container, sized], "initContainers": [init],
            "volumes": [
                {"name": volume, "emptyDir": {}},
                {"name": format!("{name}-disk"), "persistentVolumeClaim": {"claimName": "disk"}},
                {"name": format!("{name}-config"), "projected": {"sources": [
                    {"configMap": {"name": "agent", "items": [{"key": "a", "path": "a"}]}},
                    {"secret": {"name": "agent", "items": [{"key": "a", "path": "b"}]}},
                    {"downwardAPI": {"items": [{"path": "c", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]}},
                {"name": format!("{name}-claim"), "ephemeral": {"volumeClaimTemplate": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                             "selector": {"matchLabels": {"a": "b"}}},
                }}},
            ],
            "imagePullSecrets": [{"name": "registry"}],
            "patchPodMetadata": [
                {"patchPolicy": "Retain", "annotations": {"agent.example.com/a": "1"}},
                {"patchPolicy": "Overwrite", "annotations": {"agent.example.com/b": "1"}},
                {"patchPolicy": "MergePatchJson", "annotations": {"agent.example.com/c": "{\"level\":{\"a\":[1]}}"}},
            ],
            "injectionStrategy": {"revision": {"revisionName": format!("{name}-1"), "policy": "Partial"}},
            "updateStrategy": {
                "type": "RollingUpdate", "partition": "50%", "maxUnavailable": 1,
                "selector": {"matchLabels": {"canary": "true"}},
                "priorityStrategy": {"orderPriority": [{"orderedKey": "a"}]},
                "scatterStrategy": [{"key": "a", "value": "b"}],
            },
            "serviceAccountName": name, "serviceAccountMode": "SidecarsOnly",
            "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": [{
                "apiGroups": [""], "resources": ["pods"], "resourceNames": ["web-0"], "verbs": ["get"],
            }],
        },
    })
}

/// Returns the same SidecarSet without an identity.
pub(super) fn anonymous(name: &str) -> Value {
    let mut set = rich(name);
    if let Some(spec) = set.get_mut("spec").and_then(Value::as_object_mut) {
        for key in [
            "serviceAccountName",
            "serviceAccountMode",
            "behaviorWhenServiceAccountInjection",
            "serviceAccountPermissions",
        ] {
            spec.remove(key);
        }
    }
    set
}

/// Returns the same SidecarSet in the older version of the API.
pub(super) fn v1alpha1(name: &str) -> Value {
    with(
        rich(name),
        &json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "metadata": {"annotations": {"apps.kruise.io/sidecarset-custom-version": "v1"}},
            "spec": {"namespace": "", "updateStrategy": {"type": "RollingUpdate"}},
        }),
    )
}

/// Returns a stored revision of the SidecarSet of this name.
pub(super) fn revision(name: &str) -> Value {
    let set = anonymous(name);
    let spec = ["containers", "initContainers", "volumes", "imagePullSecrets", "patchPodMetadata"];
    let spec = super::object(
        spec.map(|key| (key.to_owned(), set.pointer(&format!("/spec/{key}")).cloned().unwrap_or_default())),
    );
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{name}-1"), "namespace": "kruise-system",
            "labels": {"apps.kruise.io/sidecarset-custom-version": "v1", "kruise.io/sidecarset-name": name},
            "annotations": {"a": "b"},
        },
        "revision": 1, "data": {"spec": spec},
    })
}

/// Returns settings of ServiceAccounts, each list with an entry.
pub(super) fn rules() -> Value {
    json!({
        "allowed": [{"namespaces": [NAMESPACE, "team-*"], "names": ["agent", "other", "a*-?"]}],
        "protectedNamespaces": ["kube-system"],
        "denyPermissions": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
        "legacyTokenExempt": ["ci/*"], "protectInUse": true, "protectDefault": true, "requireCreatePods": true,
        "strictExistence": true, "controllerUser": "system:serviceaccount:pillion-system:pillion-controller",
    })
}

/// Returns the whitelist of annotations.
pub(super) fn whitelist() -> Value {
    json!({"rules": [
        {"allowedAnnotationKeyExprs": ["^agent\\.example\\.com/[a-z0-9-]{1,63}$", "prometheus.io/(port|path)"]},
        {"selector": {"matchLabels": {"team": "observability"},
                      "matchExpressions": [{"key": "team", "operator": "In", "values": ["observability"]}]},
         "allowedAnnotationKeyExprs": ["example"]},
    ]})
}

/// Returns the SidecarSet with another mode.
pub(super) fn in_mode(name: &str, mode: &str) -> Value {
    let mut set = rich(name);
    merge(&mut set, &json!({"spec": {"serviceAccountMode": mode}}));
    set
}
