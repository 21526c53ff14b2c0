//! Products of two lists from different objects, and annotations, each just below a mebibyte.
//!
//! The inputs are those that attacks have found, and their variations. No growth of a sample reaches them: each needs a
//! certain text in a certain number of entries.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::collections::BTreeMap;

use pillion_bench::corpus::pods::NAMESPACE;
use pillion_bench::corpus::requests::{Resource, create};
use pillion_fuzz::cost::judge::{BOUNDS, Cost, LENGTH};
use pillion_fuzz::cost::{Input, survey};
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::surveyed;

const IMAGE: &str = "registry.example.com/agent:1.0";

/// Returns a list with an entry for each number below `count`.
fn list(count: usize, entry: impl FnMut(usize) -> Value) -> Value {
    (0..count).map(entry).collect()
}

/// Returns an object with a member for each number below `count`.
fn map(count: usize, mut member: impl FnMut(usize) -> (String, Value)) -> Value {
    Value::Object((0..count).map(&mut member).collect::<Map<_, _>>())
}

/// Returns a SidecarSet with these sidecars, and with these further fields.
fn set(name: &str, containers: Value, fields: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": containers},
    });
    if let Value::Object(fields) = fields {
        set["spec"].as_object_mut().unwrap().extend(fields);
    }
    set
}

/// Returns a sidecar with these further fields.
fn sidecar(name: &str, fields: Value) -> Value {
    let mut sidecar = json!({"name": name, "image": IMAGE});
    if let Value::Object(fields) = fields {
        sidecar.as_object_mut().unwrap().extend(fields);
    }
    sidecar
}

/// Returns a Pod with these containers and annotations.
fn pod(containers: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": containers},
    })
}

fn app() -> Value {
    json!([{"name": "web", "image": IMAGE}])
}

/// Returns the admission of a Pod with SidecarSets in the settings.
fn admission(pod: &Value, sets: Value) -> Input {
    Input::validate("pod", create(Resource::POD, pod)).with("settings", json!({"sidecarSets": sets}))
}

/// Returns a resourcesPolicy with these expressions for cpu and memory.
fn policy(mode: &str, regex: &str, [cpu, memory]: [&str; 2]) -> Value {
    let amounts = json!({"cpu": cpu, "memory": memory});
    json!({"resourcesPolicy": {
        "targetContainersMode": mode, "targetContainersNameRegex": regex,
        "resourcesExpr": {"limits": amounts, "requests": amounts},
    }})
}

/// Returns containers with quantities, whose names are as short as possible.
fn sized(count: usize) -> Value {
    list(
        count,
        |_| json!({"name": "a", "image": "r.example.com/a:1", "resources": {"limits": {"cpu": "123456m", "memory": "1234567Ki"}}}),
    )
}

fn sidecars_with_policies(sidecars: usize, containers: usize, mode: &str) -> Input {
    let simple = ["cpu*50%", "memory*50%"];
    let sidecars = list(sidecars, |index| sidecar(&format!("s{index:02}"), policy(mode, "", simple)));
    admission(&pod(sized(containers), json!({})), json!([set("agent", sidecars, json!({}))]))
}

fn sets_and_containers(sets: usize, containers: usize, fields: &Value) -> Input {
    let containers = list(containers, |index| json!({"name": format!("a{index}"), "image": "i:1", "env": []}));
    let sets = list(sets, |index| {
        let name = format!("agent-{index}");
        set(&name, json!([sidecar(&name, fields.clone())]), json!({}))
    });
    admission(&pod(containers, json!({})), sets)
}

fn sets_of_policies(sets: usize, containers: usize) -> Input {
    let simple = policy("sum", "", ["cpu*50%", "memory*50%"]);
    let sets = list(sets, |index| {
        let name = format!("agent-{index}");
        set(&name, json!([sidecar(&name, simple.clone())]), json!({}))
    });
    admission(&pod(sized(containers), json!({})), sets)
}

/// Returns the annotation of the hashes with this many records.
fn records(count: usize, mut record: impl FnMut(&str) -> Value) -> String {
    map(count, |index| {
        let name = format!("{index:x}");
        (name.clone(), record(&name))
    })
    .to_string()
}

const HASH: &str = "kruise.io/sidecarset-hash";
const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";

