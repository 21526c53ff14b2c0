//! Recorded rounds of OpenKruise's controller, through `pillion plan` (ROLL-12).
//!
//! The cases are in `shared/conformance` beside the repository. Without that folder, the tests say so and pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::support::{pillion, readable};

const SETTINGS: &str = "bundleRef: {namespace: pillion-system, name: no-such-bundle}\n";
/// Annotations whose values are JSON.
const JSON_VALUED: [&str; 4] = [
    "kruise.io/sidecarset-hash",
    "kruise.io/sidecarset-hash-without-image",
    "kruise.io/sidecarset-inplace-update-state",
    "kruise.io/sidecarset-working-hotupgrade-container",
];
const IN_PLACE: &str = "kruise.io/sidecarset-inplace-update-state";
/// The resource version that the reference's client gave to each SidecarSet.
const RECORDED_VERSION: &str = "999";
/// Cases with this tag have an `orderPriority`: Pods without a key come last, not first (DIFF-2).
const ORDERED: &str = "order-priority";

/// Returns the values that are not zero, without times.
fn significant(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(key, _)| {
                !matches!(
                    key.as_str(),
                    "updateTimestamp" | "lastTransitionTime" | "lastProbeTime" | "creationTimestamp"
                )
            });
            let fields = fields.map(|(key, value)| (key.clone(), significant(value)));
            Value::Object(fields.filter(|(_, value)| !is_zero(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(significant).collect()),
        other => other.clone(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(value) => !value,
    }
}

/// Returns the parts of a Pod that the recordings have.
fn seen(annotations: &Value, conditions: &Value, images: &Value, revision_counts: bool) -> Value {
    let annotations: Map<String, Value> = annotations
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, text)| {
            let text = text.as_str().unwrap_or_default();
            let mut value = Value::from(text);
            if JSON_VALUED.contains(&key.as_str()) {
                value = serde_json::from_str(text).unwrap_or(value);
            }
            if key == IN_PLACE && !revision_counts {
                for state in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
                    state.as_object_mut().map(|state| state.remove("revision"));
                }
            }
            (key.clone(), significant(&value))
        })
        // OpenKruise does not have Pillion's own record of containers (DIFF-35).
        .filter(|(key, _)| key != "pillion.dev/sidecarset-inplace-update-state")
        .collect();
    let conditions: Vec<Value> = conditions
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            let mut condition = significant(condition);
            if let Ok(entries) = serde_json::from_str::<Value>(json::text(&condition, &["message"])) {
                condition["message"] = entries;
            }
            condition
        })
        .collect();
    json!({"annotations": annotations, "conditions": conditions, "images": images})
}

fn of_pod(pod: &Value) -> Value {
    let containers = json::items(pod, &["spec", "containers"]).iter();
    let images: Map<String, Value> =
        containers.map(|container| (json::text(container, &["name"]).to_owned(), container["image"].clone())).collect();
    let annotations = &pod["metadata"]["annotations"];
    seen(annotations, &pod["status"]["conditions"], &Value::Object(images), false)
}

fn of_recorded(pod: &Value) -> Value {
    seen(&pod["annotations"], &pod["conditions"], &pod["images"], false)
}

fn name(object: &Value) -> String {
    json::text(object, &["metadata", "name"]).to_owned()
}

fn of_revision(object: &Value) -> Value {
    json!({
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "labels": significant(&object["metadata"]["labels"]), "data": significant(&object["data"]),
        "revision": object["revision"],
    })
}

/// Returns the objects of a kind after the round, by name.
fn after(case: &Value, plan: &Value, kind: &str) -> BTreeMap<String, Value> {
    let objects = json::items(case, &["objects"]).iter().filter(|object| json::text(object, &["kind"]) == kind);
    let mut all: BTreeMap<String, Value> = objects.map(|object| (name(object), object.clone())).collect();
    for change in json::items(plan, &["changes"]).iter().filter(|it| json::text(it, &["object", "kind"]) == kind) {
        let name = json::text(change, &["object", "name"]).to_owned();
        match change.get("after") {
            Some(after) => drop(all.insert(name, after.clone())),
            None => drop(all.remove(&name)),
        }
    }
    all
}

/// Whether a Pod is not ready for another reason than its containers: it waits, and OpenKruise changes it (DIFF-36).
fn is_absent(pod: &Value) -> bool {
    let mut conditions = json::items(pod, &["status", "conditions"]).iter();
    let is_unready =
        conditions.any(|it| json::text(it, &["type"]) == "Ready" && json::text(it, &["status"]) == "False");
    let statuses = json::items(pod, &["status", "containerStatuses"]);
    json::text(pod, &["status", "phase"]) == "Running" && is_unready && statuses.iter().all(|it| it["ready"] == true)
}

