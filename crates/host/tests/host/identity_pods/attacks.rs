//! Attacks with certificates, drivers, unmounted volumes, and mounts around the place of a token (E19 to E21).

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::TOKEN_PATH;
use super::admit_in;
use super::automounted;
use super::cluster;
use super::injected;
use super::isolated;
use super::merged_name;
use super::message_of;
use super::pod;
use super::request;
use super::running_as;
use super::set;
use crate::support::identity::{ask, edited, gated, verdict};

fn asserted(pod: &Value, sets: &[Value]) -> String {
    let settings = edited(gated(&json!({}), sets), |settings| settings["role"] = json!("Assert"));
    verdict(&ask(&request(pod), &settings, &Arc::new(cluster())))
}

fn with_volume(pod: Value, volume: Value) -> Value {
    edited(pod, |pod| pod["spec"]["volumes"].as_array_mut().unwrap().push(volume))
}

fn mounting(pod: Value, volume: Value, path: &str) -> Value {
    let mount = json!({"name": volume["name"], "mountPath": path});
    edited(with_volume(pod, volume), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
    })
}

fn certificate() -> Value {
    json!({"name": "mine", "projected": {"sources": [{"podCertificate": {"signerName": "example.com/pods", "keyType": "ED25519"}}]}})
}

/// A volume that gives a container the Pod's account keeps the Pod from getting the sidecar's account.
#[rstest]
#[case::certificate(certificate())]
#[case::certificate_beside_a_map(json!({"name": "mine", "projected": {"sources": [
    {"configMap": {"name": "c"}}, {"podCertificate": {"signerName": "example.com/pods"}}
]}}))]
#[case::driver(json!({"name": "mine", "csi": {"driver": "secrets-store.csi.k8s.io"}}))]
#[case::nameless_driver(json!({"name": "mine", "csi": {}}))]
#[case::automounted_with_a_certificate(edited(automounted("kube-api-access-mine"), |volume| {
    volume["projected"]["sources"].as_array_mut().unwrap().push(json!({"podCertificate": {"signerName": "example.com/pods"}}));
}))]
#[case::automounted_with_a_second_token(edited(automounted("kube-api-access-mine"), |volume| {
    volume["projected"]["sources"].as_array_mut().unwrap().push(json!({"serviceAccountToken": {"path": "t"}}));
}))]
fn e19_e20_what_gives_the_pods_account_counts_as_its_own(
    #[case] volume: Value,
    #[values(true, false)] is_mounted: bool,
) {
    let bare = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] = json!([]);
        pod["spec"]["volumes"] = json!([]);
    });
    let pod = if is_mounted { mounting(bare, volume, TOKEN_PATH) } else { with_volume(bare, volume) };
    let deny = admit_in(&pod, json!({"onAppServiceAccount": "Deny"}), &[set("a", "agent")], cluster());
    let holder = if is_mounted { "container \"app\" mounts a token" } else { "holds a token" };
    assert!(verdict(&deny).contains(holder) && !deny.accepted, "{deny:?}");
    let kept = injected(&pod, &[set("a", "agent")]);
    assert_eq!(kept["spec"]["serviceAccountName"], "default");
    let merged = edited(pod, |pod| {
        pod["spec"]["serviceAccountName"] = json!(merged_name());
        pod["spec"]["serviceAccount"] = json!(merged_name());
    });
    let sets = [set("a", "a"), set("b", "b")];
    for verdict in [message_of(&merged, &sets), asserted(&merged, &sets)] {
        assert!(verdict.starts_with("403 ") && verdict.contains("which is for sidecars alone"), "E6: {verdict}");
    }
}

#[test]
fn e19_drivers_that_ask_for_no_token_are_let_through() {
    let with = |driver: &str| mounting(pod(), json!({"name": "mine", "csi": {"driver": driver}}), "/mine");
    let account = |pod: &Value, rules: Value| {
        let answer = admit_in(pod, rules, &[set("a", "agent")], cluster());
        answer.mutated_object.unwrap()["spec"]["serviceAccountName"].clone()
    };
    assert_eq!(account(&with("nfs.csi.k8s.io"), json!({})), "agent");
    assert_eq!(account(&with("other.example"), json!({})), "default");
    assert_eq!(account(&with("other.example"), json!({"trustedCsiDrivers": ["other.example"]})), "agent");
    assert_eq!(account(&with("nfs.csi.k8s.io"), json!({"trustedCsiDrivers": []})), "default", "a list replaces ours");
}

