//! Generators for property tests: Pods and SidecarSets as users write them, and damaged ones.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Map, Value, json};

/// The labels of Pods and selectors.
const LABELS: [(&str, &str); 4] = [("app", "web"), ("tier", "be"), ("team", "a"), ("env", "prod")];
/// The volumes of Pods and of SidecarSets, some of which share names.
const VOLUMES: [&str; 4] = ["data", "log", "cache", "cfg"];
const VARIABLES: [&str; 5] = ["A", "B", "POD_NAME", "LOG_LEVEL", "IS_INJECTED_NOT"];
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn labels() -> impl Strategy<Value = Value> {
    subsequence(LABELS.to_vec(), 0..=LABELS.len())
        .prop_map(|labels| labels.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect::<Map<_, _>>())
        .prop_map(Value::Object)
}

fn env() -> impl Strategy<Value = Vec<Value>> {
    let variable = |name: &'static str| {
        prop_oneof![
            "[ -~]{0,8}".prop_map(move |value| json!({"name": name, "value": value})),
            Just(json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}})),
            Just(json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": false}}})),
        ]
    };
    subsequence(VARIABLES.to_vec(), 0..=3)
        .prop_flat_map(move |names| names.into_iter().map(variable).collect::<Vec<_>>())
}

fn mounts(paths: &'static str) -> impl Strategy<Value = Vec<Value>> {
    subsequence(VOLUMES.to_vec(), 0..=2).prop_flat_map(move |names| {
        names
            .into_iter()
            .map(|name| {
                (paths, any::<bool>(), any::<bool>()).prop_map(move |(path, read_only, expands)| {
                    let mut mount = json!({"name": name, "mountPath": format!("/{name}/{path}")});
                    if read_only {
                        mount["readOnly"] = json!(true);
                    }
                    if expands {
                        mount["subPathExpr"] = json!("$(POD_NAME)/x");
                    }
                    mount
                })
            })
            .collect::<Vec<_>>()
    })
}

fn resources() -> impl Strategy<Value = Value> {
    let amounts = || {
        let cpu = select(vec!["100m", "1", "0.5"]);
        let memory = select(vec!["64Mi", "1Gi", "100M"]);
        (option::of(cpu), option::of(memory)).prop_map(|(cpu, memory)| {
            let mut amounts = Map::new();
            amounts.extend(cpu.map(|cpu| ("cpu".to_owned(), json!(cpu))));
            amounts.extend(memory.map(|memory| ("memory".to_owned(), json!(memory))));
            Value::Object(amounts)
        })
    };
    (amounts(), amounts()).prop_map(|(limits, requests)| json!({"limits": limits, "requests": requests}))
}

/// Generates values of unknown fields, some with numbers that no float can represent.
fn unknown() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just("1234567890123456789012345"),
        Just("0.10000000000000000000000001"),
        Just("1e400"),
        Just("-0.0"),
        Just("1.50"),
        Just("{\"nested\":[null,{\"deeper\":100000000000000000000}]}"),
        Just("\"text with \\u2028 and \\\"quotes\\\"\""),
        Just("[]"),
        Just("false"),
    ]
    .prop_map(|text| serde_json::from_str(text).expect("the texts above are JSON"))
}

