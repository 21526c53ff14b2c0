//! The objects of a plan, as an API server stores them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, bail};
use pillion_admission::admit;
use pillion_admission::request::Request;
use pillion_admission::settings::Settings;
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_kubernetes::outcome::Verdict;
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::world::World;
use pillion_sidecarset::names;
use pillion_workload::{Template, request};
use serde_json::{Value, json};

use crate::plan::{Plan, Sidecars, Workload};
use crate::{kubelet, managed};

/// The namespace of the controllers and of the bundle.
pub const NAMESPACE: &str = "pillion-system";
/// The ConfigMap of the bundle.
pub const BUNDLE: &str = "pillion-bundle";
/// The part of the Pods of a SidecarSet that is not available at the same time, at most, in percent.
pub const MAX_UNAVAILABLE: usize = 10;
/// The time at which all objects were made.
const MADE: &str = "2026-01-02T03:04:05Z";
/// The time of the first injection, in seconds since 1970.
const INJECTED: i64 = 1_767_323_045;
const HASH: &str = "5f6d7c8b9";
/// The metadata that only an API server writes.
const OF_THE_SERVER: [&str; 4] = ["uid", "creationTimestamp", "generation", "managedFields"];

/// Returns the settings of policy and controllers.
pub fn settings() -> Value {
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"mergeClusterSets": true},
        "bundleRef": {"namespace": NAMESPACE, "name": BUNDLE}
    })
}

/// Returns the name of a namespace.
pub fn namespace(number: usize) -> String {
    format!("team-{number:05}")
}

/// Returns the name of a SidecarSet without an identity.
pub fn log(number: usize) -> String {
    format!("log-{number:05}")
}

/// Returns the image of a SidecarSet.
pub fn image(name: &str, version: usize) -> String {
    format!("registry.example.com/agents/{name}:1.{version}.0")
}

/// Returns the path of a SidecarSet.
pub fn set_path(name: &str) -> String {
    format!("/apis/apps.kruise.io/v1alpha1/sidecarsets/{name}")
}

/// Returns an object as a client creates it, and its status, which a client writes afterwards.
pub fn created(mut object: Value) -> (Value, Option<Value>) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| !OF_THE_SERVER.contains(&key.as_str()));
    }
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    (object, status)
}

