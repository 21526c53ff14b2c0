//! A realistic cluster, generated from a seed: namespaces of teams, their workloads, and SidecarSets that apply to some
//! of them. It also computes the required result from the generation itself, without Pillion's code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The size of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub namespaces: usize,
    pub sidecar_sets: usize,
    pub pods: usize,
    pub seed: u64,
}

/// A SidecarSet for Pods with one label, in some namespaces.
#[derive(Clone, Debug)]
pub struct Set {
    pub name: String,
    pub label: (&'static str, String),
    pub within: Within,
    pub kind: Kind,
}

/// The namespaces of a SidecarSet.
#[derive(Clone, Debug)]
pub enum Within {
    All,
    Named(String),
    Team(String),
    /// Namespaces of one of these tiers.
    Tiers(&'static [&'static str]),
}

/// What the set requires besides its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Isolate,
    /// It merges its account with others, and has this verb on this resource.
    Merge {
        verb: &'static str,
        resource: &'static str,
    },
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct TeamNamespace {
    pub name: String,
    pub team: String,
    pub tier: &'static str,
    /// The labels of the Pods of its two Deployments.
    pub deployments: [(&'static str, BTreeMap<String, String>); 2],
    /// The labels of a Pod without an owner.
    pub bare: BTreeMap<String, String>,
}

/// The whole cluster.
pub struct Corpus {
    pub size: Size,
    pub sets: Vec<Set>,
    pub places: Vec<TeamNamespace>,
}

const TIERS: [&str; 3] = ["gold", "silver", "bronze"];
/// One in this many namespaces has a workload with its own secret.
const VAULTS: usize = 4;
/// One in this many namespaces has a bare Pod that matches another pair of SidecarSets.
const STRAYS: usize = 8;

/// Returns a pseudo-random number for this place: `SplitMix64`.
fn draw(seed: u64, place: usize) -> u64 {
    let mut bits = seed.wrapping_add((place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Corpus {
    pub fn new(size: Size) -> Self {
        let (pairs, isolated) = (size.sidecar_sets / 5, size.sidecar_sets / 5);
        let teams = (size.namespaces / 40).max(2);
        let team = |number: usize| format!("team-{:03}", number % teams);
        let name = |number: usize| format!("{}-{number:04}", team(number));
        let labels = |pairs: &[(&str, String)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
        };
        let place = |number: usize| {
            let mesh = |number: usize| ("mesh", format!("m{}", number % pairs));
            let mut worker = vec![("app", "worker".to_owned())];
            if number.is_multiple_of(VAULTS) {
                worker.push(("vault", format!("v{}", number / VAULTS % isolated)));
            }
            let mut bare = vec![("app", "batch".to_owned())];
            if number % STRAYS == 1 {
                bare.push(mesh(number + 1));
            }
            TeamNamespace {
                name: name(number),
                team: team(number),
                tier: TIERS[number % TIERS.len()],
                deployments: [("web", labels(&[("app", "web".to_owned()), mesh(number)])), ("worker", labels(&worker))],
                bare: labels(&bare),
            }
        };
        let mut sets = Vec::new();
        for pair in 0..pairs {
            let (proxy, stats) = match pair % 4 {
                0 => (Within::All, Within::All),
                1 => (Within::All, Within::Team(team(pair))),
                2 => (Within::Named(name(pair)), Within::All),
                _ => (Within::Tiers(&["gold", "silver"]), Within::Tiers(&["gold", "silver"])),
            };
            let merge = |verb, resource| Kind::Merge { verb, resource };
            for (what, within, kind) in
                [("proxy", proxy, merge("get", "endpoints")), ("stats", stats, merge("list", "pods"))]
            {
                let label = ("mesh", format!("m{pair}"));
                sets.push(Set { name: format!("mesh-{pair:03}-{what}"), label, within, kind });
            }
        }
        for number in 0..isolated {
            let within = if number % 2 == 0 { Within::All } else { Within::Tiers(&["gold"]) };
            let label = ("vault", format!("v{number}"));
            sets.push(Set { name: format!("vault-{number:03}"), label, within, kind: Kind::Isolate });
        }
        for number in sets.len()..size.sidecar_sets {
            let within = match number % 3 {
                0 => Within::All,
                1 => Within::Team(team(number)),
                _ => Within::Named(name(number % size.namespaces)),
            };
            let label = ("app", ["web", "worker", "batch"][number % 3].to_owned());
            sets.push(Set { name: format!("log-{number:03}"), label, within, kind: Kind::Plain });
        }
        Self { size, sets, places: (0..size.namespaces).map(place).collect() }
    }

    /// Returns the namespaces in which a workload needs a sidecar's own token.
    pub fn token_namespaces(&self) -> Vec<&str> {
        let has = |place: &&TeamNamespace| place.deployments.iter().any(|(_, labels)| labels.contains_key("vault"));
        self.places.iter().filter(has).map(|place| place.name.as_str()).collect()
    }

    /// Returns the sets that inject a container into a Pod with these labels.
    pub fn sets_for(&self, place: &TeamNamespace, labels: &BTreeMap<String, String>) -> Vec<&Set> {
        let gets = |set: &&Set| {
            let (key, value) = &set.label;
            labels.get(*key) == Some(value)
                && match &set.within {
                    Within::All => true,
                    Within::Named(name) => *name == place.name,
                    Within::Team(team) => *team == place.team,
                    Within::Tiers(tiers) => tiers.contains(&place.tier),
                }
        };
        self.sets.iter().filter(gets).collect()
    }

    /// Returns the sets that merge their accounts in a namespace, in groups of two or more.
    pub fn merged(&self, place: &TeamNamespace) -> BTreeSet<Vec<String>> {
        let all = place.deployments.iter().map(|(_, labels)| labels).chain([&place.bare]);
        let merging = |labels| -> Vec<String> {
            let merging = self.sets_for(place, labels).into_iter().filter(|set| matches!(set.kind, Kind::Merge { .. }));
            let mut names: Vec<String> = merging.map(|set| set.name.clone()).collect();
            names.sort_unstable();
            names
        };
        all.map(merging).filter(|names| names.len() > 1).collect()
    }

    /// Returns the accounts of which a namespace needs a token. Existing Pods without a token do not count.
    pub fn isolated(&self, place: &TeamNamespace) -> BTreeSet<String> {
        let all = place.deployments.iter().flat_map(|(_, labels)| self.sets_for(place, labels));
        all.filter(|set| set.kind == Kind::Isolate).map(|set| set.name.clone()).collect()
    }

    /// Returns every account that Pods of a namespace need to exist.
    pub fn accounts(&self, place: &TeamNamespace) -> BTreeSet<String> {
        self.merged(place).into_iter().flatten().chain(self.isolated(place)).collect()
    }

    /// Returns the permissions that the SidecarSets merge. The ClusterRole with them is the ceiling.
    pub fn permissions(&self) -> Value {
        let rules = self.sets.iter().filter_map(permission);
        let mut rules: Vec<Value> = rules.collect();
        rules.push(json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]}));
        rules.dedup();
        Value::Array(rules)
    }

    /// Returns the SidecarSets as users write them.
    pub fn sidecar_sets(&self) -> Vec<Value> {
        self.sets.iter().enumerate().map(|(number, set)| manifest(self.size.seed, number, set)).collect()
    }

    /// Returns the objects of a namespace, in the order in which they can be created.
    pub fn objects(&self, place: &TeamNamespace) -> Vec<Value> {
        let account = |name: &String| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": place.name}});
        let mut all: Vec<Value> = self.accounts(place).iter().map(account).collect();
        let each = self.size.pods / self.size.namespaces;
        let (first, second) = (each.saturating_sub(1).div_ceil(2), each.saturating_sub(1) / 2);
        for ((name, labels), replicas) in place.deployments.iter().zip([first, second]) {
            all.extend(workload(place, name, labels, replicas, self.size.seed));
        }
        if each > 0 {
            all.push(pod(place, "batch", &place.bare, None, self.size.seed));
        }
        all
    }
}

/// Returns the Namespace.
pub fn namespace(place: &TeamNamespace) -> Value {
    let labels = json!({"team": place.team, "tier": place.tier});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.name, "labels": labels}})
}

