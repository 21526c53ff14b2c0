//! The parts of a Pod that the policy must not change: everything but sidecars, their volumes and our annotations.

use pillion_testkit::identity::{Expected, Scenario, Set, is_automount, is_token_path};
use serde_json::{Value, json};

use super::admission::Admission;

/// Returns the Pod after the policy without the policy's additions.
pub fn without_additions(patched: &Value, seen: &Value, scenario: &Scenario) -> Value {
    let mut pod = patched.clone();
    let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| !key.contains("kruise.io") && !key.starts_with("pillion.dev/") && !is_of_a_pair(key));
    let sidecars: Vec<String> = scenario.sets.iter().flat_map(Set::containers).collect();
    let spec = pod["spec"].as_object_mut().unwrap();
    for list in ["initContainers", "containers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        containers.retain(|container| !sidecars.iter().any(|name| container["name"] == name.as_str()));
        if containers.is_empty() && seen["spec"].get(list).is_none() {
            spec.remove(list);
        }
    }
    let before = seen["spec"]["volumes"].as_array().unwrap();
    let volumes = spec["volumes"].as_array_mut().unwrap();
    volumes.retain(|volume| before.iter().any(|other| other["name"] == volume["name"]));
    pod
}

/// The annotations of a hot-upgrade pair are named after its containers.
fn is_of_a_pair(key: &str) -> bool {
    key.starts_with("version.sidecarset") || key.starts_with("versionalt.sidecarset")
}

/// Returns the required rest of the Pod. It is the whole Pod, byte for byte, unless its account was swapped or is a
/// merged one. Then the Pod has another account; if only the sidecars hold that account, the volume and mounts of the
/// API server are removed (SAP-8f, SAP-8g).
pub fn wanted(admission: &Admission) -> Value {
    let mut pod = admission.seen.clone();
    let Expected::Admitted { runs_as, hides, .. } = &admission.expected else { return pod };
    if let Some(account) = runs_as {
        pod["spec"]["serviceAccountName"] = json!(account);
        pod["spec"]["serviceAccount"] = json!(account);
    }
    if !hides {
        return pod;
    }
    pod["spec"]["automountServiceAccountToken"] = json!(false);
    let gone: Vec<Value> =
        pod["spec"]["volumes"].as_array().unwrap().iter().filter(|volume| is_automount(volume)).cloned().collect();
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) else { continue };
            let count = mounts.len();
            mounts.retain(|mount| {
                !is_token_path(mount["mountPath"].as_str().unwrap())
                    || !gone.iter().any(|volume| volume["name"] == mount["name"])
            });
            if mounts.is_empty() && count > 0 {
                container.as_object_mut().unwrap().remove("volumeMounts");
            }
        }
    }
    pod["spec"]["volumes"].as_array_mut().unwrap().retain(|volume| !is_automount(volume));
    pod
}
