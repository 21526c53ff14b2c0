//! The asserting twin against webhooks that come after the policy (B10, E11): it refuses whatever they undo or copy.

use pillion_core::json;
use pillion_core::service_account::names;
use pillion_testkit::identity::{self, Expected, Scenario, TOKEN_PATH, plugin, scenario};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::admission::{Admission, evaluate};

/// A container of the Pod, by its place among the containers of both lists.
fn container(pod: &mut Value, name: impl Fn(&str) -> bool) -> Option<&mut Value> {
    let (mut found, spec) = (None, pod["spec"].as_object_mut().unwrap());
    for (key, list) in spec.iter_mut() {
        if key == "containers" || key == "initContainers" {
            let mut containers = list.as_array_mut().unwrap().iter_mut();
            found = found.or_else(|| containers.find(|container| name(container["name"].as_str().unwrap())));
        }
    }
    found
}

fn mounts(container: &mut Value) -> &mut Vec<Value> {
    let mounts = container.as_object_mut().unwrap().entry("volumeMounts").or_insert(json!([]));
    mounts.as_array_mut().unwrap()
}

fn volumes(pod: &mut Value) -> &mut Vec<Value> {
    pod["spec"]["volumes"].as_array_mut().unwrap()
}

/// Gives the app a volume, and mounts it.
fn mount_into_app(pod: &mut Value, volume: Value) {
    let mount = json!({"name": volume["name"], "mountPath": "/stolen"});
    volumes(pod).push(volume);
    mounts(container(pod, |name| name == "app").unwrap()).push(mount);
}

/// Everything that a later webhook may do to identities in this Pod, as what it is and the Pod after it.
fn sabotages(stored: &Value, admission: &Admission, scenario: &Scenario) -> Vec<(&'static str, Value)> {
    let Expected::Admitted { runs_as, hides, identities, .. } = &admission.expected else { return Vec::new() };
    let mut done = Vec::new();
    let mut sabotage = |what, edit: &dyn Fn(&mut Value)| {
        let mut pod = stored.clone();
        edit(&mut pod);
        done.push((what, pod));
    };
    if runs_as.is_some() {
        sabotage("the account is set back", &|pod| {
            pod["spec"]["serviceAccountName"] = json!("default");
            pod["spec"]["serviceAccount"] = json!("default");
        });
        sabotage("the account is another one", &|pod| {
            pod["spec"]["serviceAccountName"] = json!("own");
            pod["spec"]["serviceAccount"] = json!("own");
        });
    }
    let is_misled = json::items(stored, &["spec", "volumes"])
        .iter()
        .any(|volume| volume["name"] == "kube-api-access-own" && volume["projected"].is_null());
    if *hides {
        // Where the API server takes an empty volume of the Pod for its own, nobody would gain anything.
        if !is_misled {
            sabotage("automounting is on again", &|pod| {
                pod["spec"]["automountServiceAccountToken"] = json!(true);
                // Whatever the app has at the path keeps the API server from mounting there.
                mounts(container(pod, |name| name == "app").unwrap()).clear();
                *pod = identity::admit(pod, &scenario.accounts).unwrap();
            });
        }
        sabotage("the app projects a token of its own", &|pod| {
            let mut volume = plugin::automount_volume("late");
            volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] = json!("vault");
            mount_into_app(pod, volume);
        });
    }
    for (set, account) in identities {
        let volume_name = names::token_volume(account);
        let containers = scenario.sets.iter().find(|other| other.name == *set).unwrap().containers();
        let is_owner = |name: &str| containers.iter().any(|own| own == name);
        let owner = container(&mut stored.clone(), is_owner).cloned().unwrap();
        if json::items(&owner, &["volumeMounts"]).iter().all(|mount| mount["name"] != volume_name.as_str()) {
            // The API server mounts the token of the Pod's own account: there is nothing of ours to undo.
            continue;
        }
        sabotage("the app mounts the volume", &|pod| {
            let mount = json!({"name": volume_name, "mountPath": "/stolen"});
            mounts(container(pod, |name| name == "app").unwrap()).push(mount);
        });
        sabotage("an owner loses its mount", &|pod| {
            mounts(container(pod, is_owner).unwrap()).retain(|mount| mount["mountPath"] != TOKEN_PATH);
        });
        sabotage("an owner gets something else in its place", &|pod| {
            let mounts = mounts(container(pod, is_owner).unwrap());
            mounts.iter_mut().find(|mount| mount["mountPath"] == TOKEN_PATH).unwrap()["name"] = json!("data");
        });
        sabotage("an owner gets something else over it", &|pod| {
            let mount = json!({"name": "data", "mountPath": format!("{TOKEN_PATH}/")});
            mounts(container(pod, is_owner).unwrap()).push(mount);
        });
        sabotage("the volume is emptied", &|pod| {
            let volume = volumes(pod).iter_mut().find(|volume| volume["name"] == volume_name.as_str()).unwrap();
            *volume = json!({"name": volume_name, "emptyDir": {}});
        });
        sabotage("the volume shows another Secret", &|pod| {
            let volume = volumes(pod).iter_mut().find(|volume| volume["name"] == volume_name.as_str()).unwrap();
            volume["projected"]["sources"][0] = json!({"secret": {"name": names::token_secret("other")}});
        });
        let secret = names::token_secret(account);
        sabotage("the app mounts the Secret", &|pod| {
            mount_into_app(pod, json!({"name": "late", "secret": {"secretName": secret}}));
        });
        sabotage("the app projects the Secret", &|pod| {
            mount_into_app(pod, json!({"name": "late", "projected": {"sources": [{"secret": {"name": secret}}]}}));
        });
        sabotage("the app has the Secret in its environment", &|pod| {
            let app = container(pod, |name| name == "app").unwrap();
            app["envFrom"] = json!([{"secretRef": {"name": secret}}]);
        });
    }
    done
}

proptest! {
    // Each case is a dozen Pods.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4, max_shrink_iters: 400, ..ProptestConfig::default()
    })]

    #[test]
    fn b10_the_twin_refuses_what_later_webhooks_undo_or_copy(scenario in scenario(&["SidecarsOnly", "Isolate", "Pod"])) {
        let Ok(admission) = Admission::of(&scenario) else { return Ok(()) };
        if !admission.answer.accepted {
            return Ok(());
        }
        let stored = identity::admit(&admission.patched(), &scenario.accounts).unwrap();
        for (what, pod) in sabotages(&stored, &admission, &scenario) {
            let judged = evaluate(&pod, "u", &scenario.settings_of_twin(), &scenario);
            prop_assert!(!judged.accepted, "{}\n{}", what, pod);
        }
    }
}