fn annotated(annotations: &[(&str, &str)]) -> Input {
    let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
    let pair =
        sidecar("agent", json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": IMAGE}}));
    admission(&pod(app(), json!(annotations)), json!([set("agent", json!([pair]), json!({}))]))
}

fn long_names(count: usize, length: usize, regex: &str) -> Input {
    let containers = list(
        count,
        |index| json!({"name": if length > 4 { format!("{}{index:04}", "a".repeat(length - 4)) } else { "a".repeat(length) }}),
    );
    let simple = policy("sum", regex, ["cpu*50%", "memory*50%"]);
    admission(&pod(containers, json!({})), json!([set("agent", json!([sidecar("agent", simple)]), json!({}))]))
}

fn merge_patches(patches: usize, keys: usize) -> Input {
    let patch = |index: usize| {
        let text = map(keys, |key| (format!("{index:02}{key:03}"), json!(1))).to_string();
        json!({"patchPolicy": "MergePatchJson", "annotations": {"a.b/c": text}})
    };
    let fields = json!({"patchPodMetadata": list(patches, patch)});
    let sets = json!([set("agent", json!([sidecar("agent", json!({}))]), fields)]);
    admission(&pod(app(), json!({"a.b/c": "{\"a\":1}"})), sets)
}

fn expression(term: &str, terms: usize) -> Input {
    let text = format!("cpu{}", term.repeat(terms));
    let sidecar = sidecar("agent", policy("sum", "", [&text, "memory"]));
    let amounts = json!({"cpu": "1", "memory": "1Gi"});
    let containers = json!([{"name": "a", "image": IMAGE, "resources": {"limits": amounts, "requests": amounts}}]);
    let mut input = admission(&pod(containers, json!({})), json!([set("agent", json!([sidecar]), json!({}))]));
    // Only one of the four expressions is long.
    let mut document = input.document().clone();
    document["settings"]["sidecarSets"][0]["spec"]["containers"][0]["resourcesPolicy"]["resourcesExpr"]["requests"] =
        json!({});
    input = input.with_document(document);
    input
}

fn written_expression(term: &str, terms: usize) -> Input {
    let text = format!("cpu{}", term.repeat(terms));
    let mut policy = policy("sum", "", [&text, "memory"]);
    policy["resourcesPolicy"]["resourcesExpr"]["requests"] = json!({});
    let set = set("agent", json!([sidecar("agent", policy)]), json!({}));
    Input::validate("sidecarset", create(Resource::SIDECAR_SET, &set)).with("settings", json!({}))
}

fn shared_mounts(path: &str, mounts: usize, with_identity: bool) -> Input {
    let mounts = list(mounts, |index| json!({"name": "v", "mountPath": format!("{path}{index}")}));
    let pod = pod(json!([{"name": "web", "image": IMAGE, "volumeMounts": mounts}]), json!({}));
    let mut fields = json!({});
    if with_identity {
        fields = json!({"serviceAccountName": "agent", "serviceAccountMode": "Isolate"});
    }
    let sidecar = sidecar("agent", json!({"shareVolumePolicy": {"type": "enabled"}}));
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent", "namespace": NAMESPACE},
    });
    let mut input = admission(&pod, json!([set("agent", json!([sidecar]), fields)])).with("objects", json!([account]));
    let mut document = input.document().clone();
    document["settings"]["featureGates"] = json!({"SidecarSetServiceAccountInjection": with_identity});
    input = input.with_document(document);
    input
}

/// Returns the creation of a Pod whose container, or the sidecar, has a name of one repeated character.
fn named(text: &str, of_sidecar: bool) -> Input {
    let name = text.repeat(usize::try_from(LENGTH).unwrap() * 15 / 16 / (json!(text).to_string().len() - 2));
    let (app, agent) = if of_sidecar { ("web".to_owned(), name) } else { (name, "agent".to_owned()) };
    let pod = pod(json!([{"name": app, "image": IMAGE}]), json!({}));
    admission(&pod, json!([set("agent", json!([sidecar(&agent, json!({}))]), json!({}))]))
}

fn with_gate(input: &Input) -> Input {
    let mut document = input.document().clone();
    document["settings"]["featureGates"] = json!({"SidecarSetServiceAccountInjection": true});
    input.with_document(document)
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}})
}

