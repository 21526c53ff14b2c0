//! The asserting twin against webhooks that run after the policy (TOK-10, E11): it refuses whatever they undo or copy.

use std::collections::BTreeSet;

use pillion_identity::names;
use pillion_kubernetes::json;
use pillion_testkit::identity::{self, Expected, Pair, Scenario, Set, TOKEN_PATH, pairs_with, plugin, scenario};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::admission::{Admission, evaluate};

/// Returns the first container whose name matches, from both lists.
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

/// Adds a volume to the Pod, and mounts it into the app.
fn mount_into_app(pod: &mut Value, volume: Value) {
    let mount = json!({"name": volume["name"], "mountPath": "/stolen"});
    volumes(pod).push(volume);
    mounts(container(pod, |name| name == "app").unwrap()).push(mount);
}

/// Returns the Pod without the annotation that records the swapped account.
fn without_record(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["metadata"]["annotations"].as_object_mut().unwrap().remove("pillion.dev/service-account-injected");
    pod
}

/// Returns every attack by a later webhook on the identities of this Pod: its name and the resulting Pod.
#[allow(clippy::too_many_lines, reason = "one list of edits, each with its condition")]
fn sabotages(stored: &Value, admission: &Admission, scenario: &Scenario) -> Vec<(&'static str, Value)> {
    let Expected::Admitted { runs_as, hides, identities, .. } = &admission.expected else { return Vec::new() };
    let mut done = Vec::new();
    let mut sabotage = |what, edit: &dyn Fn(&mut Value)| {
        // No decision may rely on the Pod's own annotations.
        let mut pod = without_record(stored);
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
        // If the API server mistakes an empty volume of the Pod for its own, the attack gains nothing.
        if !is_misled {
            sabotage("automounting is on again", &|pod| {
                pod["spec"]["automountServiceAccountToken"] = json!(true);
                // A mount of the app at the path would keep the API server from mounting there.
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
    if *hides {
        sabotage("the app gets a certificate", &|pod| {
            mount_into_app(
                pod,
                json!({"name": "late", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}),
            );
        });
        sabotage("the app mounts a volume of a driver that asks for tokens", &|pod| {
            mount_into_app(pod, json!({"name": "late", "csi": {"driver": identity::ASKING_DRIVER}}));
        });
        sabotage("a volume with a token waits for a container", &|pod| {
            volumes(pod)
                .push(json!({"name": "late", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}));
        });
    }
    sabotage("a volume that nobody mounts names a Secret", &|pod| {
        let secret = json!({"nodePublishSecretRef": {"name": names::token_secret("x")}, "driver": "nfs.csi.k8s.io"});
        volumes(pod).push(json!({"name": "late", "csi": secret}));
    });
    for (set, account) in identities {
        let set = scenario.sets.iter().find(|other| other.name == *set).unwrap();
        let credential = set.credential(account);
        // If the API server mounts the token of the Pod's own account, there is nothing of ours to undo.
        let Some(volume_name) = set.volume_in(stored, account) else { continue };
        let containers = set.containers();
        let is_owner = |name: &str| containers.iter().any(|own| own == name);
        let owner = container(&mut stored.clone(), is_owner).cloned().unwrap();
        if json::items(&owner, &["volumeMounts"]).iter().all(|mount| mount["name"] != volume_name.as_str()) {
            // The API server mounts the token of the Pod's own account, so there is nothing of ours to undo.
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
        for path in [
            "/run/secrets/kubernetes.io/serviceaccount",
            "/var/run/secrets",
            "//run/./",
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
        ] {
            sabotage("an owner gets something around or in it", &|pod| {
                mounts(container(pod, is_owner).unwrap()).push(json!({"name": "data", "mountPath": path}));
            });
        }
        for (key, value) in
            [("subPath", json!("token")), ("mountPropagation", json!("Bidirectional")), ("readOnly", json!(false))]
        {
            sabotage("an owner's mount says more", &|pod| {
                let mounts = mounts(container(pod, is_owner).unwrap());
                mounts.iter_mut().find(|mount| mount["mountPath"] == TOKEN_PATH).unwrap()[key] = value.clone();
            });
        }
        if runs_as.as_deref().unwrap_or_default() != account && stored["spec"]["serviceAccountName"] != account.as_str()
        {
            sabotage("a volume of the sidecar projects the Pod's token", &|pod| {
                let mount = container(pod, is_owner).unwrap()["volumeMounts"][0].clone();
                let name = if mount["mountPath"] == TOKEN_PATH { json!("late") } else { mount["name"].clone() };
                volumes(pod).retain(|volume| volume["name"] != name);
                volumes(pod)
                    .push(json!({"name": name, "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}));
                if name == "late" {
                    mounts(container(pod, is_owner).unwrap()).push(json!({"name": name, "mountPath": "/late"}));
                }
            });
        }
        sabotage("the volume is emptied", &|pod| {
            let volume = volumes(pod).iter_mut().find(|volume| volume["name"] == volume_name.as_str()).unwrap();
            *volume = json!({"name": volume_name, "emptyDir": {}});
        });
        sabotage("the volume shows another Secret", &|pod| {
            let volume = volumes(pod).iter_mut().find(|volume| volume["name"] == volume_name.as_str()).unwrap();
            volume["projected"]["sources"][0] = json!({"secret": {"name": names::token_secret("other")}});
        });
        sabotage("the volume requests another audience", &|pod| {
            let volume = volumes(pod).iter_mut().find(|volume| volume["name"] == volume_name.as_str()).unwrap();
            let source = json!({"serviceAccountToken": {"audience": "other", "expirationSeconds": 3600, "path": "o"}});
            volume["projected"]["sources"].as_array_mut().unwrap().push(source);
        });
        if credential != *account {
            sabotage("the volume has fewer tokens", &|pod| {
                let volume = volumes(pod).iter_mut().find(|volume| volume["name"] == volume_name.as_str()).unwrap();
                volume["projected"]["sources"].as_array_mut().unwrap().remove(1);
            });
        }
        for other in scenario.sets.iter().filter(|other| other.matches && other.name != set.name) {
            // Sets without tokens for other audiences share the volume of their account.
            if identities.get(other.name).is_some_and(|account| other.credential(account) == credential) {
                continue;
            }
            sabotage("a container of another set mounts the volume", &|pod| {
                let thief = container(pod, |name| other.containers().iter().any(|own| own == name)).unwrap();
                mounts(thief).push(json!({"name": volume_name, "mountPath": "/stolen"}));
            });
        }
        let secret = names::token_secret(&credential);
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

/// A change to a Pod between the policy and the twin.
#[derive(Clone, Debug)]
enum Change {
    /// Sets or removes the annotation that records the swapped account.
    Record(bool),
    Account(&'static str),
    Automount(Option<bool>),
    Volume {
        first: bool,
        volume: Value,
    },
    Mount {
        container: usize,
        volume: usize,
        path: &'static str,
        sub_path: bool,
    },
    Unmount {
        container: usize,
        mount: usize,
    },
    Drop {
        container: usize,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let volume = select(vec![
        json!({"name": "late", "emptyDir": {}}),
        plugin::automount_volume("kube-api-access-late"),
        json!({"name": "late", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}),
        json!({"name": "late", "csi": {"driver": identity::ASKING_DRIVER}}),
        json!({"name": "late", "secret": {"secretName": names::token_secret("y")}}),
        json!({"name": names::token_volume("y"), "emptyDir": {}}),
    ]);
    let path = select(vec![TOKEN_PATH, "/late", "/run", "/var/run/secrets/kubernetes.io/serviceaccount/x"]);
    let some = || 0_usize..8;
    prop_oneof![
        any::<bool>().prop_map(Change::Record),
        select(vec!["default", "own", "x", "y"]).prop_map(Change::Account),
        any::<Option<bool>>().prop_map(Change::Automount),
        (any::<bool>(), volume).prop_map(|(first, volume)| Change::Volume { first, volume }),
        (some(), some(), path, any::<bool>()).prop_map(|(container, volume, path, sub_path)| Change::Mount {
            container,
            volume,
            path,
            sub_path
        }),
        (some(), some()).prop_map(|(container, mount)| Change::Unmount { container, mount }),
        some().prop_map(|container| Change::Drop { container }),
    ]
}

impl Change {
    fn apply(&self, pod: &mut Value) {
        let containers = pod["spec"]["containers"].as_array().unwrap().len();
        match self {
            Self::Record(is_there) => {
                let account = pod["spec"]["serviceAccountName"].clone();
                let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
                let key = "pillion.dev/service-account-injected";
                annotations.remove(key);
                if *is_there {
                    annotations.insert(key.to_owned(), json!({"injected": account}).to_string().into());
                }
            }
            Self::Account(name) => {
                pod["spec"]["serviceAccountName"] = json!(name);
                pod["spec"]["serviceAccount"] = json!(name);
            }
            Self::Automount(automount) => {
                let spec = pod["spec"].as_object_mut().unwrap();
                spec.remove("automountServiceAccountToken");
                spec.extend(automount.map(|is_on| ("automountServiceAccountToken".to_owned(), json!(is_on))));
            }
            Self::Volume { first, volume } => {
                let volumes = volumes(pod);
                if volumes.iter().all(|other| other["name"] != volume["name"]) {
                    volumes.insert(if *first { 0 } else { volumes.len() }, volume.clone());
                }
            }
            Self::Mount { container, volume, path, sub_path } => {
                let volumes = volumes(pod);
                let name = volumes[volume % volumes.len()]["name"].clone();
                let mounts = mounts(&mut pod["spec"]["containers"][container % containers]);
                if mounts.iter().all(|mount| mount["mountPath"] != *path) {
                    mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
                    if *sub_path {
                        mounts.last_mut().unwrap()["subPath"] = json!("token");
                    }
                }
            }
            Self::Unmount { container, mount } => {
                let mounts = mounts(&mut pod["spec"]["containers"][container % containers]);
                if !mounts.is_empty() {
                    mounts.remove(mount % mounts.len());
                }
            }
            Self::Drop { container } => {
                if containers > 1 {
                    pod["spec"]["containers"].as_array_mut().unwrap().remove(container % containers);
                }
            }
        }
    }
}

/// Returns the pairs of the containers in `pod`. Sidecars may hold every token of the Pod's own account: the twin does
/// not compare what sidecars run, and no later webhook gives them more than the app has.
fn pairs_in(stored: &Value, pod: &Value, scenario: &Scenario) -> BTreeSet<Pair> {
    let sidecars: Vec<String> = scenario.sets.iter().flat_map(Set::containers).collect();
    let mut pairs = pairs_with(stored, &scenario.accounts, &scenario.secrets());
    pairs.retain(|pair| {
        let is_there = container(&mut pod.clone(), |name| name == pair.container).is_some();
        is_there && !(sidecars.contains(&pair.container) && pod["spec"]["serviceAccountName"] == pair.account.as_str())
    });
    pairs
}

/// Returns the mounts of these containers outside the place of tokens, as names of containers and volumes.
fn mounts_of(pod: &Value, containers: &[String]) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lists = ["initContainers", "containers"].into_iter().flat_map(|list| json::items(pod, &["spec", list]));
    let sidecars = lists.filter(|container| containers.contains(&text(&container["name"])));
    let mounts = sidecars.flat_map(|container| {
        json::items(container, &["volumeMounts"]).iter().map(|mount| (text(&container["name"]), mount))
    });
    mounts
        .filter(|(_, mount)| !identity::is_token_path(json::text(mount, &["mountPath"])))
        .map(|(container, mount)| (container, text(&mount["name"])))
        .collect()
}

proptest! {
    // Each case is a few Pods.
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::default() })]

    /// Whatever happens to a Pod between the policy and its twin: the twin accepts nothing that the policy would
    /// refuse. If there are sidecars, it accepts no Pod to which the policy would give other holders of tokens.
    #[test]
    fn tok10_whatever_the_twin_accepts_the_policy_would_have_made_or_left(
        scenario in scenario(&["SidecarsOnly", "SidecarsOnly", "Isolate", "Pod"]),
        passes in prop::bool::weighted(0.8),
        changes in vec(change(), 0..4),
    ) {
        let Ok(admission) = Admission::admit(&scenario) else { return Ok(()) };
        if passes && !admission.answer.accepted {
            return Ok(());
        }
        let pod = if passes { admission.patched() } else { admission.seen };
        let Ok(mut pod) = identity::admit(&pod, &scenario.accounts) else { return Ok(()) };
        let sidecars: Vec<String> = scenario.sets.iter().flat_map(Set::containers).collect();
        let before = mounts_of(&pod, &sidecars);
        for change in &changes {
            change.apply(&mut pod);
        }
        // The policy rewrites sidecars without the mounts that others added. Without those mounts the decision may
        // differ.
        if mounts_of(&pod, &sidecars).iter().any(|mount| !before.contains(mount)) {
            return Ok(());
        }
        // The API server stores no Pod with a missing account.
        let is_stored = identity::invalid(&pod).is_empty() && identity::admit(&pod, &scenario.accounts).is_ok();
        if !is_stored || !evaluate(&pod, "u", &scenario.settings_of_twin(), &scenario).accepted {
            return Ok(());
        }
        let again = evaluate(&pod, "u", &scenario.settings(), &scenario);
        prop_assert!(again.accepted, "{:?}\n{}", again.message, pod);
        let owners = scenario.sets.iter().filter(|set| set.asks()).flat_map(Set::containers);
        let is_there = |owner: String| container(&mut pod.clone(), |name| name == owner).is_some();
        let (Some(after), true) = (again.mutated_object, owners.into_iter().any(is_there)) else { return Ok(()) };
        let admitted = |pod: &Value| identity::admit(pod, &scenario.accounts).unwrap();
        prop_assert_eq!(
            pairs_in(&admitted(&after), &pod, &scenario), pairs_in(&admitted(&pod), &pod, &scenario), "{}\n{}", after, pod
        );
    }
}

proptest! {
    // Each case is a dozen Pods.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4, max_shrink_iters: 400, ..ProptestConfig::default()
    })]

    #[test]
    fn tok10_the_twin_refuses_what_later_webhooks_undo_or_copy(scenario in scenario(&["SidecarsOnly", "Isolate", "Pod"])) {
        let Ok(admission) = Admission::admit(&scenario) else { return Ok(()) };
        if !admission.answer.accepted {
            return Ok(());
        }
        let stored = identity::admit(&admission.patched(), &scenario.accounts).unwrap();
        let judged = evaluate(&without_record(&stored), "u", &scenario.settings_of_twin(), &scenario);
        prop_assert!(judged.accepted, "{:?}\n{}", judged.message, stored);
        for (what, pod) in sabotages(&stored, &admission, &scenario) {
            let judged = evaluate(&pod, "u", &scenario.settings_of_twin(), &scenario);
            prop_assert!(!judged.accepted, "{}\n{}", what, pod);
        }
    }
}
