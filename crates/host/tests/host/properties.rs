//! Properties of every Pod and every SidecarSet, through the built module.

use std::sync::Arc;

use pillion_host::{NoCluster, Operation};
use pillion_testkit::strategies::{damaged, junk, pod, sidecar_set, sidecar_sets};
use pillion_testkit::{FakeCluster, module};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{self, admit, create_pod, create_set, decision, unstamped};

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Imitates the API server's ServiceAccount admission after the webhooks: every container gets the token.
fn with_tokens(mut pod: Value) -> Value {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let mounts = container.as_object_mut().unwrap().entry("volumeMounts").or_insert_with(|| json!([]));
            let mounts = mounts.as_array_mut().unwrap();
            if !mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                mounts.push(json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": TOKEN_PATH}));
            }
        }
    }
    pod
}

/// Imitates the API server's defaulting, before and after the webhooks: limits become requests.
fn with_defaults(mut pod: Value) -> Value {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container["terminationMessagePath"] = json!("/dev/termination-log");
            let Some(limits) = container["resources"]["limits"].as_object().cloned() else { continue };
            for (name, amount) in limits {
                let requests = container["resources"].as_object_mut().unwrap().entry("requests").or_insert(json!({}));
                requests.as_object_mut().unwrap().entry(name).or_insert(amount);
            }
        }
    }
    pod
}