impl Plan {
    /// Returns all objects, those first that others need.
    ///
    /// # Errors
    /// If the policy does not inject a sidecar.
    pub fn objects(&self) -> anyhow::Result<impl Iterator<Item = Value> + '_> {
        let injected = self.injected()?;
        let named = |name: String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(&name, None)});
        let namespaces = (0..self.size.namespaces).map(namespace);
        let system = [NAMESPACE, "kruise-system"].map(str::to_owned);
        let head = system.into_iter().chain(namespaces).map(named).chain([ceiling()]);
        let pods = self.workloads().flat_map(move |workload| {
            let template = injected.get(&key(workload.sidecars)).cloned().unwrap_or_else(|| pod(&workload));
            let replicas =
                (0..workload.replicas).map(|replica| workload.pod_of(&template, replica)).collect::<Vec<_>>();
            workload.owners().into_iter().chain(replicas)
        });
        Ok(head.chain(self.accounts()).chain(self.sidecar_sets()).chain(pods).map(stored))
    }

    /// Returns the SidecarSets.
    pub fn sidecar_sets(&self) -> impl Iterator<Item = Value> + '_ {
        let groups = (0..self.groups()).flat_map(|group| {
            let merge = |what: &str, verb: &str, resource: &str| {
                let name = format!("mesh-{group:05}-{what}");
                let identity = json!({
                    "serviceAccountName": name, "behaviorWhenServiceAccountInjection": "Merge",
                    "serviceAccountPermissions": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]
                });
                sidecar_set(&name, 1, ("mesh", format!("m{group}")), &identity)
            };
            let vault = format!("vault-{group:05}");
            let identity = json!({"serviceAccountName": vault, "serviceAccountMode": "Isolate"});
            [
                merge("proxy", "get", "endpoints"),
                merge("stats", "list", "pods"),
                sidecar_set(&vault, 1, ("vault", format!("v{group}")), &identity),
            ]
        });
        groups.chain((0..self.logs()).map(|number| self.log_set(number, 1)))
    }

    /// Returns a SidecarSet without an identity, with this version of its image.
    pub fn log_set(&self, number: usize, version: usize) -> Value {
        let names: Vec<String> = self.namespaces_of_log(number).map(namespace).collect();
        let within =
            json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]});
        let mut set = sidecar_set(&log(number), version, ("agents", log(number)), &json!({}));
        set["spec"]["namespaceSelector"] = within;
        set
    }

    /// Returns the ServiceAccounts: `default` of each namespace, and those that the sidecars need.
    fn accounts(&self) -> impl Iterator<Item = Value> + '_ {
        let mut all: BTreeSet<(usize, String)> =
            (0..self.size.namespaces).map(|number| (number, "default".to_owned())).collect();
        for workload in self.workloads() {
            let names = match workload.sidecars {
                Sidecars::Mesh(group) => vec![format!("mesh-{group:05}-proxy"), format!("mesh-{group:05}-stats")],
                Sidecars::Vault(group) => vec![format!("vault-{group:05}")],
                Sidecars::Log(_) => Vec::new(),
            };
            all.extend(names.into_iter().map(|name| (workload.namespace, name)));
        }
        all.into_iter().map(|(number, name)| {
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(&name, Some(number))})
        })
    }

    /// Returns a Pod of each SidecarSet without an identity, as the policy injects it, by [`key`].
    fn injected(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for workload in self.workloads() {
            let Sidecars::Log(number) = workload.sidecars else { continue };
            if let Entry::Vacant(place) = all.entry(key(workload.sidecars)) {
                place.insert(injected(&pod(&workload), &self.log_set(number, 1))?);
            }
        }
        Ok(all)
    }
}

impl Workload {
    /// Returns the name of the Deployment.
    fn name(&self) -> String {
        format!("web-{:06}", self.number)
    }

    /// Returns the name of the `ReplicaSet`.
    fn replica_set(&self) -> String {
        format!("{}-{HASH}", self.name())
    }

    /// Gives the records of a Pod a time of injection of their own: hardly any two Pods have the same one.
    fn stamp(&self, pod: &mut Value, replica: usize) {
        let time = Timestamp(INJECTED + i64::try_from(self.number * 97 + replica * 13).unwrap_or_default()).to_string();
        for key in [names::HASH, names::HASH_WITHOUT_IMAGE] {
            if let Some(Value::String(text)) = pod["metadata"]["annotations"].get_mut(key) {
                *text = text.replace(&Timestamp(INJECTED).to_string(), &time);
            }
        }
    }

    /// Returns the name of a Pod.
    pub fn pod_name(&self, replica: usize) -> String {
        format!("{}-{replica:05}", self.replica_set())
    }