/// The volume is refused whether a container mounts it or not, whatever its type.
#[rstest]
#[case::secret(json!({"secret": {"secretName": "sidecarset-token-d4f0bc5a29de06b5"}}))]
#[case::projected(json!({"projected": {"sources": [{"secret": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}]}}))]
#[case::csi(json!({"csi": {"driver": "nfs.csi.k8s.io", "nodePublishSecretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::csi_attribute(json!({"csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": {"secretName": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::flex(json!({"flexVolume": {"driver": "a/b", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::ceph(json!({"cephfs": {"monitors": [], "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::cinder(json!({"cinder": {"volumeID": "v", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::rbd(json!({"rbd": {"image": "i", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::iscsi(json!({"iscsi": {"iqn": "i", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::scale_io(json!({"scaleIO": {"system": "s", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::storage_os(json!({"storageos": {"secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}}))]
#[case::azure(json!({"azureFile": {"shareName": "s", "secretName": "sidecarset-token-d4f0bc5a29de06b5"}}))]
fn e20_tok8_volumes_do_not_name_a_sidecars_secret(
    #[case] source: Value,
    #[values("mine", "kube-api-access-mine")] name: &str,
    #[values(true, false)] is_mounted: bool,
) {
    let volume = edited(source, |volume| volume["name"] = json!(name));
    let attack = if is_mounted { mounting(pod(), volume, "/mine") } else { with_volume(pod(), volume) };
    for sets in
        [vec![isolated("a", "agent")], vec![set("a", "agent")], vec![isolated("a", "agent"), set("b", "other")], vec![]]
    {
        for verdict in [message_of(&attack, &sets), asserted(&attack, &sets)] {
            assert!(verdict.contains("the Secret \"sidecarset-token-d4f0bc5a29de06b5\""), "{verdict}");
        }
    }
}

#[test]
fn e20_pull_secrets_and_the_names_of_volumes_are_judged_too() {
    let pulling = edited(pod(), |pod| {
        pod["spec"]["imagePullSecrets"] = json!([{"name": "sidecarset-token-d4f0bc5a29de06b5"}]);
    });
    assert!(message_of(&pulling, &[]).starts_with("403 spec.imagePullSecrets: "));
    let called = with_volume(pod(), json!({"name": "sidecarset-sa-mine", "emptyDir": {}}));
    assert!(
        message_of(&called, &[]).starts_with("403 spec.volumes: volume \"sidecarset-sa-mine\" has the name of one")
    );
    // The most similar honest Pods.
    let honest = with_volume(pod(), json!({"name": "mine", "secret": {"secretName": "my-sidecarset-token-x"}}));
    assert_eq!(message_of(&honest, &[isolated("a", "agent")]), "accepted");
    let map = with_volume(pod(), json!({"name": "mine", "configMap": {"name": "sidecarset-token-x"}}));
    assert_eq!(message_of(&map, &[isolated("a", "agent")]), "accepted");
}

/// A SidecarSet that would hide its token is refused at the injection, and also if the Pod already has the sidecar.
#[rstest]
#[case::mount("volumeMounts[0].mountPath", json!({"volumeMounts": [{"name": "v", "mountPath": "/run/secrets/kubernetes.io/serviceaccount"}]}))]
#[case::above("volumeMounts[0].mountPath", json!({"volumeMounts": [{"name": "v", "mountPath": "/var/run/"}]}))]
#[case::below("volumeMounts[0].mountPath", json!({"volumeMounts": [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/../serviceaccount/token"}]}))]
#[case::root("volumeMounts[0].mountPath", json!({"volumeMounts": [{"name": "v", "mountPath": "//"}]}))]
#[case::relative("volumeMounts[0].mountPath", json!({"volumeMounts": [{"name": "v", "mountPath": "run/secrets"}]}))]
#[case::device("volumeDevices[0].devicePath", json!({"volumeDevices": [{"name": "v", "devicePath": "/run/secrets"}]}))]
#[case::message("terminationMessagePath", json!({"terminationMessagePath": "/run/secrets/kubernetes.io/serviceaccount/token"}))]
fn e21_a_sidecar_set_with_a_mount_in_the_way_is_refused(
    #[case] field: &str,
    #[case] fields: Value,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let with = |edit: &Value| {
        edited(set("a", "agent"), |set| {
            set["spec"]["serviceAccountMode"] = json!(mode);
            set["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
            for (key, value) in edit.as_object().unwrap() {
                set["spec"]["containers"][0][key] = value.clone();
            }
        })
    };
    let start = format!("403 SidecarSet \"a\": spec.containers[0].{field}: ");
    let ours = injected(&pod(), &[with(&json!({}))]);
    for verdict in [message_of(&pod(), &[with(&fields)]), asserted(&ours, &[with(&fields)])] {
        assert!(verdict.starts_with(&start), "{verdict}");
    }
    let beside = json!({"volumeMounts": [{"name": "v", "mountPath": "/run/containerd"}]});
    assert_eq!(message_of(&pod(), &[with(&beside)]), "accepted");
}