fn container(name: String) -> BoxedStrategy<Value> {
    let parts = (env(), mounts("[ab]"), resources(), option::of(unknown()), any::<bool>());
    parts
        .prop_map(move |(env, mut mounts, resources, unknown, has_token)| {
            if has_token {
                mounts.push(json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": TOKEN_PATH}));
            }
            let mut container = json!({
                "name": name, "image": "nginx:1.25", "env": env, "volumeMounts": mounts, "resources": resources,
            });
            if let Some(unknown) = unknown {
                container["fieldOfTomorrow"] = unknown;
            }
            container
        })
        .boxed()
}

fn containers(prefix: &'static str, most: usize) -> impl Strategy<Value = Vec<Value>> {
    (0..=most)
        .prop_flat_map(move |count| (0..count).map(|index| container(format!("{prefix}-{index}"))).collect::<Vec<_>>())
}

/// Generates a Pod as an API server sends it: one to four containers, some init containers, volumes, a token.
pub fn pod() -> BoxedStrategy<Value> {
    let annotations = btree_map(select(vec!["note", "key-a", "oom-score"]), "[a-z]{0,6}|\\{\"a\": 1\\}", 0..3);
    let parts = (
        labels(),
        annotations,
        containers("app", 3),
        container("main".to_owned()),
        containers("setup", 2),
        option::of(unknown()),
        option::of(unknown()),
        vec(select(vec!["one", "two"]), 0..2),
    );
    parts
        .prop_map(|(labels, annotations, mut containers, main, init, in_spec, at_top, secrets)| {
            containers.push(main);
            let mut volumes: Vec<Value> = VOLUMES.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
            volumes.push(json!({"name": "kube-api-access-abcde", "projected": {"sources": [], "defaultMode": 420}}));
            let secrets: Vec<Value> = secrets.into_iter().map(|name| json!({ "name": name })).collect();
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default", "labels": labels, "annotations": annotations},
                "spec": {
                    "containers": containers, "initContainers": init, "volumes": volumes, "imagePullSecrets": secrets,
                    "serviceAccountName": "default", "priority": 0, "terminationGracePeriodSeconds": 30,
                },
                "status": {},
            });
            if let Some(unknown) = in_spec {
                pod["spec"]["fieldOfTomorrow"] = unknown;
            }
            if let Some(unknown) = at_top {
                pod["fieldOfTomorrow"] = unknown;
            }
            pod
        })
        .boxed()
}

fn sidecar(name: String) -> BoxedStrategy<Value> {
    let enabled = || select(vec!["enabled", "disabled"]);
    let upgrade = prop_oneof![
        3 => Just(json!({"upgradeType": "ColdUpgrade"})),
        1 => Just(json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"})),
    ];
    let transfers = vec((select(vec!["main", "app-0", "app-1"]), select(VARIABLES.to_vec())), 0..3);
    let policy = option::weighted(0.2, select(vec!["cpu*50%", "max(cpu, 100m)", "200m"]));
    let place = option::of(select(vec!["BeforeAppContainer", "AfterAppContainer"]));
    let parts = (container(name), (enabled(), enabled()), upgrade, transfers, policy, place);
    parts
        .prop_map(|(mut sidecar, (volumes, devices), upgrade, transfers, policy, place)| {
            let transfers: Vec<Value> = transfers
                .into_iter()
                .map(|(container, name)| json!({"sourceContainerName": container, "envName": name}))
                .collect();
            sidecar["shareVolumePolicy"] = json!({ "type": volumes });
            sidecar["shareVolumeDevicePolicy"] = json!({ "type": devices });
            sidecar["upgradeStrategy"] = upgrade;
            sidecar["transferEnv"] = json!(transfers);
            if let Some(place) = place {
                sidecar["podInjectPolicy"] = json!(place);
            }
            if let Some(expression) = policy {
                sidecar["resources"] = json!({});
                sidecar["resourcesPolicy"] = json!({
                    "targetContainersMode": "sum", "targetContainersNameRegex": "^(main|app-.*)$",
                    "resourcesExpr": {"requests": {"cpu": expression}},
                });
            }
            sidecar
        })
        .boxed()
}

/// Generates a SidecarSet whose containers begin with its name, so that two SidecarSets never clash.
pub fn sidecar_set(name: &'static str) -> BoxedStrategy<Value> {
    let sidecars = (0..=2_usize)
        .prop_flat_map(move |count| (0..count).map(|index| sidecar(format!("{name}-{index}"))).collect::<Vec<_>>());
    let init = option::of((container(format!("{name}-init")), any::<bool>()));
    let patch = option::of((
        select(vec!["key-a", "key-b", "oom-score"]),
        select(vec!["Retain", "Overwrite", "MergePatchJson"]),
        select(vec!["{\"b\":2}", "{\"a\":null,\"c\":[1]}"]),
    ));
    let parts = (labels(), sidecars, init, patch, vec(select(vec!["one", "three"]), 0..2), option::of(unknown()));
    parts
        .prop_map(move |(labels, sidecars, init, patch, secrets, unknown)| {
            let init: Vec<Value> = init
                .into_iter()
                .map(|(mut container, is_native)| {
                    if is_native {
                        container["restartPolicy"] = json!("Always");
                    }
                    container
                })
                .collect();
            let mut volumes: Vec<Value> =
                VOLUMES.iter().map(|volume| json!({"name": volume, "hostPath": {"path": "/x"}})).collect();
            volumes.push(json!({"name": "kube-api-access-abcde", "emptyDir": {}}));
            let secrets: Vec<Value> = secrets.into_iter().map(|name| json!({ "name": name })).collect();
            let patches: Vec<Value> = patch
                .into_iter()
                .map(|(key, policy, text)| {
                    let text = if policy == "MergePatchJson" { text } else { "plain" };
                    json!({"patchPolicy": policy, "annotations": {key: text}})
                })
                .collect();
            let mut set = json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {
                    "selector": {"matchLabels": labels}, "containers": sidecars, "initContainers": init,
                    "volumes": volumes, "imagePullSecrets": secrets, "patchPodMetadata": patches,
                    "updateStrategy": {"type": "NotUpdate"},
                },
            });
            if let Some(unknown) = unknown {
                set["spec"]["fieldOfTomorrow"] = unknown;
            }
            set
        })
        .boxed()
}

