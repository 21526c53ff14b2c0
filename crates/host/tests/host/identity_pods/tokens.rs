//! Tokens that a container must not hold (E3, E4, TOK-0).

use rstest::rstest;
use serde_json::{Value, json};

use super::TOKEN_PATH;
use super::admit;
use super::admit_in;
use super::automounted;
use super::cluster;
use super::holders;
use super::injected;
use super::isolated;
use super::message_of;
use super::pod;
use super::set;
use super::volume_of;
use crate::support::identity::{edited, verdict};

fn injected_with_records(edit: impl FnOnce(&mut Value)) -> Value {
    // The policy's own result has the real form of the records.
    edited(injected(&pod(), &[isolated("a", "agent")]), edit)
}

#[rstest]
#[case::the_sidecars_volume(json!([{"name": volume_of("agent"), "mountPath": "/stolen"}]), json!([]), "403 spec: container \"app\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::a_part_of_it(json!([{"name": volume_of("agent"), "mountPath": "/stolen", "subPath": "token"}]), json!([]), "403 spec: container \"app\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::a_volume_called_like_it(json!([{"name": "sidecarset-sa-mine", "mountPath": "/t"}]), json!([{"name": "sidecarset-sa-mine", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]), "403 spec: container \"app\" mounts the volume \"sidecarset-sa-mine\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::its_secret(json!([{"name": "v", "mountPath": "/v"}]), json!([{"name": "v", "secret": {"secretName": "sidecarset-token-d4f0bc5a29de06b5"}}]), "403 spec: container \"app\" mounts the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::its_secret_among_others(json!([{"name": "v", "mountPath": "/v"}]), json!([{"name": "v", "projected": {"sources": [
    {"secret": {"name": "mine"}}, {"secret": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}]}}]), "403 spec: container \"app\" mounts the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
fn e4_the_app_does_not_mount_a_sidecars_token(#[case] mounts: Value, #[case] volumes: Value, #[case] message: &str) {
    for list in ["containers", "initContainers"] {
        let attack = edited(pod(), |pod| {
            pod["spec"]["volumes"].as_array_mut().unwrap().append(volumes.clone().as_array_mut().unwrap());
            if list == "containers" {
                pod["spec"]["containers"][0]["volumeMounts"]
                    .as_array_mut()
                    .unwrap()
                    .append(mounts.clone().as_array_mut().unwrap());
            } else {
                pod["spec"]["initContainers"] = json!([{"name": "app-init", "image": "i", "volumeMounts": mounts}]);
            }
        });
        for sets in [vec![isolated("a", "agent")], vec![set("a", "agent")], vec![]] {
            assert_eq!(message_of(&attack, &sets).replace("app-init", "app"), message, "{list} {}", sets.len());
        }
    }
    let honest = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["volumeMounts"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "v", "mountPath": "/v"}));
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "v", "secret": {"secretName": "mine"}}));
    });
    assert_eq!(holders(&injected(&honest, &[set("a", "agent")])), ["a: agent"]);
}

#[rstest]
#[case::a_variable(json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "sidecarset-token-d4f0bc5a29de06b5", "key": "token"}}}]}), "403 spec: container \"app\" takes its environment from the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::an_environment(json!({"envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "X_", "secretRef": {"name": "sidecarset-token-d4f0bc5a29de06b5"}}]}), "403 spec: container \"app\" takes its environment from the Secret \"sidecarset-token-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
fn e4_the_app_does_not_take_a_sidecars_token_from_the_environment(#[case] container: Value, #[case] message: &str) {
    let attack = edited(pod(), |pod| {
        for (key, value) in container.as_object().unwrap() {
            pod["spec"]["containers"][0][key] = value.clone();
        }
    });
    assert_eq!(message_of(&attack, &[isolated("a", "agent")]), message);
    let honest = edited(pod(), |pod| {
        pod["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "mine"}}]);
    });
    assert_eq!(message_of(&honest, &[isolated("a", "agent")]), "accepted");
}

/// A further token of the Pod's account would turn into one of the sidecar's account. Therefore the Pod keeps its
/// account, and the sidecar gets none.
#[rstest]
#[case::for_an_audience("mine", json!({"path": "t", "audience": "vault"}), "/t")]
#[case::for_the_api_server("mine", json!({"path": "t"}), "/t")]
#[case::called_like_the_api_servers("kube-api-access-mine0", json!({"path": "t"}), "/t")]
#[case::with_an_audience_at_the_path("kube-api-access-mine0", json!({"path": "t", "audience": "vault"}), TOKEN_PATH)]
#[case::at_the_path_behind_the_link("kube-api-access-mine0", json!({"path": "t"}), "/run/secrets/kubernetes.io/serviceaccount")]
#[case::with_nothing_said("mine", json!({}), "/t")]
fn tok0_further_tokens_do_not_become_the_sidecars(#[case] name: &str, #[case] token: Value, #[case] path: &str) {
    let further = |list: &str| {
        edited(pod(), |pod| {
            pod["spec"]["volumes"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}}));
            let container = json!({"name": "other", "image": "i", "volumeMounts": [{"name": name, "mountPath": path}]});
            if pod["spec"][list].is_null() {
                pod["spec"][list] = json!([]);
            }
            pod["spec"][list].as_array_mut().unwrap().push(container);
        })
    };
    for list in ["containers", "initContainers"] {
        let after = injected(&further(list), &[set("a", "agent")]);
        assert!(holders(&after).iter().all(|holder| !holder.ends_with("agent")), "{:?}", holders(&after));
        let answer = admit_in(&further(list), json!({"onAppServiceAccount": "Deny"}), &[set("a", "agent")], cluster());
        assert!(
            verdict(&answer).contains("container \"other\" mounts a token of the Pod's ServiceAccount"),
            "{answer:?}"
        );
        let isolated = injected(&further(list), &[isolated("a", "agent")]);
        assert!(holders(&isolated).contains(&"a: sidecarset-token-d4f0bc5a29de06b5".to_owned()));
    }
}