fn owners_and_mounts(owners: usize, path: &str, mounts: usize) -> Input {
    let mounts = list(mounts, |index| json!({"name": "v", "mountPath": format!("{path}{index}")}));
    let pod = pod(json!([{"name": "web", "image": IMAGE, "volumeMounts": mounts}]), json!({}));
    let fields = |name: &str| json!({"serviceAccountName": name, "serviceAccountMode": "Isolate"});
    let name = |index: usize| format!("agent-{index}");
    let sets = list(owners, |index| {
        let sharing = sidecar(&name(index), json!({"shareVolumePolicy": {"type": "enabled"}}));
        set(&name(index), json!([sharing]), fields(&name(index)))
    });
    let accounts = list(owners, |index| account(&name(index)));
    with_gate(&admission(&pod, sets).with("objects", accounts))
}

fn transfers(sets: usize, names: usize, variables: usize) -> Input {
    let env = list(variables, |index| json!({"name": format!("V{index}"), "value": "a"}));
    let pod = pod(json!([{"name": "web", "image": IMAGE, "env": env}]), json!({}));
    let sets = list(sets, |set_index| {
        let name = format!("agent-{set_index}");
        let names = list(names, |index| json!(format!("V{}", (index * 7 + set_index * 13) % (2 * variables))));
        let transfer = json!({"transferEnv": [{"sourceContainerName": "web", "envNames": names}]});
        set(&name, json!([sidecar(&name, transfer)]), json!({}))
    });
    admission(&pod, sets)
}

fn patched(policy: &str, annotations: usize, keys: usize) -> Input {
    let of_pod = map(annotations, |index| (format!("a.b/{index:05}"), json!("1")));
    let of_set = map(keys, |index| (format!("a.b/{:05}", index + annotations / 2), json!("2")));
    let fields = json!({"patchPodMetadata": [{"patchPolicy": policy, "annotations": of_set}]});
    admission(&pod(app(), of_pod), json!([set("agent", json!([sidecar("agent", json!({}))]), fields)]))
}

fn labels_and_selectors(labels: usize, sets: usize, requirements: usize) -> Input {
    let mut pod = pod(app(), json!({}));
    let mut all = map(labels, |index| (format!("l{index:05}"), json!("a")));
    all["app"] = json!("web");
    pod["metadata"]["labels"] = all;
    let sets = list(sets, |set_index| {
        let name = format!("agent-{set_index}");
        let expressions =
            list(requirements, |index| json!({"key": format!("l{:05}", index + set_index), "operator": "Exists"}));
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": expressions});
        set(&name, json!([sidecar(&name, json!({}))]), json!({"selector": selector}))
    });
    admission(&pod, sets)
}

fn plain_sets_and_containers(sets: usize, containers: usize, fields: &Value) -> Input {
    let containers = list(containers, |index| json!({"name": format!("a{index}"), "image": "r.example.com/a:1"}));
    let sets = list(sets, |index| {
        let name = format!("agent-{index}");
        set(&name, json!([sidecar(&name, fields.clone())]), json!({}))
    });
    admission(&pod(containers, json!({})), sets)
}

fn volumes_of_both(of_pod: usize, of_set: usize) -> Input {
    let mut pod = pod(app(), json!({}));
    pod["spec"]["volumes"] = list(of_pod, |index| json!({"name": format!("v{index}"), "emptyDir": {}}));
    pod["spec"]["imagePullSecrets"] = list(of_pod, |index| json!({"name": format!("s{index}")}));
    let volumes = list(of_set, |index| json!({"name": format!("v{}", index + of_pod / 2), "emptyDir": {}}));
    let mounts =
        list(of_set, |index| json!({"name": format!("v{}", index + of_pod / 2), "mountPath": format!("/{index}")}));
    let fields = json!({
        "volumes": volumes,
        "imagePullSecrets": list(of_set, |index| json!({"name": format!("s{}", index + of_pod / 2)})),
    });
    admission(&pod, json!([set("agent", json!([sidecar("agent", json!({"volumeMounts": mounts}))]), fields)]))
}