    fn owner(&self, kind: &str, name: &str) -> Value {
        let uid = format!("{}-{kind}-{name}", namespace(self.namespace));
        json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true
        }])
    }

    /// Returns the labels of the Pods.
    fn labels(&self) -> Value {
        let (label, value) = match self.sidecars {
            Sidecars::Mesh(group) => ("mesh", format!("m{group}")),
            Sidecars::Vault(group) => ("vault", format!("v{group}")),
            Sidecars::Log(number) => ("agents", log(number)),
        };
        json!({"app": self.name(), label: value, "tier": "backend", "team": namespace(self.namespace)})
    }

    /// Returns the Deployment and the `ReplicaSet`.
    fn owners(&self) -> [Value; 2] {
        let labels = self.labels();
        let hashed = hashed(&labels);
        let object = |kind: &str, name: &str, labels: &Value, owner: Option<Value>| {
            let mut metadata = metadata(name, Some(self.namespace));
            metadata["labels"] = labels.clone();
            if let Some(owner) = owner {
                metadata["ownerReferences"] = owner;
            }
            json!({
                "apiVersion": "apps/v1", "kind": kind, "metadata": metadata,
                "spec": {
                    "replicas": self.replicas, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": app()}
                },
                "status": {"replicas": self.replicas, "readyReplicas": self.replicas, "observedGeneration": 1}
            })
        };
        let mut deployment = object("Deployment", &self.name(), &labels, None);
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
        let defaults =
            [("strategy", strategy), ("progressDeadlineSeconds", 600.into()), ("revisionHistoryLimit", 10.into())];
        for (key, value) in defaults {
            deployment["spec"][key] = value;
        }
        [deployment, object("ReplicaSet", &self.replica_set(), &hashed, Some(self.owner("Deployment", &self.name())))]
    }

    /// Returns a Pod that runs, made from that of another workload with the same sidecars.
    fn pod_of(&self, template: &Value, replica: usize) -> Value {
        let name = self.pod_name(replica);
        let mut pod = template.clone();
        if let Some(fields) = pod["metadata"].as_object_mut() {
            for (key, value) in metadata_fields(&name, Some(self.namespace)) {
                fields.insert(key, value);
            }
        }
        pod["metadata"]["labels"] = hashed(&self.labels());
        pod["metadata"]["ownerReferences"] = self.owner("ReplicaSet", &self.replica_set());
        self.stamp(&mut pod, replica);
        pod["spec"]["nodeName"] = format!("node-{:04}", (self.number * 7 + replica) % 5_000).into();
        for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
            complete(container);
        }
        pod["status"] = kubelet::running(&pod);
        pod
    }
}

/// Adds the defaults of an API server to a container with a port and a probe.
fn complete(container: &mut Value) {
    let defaults = [
        ("/imagePullPolicy", json!("IfNotPresent")),
        ("/terminationMessagePath", json!("/dev/termination-log")),
        ("/terminationMessagePolicy", json!("File")),
        ("/ports/0/protocol", json!("TCP")),
        ("/readinessProbe/httpGet/scheme", json!("HTTP")),
        ("/readinessProbe/timeoutSeconds", json!(1)),
        ("/readinessProbe/successThreshold", json!(1)),
        ("/readinessProbe/failureThreshold", json!(3)),
    ];
    for (path, value) in defaults {
        let Some((parent, key)) = path.rsplit_once('/') else { continue };
        if let Some(Value::Object(parent)) = container.pointer_mut(parent) {
            parent.entry(key).or_insert(value);
        }
    }
}

/// Returns an object with its `managedFields`. An API server keeps none for a ServiceAccount without data of its own, and
/// the SidecarSets are few.
fn stored(mut object: Value) -> Value {
    if !["ServiceAccount", "SidecarSet"].iter().any(|kind| object["kind"] == *kind) {
        let status_by = if object["kind"] == "Pod" { "kubelet" } else { "kube-controller-manager" };
        object["metadata"]["managedFields"] = managed::fields(&object, status_by);
    }
    object
}

/// Returns the ClusterRole with all permissions that the SidecarSets merge.
fn ceiling() -> Value {
    let rule = |resource: &str, verb: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "agents", "labels": {"pillion.dev/merged-ceiling": "true"}, "creationTimestamp": MADE},
        "rules": [rule("endpoints", "get"), rule("pods", "list")]
    })
}

/// Returns what tells Pods of one kind from those of others.
fn key(sidecars: Sidecars) -> String {
    match sidecars {
        Sidecars::Log(number) => log(number),
        Sidecars::Mesh(group) => format!("mesh-{group}"),
        Sidecars::Vault(group) => format!("vault-{group}"),
    }
}

fn hashed(labels: &Value) -> Value {
    let mut labels = labels.clone();
    labels["pod-template-hash"] = HASH.into();
    labels
}

fn metadata(name: &str, place: Option<usize>) -> Value {
    Value::Object(metadata_fields(name, place).collect())
}

fn metadata_fields(name: &str, place: Option<usize>) -> impl Iterator<Item = (String, Value)> {
    let namespace = place.map(namespace);
    let uid = format!("{}/{name}/0f1e2d3c-4b5a-6978", namespace.as_deref().unwrap_or_default());
    let fields = [
        Some(("name", json!(name))),
        namespace.map(|namespace| ("namespace", json!(namespace))),
        Some(("uid", json!(uid))),
        Some(("creationTimestamp", json!(MADE))),
    ];
    fields.into_iter().flatten().map(|(key, value)| (key.to_owned(), value))
}