/// Generates up to three SidecarSets with different names.
pub fn sidecar_sets() -> BoxedStrategy<Vec<Value>> {
    (sidecar_set("alpha"), sidecar_set("beta"), sidecar_set("gamma"), 0..=3_usize)
        .prop_map(|(alpha, beta, gamma, count)| [alpha, beta, gamma].into_iter().take(count).collect())
        .boxed()
}

/// Generates SidecarSets, some of which have fields for ServiceAccounts, valid or not.
pub fn naming_sidecar_sets() -> BoxedStrategy<Vec<Value>> {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": ["a"]});
    let wide = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let fields = (
        select(vec!["logs", "mesh", "default", "sidecarset-merged-x", ""]),
        select(vec!["SidecarsOnly", "isolate", "Pod", ""]),
        select(vec!["Refuse", "merge", ""]),
        vec(select(vec![rule, wide]), 0..3),
        vec((select(vec!["vault", "kubernetes", ""]), select(vec!["vault", "sts", "token", "../x"])), 0..3),
    );
    let fields = fields.prop_map(|(account, mode, behavior, permissions, tokens)| {
        let token = |(audience, path): &(&str, &str)| json!({"audience": audience, "path": path});
        json!({
            "serviceAccountName": account, "serviceAccountMode": mode, "behaviorWhenServiceAccountInjection": behavior,
            "serviceAccountPermissions": permissions, "serviceAccountTokens": tokens.iter().map(token).collect::<Value>(),
        })
    });
    (sidecar_sets(), vec(option::of(fields), 3))
        .prop_map(|(mut sets, fields)| {
            for (set, fields) in sets.iter_mut().zip(fields) {
                if let (Some(spec), Some(Value::Object(fields))) = (set["spec"].as_object_mut(), fields) {
                    spec.extend(fields);
                }
            }
            sets
        })
        .boxed()
}

/// Generates any JSON, a few levels deep.
pub fn junk() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        unknown(),
        "\\PC{0,6}".prop_map(Value::String),
        select(vec!["Always", "100Mi", "50%", "v1", "metadata.labels['a']", "$(A)", "(", "-1", "cpu*", "{}", "[1]"])
            .prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key = prop_oneof![
            select(vec!["name", "spec", "metadata", "containers", "env", "value", "type", "rules"])
                .prop_map(str::to_owned),
            "\\PC{0,4}",
        ];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// Generates values of `sound` with up to three places replaced by junk or removed.
pub fn damaged<S: Strategy<Value = Value>>(sound: S) -> impl Strategy<Value = Value> {
    (sound, vec((any::<Index>(), option::weighted(0.8, junk())), 1..4)).prop_map(|(mut value, wounds)| {
        for (place, junk) in wounds {
            let mut places = Vec::new();
            collect(&value, String::new(), &mut places);
            let pointer = place.get(&places).clone();
            match (junk, pointer.rsplit_once('/')) {
                (Some(junk), _) => {
                    if let Some(slot) = value.pointer_mut(&pointer) {
                        *slot = junk;
                    }
                }
                (None, Some((parent, key))) => {
                    if let Some(Value::Object(object)) = value.pointer_mut(parent) {
                        object.remove(key);
                    }
                }
                (None, None) => value = Value::Null,
            }
        }
        value
    })
}

/// Returns the JSON pointers of a value and of everything inside it.
pub fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, String::new(), &mut found);
    found
}

fn collect(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                collect(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(at);
}