fn revisions_and_records(sets: usize, records: usize) -> Input {
    let name = |index: usize| format!("agent-{index}");
    let sets_of = list(sets, |index| {
        let fields = json!({
            "injectionStrategy": {"revision": {"revisionName": format!("{}-1", name(index)), "policy": "Partial"}},
            "updateStrategy": {"partition": "50%"},
        });
        set(&name(index), json!([sidecar(&name(index), json!({}))]), fields)
    });
    let revisions = list(sets, |index| {
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {
                "name": format!("{}-1", name(index)), "namespace": "kruise-system",
                "labels": {"kruise.io/sidecarset-name": name(index)},
            },
            "data": {"spec": {"containers": [sidecar(&name(index), json!({}))]}},
        })
    });
    let text = map(records, |index| (format!("s{index}"), json!({"hash": "a".repeat(200)}))).to_string();
    let input = admission(&pod(app(), json!({HASH: text})), sets_of);
    let mut document = input.document().clone();
    document["settings"]["controllerRevisions"] = revisions;
    input.with_document(document)
}

fn owners_and_containers(owners: usize, containers: usize, role: &str) -> Input {
    let containers = list(containers, |index| json!({"name": format!("a{index}"), "image": "r.example.com/a:1"}));
    let name = |index: usize| format!("agent-{index}");
    let sets = list(owners, |index| {
        let fields = json!({"serviceAccountName": name(index), "serviceAccountMode": "Isolate"});
        set(&name(index), json!([sidecar(&name(index), json!({}))]), fields)
    });
    let input =
        admission(&pod(containers, json!({})), sets).with("objects", list(owners, |index| account(&name(index))));
    let input = with_gate(&input);
    let mut document = input.document().clone();
    document["settings"]["role"] = json!(role);
    input.with_document(document)
}

/// Returns sidecars whose patterns all differ, and containers of which one has a very long amount.
fn patterns_and_amounts(sidecars: usize, containers: usize, pattern: &str, digits: usize) -> Input {
    let mut containers = sized(containers);
    containers[0]["resources"]["limits"]["cpu"] = json!("1".repeat(digits));
    let simple = ["max(cpu, 1)", "memory*50%"];
    let sidecars = list(sidecars, |index| {
        let pattern = format!("{pattern}{{0,{index}}}");
        sidecar(&format!("s{index:02}"), policy(if index % 2 == 0 { "sum" } else { "max" }, &pattern, simple))
    });
    admission(&pod(containers, json!({})), json!([set("agent", sidecars, json!({}))]))
}

fn listed(separator: &str) -> Input {
    let text = (0..131_072 / 4).map(|index| format!("{:x}", index * 7)).collect::<Vec<_>>().join(separator);
    annotated(&[("kruise.io/sidecarset-injected-list", &text)])
}

fn merged_into_a_long_annotation(patches: usize, keys: usize, document: usize) -> Input {
    let patch = |index: usize| {
        let text = map(keys, |key| (format!("{index:02}{key:03}"), json!(1))).to_string();
        json!({"patchPolicy": "MergePatchJson", "annotations": {"a.b/c": text}})
    };
    let fields = json!({"patchPodMetadata": list(patches, patch)});
    let sets = json!([set("agent", json!([sidecar("agent", json!({}))]), fields)]);
    let text = map(document, |key| (format!("{:05}", key * 3), json!(1))).to_string();
    admission(&pod(app(), json!({"a.b/c": text})), sets)
}

fn long_expressions(term: &str, bytes: usize) -> [Input; 3] {
    let text = format!("cpu{}", term.repeat(bytes / term.len() / 4));
    let memory = text.replace("cpu", "memory");
    let policy = policy("sum", "", [&text, &memory]);
    let set = set("agent", json!([sidecar("agent", policy.clone())]), json!({}));
    let valid = |mut set: Value| {
        set["spec"]["containers"][0]["resourcesPolicy"]["targetContainersNameRegex"] = json!(".*");
        set
    };
    let amounts = json!({"cpu": "1", "memory": "1Gi"});
    let containers = json!([{"name": "a", "image": IMAGE, "resources": {"limits": amounts, "requests": amounts}}]);
    [
        admission(&pod(containers, json!({})), json!([set])),
        Input::validate("sidecarset", create(Resource::SIDECAR_SET, &valid(set.clone()))).with("settings", json!({})),
        Input::settings("settings", json!({"sidecarSets": [valid(set)]})),
    ]
}

