//! Samples of new Pods: plain, with an identity in each mode, merged, injected before, and checked by the asserting
//! twin.

use anyhow::{Context as _, bail};
use pillion_bench::corpus::pods::NAMESPACE;
use pillion_bench::corpus::requests::{Resource, create};
use pillion_bench::engine::Counter;
use serde_json::{Value, json};

use super::{clusters, gate, merge, sets, with};
use crate::cost::Input;

/// The parts of a Pod that decide its handling.
const POD: &[&str] = &["/request/object/spec", "/request/object/metadata"];

/// Returns a Pod with an entry in every list that Kubernetes defines, as an API server shows it to a webhook.
pub(super) fn web() -> Value {
    let amounts = json!({"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}});
    let container = json!({
        "name": "web", "image": "registry.example.com/web:1.0", "command": ["/web"], "args": ["--port=8080"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "SERVICE_URL", "value": "http://service"}, {"name": "REGION", "value": "eu"},
            {"name": "ZONE", "valueFrom": {"configMapKeyRef": {"name": "zone", "key": "zone"}}},
        ],
        "envFrom": [{"secretRef": {"name": "web"}}],
        "resources": amounts,
        "volumeMounts": [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "kube-api-access-7mt8f", "readOnly": true,
             "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "volumeDevices": [{"name": "disk", "devicePath": "/dev/disk"}],
        "securityContext": {"capabilities": {"drop": ["ALL"]}},
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-0", "generateName": "web-", "namespace": NAMESPACE,
            "labels": {"app": "web", "tier": "web", "canary": "true"},
            "annotations": {"agent.example.com/c": "{\"level\":{\"b\":2}}", "owner": "shop"},
            "finalizers": ["example.com/keep"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:containers": {}}}}],
        },
        "spec": {
            "containers": [container],
            "initContainers": [with(container.clone(), &json!({"name": "prepare"}))],
            "volumes": [
                {"name": "cache", "emptyDir": {}},
                {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
                {"name": "secret", "secret": {"secretName": "web", "items": [{"key": "a", "path": "a"}]}},
                {"name": "csi", "csi": {"driver": "secrets-store.csi.k8s.io", "volumeAttributes": {"a": "b"},
                                        "nodePublishSecretRef": {"name": "csi"}}},
                {"name": "flex", "flexVolume": {"driver": "a/b", "options": {"a": "b"}, "secretRef": {"name": "f"}}},
                {"name": "kube-api-access-7mt8f", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                ]}},
            ],
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            ]}}},
            "serviceAccountName": "default", "serviceAccount": "default", "priority": 0,
        },
        "status": {},
    })
}

fn settings(sets: &[Value]) -> Value {
    json!({
        "sidecarSets": sets, "featureGates": gate(), "serviceAccounts": sets::rules(),
        "controllerRevisions": [sets::revision("agent")],
        "patchPodMetadataWhitelist": sets::whitelist(),
    })
}

fn plain(settings: &Value) -> Value {
    with(settings.clone(), &json!({"featureGates": {"SidecarSetServiceAccountInjection": false}}))
}

/// Returns the request for the Pod that results from `input`.
fn injected(counter: &Counter, input: &Input) -> anyhow::Result<Value> {
    let counts = counter.count(input.function(), &input.payload()?, &input.objects())?;
    let answer: Value = serde_json::from_slice(&counts.answer)?;
    if answer.get("accepted") != Some(&true.into()) {
        bail!("{}: the policy answers {answer}", input.name());
    }
    let object = answer.get("mutated_object").with_context(|| format!("{}: nothing is injected", input.name()))?;
    Ok(create(Resource::POD, object))
}

pub(super) fn inputs(counter: &Counter) -> anyhow::Result<Vec<Input>> {
    let request = create(Resource::POD, &web());
    let pod = |name: &str, request: &Value, settings: Value| {
        Input::validate(name, request.clone()).with("settings", settings).with("objects", clusters::objects())
    };
    let rich = settings(&[sets::rich("agent")]);
    let anonymous = plain(&settings(&[sets::anonymous("agent"), sets::anonymous("other")]));
    let isolate = settings(&[sets::in_mode("agent", "Isolate"), sets::in_mode("other", "Isolate")]);
    let merged = settings(&[sets::rich("agent"), sets::rich("other")]);
    let injecting = pod("pod/plain", &request, anonymous.clone());
    let identity = pod("pod/identity", &request, rich.clone());
    let isolated = pod("pod/isolate", &request, isolate.clone());
    let merging = pod("pod/merge", &request, merged.clone());
    let mut twin = rich.clone();
    merge(&mut twin, &json!({"role": "Assert"}));
    let mut isolated_twin = isolate;
    merge(&mut isolated_twin, &json!({"role": "Assert"}));
    let again = pod("pod/again", &injected(counter, &injecting)?, anonymous.clone());
    let asserted = pod("pod/assert", &injected(counter, &identity)?, twin);
    let asserted_isolated = pod("pod/assert-isolate", &injected(counter, &isolated)?, isolated_twin);
    let merged_again = pod("pod/merged-again", &injected(counter, &merging)?, merged);
    let bundled = pod("pod/bundle", &request, json!({"featureGates": gate()}))
        .with("bundle", json!([sets::rich("agent"), sets::anonymous("other")]));
    let mut own = create(Resource::POD, &web());
    for key in ["serviceAccountName", "serviceAccount"] {
        merge(&mut own, &json!({"object": {"spec": {key: "robot"}}}));
    }
    let mut keeps = rich;
    merge(&mut keeps, &json!({"serviceAccounts": {"onAppServiceAccount": "Isolate"}}));
    let own = pod("pod/own-account", &own, keeps);
    let unmatched = pod("pod/unmatched", &request, json!({"featureGates": gate()}));
    let injected = [again, asserted, asserted_isolated, merged_again].map(|input| input.about(POD));
    let decided = [isolated, own, unmatched].map(|input| input.about(POD));
    let mut all = vec![
        injecting.apart_from(super::SECOND),
        identity.about(&["/request/object", "/settings"]),
        merging.about(&["/request/object/spec", "/objects", "/settings/sidecarSets/0/spec"]),
        bundled.about(&["/bundle"]).apart_from(super::BODIES),
    ];
    all.extend(decided);
    all.extend(injected);
    Ok(all)
}