/// Shared mounts leave out only the surroundings of an owner's token.
#[rstest]
#[case::behind_the_link("/run/secrets/kubernetes.io/serviceaccount", false)]
#[case::above("/var/run", false)]
#[case::below("/var/run/secrets/kubernetes.io/serviceaccount/x", false)]
#[case::spelt_otherwise("/var/../var/./run//secrets", false)]
#[case::beside("/var/run/app", true)]
fn e21_shared_mounts_leave_the_place_of_the_token_alone(#[case] path: &str, #[case] is_shared: bool) {
    let sharing = |set: Value| {
        edited(set, |set| {
            set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
            set["spec"]["containers"][0]["shareVolumeDevicePolicy"] = json!({"type": "enabled"});
        })
    };
    let app = edited(mounting(pod(), json!({"name": "mine", "emptyDir": {}}), path), |pod| {
        pod["spec"]["containers"][0]["volumeDevices"] =
            json!([{"name": "block", "devicePath": format!("{path}/device")}]);
        pod["spec"]["volumes"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "block", "persistentVolumeClaim": {"claimName": "c"}}));
    });
    for set in [sharing(set("a", "agent")), sharing(isolated("a", "agent"))] {
        let after = injected(&app, &[set]);
        let sidecar = &after["spec"]["containers"][1];
        let shares =
            |list: &str, name: &str| sidecar[list].as_array().is_some_and(|l| l.iter().any(|m| m["name"] == name));
        assert_eq!(shares("volumeMounts", "mine"), is_shared, "{sidecar}");
        assert_eq!(
            shares("volumeDevices", "block"),
            is_shared || path == "/var/run" || path.ends_with("secrets"),
            "{sidecar}"
        );
    }
    let plain =
        edited(sharing(set("b", "x")), |set| drop(set["spec"].as_object_mut().unwrap().remove("serviceAccountName")));
    let plain = edited(plain, |set| drop(set["spec"].as_object_mut().unwrap().remove("serviceAccountPermissions")));
    let after = injected(&app, &[plain]);
    assert!(after["spec"]["containers"][1]["volumeMounts"].to_string().contains("\"mine\""), "no identity, no rule");
}

/// The policy rewrites an owner's own mount, and the twin refuses a changed one.
#[rstest]
#[case::a_part(json!({"subPath": "token"}))]
#[case::a_part_by_variable(json!({"subPathExpr": "$(X)"}))]
#[case::propagated(json!({"mountPropagation": "Bidirectional"}))]
#[case::recursive(json!({"recursiveReadOnly": "Enabled"}))]
#[case::of_tomorrow(json!({"field": 1}))]
#[case::writable(json!({"readOnly": false}))]
#[case::with_a_slash(json!({"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"}))]
#[case::behind_the_link(json!({"mountPath": "/run/secrets/kubernetes.io/serviceaccount"}))]
fn e21_an_owners_mount_is_all_of_what_we_write(#[case] more: Value, #[values("SidecarsOnly", "Isolate")] mode: &str) {
    let sets = [edited(set("a", "agent"), |set| set["spec"]["serviceAccountMode"] = json!(mode))];
    let ours = injected(&pod(), &sets);
    let changed = edited(ours.clone(), |pod| {
        for (key, value) in more.as_object().unwrap() {
            pod["spec"]["containers"][1]["volumeMounts"][0][key] = value.clone();
        }
    });
    assert_eq!(injected(&changed, &sets)["spec"], ours["spec"]);
    assert!(
        asserted(&changed, &sets).contains("sidecar \"a\" lacks the token of \"agent\""),
        "{}",
        asserted(&changed, &sets)
    );
    assert_eq!(asserted(&ours, &sets), "accepted");
    // An empty value has no effect.
    let silent = edited(ours, |pod| pod["spec"]["containers"][1]["volumeMounts"][0]["subPath"] = json!(""));
    assert_eq!(asserted(&silent, &sets), "accepted");
}