/// No container keeps the automounted token, however its volume is mounted.
#[rstest]
#[case::twice_at_the_path(json!([
    {"name": "kube-api-access-x7k2p", "mountPath": TOKEN_PATH},
    {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"},
]))]
#[case::a_part_of_it(json!([{"name": "kube-api-access-x7k2p", "mountPath": TOKEN_PATH, "subPath": "token"}]))]
#[case::at_the_path_with_dots(json!([{"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/x/../kubernetes.io/serviceaccount"}]))]
#[case::elsewhere(json!([{"name": "kube-api-access-x7k2p", "mountPath": "/t"}]))]
#[case::nowhere(json!([]))]
fn sap8c_the_app_never_ends_up_with_the_sidecars_token(#[case] mounts: Value) {
    let pod = edited(pod(), |pod| pod["spec"]["containers"][0]["volumeMounts"] = mounts);
    for holder in holders(&injected(&pod, &[set("a", "agent")])) {
        assert!(holder == "app: default" || holder == "a: agent", "{holder}");
    }
}

#[test]
fn e4_a_container_of_the_sidecars_name_is_not_the_sidecar() {
    let impostor = edited(pod(), |pod| {
        pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "a", "image": "evil:1"}));
    });
    assert_eq!(
        message_of(&impostor, &[isolated("a", "agent")]),
        "403 SidecarSet \"a\": spec.containers[0].name: sidecar \"a\" has the name of a container of the Pod; rename the Pod's \"a\" or the sidecar"
    );
    let init = edited(pod(), |pod| pod["spec"]["initContainers"] = json!([{"name": "a", "image": "evil:1"}]));
    assert_eq!(
        message_of(&init, &[isolated("a", "agent")]),
        "403 SidecarSet \"a\": spec.containers[0].name: sidecar \"a\" has the name of an init container of the Pod; rename the Pod's \"a\" or the sidecar"
    );
}

/// If a Pod carries the records of an injected one, every field that decides what runs is rewritten.
#[rstest]
#[case::another_image("image", json!("evil:1"))]
#[case::a_command("command", json!(["sh", "-c", "cat /var/run/secrets/kubernetes.io/serviceaccount/token"]))]
#[case::arguments("args", json!(["--evil"]))]
#[case::a_hook("lifecycle", json!({"postStart": {"exec": {"command": ["evil"]}}}))]
#[case::a_probe("livenessProbe", json!({"exec": {"command": ["evil"]}}))]
#[case::a_variable("env", json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "LD_PRELOAD", "value": "/evil.so"}]))]
#[case::an_environment("envFrom", json!([{"configMapRef": {"name": "evil"}}]))]
#[case::a_working_directory("workingDir", json!("/evil"))]
fn e4_forged_records_give_no_container_the_token(#[case] field: &str, #[case] value: Value) {
    let ours = injected_with_records(|_| ());
    let forged = injected_with_records(|pod| pod["spec"]["containers"][1][field] = value);
    assert_eq!(ours["spec"]["containers"][1]["name"], json!("a"));
    let after = injected(&forged, &[isolated("a", "agent")]);
    assert_eq!(after["spec"]["containers"][1], ours["spec"]["containers"][1]);
    assert!(admit(&ours, &[isolated("a", "agent")]).mutated_object.is_none(), "IDP-6");
}