/// Returns sidecars with a policy each, whose patterns all differ, and whose commands have so many bytes.
fn sidecars_of_patterns([sets, sidecars, command]: [usize; 3], upgrade: &Value) -> Input {
    let sets = list(sets, |set_index| {
        let sidecars = list(sidecars, |index| {
            let pattern = format!("^(a|worker-[0-9]+)${set_index}{index}|a");
            let mut fields = policy("sum", &pattern, ["cpu*2", "memory*2"]);
            fields["command"] = json!(["a".repeat(command)]);
            fields["upgradeStrategy"] = upgrade.clone();
            sidecar(&format!("s{set_index}-{index:04}"), fields)
        });
        set(&format!("agent-{set_index}"), sidecars, json!({}))
    });
    admission(&pod(sized(1), json!({})), sets)
}

fn pairs() -> Value {
    json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "a"})
}

/// Returns a container with a long `lifecycle`, and pairs whose patterns match no container.
fn hooks_and_pairs(hooks: usize, pairs_of_set: usize) -> Input {
    let hook = json!({"exec": {"command": ["/agent", "drain"]}});
    let lifecycle = map(hooks, |index| (format!("preStop-{index:06}"), hook.clone()));
    let containers = json!([{"name": "web", "image": IMAGE, "lifecycle": lifecycle}]);
    let sidecars = list(pairs_of_set, |index| {
        let cpu = "min(max(cpu*10%, 50m), 2)";
        let mut fields =
            policy("sum", &format!("^(web|worker-[0-9]+)$-{index:06}"), [cpu, "min(memory*25%, 256Mi) + 16Mi"]);
        fields["upgradeStrategy"] = pairs();
        sidecar(&format!("agent-sized-{index:06}"), fields)
    });
    admission(&pod(containers, json!({})), json!([set("agent", sidecars, json!({}))]))
}

/// Returns pairs with so many variables each.
fn pairs_and_variables(pairs_of_set: usize, variables: usize) -> Input {
    let env = list(variables, |index| json!({"name": format!("V{index}"), "value": "a"}));
    let sidecars =
        list(pairs_of_set, |index| sidecar(&format!("s{index:03}"), json!({"env": env, "upgradeStrategy": pairs()})));
    admission(&pod(app(), json!({})), json!([set("agent", sidecars, json!({}))]))
}

/// Returns the writing of a SidecarSet, and settings, with sidecars whose patterns all differ.
fn written_patterns(sidecars: usize, command: usize) -> [Input; 2] {
    let input = sidecars_of_patterns([1, sidecars, command], &json!({}));
    let set = input.document()["settings"]["sidecarSets"][0].clone();
    [
        Input::validate("sidecarset", create(Resource::SIDECAR_SET, &set)).with("settings", json!({})),
        Input::settings("settings", json!({"sidecarSets": [set]})),
    ]
}

/// Returns the writing of a SidecarSet whose annotations are compared with expressions of the whitelist.
fn whitelisted(keys: usize, length: usize, expression: &str) -> Input {
    let annotations = map(keys, |index| (format!("a.b/{}{index:05}", "a".repeat(length - 9)), json!("1")));
    let fields = json!({"patchPodMetadata": [{"patchPolicy": "Retain", "annotations": annotations}]});
    let set = set("agent", json!([sidecar("agent", json!({}))]), fields);
    let whitelist = json!({"rules": [{"allowedAnnotationKeyExprs": [expression]}]});
    Input::validate("sidecarset", create(Resource::SIDECAR_SET, &set))
        .with("settings", json!({"patchPodMetadataWhitelist": whitelist}))
}