/// Returns the permission of a set that merges.
pub fn permission(set: &Set) -> Option<Value> {
    let Kind::Merge { verb, resource } = &set.kind else { return None };
    Some(json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]}))
}

fn manifest(seed: u64, number: usize, set: &Set) -> Value {
    let bits = draw(seed, number);
    let env: Vec<Value> = (0..bits % 8)
        .map(|index| json!({"name": format!("OPTION_{index}"), "value": format!("{:x}", bits >> index)}))
        .collect();
    let container = json!({
        "name": set.name,
        "image": format!("registry.example.com/agents/{}:1.{}.{}", set.name, bits % 30, bits % 7),
        "args": ["--config=/etc/agent/config.yaml", format!("--buffer={}Mi", bits % 64)],
        "env": env,
        "ports": [{"name": "metrics", "containerPort": 9000 + bits % 1000}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "metrics"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": format!("{}-spool", set.name), "mountPath": "/var/spool/agent"}],
        "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"}
    });
    let (key, value) = &set.label;
    let mut spec = json!({
        "selector": {"matchLabels": {*key: value}}, "containers": [container],
        "volumes": [{"name": format!("{}-spool", set.name), "emptyDir": {}}]
    });
    let namespaces = match &set.within {
        Within::All => None,
        Within::Named(name) => Some(json!({"matchLabels": {"kubernetes.io/metadata.name": name}})),
        Within::Team(team) => Some(json!({"matchLabels": {"team": team}})),
        Within::Tiers(tiers) => Some(json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": tiers}]})),
    };
    if let Some(namespaces) = namespaces {
        spec["namespaceSelector"] = namespaces;
    }
    match set.kind {
        Kind::Plain => {}
        Kind::Isolate => {
            spec["serviceAccountName"] = json!(set.name);
            spec["serviceAccountMode"] = json!("Isolate");
        }
        Kind::Merge { .. } => {
            spec["serviceAccountName"] = json!(set.name);
            spec["behaviorWhenServiceAccountInjection"] = json!("Merge");
            spec["serviceAccountPermissions"] = json!([permission(set)]);
        }
    }
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": set.name}, "spec": spec})
}

/// Returns a Deployment, its `ReplicaSet`, and the Pods of that, as controllers would create them.
fn workload(
    place: &TeamNamespace,
    name: &str,
    labels: &BTreeMap<String, String>,
    replicas: usize,
    seed: u64,
) -> Vec<Value> {
    let template = |labels: &Value| json!({"metadata": {"labels": labels}, "spec": app(place, name, seed)});
    let hash = "5f6d7c8b9";
    let mut hashed = json!(labels);
    hashed["pod-template-hash"] = json!(hash);
    let set = format!("{name}-{hash}");
    let owned_by = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("{}-{name}", place.name), "controller": true, "blockOwnerDeletion": true}]);
    let mut all = vec![
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": place.name, "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(&json!(labels))}
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": set, "namespace": place.name, "labels": hashed, "ownerReferences": owned_by("Deployment", name)},
            "spec": {"replicas": replicas, "selector": {"matchLabels": hashed}, "template": template(&hashed)}
        }),
    ];
    let hashed: BTreeMap<String, String> = serde_json::from_value(hashed).unwrap();
    all.extend(
        (0..replicas).map(|replica| {
            pod(place, &format!("{set}-{replica:05}"), &hashed, Some(owned_by("ReplicaSet", &set)), seed)
        }),
    );
    all
}