/// Mounts added to a sidecar, and mounts that would expose the token to others.
#[rstest]
#[case::a_shared_volume_over_the_token(json!([{"name": "mine", "mountPath": TOKEN_PATH}]), "403 spec.containers: sidecar \"a\" has the volume \"mine\" where its token belongs; remove the mount from the SidecarSet")]
#[case::beside_the_token(json!([
    {"name": "sidecarset-sa-d4f0bc5a29de06b5", "readOnly": true, "mountPath": TOKEN_PATH},
    {"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"},
]), "403 spec.containers: sidecar \"a\" has the volume \"mine\" where its token belongs; remove the mount from the SidecarSet")]
fn tok2_forged_mounts_of_a_sidecar(#[case] mounts: Value, #[case] message: &str) {
    let forged = injected_with_records(|pod| {
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "mine", "emptyDir": {}}));
        pod["spec"]["containers"][1]["volumeMounts"] = mounts;
    });
    assert_eq!(message_of(&forged, &[isolated("a", "agent")]), message);
}

#[test]
fn tok1_a_volume_of_the_token_that_is_not_ours_is_refused() {
    let with = |volume: Value| edited(pod(), |pod| pod["spec"]["volumes"].as_array_mut().unwrap().push(volume));
    let forged = with(json!({"name": volume_of("agent"), "emptyDir": {}}));
    assert_eq!(
        message_of(&forged, &[isolated("a", "agent")]),
        "403 spec.volumes: the volume \"sidecarset-sa-d4f0bc5a29de06b5\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's"
    );
    let of_pod = with(edited(automounted(&volume_of("agent")), |_| ()));
    assert_eq!(
        message_of(&of_pod, &[isolated("a", "agent")]),
        "403 spec.volumes: the volume \"sidecarset-sa-d4f0bc5a29de06b5\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's"
    );
    let same = injected(&pod(), &[isolated("a", "agent")])["spec"]["volumes"][1].clone();
    assert_eq!(message_of(&with(same), &[isolated("a", "agent")]), "accepted");
}

/// A set without an account tries to mount the token of another set.
#[test]
fn e4_a_set_without_an_account_gets_no_token() {
    let plain = |mounts: Value, volumes: Value| {
        edited(set("b", "x"), |set| {
            for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
                set["spec"].as_object_mut().unwrap().remove(key);
            }
            set["spec"]["containers"][0]["volumeMounts"] = mounts;
            set["spec"]["volumes"] = volumes;
        })
    };
    let thief = plain(json!([{"name": volume_of("agent"), "mountPath": "/t"}]), json!([]));
    assert_eq!(
        message_of(&pod(), &[set("a", "agent"), thief]),
        "403 spec: container \"b\" mounts the volume \"sidecarset-sa-d4f0bc5a29de06b5\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token"
    );
    let projecting = plain(
        json!([{"name": "t", "mountPath": "/t"}]),
        json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
    );
    assert_eq!(holders(&injected(&pod(), &[set("a", "agent"), projecting])), ["app: default", "b: default"], "TOK-0");
    let sharing = edited(plain(json!([]), json!([])), |set| {
        set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
    });
    let after = injected(&pod(), &[set("a", "agent"), sharing]);
    assert_eq!(holders(&after), ["a: agent"], "IDC-8");
}

/// An app mounts a volume with a token by the name that only a SidecarSet defines. What a sidecar shares is decided as
/// if the Pod had the volume already, so that the second admission changes nothing.
#[rstest]
#[case::token(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}), false)]
#[case::certificate(json!({"projected": {"sources": [{"podCertificate": {"signerName": "example.com/pods"}}]}}), false)]
#[case::driver(json!({"csi": {"driver": "secrets-store.csi.k8s.io"}}), false)]
#[case::no_token(json!({"emptyDir": {}}), true)]
fn order3_idc8_a_volume_that_only_a_sidecar_set_defines_is_judged_at_once(
    #[case] source: Value,
    #[case] is_shared: bool,
) {
    let sharing = edited(isolated("a", "agent"), |set| {
        set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
    });
    let mut defining = set("b", "agent");
    defining["spec"] = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": "b", "image": "vault:1", "volumeMounts": [{"name": "vault", "mountPath": "/vault"}]}],
        "volumes": [edited(source, |volume| volume["name"] = json!("vault"))],
    });
    let sets = [sharing, defining];
    let pod = edited(pod(), |pod| {
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
        mounts.push(json!({"name": "vault", "mountPath": "/mine"}));
    });
    let once = injected(&pod, &sets);
    let of_sidecar = once["spec"]["containers"].as_array().unwrap().iter().find(|it| it["name"] == "a").unwrap();
    let mounts = of_sidecar["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts.iter().any(|mount| mount["name"] == "vault"), is_shared, "{mounts:?}");
    let again = admit(&once, &sets);
    assert!(again.accepted && again.mutated_object.is_none(), "{again:?}");
}