/// Compares the Pods with the recorded ones. A recording has all Pods that changed, or all Pods.
fn compare_pods(
    expected: &Value,
    plan: &Value,
    pods: &BTreeMap<String, Value>,
    sidecar_set: &Value,
    compare: &mut impl FnMut(String, Value, Value),
) {
    let version = json::text(sidecar_set, &["metadata", "resourceVersion"]);
    let recorded: BTreeMap<String, &Value> = json::items(expected, &["changedPods"])
        .iter()
        .map(|pod| (json::text(pod, &["name"]).to_owned(), pod))
        .collect();
    for (name, pod) in &recorded {
        if is_absent(&pods[name]) {
            continue;
        }
        let mut seen = of_pod(&pods[name]);
        for (key, value) in seen["annotations"].as_object_mut().expect("annotations") {
            if key.contains("sidecarset.kruise.io/") && value.as_str() == Some(version) {
                *value = RECORDED_VERSION.into();
            }
        }
        compare(format!("Pod {name}"), seen, of_recorded(pod));
    }
    let changed: Vec<&str> = json::items(plan, &["changes"])
        .iter()
        .filter(|change| json::text(change, &["object", "kind"]) == "Pod")
        .map(|change| json::text(change, &["object", "name"]))
        .filter(|name| !recorded.contains_key(*name))
        .collect();
    compare("Pods that do not change".to_owned(), json!(changed), json!([]));
}

/// Returns the ready Pods without a key that were upgraded although a Pod with a key waits.
fn too_early(case: &Value, pods: &BTreeMap<String, Value>) -> Vec<String> {
    let keys: Vec<&str> = json::items(case, &["objects"])
        .iter()
        .flat_map(|object| json::items(object, &["spec", "updateStrategy", "priorityStrategy", "orderPriority"]))
        .map(|term| json::text(term, &["orderedKey"]))
        .collect();
    let has_key = |pod: &Value| keys.iter().any(|key| pod["metadata"]["labels"].get(key).is_some());
    let is_ready = |pod: &Value| {
        let mut conditions = json::items(pod, &["status", "conditions"]).iter();
        json::text(pod, &["status", "phase"]) == "Running"
            && conditions.any(|it| json::text(it, &["type"]) == "Ready" && json::text(it, &["status"]) == "True")
    };
    let before = json::items(case, &["objects"]).iter().filter(|it| json::text(it, &["kind"]) == "Pod" && is_ready(it));
    let (upgraded, waiting): (Vec<&Value>, Vec<&Value>) = before.partition(|it| pods[&name(it)]["spec"] != it["spec"]);
    let is_outdated = |pod: &&&Value| {
        let images = |pod: &Value| {
            json::items(pod, &["spec", "containers"]).iter().map(|it| it["image"].clone()).collect::<Vec<_>>()
        };
        upgraded.iter().any(|other| images(other) == images(pod))
    };
    if !waiting.iter().any(|pod| has_key(pod) && is_outdated(&pod)) {
        return Vec::new();
    }
    upgraded.into_iter().filter(|pod| !has_key(pod)).map(name).collect()
}

/// Returns how the plan differs from the recorded round; nothing if it agrees.
fn differences(case: &Value, plan: &Value) -> Vec<String> {
    let expected = &case["expect"]["object"];
    let mut differences = Vec::new();
    let mut compare = |what: String, seen: Value, expected: Value| {
        if seen != expected {
            differences.push(format!("{what}\n  seen     {seen}\n  expected {expected}"));
        }
    };
    let sidecar_set = json::items(case, &["objects"]).iter().find(|it| json::text(it, &["kind"]) == "SidecarSet");
    let sidecar_set = sidecar_set.expect("a SidecarSet");
    let pods = after(case, plan, "Pod");
    if json::texts(case, &["tags"]).contains(&ORDERED) {
        compare("Pods without a key that come before others".to_owned(), json!(too_early(case, &pods)), json!([]));
    } else {
        compare_pods(expected, plan, &pods, sidecar_set, &mut compare);
    }
    let mut status = after(case, plan, "SidecarSet")[&name(sidecar_set)]["status"].clone();
    status.as_object_mut().map(|status| status.remove("conditions"));
    compare("status".to_owned(), significant(&status), significant(&expected["status"]));
    let revisions: Vec<Value> = after(case, plan, "ControllerRevision").values().map(of_revision).collect();
    let mut recorded = json::items(expected, &["controllerRevisions"]).to_vec();
    recorded.sort_by_key(|revision| json::text(revision, &["name"]).to_owned());
    let recorded: Vec<Value> = recorded
        .iter()
        .map(|it| json!({"name": it["name"], "namespace": it["namespace"], "labels": significant(&it["labels"]), "data": significant(&it["data"]), "revision": it["revision"]}))
        .collect();
    compare("revisions".to_owned(), json!(revisions), json!(recorded));
    let events: Vec<String> = json::items(plan, &["events"])
        .iter()
        .map(|event| ["type", "reason", "message"].map(|key| json::text(event, &[key])).join(" "))
        .collect();
    compare("events".to_owned(), json!(events), json!(json::items(expected, &["events"])));
    differences
}

