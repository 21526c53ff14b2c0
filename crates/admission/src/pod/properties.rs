//! Properties that hold for every Pod and every choice of `SidecarSet`s. The generators draw from small pools, so that
//! features interact.

mod identities;

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::NoObjects;
use pillion_kubernetes::outcome::{Outcome, Verdict};
use pillion_kubernetes::quantity::Quantity;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::pod::{Context, PodRequest, admit};
use crate::settings::Settings;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns the answer in an empty cluster.
fn answer(pod: &Value, sets: &[SidecarSet], revisions: &[ControllerRevision], call: (&str, i64)) -> Outcome {
    let settings = Settings { controller_revisions: revisions.to_vec(), ..Settings::default() };
    answer_with(&settings, pod, sets, call)
}

fn answer_with(settings: &Settings, pod: &Value, sets: &[SidecarSet], (uid, now): (&str, i64)) -> Outcome {
    let context = Context { settings, sidecar_sets: sets, lookup: &NoObjects, now: Timestamp(now) };
    admit(PodRequest { uid, namespace: "n", object: pod }, context)
}

/// Draws a subset of `fields` and returns it as an object.
fn some_of(fields: Vec<(&'static str, Value)>) -> impl Strategy<Value = Object> {
    let count = fields.len();
    subsequence(fields, 0..=count)
        .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn with(mut object: Object, more: Value) -> Value {
    if let Value::Object(more) = more {
        object.extend(more);
    }
    Value::Object(object)
}

fn sidecar_fields() -> Vec<(&'static str, Value)> {
    let app = json!("app");
    vec![
        (
            "env",
            json!([{"name": "A", "value": ""}, {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        ),
        (
            "volumeMounts",
            json!([{"name": "v1", "mountPath": "/v1", "readOnly": false}, {"name": "v2", "mountPath": "/d"}]),
        ),
        ("resources", json!({"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": 0.25}})),
        ("ports", json!([{"containerPort": 80}])),
        ("livenessProbe", json!({"httpGet": {"port": 80}, "initialDelaySeconds": 0})),
        ("startupProbe", json!({"exec": {"command": ["true"]}})),
        ("lifecycle", json!({"preStop": {"httpGet": {"port": "http"}}})),
        ("securityContext", json!({"runAsUser": 0, "privileged": false})),
        ("stdin", json!(false)),
        ("args", json!([])),
        ("podInjectPolicy", json!("AfterAppContainer")),
        ("upgradeStrategy", json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"})),
        ("shareVolumePolicy", json!({"type": "enabled"})),
        ("shareVolumeDevicePolicy", json!({"type": "enabled"})),
        (
            "transferEnv",
            json!([
                {"sourceContainerName": app, "envNames": ["A", "POD", "missing"]},
                {"sourceContainerName": "a1", "envName": "A"},
                {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.annotations['k1']"}}, "envName": "B"}
            ]),
        ),
        (
            "resourcesPolicy",
            json!({
                "targetContainersMode": "sum", "targetContainersNameRegex": ".*",
                "resourcesExpr": {"limits": {"cpu": "cpu*50%"}, "requests": {"memory": "max(memory, 1Mi)"}}
            }),
        ),
    ]
}

/// Draws a sidecar of a set. Most names are the set's own, some are the Pod's or another set's.
fn sidecar(set: &'static str, number: usize) -> impl Strategy<Value = Value> {
    let own = format!("{set}{number}");
    let name = prop_oneof![40 => Just(own), 1 => select(vec!["app".to_owned(), "a1".to_owned(), "i0".to_owned()])];
    (some_of(sidecar_fields()), name).prop_map(|(fields, name)| with(fields, json!({"name": name, "image": "i:1"})))
}

fn init_sidecar(set: &'static str) -> impl Strategy<Value = Value> {
    (sidecar(set, 8), any::<bool>()).prop_map(|(mut sidecar, native)| {
        if native {
            sidecar["restartPolicy"] = json!("Always");
        }
        sidecar
    })
}

fn patch() -> impl Strategy<Value = Value> {
    let texts =
        ["text", "", "{}", "app", r#"{"b": null, "a": 1}"#, r#"{"a":[{"x":null}],"c":{"d":null}}"#, r#"[{"x":null}]"#];
    let policy = select(vec!["Retain", "Overwrite", "MergePatchJson", "MergePatchJson"]);
    (policy, select(vec!["k1", "k2"]), select(texts.to_vec()))
        .prop_map(|(policy, key, text)| json!({"patchPolicy": policy, "annotations": {key: text}}))
}

fn set(name: &'static str) -> impl Strategy<Value = Value> {
    let revision = json!({"revision": {"revisionName": "r", "policy": "Partial"}});
    let fields = vec![
        ("imagePullSecrets", json!([{"name": "s1"}, {"name": "s2"}, {"name": "s1"}])),
        ("namespaceSelector", json!({"matchLabels": {"kubernetes.io/metadata.name": "n"}})),
        ("volumes", json!([{"name": "v1", "emptyDir": {}}, {"name": "v2", "configMap": {"name": "c"}}])),
        ("injectionStrategy", if name == "a" { revision } else { json!({}) }),
        ("updateStrategy", json!({"partition": "50%"})),
    ];
    let containers = (sidecar(name, 1), sidecar(name, 2)).prop_map(|(one, other)| vec![one, other]);
    // A set without containers leaves no record, so the drawn revision would be lost.
    let least = usize::from(name == "a");
    let containers = containers.prop_flat_map(move |list| subsequence(list, least..=2));
    let lists = (containers, prop::collection::vec(init_sidecar(name), 0..2), prop::collection::vec(patch(), 0..3));
    let native = prop::option::of(prop::sample::select(vec!["Off", "EndingPods", "Always"]));
    let rules = prop::option::of(prop::sample::select(vec!["Refuse", "Clamp", "Clamp"]));
    let all = (some_of(fields), lists, any::<bool>(), native, rules);
    all.prop_map(move |(fields, (containers, init, patches), canary, native, rules)| {
        let spec = with(
            fields,
            json!({
                "selector": {"matchLabels": {"app": "x"}}, "containers": containers, "initContainers": init,
                "patchPodMetadata": patches
            }),
        );
        let mut metadata = json!({"name": name});
        if canary && name == "c" {
            metadata["annotations"] =
                json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "b"});
        }
        let is_hot = |sidecar: &Value| json::text(sidecar, &["upgradeStrategy", "upgradeType"]) == "HotUpgrade";
        if let Some(native) = native.filter(|_| !json::items(&spec, &["containers"]).iter().any(is_hot)) {
            metadata["annotations"]["pillion.dev/native"] = native.into();
        }
        if let Some(out_of_bounds) = rules {
            metadata["annotations"]["pillion.dev/overrides"] = overridable(name, out_of_bounds).to_string().into();
        }
        // There are no Namespaces in the cluster, so namespace selectors match nothing.
        json!({"metadata": metadata, "spec": spec})
    })
}

/// Returns rules with which Pods may override fields of the first two sidecars of a set.
fn overridable(set: &str, out_of_bounds: &str) -> Value {
    let allowed = json!({
        "cpu": {"min": "100m", "max": "1"}, "memory": {"max": "1Gi"}, "env": {"A": "x|y|", "NEW": ".*"},
        "imageTags": ["1", "2"], "istioAnnotations": true,
    });
    let first = format!("{set}1");
    json!({"outOfBounds": out_of_bounds, "containers": {first: allowed, format!("{set}2"): {"env": {"A": "x"}}}})
}

/// The annotations of a Pod that override something in its sidecars.
fn overriding() -> impl Strategy<Value = Object> {
    let all = json!({"resources": {"limits": {"cpu": "0.5", "memory": "512Mi"}, "requests": {"memory": 1e6}},
        "env": {"A": "x", "NEW": ""}, "imageTag": "2"});
    let annotations = vec![
        ("overrides.pillion.dev/a1", json!(all.to_string())),
        ("overrides.pillion.dev/b1", json!(r#"{"resources":{"limits":{"cpu":"7"}},"env":{"A":"z"},"imageTag":"3"}"#)),
        ("overrides.pillion.dev/b2", json!(r#"{"env":{"A":"x"}}"#)),
        ("overrides.pillion.dev/c1", json!(r#"{"env":{"A":"","NEW":"v"}}"#)),
        ("sidecar.istio.io/proxyCPU", json!("200m")),
        ("sidecar.istio.io/proxyMemoryLimit", json!("2Gi")),
    ];
    prop_oneof![Just(Object::new()), some_of(annotations)]
}

fn sets() -> impl Strategy<Value = Vec<SidecarSet>> {
    (set("a"), set("b"), set("c"))
        .prop_flat_map(|(a, b, c)| subsequence(vec![a, b, c], 1..=3))
        .prop_map(|sets| sets.into_iter().map(SidecarSet::from_decoded).collect())
}

/// Returns the revision that set `a` may request.
fn revisions() -> Vec<ControllerRevision> {
    let revision = ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": "r", "labels": {"kruise.io/sidecarset-name": "a"}},
        "data": {"spec": {"containers": [{"name": "a1", "image": "old:1"}, {"name": "a3", "image": "old:1"}]}}
    }));
    vec![revision.unwrap()]
}

fn app(name: &'static str) -> impl Strategy<Value = Value> {
    let fields = vec![
        (
            "env",
            json!([{"name": "A", "value": ""}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ),
        (
            "volumeMounts",
            json!([
                {"name": "d", "mountPath": "/d", "subPathExpr": "$(POD)/$(none)"}, {"name": "d", "mountPath": "/e", "readOnly": false}
            ]),
        ),
        ("volumeDevices", json!([{"name": "b", "devicePath": "/dev/b"}, {"name": "b", "devicePath": "/e"}])),
        ("resources", json!({"limits": {"cpu": "1500m"}, "requests": {"cpu": "1", "memory": "1e6"}})),
        ("newer", json!({"x": [1, 2.50]})),
    ];
    some_of(fields).prop_map(move |fields| with(fields, json!({"name": name, "image": "app:1"})))
}

fn pod() -> impl Strategy<Value = Value> {
    let long: Value = serde_json::from_str("1000000000000000000000001").unwrap();
    let spec = vec![
        ("volumes", json!([{"name": "d", "emptyDir": {}}, {"name": "v2", "emptyDir": {}}])),
        ("imagePullSecrets", json!([{"name": "s2"}, {"name": "own"}])),
        ("initContainers", json!([{"name": "i0", "image": "i:1"}])),
        ("newer", json!({"b": null, "a": long})),
    ];
    let annotations = vec![
        ("k1", json!("app")),
        ("k2", json!(r#"{"a":{},"z":1.50}"#)),
        ("other", json!("kept")),
        ("kruise.io/sidecarset-hash", json!(r#"{"gone":{"hash":"h","sidecarList":["x"]}}"#)),
        ("kruise.io/sidecarset-injected-list", json!("gone")),
    ];
    let metadata = vec![("name", json!("p")), ("generateName", json!("p-")), ("labels", json!({"app": "x"}))];
    let annotations = (some_of(annotations), overriding());
    (some_of(spec), annotations, some_of(metadata), app("app"), app("second")).prop_map(
        |(spec, (mut annotations, overriding), metadata, app, second)| {
            annotations.extend(overriding);
            let metadata = with(metadata, json!({"annotations": annotations, "labels": {"app": "x"}}));
            json!({"metadata": metadata, "spec": with(spec, json!({"containers": [app, second]})), "status": {}})
        },
    )
}

/// Returns a Pod that a webhook changed as the API server returns it: decoded, defaulted, and changed by its own
/// admission plugins (`LimitRanger`, `ServiceAccount`).
fn through_the_api_server(mut pod: Value) -> Value {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return pod };
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            serialise(container);
            fill_in(container);
            let mounts = json::list_mut(container.as_object_mut().unwrap(), "volumeMounts").unwrap();
            if !mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                mounts.push(json!({"name": "kube-api-access-x", "readOnly": true, "mountPath": TOKEN_PATH}));
            }
        }
    }
    json::list_mut(spec, "volumes").unwrap().push(json!({"name": "kube-api-access-x", "projected": {}}));
    pod
}

/// Drops values that Go omits, and writes quantities in canonical form.
fn serialise(container: &mut Value) {
    let fields = container.as_object_mut().unwrap();
    fields.retain(|_, value| *value != json!(false) && *value != json!([]));
    for key in ["env", "volumeMounts"] {
        for item in fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            item.as_object_mut().unwrap().retain(|_, value| *value != json!("") && *value != json!(false));
        }
    }
    if let Some(probe) = fields.get_mut("livenessProbe").and_then(Value::as_object_mut) {
        probe.retain(|_, value| *value != json!(0));
    }
    let resources = fields.entry("resources").or_insert_with(|| json!({})).as_object_mut().unwrap();
    for quantity in resources.values_mut().flat_map(|map| map.as_object_mut().unwrap().values_mut()) {
        *quantity = json!(Quantity::from_json(quantity).unwrap().to_string());
    }
}

fn fill_in(container: &mut Value) {
    let absent = |object: &mut Value, key: &str, value: Value| {
        object.as_object_mut().unwrap().entry(key).or_insert(value);
    };
    for key in ["livenessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(key) {
            for (key, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                absent(probe, key, json!(value));
            }
        }
    }
    for path in ["/livenessProbe/httpGet", "/lifecycle/preStop/httpGet"] {
        if let Some(get) = container.pointer_mut(path) {
            absent(get, "path", json!("/"));
            absent(get, "scheme", json!("HTTP"));
        }
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        absent(port, "protocol", json!("TCP"));
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            absent(field, "apiVersion", json!("v1"));
        }
    }
    for (key, value) in [
        ("imagePullPolicy", "IfNotPresent"),
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
    ] {
        absent(container, key, json!(value));
    }
    let resources = container.get_mut("resources").unwrap();
    absent(resources, "limits", json!({}));
    absent(resources, "requests", json!({}));
    absent(&mut resources["limits"], "ephemeral-storage", json!("1Gi"));
    for (key, limit) in resources["limits"].as_object().unwrap().clone() {
        absent(&mut resources["requests"], &key, limit);
    }
}

/// A change of another webhook to every container of a Pod.
fn foreign(image: Option<&'static str>, variable: Option<(&'static str, usize)>) -> impl Fn(&mut Value) {
    move |pod| {
        for list in ["/spec/initContainers", "/spec/containers"] {
            for container in pod.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(registry) = image {
                    container["image"] = format!("{registry}/{}", container["image"].as_str().unwrap()).into();
                }
                if let Some((name, index)) = variable {
                    let env = json::list_mut(container.as_object_mut().unwrap(), "env").unwrap();
                    env.insert(index.min(env.len()), json!({"name": name, "value": "p"}));
                }
            }
        }
    }
}

/// Returns the parts of `pod` that injection must not change.
fn untouched(pod: &Value, before: &Value) -> Value {
    let mut rest = pod.clone();
    let had = |path: &str, item: &Value| {
        before
            .pointer(path)
            .and_then(Value::as_array)
            .is_some_and(|items| items.iter().any(|had| had["name"] == item["name"]))
    };
    for path in ["/spec/initContainers", "/spec/containers", "/spec/volumes", "/spec/imagePullSecrets"] {
        if let Some(items) = rest.pointer_mut(path).and_then(Value::as_array_mut) {
            items.retain(|item| had(path, item));
        }
    }
    let spec = rest["spec"].as_object_mut().unwrap();
    for key in ["initContainers", "volumes", "imagePullSecrets"] {
        json::list_mut(spec, key).unwrap();
    }
    let ours = ["kruise.io/", "sidecarset.kruise.io/", "k1", "k2"];
    let annotations = rest["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| !ours.iter().any(|part| key.contains(part)));
    rest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn admitting_again_changes_nothing(pod in pod(), sets in sets(), from_server: bool) {
        let revisions = revisions();
        let pod = if from_server { through_the_api_server(pod) } else { pod };
        let admitted = |pod: &Value, call| answer(pod, &sets, &revisions, call).verdict;
        if let Verdict::Mutated(once) = admitted(&pod, ("one", 1)) {
            for other in ["two", "three", "four"] {
                prop_assert_eq!(admitted(&once, (other, 2)), Verdict::Unchanged);
            }
            let stored = through_the_api_server(once);
            prop_assert_eq!(admitted(&stored, ("two", 2)), Verdict::Unchanged, "{:#}", stored);
        }
    }

    #[test]
    fn what_no_rule_touches_stays(pod in pod(), sets in sets()) {
        if let Verdict::Mutated(once) = answer(&pod, &sets, &revisions(), ("u", 1)).verdict {
            prop_assert_eq!(untouched(&once, &pod), untouched(&pod, &pod));
        }
    }

    #[test]
    fn the_order_of_the_settings_does_not_matter(pod in pod(), sets in sets(), by in 0_usize..3, turned: bool) {
        let mut others = sets.clone();
        others.rotate_left(by % sets.len());
        if turned {
            others.reverse();
        }
        let revisions = revisions();
        prop_assert_eq!(answer(&pod, &sets, &revisions, ("u", 1)), answer(&pod, &others, &revisions, ("u", 1)));
    }

    /// Without the setting `otherWebhooks`, a change to a sidecar is undone. With it, the changes that it names stay, and
    /// the others are undone. Another admission changes nothing.
    #[test]
    fn order9_changes_of_other_webhooks_stay_or_are_set_back(
        pod in pod(),
        sets in sets(),
        image in prop::option::of(select(vec!["mirror.example", "evil.example"])),
        variable in prop::option::of((select(vec!["HTTP_PROXY", "LD_PRELOAD", "A"]), 0_usize..4)),
    ) {
        let kept = json!({"imageRegistries": ["mirror.example"], "variables": ["HTTP_PROXY"]});
        let settings = |kept: Value| Settings {
            controller_revisions: revisions(), other_webhooks: serde_json::from_value(kept).unwrap(), ..Settings::default()
        };
        let injected = |verdict, before: &Value| match verdict {
            Verdict::Mutated(after) => after,
            _ => before.clone(),
        };
        if let Verdict::Mutated(once) = answer(&pod, &sets, &revisions(), ("u", 1)).verdict {
            let change = |image, variable| {
                let mut changed = once.clone();
                foreign(image, variable)(&mut changed);
                changed
            };
            let changed = change(image, variable);
            for (settings, stays) in [(settings(json!({})), false), (settings(kept), true)] {
                let verdict = answer_with(&settings, &changed, &sets, ("u", 1)).verdict;
                // The webhook changed the containers of the app, too. What a sidecar shares with them can refuse the Pod.
                if matches!(verdict, Verdict::Refused(_)) {
                    continue;
                }
                let again = injected(verdict, &changed);
                prop_assert_eq!(answer_with(&settings, &again, &sets, ("v", 2)).verdict, Verdict::Unchanged, "{:#}", again);
                for list in ["containers", "initContainers"] {
                    for container in json::items(&again, &["spec", list]).iter().filter(|it| pillion_sidecarset::pod::is_injected(it)) {
                        let image = container["image"].as_str().unwrap();
                        prop_assert!(!image.starts_with("evil.example/"), "{}", image);
                        prop_assert!(stays || !image.starts_with("mirror.example/"), "{}", image);
                        let has = |name: &str| json::items(container, &["env"]).iter().any(|it| it["name"] == name);
                        prop_assert!(!has("LD_PRELOAD"));
                        prop_assert!(stays || !has("HTTP_PROXY"));
                    }
                }
                if stays && image != Some("evil.example") && variable.is_none_or(|(name, _)| name == "HTTP_PROXY") {
                    prop_assert_eq!(&again, &changed);
                }
            }
        }
    }
}
