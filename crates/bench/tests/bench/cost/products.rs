//! Products of two lists from different objects, and annotations, each just below a mebibyte.
//!
//! The inputs are those that attacks have found, and their variations. No growth of a sample reaches them: each needs a
//! certain text in a certain number of entries.

use std::collections::BTreeMap;

use pillion_bench::corpus::pods::NAMESPACE;
use pillion_bench::corpus::requests::{Resource, create};
use pillion_bench::cost::judge::{BOUNDS, LENGTH};
use pillion_bench::cost::{Input, survey};
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
    list(count, |_| json!({"name": "a", "image": "r.example.com/a:1", "resources": {"limits": {"cpu": "123456m", "memory": "1234567Ki"}}}))
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
    input = input.of(document);
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
    input = input.of(document);
    input
}

/// Returns the creation of a Pod whose container, or the sidecar, has a name of one repeated character.
fn named(text: &str, of_sidecar: bool) -> Input {
    let name = text.repeat(LENGTH as usize * 15 / 16 / (json!(text).to_string().len() - 2));
    let (app, agent) = if of_sidecar { ("web".to_owned(), name) } else { (name, "agent".to_owned()) };
    let pod = pod(json!([{"name": app, "image": IMAGE}]), json!({}));
    admission(&pod, json!([set("agent", json!([sidecar(&agent, json!({}))]), json!({}))]))
}

#[rstest]
#[case::sidecars_with_policies_and_containers(sidecars_with_policies(60, 8_500, "sum"))]
#[case::sidecars_with_policies_and_containers_max(sidecars_with_policies(60, 8_500, "max"))]
#[case::sets_with_policies_and_sized_containers(sets_of_policies(5, 8_500))]
#[case::sets_and_containers(sets_and_containers(5, 8_800, &json!({})))]
#[case::sets_with_policies_and_containers(sets_and_containers(5, 8_800, &policy("sum", "", ["1", "1"])))]
#[case::hash_records(annotated(&[(HASH, &records(50_000, |_| json!({})))]))]
#[case::legacy_hash_records(annotated(&[(HASH, &records(50_000, |_| json!("")))]))]
#[case::both_hashes(annotated(&[
    (HASH, &records(25_000, |_| json!({"hash": ""}))), (HASH_WITHOUT_IMAGE, &records(25_000, |_| json!({"hash": ""}))),
]))]
#[case::working_hotupgrade(annotated(&[(WORKING, &records(60_000, |_| json!("a")))]))]
#[case::hash_within_the_limit(annotated(&[(HASH, &records(26_000, |_| json!({})))]))]
#[case::legacy_within_the_limit(annotated(&[(HASH, &records(26_000, |_| json!(null)))]))]
#[case::both_within_the_limit(annotated(&[
    (HASH, &records(13_000, |_| json!({}))), (HASH_WITHOUT_IMAGE, &records(13_000, |_| json!({}))),
]))]
#[case::working_within_the_limit(annotated(&[(WORKING, &records(26_000, |_| json!("")))]))]
#[case::names_of_504_bytes(long_names(400, 504, "(a*)*b"))]
#[case::names_of_253_bytes(long_names(800, 253, "(a*)*b"))]
#[case::calibrate_0(long_names(1000, 60, "b"))]
#[case::calibrate_1(long_names(100, 504, "b"))]
#[case::calibrate_2(long_names(5000, 1, "a"))]
#[case::calibrate_3(long_names(5000, 1, ""))]
#[case::calibrate_4(long_names(5000, 1, "b"))]
#[case::calibrate_5(long_names(100, 504, "(a*)*b"))]
#[case::calibrate_6(long_names(1000, 50, "(a*)*b"))]
#[case::calibrate_7(long_names(50, 504, "(a?a?){20}b"))]
#[case::calibrate_8(long_names(100, 504, "((a*)*)*b"))]
#[case::calibrate_9(long_names(100, 504, "[a-z]*b"))]
#[case::calibrate_10(long_names(100, 504, "(a|a|a|a)*b"))]
#[case::calibrate_11(long_names(100, 504, "\\ba*b"))]
#[case::calibrate_12(long_names(100, 504, "(?i)b"))]
#[case::calibrate_13(long_names(100, 504, "^b"))]
#[case::calibrate_14(long_names(100, 504, ".*.*.*b"))]
#[case::calibrate_15(long_names(1, 504, "b"))]
#[case::merge_patches(merge_patches(100, 500))]
#[case::merge_patches_of_many_keys(merge_patches(2, 30_000))]
#[case::many_merge_patches(merge_patches(8_000, 1))]
#[case::terms_of_an_expression(expression("+1.234567890123", 60_000))]
#[case::binary_terms_of_an_expression(expression("+1.23456789Pi", 60_000))]
#[case::short_terms_of_an_expression(expression("+1m", 300_000))]
#[case::variables_of_an_expression(expression("+cpu", 200_000))]
#[case::written_terms(written_expression("+1.234567890123", 60_000))]
#[case::written_binary_terms(written_expression("+1.23456789Pi", 60_000))]
#[case::written_short_terms(written_expression("+1m", 300_000))]
#[case::shared_mounts(shared_mounts("/var/../", 9_000, true))]
#[case::shared_mounts_far_up(shared_mounts(&"/var/../".repeat(8), 9_000, true))]
#[case::shared_mounts_in_var_run(shared_mounts(&"/var/run/..".repeat(6), 9_000, true))]
#[case::shared_mounts_at_the_token(shared_mounts("/var/run/secrets/x/../kubernetes.io/./y/../serviceaccount/", 9_000, true))]
#[case::shared_mounts_anonymous(shared_mounts(&"/var/../".repeat(8), 9_000, false))]
#[case::sidecar_of_brackets(named("[", true))]
#[case::sidecar_of_quotes(named("\"", true))]
#[case::sidecar_of_controls(named("\u{1}", true))]
#[case::container_of_brackets(named("[", false))]
fn e18_products_of_two_objects(#[case] input: Input) {
    let Some((counter, _)) = surveyed() else { return };
    assert!(input.length().unwrap() < LENGTH, "{} bytes", input.length().unwrap());
    let counts = counter.count(input.function(), &input.payload().unwrap(), &input.objects()).unwrap();
    let answer = String::from_utf8_lossy(&counts.answer).chars().take(300).collect::<String>();
    let took = survey::evaluate(counter, &input).unwrap();
    let name = std::thread::current().name().unwrap_or_default().rsplit("case_").next().unwrap_or_default().to_owned();
    eprintln!(
        "{name:<50} {:>8} bytes {:>6} M {:>4} MiB {answer}",
        took.bytes,
        took.instructions / 1_000_000,
        took.memory >> 20
    );
    assert!(took.instructions <= BOUNDS.instructions && took.memory <= BOUNDS.memory as u64, "{took:?}");
}