#[rstest]
#[case::whitelist_and_keys(whitelisted(1_300, 317, "(a*)*b"))]
#[case::whitelist_and_short_keys(whitelisted(6_000, 67, "(a*)*b"))]
#[case::sidecars_with_policies_and_containers(sidecars_with_policies(60, 8_500, "sum"))]
#[case::sidecars_with_policies_and_containers_max(sidecars_with_policies(60, 8_500, "max"))]
#[case::sets_with_policies_and_sized_containers(sets_of_policies(5, 8_500))]
#[case::sets_and_containers(sets_and_containers(5, 8_800, &json!({})))]
#[case::sets_with_policies_and_containers(sets_and_containers(5, 8_800, &policy("sum", "", ["1", "1"])))]
#[case::hash_records(annotated(&[(HASH, &records(50_000, |_| json!({})))]))]
#[case::legacy_hash_records(annotated(&[(HASH, &records(50_000, |_| json!("")))]))]
#[case::both_hashes(annotated(&[
    (HASH, &records(19_000, |_| json!({"hash": ""}))), (HASH_WITHOUT_IMAGE, &records(19_000, |_| json!({"hash": ""}))),
]))]
#[case::working_hotupgrade(annotated(&[(WORKING, &records(60_000, |_| json!("a")))]))]
#[case::hash_within_the_limit(annotated(&[(HASH, &records(26_000, |_| json!({})))]))]
#[case::legacy_within_the_limit(annotated(&[(HASH, &records(26_000, |_| json!(null)))]))]
#[case::both_within_the_limit(annotated(&[
    (HASH, &records(13_000, |_| json!({}))), (HASH_WITHOUT_IMAGE, &records(13_000, |_| json!({}))),
]))]
#[case::working_within_the_limit(annotated(&[(WORKING, &records(26_000, |_| json!("")))]))]
#[case::names_of_504_bytes(long_names(780, 504, "(a*)*b"))]
#[case::names_of_253_bytes(long_names(800, 253, "(a*)*b"))]
#[case::merge_patches(merge_patches(100, 500))]
#[case::merge_patches_of_many_keys(merge_patches(2, 30_000))]
#[case::many_merge_patches(merge_patches(3_900, 1))]
#[case::owner_and_mounts(owners_and_mounts(1, &"/var/run/..".repeat(6), 9_900))]
#[case::three_owners_and_mounts(owners_and_mounts(3, &"/var/../".repeat(7), 9_000))]
#[case::three_owners_and_short_mounts(owners_and_mounts(3, "/var/../", 9_900))]
#[case::two_owners_and_many_mounts(owners_and_mounts(2, &"/var/../".repeat(6), 9_800))]
#[case::six_owners_and_mounts(owners_and_mounts(6, "/run/../", 9_900))]
#[case::two_owners_and_long_mounts(owners_and_mounts(2, &"/var/../".repeat(24), 4_400))]
#[case::transfers_of_sets(transfers(250, 79, 9_000))]
#[case::overwritten_within_the_limit(patched("Overwrite", 15_000, 10_000))]
#[case::retained_within_the_limit(patched("Retain", 15_000, 10_000))]
#[case::overwritten_annotations(patched("Overwrite", 15_000, 30_000))]
#[case::retained_annotations(patched("Retain", 15_000, 30_000))]
#[case::merged_annotations(patched("MergePatchJson", 15_000, 30_000))]
#[case::labels_and_selectors(labels_and_selectors(20_000, 250, 40))]
#[case::plain_sets_and_containers(plain_sets_and_containers(250, 9_400, &json!({})))]
#[case::sets_before_containers(plain_sets_and_containers(250, 9_400, &json!({"podInjectPolicy": "BeforeAppContainer"})))]
#[case::sets_after_containers(plain_sets_and_containers(250, 9_400, &json!({"podInjectPolicy": "AfterAppContainer"})))]
#[case::pairs_and_containers(plain_sets_and_containers(250, 9_400, &json!({"upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "a"}})))]
#[case::sharing_sets_and_containers(plain_sets_and_containers(250, 9_400, &json!({"shareVolumePolicy": {"type": "enabled"}})))]
#[case::volumes_of_both(volumes_of_both(5_000, 2_000))]
#[case::revisions_and_records(revisions_and_records(250, 1_000))]
#[case::owners_and_containers(owners_and_containers(200, 9_000, "Inject"))]
#[case::owners_and_containers_asserted(owners_and_containers(200, 9_000, "Assert"))]
#[case::many_owners_asserted(owners_and_containers(250, 9_400, "Assert"))]
#[case::many_owners(owners_and_containers(250, 9_400, "Inject"))]
#[case::patterns_and_amounts(patterns_and_amounts(60, 8_000, "b", 9))]
#[case::patterns_and_long_amounts(patterns_and_amounts(60, 8_000, "b", 4_000))]
#[case::some_patterns_and_long_amounts(patterns_and_amounts(8, 8_000, "b", 4_000))]
#[case::injected_list(listed(","))]
#[case::merged_within_the_limit(merged_into_a_long_annotation(25, 500, 20_000))]
#[case::merged_into_a_short_one(merged_into_a_long_annotation(25, 500, 1))]
#[case::expressions_of_variables(long_expressions("+1.123456789012m", 131_000)[0].clone())]
#[case::expressions_of_short_terms(long_expressions("+1m", 131_000)[0].clone())]
#[case::expressions_of_short_terms_written(long_expressions("+1m", 131_000)[1].clone())]
#[case::expressions_of_short_terms_in_settings(long_expressions("+1m", 131_000)[2].clone())]
#[case::expressions_of_picks(long_expressions("+max(cpu,1)", 120_000)[0].clone())]
#[case::expressions_of_products(long_expressions("*1", 131_000)[0].clone())]
#[case::names_at_the_limit(long_names(9_000, 63, "(a*)*b"))]
#[case::terms_of_an_expression(expression("+1.234567890123", 60_000))]
#[case::binary_terms_of_an_expression(expression("+1.23456789Pi", 60_000))]
#[case::short_terms_of_an_expression(expression("+1m", 300_000))]
#[case::variables_of_an_expression(expression("+cpu", 200_000))]
#[case::written_terms(written_expression("+1.234567890123", 34_000))]
#[case::written_binary_terms(written_expression("+1.23456789Pi", 39_000))]
#[case::written_short_terms(written_expression("+1m", 174_000))]
#[case::shared_mounts(shared_mounts("/var/../", 9_000, true))]
#[case::shared_mounts_far_up(shared_mounts(&"/var/../".repeat(8), 9_000, true))]
#[case::shared_mounts_in_var_run(shared_mounts(&"/var/run/..".repeat(6), 9_000, true))]
#[case::shared_mounts_at_the_token(shared_mounts(
    "/var/run/secrets/x/../kubernetes.io/./y/../serviceaccount/",
    9_000,
    true
))]
#[case::shared_mounts_anonymous(shared_mounts(&"/var/../".repeat(8), 9_000, false))]
#[case::sidecar_of_brackets(named("[", true))]
#[case::sidecar_of_quotes(named("\"", true))]
#[case::sidecar_of_controls(named("\u{1}", true))]
#[case::container_of_brackets(named("[", false))]
#[case::hooks_and_pairs(hooks_and_pairs(8_000, 900))]
#[case::hooks_and_pairs_within_the_limit(hooks_and_pairs(12_000, 250))]
#[case::sidecars_of_patterns(sidecars_of_patterns([1, 1_000, 600], &json!({})))]
#[case::sidecars_of_patterns_in_sets(sidecars_of_patterns([4, 600, 0], &json!({})))]
#[case::sidecars_of_patterns_within_the_limit(sidecars_of_patterns([1, 250, 3_700], &json!({})))]
#[case::pairs_of_patterns(sidecars_of_patterns([4, 500, 0], &pairs()))]
#[case::pairs_of_patterns_within_the_limit(sidecars_of_patterns([1, 250, 3_600], &pairs()))]
#[case::pairs_and_variables(pairs_and_variables(250, 120))]
#[case::written_patterns(written_patterns(1_000, 100)[0].clone())]
#[case::written_patterns_within_the_limit(written_patterns(250, 1_700)[0].clone())]
#[case::patterns_in_settings(written_patterns(1_000, 600)[1].clone())]
#[case::patterns_in_settings_within_the_limit(written_patterns(250, 3_700)[1].clone())]
fn e18_products_of_two_objects(#[case] input: Input) {
    let Some((counter, _)) = surveyed() else { return };
    assert!(input.length().unwrap() < LENGTH, "{} bytes", input.length().unwrap());
    let took = survey::evaluate(counter, &input).unwrap();
    let Cost { bytes, instructions, memory } = took;
    let row = std::thread::current().name().map(|name| name.rsplit("::").next().unwrap_or(name).to_owned());
    eprintln!("{}: {bytes} bytes, {} M, {} MiB", row.unwrap_or_default(), instructions / 1_000_000, memory >> 20);
    assert!(instructions <= BOUNDS.instructions && memory <= BOUNDS.memory as u64, "{took:?}");
}