/// Returns a Pod before its injection, as a `ReplicaSet`'s controller creates it.
pub fn pod(workload: &Workload) -> Value {
    let mut spec = app();
    spec["serviceAccountName"] = "default".into();
    spec["serviceAccount"] = "default".into();
    spec["priority"] = 0.into();
    let annotations = json!({"checksum/config": format!("{:064x}", workload.number), "prometheus.io/scrape": "true"});
    let labels = hashed(&workload.labels());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", workload.replica_set()), "namespace": namespace(workload.namespace),
            "labels": labels, "annotations": annotations
        },
        "spec": spec
    })
}

/// Returns the `spec` of a Pod with one container.
fn app() -> Value {
    let mount = json!({"name": "kube-api-access-x7z2k", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true});
    let env: Vec<Value> =
        (0..6).map(|index| json!({"name": format!("OPTION_{index}"), "value": "a usual value"})).collect();
    let mut container = json!({
        "name": "app", "image": "registry.example.com/shop/web:3.14.1", "env": env,
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, mount]
    });
    complete(&mut container);
    json!({
        "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}, {
            "name": "kube-api-access-x7z2k",
            "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}
            ]}
        }],
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30, "securityContext": {}, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        ]
    })
}

fn sidecar_set(name: &str, version: usize, (label, value): (&str, String), identity: &Value) -> Value {
    // SidecarSets with identities share no volumes (IDC-11); others often have the same names.
    let has_identity = identity.get("serviceAccountName").is_some();
    let spool = if has_identity { format!("{name}-spool") } else { "spool".to_owned() };
    let container = json!({
        "name": name, "image": image(name, version),
        "args": ["--config=/etc/agent/config.yaml", "--buffer=32Mi"],
        "env": [{"name": "LEVEL", "value": "info"}, {"name": "FORMAT", "value": "json"}],
        "ports": [{"name": "metrics", "containerPort": 9100}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "metrics"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": spool, "mountPath": "/var/spool/agent"}],
        "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"}
    });
    let mut spec = json!({
        "selector": {"matchLabels": {label: value}}, "containers": [container],
        "volumes": [{"name": spool, "emptyDir": {}}],
        "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": format!("{MAX_UNAVAILABLE}%")},
    });
    for (key, value) in identity.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let mut metadata = metadata(name, None);
    metadata["generation"] = 1.into();
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": metadata, "spec": spec})
}

/// Returns a Pod as the policy injects it.
fn injected(pod: &Value, sidecar_set: &Value) -> anyhow::Result<Value> {
    let name = sidecar_set["metadata"]["name"].clone();
    let settings = json!({"sidecarSets": [sidecar_set]});
    let settings = Settings::decode(settings).map_err(|errors| anyhow::anyhow!("the settings: {errors:?}"))?;
    let template = Template { pointer: String::new(), owner: None };
    let place = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let request = Request::decode(request::create(pod, place, &template));
    let mut request = request.map_err(|refusal| anyhow::anyhow!("{}", refusal.message()))?;
    let now = Timestamp(INJECTED);
    let world = World { lookup: &Nothing, authorizer: &Nothing, now, elapsed: &|| Duration::ZERO };
    match admit(&mut request, &settings, world).verdict {
        Verdict::Mutated(pod) => Ok(pod),
        Verdict::Unchanged => bail!("SidecarSet {name} does not select its Pods"),
        Verdict::Refused(refusal) => Err(anyhow::anyhow!("{}", refusal.message())).context("the policy refuses a Pod"),
    }
}

/// Knows nothing: sidecars without identities need no look-up.
struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _object: &ObjectRef) -> Answer {
        Ok(None)
    }
}

impl Authorizer for Nothing {
    fn allows(&self, _question: &Question) -> Result<bool, String> {
        Ok(false)
    }
}