/// Whether `after` contains every value of `before` in its place. Lists may have additional items.
fn is_kept(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().all(|(key, value)| after.get(key).is_some_and(|other| is_kept(value, other)))
        }
        (Value::Array(before), Value::Array(after)) => {
            let mut rest = after.iter();
            before.iter().all(|item| rest.any(|other| other == item))
        }
        _ => before == after,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn admitting_an_injected_pod_again_changes_nothing(pod in pod(), sets in sidecar_sets()) {
        let settings = json!({ "sidecarSets": sets });
        // The API server defaults the Pod before the webhooks, and their additions after them.
        let pod = with_defaults(pod);
        let first = admit(&create_pod(&pod, "11111111-0000-4000-8000-000000000001"), &settings);
        let Some(injected) = first.mutated_object else { return Ok(()) };
        for again in [injected.clone(), with_tokens(injected.clone()), with_defaults(with_tokens(injected))] {
            let second = admit(&create_pod(&again, "22222222-0000-4000-8000-000000000002"), &settings);
            prop_assert!(second.accepted, "{:?}", second.message);
            let changes = json_patch::diff(&again, second.mutated_object.as_ref().unwrap_or(&again));
            prop_assert!(changes.0.is_empty(), "{changes}");
        }
    }

    #[test]
    fn ans4_what_no_rule_touches_is_as_before(pod in pod(), sets in sidecar_sets()) {
        let answer = admit(&create_pod(&pod, "u"), &json!({ "sidecarSets": sets }));
        let Some(after) = answer.mutated_object else { return Ok(()) };
        let patched: Vec<&str> = sets
            .iter()
            .flat_map(|set| set["spec"]["patchPodMetadata"].as_array().unwrap())
            .flat_map(|patch| patch["annotations"].as_object().unwrap().keys().map(String::as_str))
            .collect();
        let strip = |pod: &Value| {
            let mut pod = pod.clone();
            let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.retain(|key, _| !patched.contains(&key.as_str()));
            // Deduplication removes repeated entries (INJ-27).
            let secrets = pod["spec"]["imagePullSecrets"].as_array_mut().unwrap();
            secrets.dedup();
            pod
        };
        let (before, after) = (strip(&pod), strip(&after));
        prop_assert!(is_kept(&before, &after), "before: {before}\nafter: {after}");
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        prop_assert_eq!(keys(&before), keys(&after));
        prop_assert_eq!(keys(&before["spec"]), keys(&after["spec"]));
    }

    #[test]
    fn order1_the_order_of_sidecar_sets_does_not_matter(pod in pod(), sets in sidecar_sets().prop_flat_map(|sets| (Just(sets.clone()), Just(sets).prop_shuffle()))) {
        let request = create_pod(&pod, "u");
        let one = admit(&request, &json!({ "sidecarSets": sets.0 }));
        let other = admit(&request, &json!({ "sidecarSets": sets.1 }));
        prop_assert_eq!(one.accepted, other.accepted);
        prop_assert_eq!(one.message, other.message);
        prop_assert_eq!(one.warnings, other.warnings);
        prop_assert_eq!(unstamped(one.mutated_object), unstamped(other.mutated_object));
    }

    #[test]
    fn hash9_hashes_do_not_depend_on_the_order_of_keys(set in sidecar_set("alpha"), turn in 1_usize..7) {
        let request = create_set(&set);
        let payload = json!({"request": request, "settings": {}});
        let turned = support::print_turned(&payload, turn);
        let evaluate = |payload: &str| decision(module().evaluate(Operation::Validate, payload.as_bytes(), Arc::new(NoCluster)));
        let (one, other) = (evaluate(&payload.to_string()), evaluate(&turned));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn lim1_any_bytes_get_an_answer(bytes: Vec<u8>) {
        decision(module().evaluate(Operation::Validate, &bytes, Arc::new(NoCluster)));
        prop_assert!(support::settings_verdict(&bytes).is_ok());
    }

    #[test]
    fn any_json_gets_an_answer_in_place_of_the_payload(payload in junk()) {
        decision(module().evaluate(Operation::Validate, payload.to_string().as_bytes(), Arc::new(NoCluster)));
    }

    #[test]
    fn a_damaged_request_gets_an_answer(request in damaged(pod().prop_map(|pod| create_pod(&pod, "u"))), sets in sidecar_sets()) {
        admit(&request, &json!({ "sidecarSets": sets }));
    }

    #[test]
    fn a_damaged_pod_gets_an_answer(pod in damaged(pod()), sets in sidecar_sets()) {
        let answer = admit(&create_pod(&pod, "u"), &json!({ "sidecarSets": sets }));
        prop_assert!(answer.accepted || answer.mutated_object.is_none());
    }

    #[test]
    fn a_damaged_sidecar_set_gets_an_answer(set in damaged(sidecar_set("alpha")), pod in pod()) {
        admit(&create_set(&set), &json!({}));
        let settings = json!({ "sidecarSets": [set] });
        admit(&create_pod(&pod, "u"), &settings);
        prop_assert!(support::settings_verdict(settings.to_string().as_bytes()).is_ok());
    }

    #[test]
    fn damaged_settings_get_an_answer(settings in damaged(sidecar_sets().prop_map(|sets| support::full_settings(&sets))), pod in pod()) {
        admit(&create_pod(&pod, "u"), &settings);
        prop_assert!(support::settings_verdict(settings.to_string().as_bytes()).is_ok());
    }

    #[test]
    fn a_damaged_answer_of_a_look_up_gets_an_answer(answer in junk(), raw: Vec<u8>, is_raw: bool, pod in pod()) {
        let bytes = if is_raw { raw } else { answer.to_string().into_bytes() };
        let mut cluster = FakeCluster::default();
        for object in support::looked_up() {
            cluster = cluster.answering(&object, Ok(bytes.clone()));
        }
        let cluster = Arc::new(cluster);
        let pod_answer = module().validate(&create_pod(&pod, "u"), &support::asking_settings(), cluster.clone()).unwrap();
        prop_assert!(support::is_sound(&pod_answer), "{pod_answer:?}");
        let set_answer = module().validate(&create_set(&support::asking_set()), &json!({}), cluster.clone()).unwrap();
        prop_assert!(support::is_sound(&set_answer), "{set_answer:?}");
        prop_assert!(!cluster.asked().is_empty());
    }
}