fn plan(folder: &Path, case: &Value) -> Value {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": case["objects"]});
    let sidecar_set = json::items(case, &["objects"]).iter().find(|it| json::text(it, &["kind"]) == "SidecarSet");
    let name = name(sidecar_set.expect("a SidecarSet"));
    let args = ["plan", "-", "--settings", "settings.yaml", "--controllers=sidecarset-rollout", "-o", "json"];
    let args: Vec<&str> = args.into_iter().chain(["--sidecar-set", &name]).collect();
    pillion(folder, &args, &objects.to_string()).json()
}

/// A cluster in which OpenKruise has rolled out a SidecarSet, as OpenKruise left it: one sidecar by a hot upgrade, one by
/// a cold one.
const ROLLED_OUT: &str = include_str!("../../../../test_data/cluster-rolled-out-by-openkruise.json");

/// Returns the kinds of the objects that the controller would change in the cluster of [`ROLLED_OUT`], and what it says.
/// The Lease of OpenKruise's manager was renewed `renewed` seconds ago.
fn handed_over(renewed: u64, earlier: &[Value]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), SETTINGS).unwrap();
    let mut cluster: Value = serde_json::from_str(ROLLED_OUT).unwrap();
    let objects = cluster["items"].as_array_mut().unwrap();
    for change in earlier {
        let after = change["after"].clone();
        objects.retain(|object| (&object["kind"], name(object)) != (&after["kind"], name(&after)));
        objects.push(after);
    }
    let renewed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - renewed;
    let renewed = Timestamp(i64::try_from(renewed).unwrap()).to_string().replace('Z', ".000000Z");
    objects.push(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kruise-manager", "namespace": "kruise-system"}, "spec": {"renewTime": renewed},
    }));
    let args = ["plan", "-", "--settings", "settings.yaml", "--controllers=sidecarset-rollout", "-o", "json"];
    let run = pillion(folder.path(), &args, &cluster.to_string());
    (json::items(&run.json(), &["changes"]).to_vec(), readable(&run))
}

fn changed(changes: &[Value]) -> Vec<String> {
    changes.iter().map(|change| format!("{} {}", change["verb"], change["object"]["kind"]).replace('"', "")).collect()
}

#[test]
fn taking_over_from_openkruise_and_giving_back_changes_no_pod() {
    let (changes, said) = handed_over(30, &[]);
    assert_eq!(changed(&changes), [""; 0], "OpenKruise's manager is at work");
    assert!(said.contains("kruise-system/kruise-manager"), "{said}");

    let (taken_over, _) = handed_over(600, &[]);
    assert_eq!(changed(&taken_over), ["change SidecarSet"], "its conditions");
    let (changes, _) = handed_over(600, &taken_over);
    assert_eq!(changed(&changes), [""; 0], "nothing changes");

    let (changes, said) = handed_over(30, &taken_over);
    assert_eq!(changed(&changes), [""; 0], "OpenKruise's manager is back");
    assert!(said.contains("kruise-system/kruise-manager"), "{said}");
}

#[rstest]
#[case("rollout.jsonl")]
#[case("rollout-steps.jsonl")]
fn roll12_recorded_rounds_agree(#[case] file: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(path) = here.ancestors().map(|it| it.join("shared/conformance").join(file)).find(|path| path.exists())
    else {
        println!("SKIPPED: there is no shared/conformance/{file} above this crate");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("settings.yaml"), SETTINGS).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut failed = Vec::new();
    for case in &cases {
        let differences = differences(case, &plan(folder.path(), case));
        if !differences.is_empty() {
            failed.push(format!("{}: {}", json::text(case, &["id"]), differences.join("\n")));
        }
    }
    println!("{file}: {} of {} rounds agree", cases.len() - failed.len(), cases.len());
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n\n"));
}