/// Returns a Pod that runs on a node.
fn pod(
    place: &TeamNamespace,
    name: &str,
    labels: &BTreeMap<String, String>,
    owners: Option<Value>,
    seed: u64,
) -> Value {
    let mut spec = app(place, name, seed);
    // The API server's own admission adds this mount.
    let mount = json!({"name": "kube-api-access-x7z2k", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true});
    for container in spec["containers"].as_array_mut().unwrap() {
        container["volumeMounts"].as_array_mut().unwrap().push(mount.clone());
    }
    spec["volumes"].as_array_mut().unwrap().push(json!({
        "name": "kube-api-access-x7z2k",
        "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}
        ]}
    }));
    spec["serviceAccountName"] = json!("default");
    spec["nodeName"] = json!(format!("node-{:03}", draw(seed, name.len() + place.name.len()) % 200));
    let annotations =
        json!({"checksum/config": format!("{:064x}", draw(seed, name.len())), "prometheus.io/scrape": "true"});
    let mut metadata = json!({"name": name, "namespace": place.name, "labels": labels, "annotations": annotations});
    if let Some(owners) = owners {
        metadata["ownerReferences"] = owners;
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Returns the Pod spec of a workload.
fn app(place: &TeamNamespace, name: &str, seed: u64) -> Value {
    let env: Vec<Value> = (0..12)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("{:x}", draw(seed, index))}))
        .collect();
    json!({
        "containers": [{
            "name": "app", "image": format!("registry.example.com/{}/{name}:v1", place.team), "env": env,
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}},
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "tmp", "mountPath": "/tmp"}]
        }],
        "volumes": [{"name": "config", "configMap": {"name": "app"}}, {"name": "tmp", "emptyDir": {}}]
    })
}