/// The Pod's author names a volume like the SidecarSet's; later it projects the Pod's token.
#[test]
fn e11_the_twin_sees_a_volume_of_an_isolated_sidecar_that_projects_the_pods_token() {
    let sets = [edited(isolated("a", "agent"), |set| {
        set["spec"]["volumes"] = json!([{"name": "config", "emptyDir": {}}]);
        set["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "config", "mountPath": "/config"}]);
    })];
    let ours = injected(&pod(), &sets);
    for source in
        [json!({"serviceAccountToken": {"path": "t"}}), json!({"podCertificate": {"signerName": "example.com/pods"}})]
    {
        let shadowed = edited(ours.clone(), |pod| {
            let mut volumes = pod["spec"]["volumes"].as_array_mut().unwrap().iter_mut();
            *volumes.find(|volume| volume["name"] == "config").unwrap() =
                json!({"name": "config", "projected": {"sources": [source]}});
        });
        for verdict in [message_of(&shadowed, &sets), asserted(&shadowed, &sets)] {
            assert!(verdict.contains("which holds a token of the Pod's own ServiceAccount"), "{verdict}");
        }
    }
}

/// With the gate off, the twin refuses the same Pod as the policy.
#[test]
fn e6_the_twin_refuses_a_merged_account_without_the_gate() {
    for role in ["Inject", "Assert"] {
        let settings = json!({"sidecarSets": [set("a", "a"), set("b", "b")], "role": role});
        let answer = ask(&request(&running_as(&merged_name())), &settings, &Arc::new(cluster()));
        assert!(
            verdict(&answer).starts_with("403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-"),
            "{role}"
        );
    }
}

/// TOK-17: with the gate off, nobody waits for a Secret that is written once it is on.
#[test]
fn tok17_a_pod_does_not_wait_for_a_token_while_the_gate_is_off() {
    let waiting = with_volume(
        pod(),
        json!({"name": "wait", "secret": {"secretName": "sidecarset-token-d4f0bc5a29de06b5", "optional": true}}),
    );
    for sets in [vec![], vec![set("a", "agent")]] {
        for role in ["Inject", "Assert"] {
            let settings = json!({"sidecarSets": sets, "role": role});
            let answer = verdict(&ask(&request(&waiting), &settings, &Arc::new(cluster())));
            assert!(answer.starts_with("403 spec.volumes: volume \"wait\" names the Secret"), "{role}: {answer}");
        }
    }
}

/// TOK-16: what sees the token, or replaces a volume of the sidecar, is refused by the policy and by the twin.
#[rstest]
#[case::processes(json!({"shareProcessNamespace": true}), "spec.shareProcessNamespace: ")]
#[case::the_nodes_processes(json!({"hostPID": true}), "spec.hostPID: ")]
#[case::privileged(
    json!({"initContainers": [{"name": "setup", "image": "s", "securityContext": {"privileged": true}}]}),
    "spec.initContainers[0].securityContext: "
)]
#[case::a_volume(json!({"volumes": [{"name": "config", "hostPath": {"path": "/mine"}}]}), "spec.volumes[0]: ")]
fn tok16_what_exposes_a_token_is_refused(#[case] spec: Value, #[case] field: &str) {
    let sets = [edited(set("a", "agent"), |set| {
        set["spec"]["volumes"] = json!([{"name": "config", "configMap": {"name": "agent"}}]);
        set["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "config", "mountPath": "/etc/agent"}]);
    })];
    let bare = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"] = json!([]);
        pod["spec"]["volumes"] = json!([]);
    });
    let attack =
        edited(bare.clone(), |pod| pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone()));
    let judged = |pod: &Value, role: &str| {
        let settings = edited(gated(&json!({"exposure": "Deny"}), &sets), |settings| settings["role"] = json!(role));
        verdict(&ask(&request(pod), &settings, &Arc::new(cluster())))
    };
    let start = format!("403 SidecarSet \"a\": {field}");
    for role in ["Inject", "Assert"] {
        assert_eq!(judged(&bare, role), "accepted");
        assert!(judged(&attack, role).starts_with(&start), "{role}: {}", judged(&attack, role));
    }
    assert_eq!(message_of(&attack, &sets), "accepted", "the default warns");
}

/// Annotations prove nothing, in either direction.
#[test]
fn e11_annotations_decide_nothing() {
    let sets = [set("a", "agent")];
    let stripped = edited(injected(&pod(), &sets), |pod| {
        pod["metadata"]["annotations"].as_object_mut().unwrap().remove(super::INJECTED);
        pod["spec"]["volumes"].as_array_mut().unwrap().push(automounted("kube-api-access-later"));
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "kube-api-access-later", "mountPath": TOKEN_PATH}]);
    });
    for verdict in [message_of(&stripped, &sets), asserted(&stripped, &sets)] {
        assert!(
            verdict.contains("container \"app\" mounts a token of \"agent\", which is for sidecars alone"),
            "{verdict}"
        );
    }
    let pasted = edited(running_as("agent"), |pod| {
        pod["metadata"]["annotations"] = json!({super::INJECTED: "{\"injected\":\"agent\"}"});
    });
    assert_eq!(asserted(&injected(&pasted, &sets), &sets), "accepted");
}
