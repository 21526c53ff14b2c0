//! Attacks on the tokens for other audiences (AUD-2 to AUD-6, AUD-9).

use std::sync::Arc;

use pillion_host::ValidationResponse;
use pillion_identity::names;
use rstest::rstest;
use serde_json::{Value, json};

use super::TOKEN_PATH;
use super::accepted;
use super::admit_in;
use super::automounted;
use super::cluster;
use super::isolated;
use super::pod;
use super::request;
use super::running_as;
use super::set;
use crate::support::identity::{ask, edited, gated, verdict};

/// The Secret and the volume of the SidecarSet `a` with tokens of the account `agent`.
const SECRET: &str = "sidecarset-token-@A@";
const VOLUME: &str = "sidecarset-sa-@A@";

/// Puts the hash of a SidecarSet `a` with the account `agent` into a value.
fn with_hash(value: &Value) -> Value {
    let volume = names::token_volume(&names::credential("agent", Some("a")));
    let hash = volume.trim_start_matches("sidecarset-sa-");
    serde_json::from_str(&value.to_string().replace("@A@", hash)).unwrap()
}

/// Returns the set with a token for Vault.
fn reaching(set: Value) -> Value {
    edited(set, |set| set["spec"]["serviceAccountTokens"] = json!([{"audience": "vault", "path": "vault"}]))
}

fn rules() -> Value {
    json!({"allowedAudiences": ["vault", "sts.*"], "maxTokenExpirationSeconds": 86400})
}

fn admit(pod: &Value, sets: &[Value]) -> ValidationResponse {
    admit_in(pod, rules(), sets, cluster())
}

fn message_of(pod: &Value, sets: &[Value]) -> String {
    verdict(&admit(pod, sets))
}

fn injected(pod: &Value, sets: &[Value]) -> Value {
    accepted(pod, admit(pod, sets))
}

fn twin(pod: &Value, sets: &[Value]) -> String {
    let settings = edited(gated(&rules(), sets), |settings| settings["role"] = json!("Assert"));
    verdict(&ask(&request(pod), &settings, &Arc::new(cluster())))
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    pod["spec"]["containers"].as_array().unwrap().iter().find(|container| container["name"] == name).unwrap()
}

fn container_mut<'a>(pod: &'a mut Value, name: &str) -> &'a mut Value {
    let mut containers = pod["spec"]["containers"].as_array_mut().unwrap().iter_mut();
    containers.find(|container| container["name"] == name).unwrap()
}

fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap().push(item);
}

#[test]
fn aud1_tok3_the_sidecar_alone_mounts_the_tokens_and_the_app_stays_as_it_is() {
    let sets = [reaching(isolated("a", "agent"))];
    let after = injected(&pod(), &sets);
    assert_eq!(container(&after, "app").to_string(), container(&pod(), "app").to_string());
    assert_eq!(
        container(&after, "a")["volumeMounts"],
        with_hash(&json!([
            {"name": VOLUME, "readOnly": true, "mountPath": TOKEN_PATH},
        ]))
    );
    assert_eq!(
        after["spec"]["volumes"][1]["projected"]["sources"][1],
        with_hash(&json!({
            "secret": {"name": SECRET, "optional": false},
        }))
    );
    assert!(admit(&after, &sets).mutated_object.is_none(), "IDP-6");
    assert_eq!(twin(&after, &sets), "accepted");
}

/// A set in a mode with a token of the Pod lists its audiences in the Pod.
#[rstest]
#[case::sidecars_only("SidecarsOnly", pod())]
#[case::pod("Pod", pod())]
#[case::the_pods_own_account("SidecarsOnly", running_as("agent"))]
fn aud3_the_kubelet_requests_the_tokens_of_the_pods_account(#[case] mode: &str, #[case] pod: Value) {
    let sets = [reaching(edited(set("a", "agent"), |set| set["spec"]["serviceAccountMode"] = json!(mode)))];
    let rules = edited(rules(), |rules| rules["allowPodMode"] = json!(true));
    let answer = admit_in(&pod, rules.clone(), &sets, cluster());
    let after = answer.mutated_object.unwrap_or_else(|| panic!("{:?}", answer.message));
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let is_ours = |volume: &&Value| volume["name"].as_str().unwrap().starts_with("sidecarset-sa-");
    let volume = volumes.iter().find(is_ours).unwrap();
    let is_private = volume["name"] == with_hash(&json!(VOLUME));
    assert_eq!(is_private, mode == "SidecarsOnly" && pod["spec"]["serviceAccountName"] == "default", "AUD-4");
    assert_eq!(
        volume["projected"]["sources"][1],
        json!({
            "serviceAccountToken": {"audience": "vault", "expirationSeconds": 3600, "path": "vault"},
        })
    );
    assert!(admit_in(&after, rules, &sets, cluster()).mutated_object.is_none(), "IDP-6");
}

/// AUD-9: the Pod's author brings the volume or the Secret.
#[rstest]
#[case::a_volume_with_the_name(json!({"name": VOLUME, "emptyDir": {}}), "the volume \"sidecarset-sa-@A@\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's")]
#[case::a_directory_of_the_node_with_the_name(json!({"name": VOLUME, "hostPath": {"path": "/tmp"}}), "the volume \"sidecarset-sa-@A@\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's")]
#[case::a_list_of_its_own_with_the_name(json!({"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "token"}}]}}), "the volume \"sidecarset-sa-@A@\" is not the one that holds the token of \"agent\"; remove it; the name is Pillion's")]
#[case::the_secret(json!({"name": "mine", "secret": {"secretName": SECRET}}), "the Secret \"sidecarset-token-@A@\"")]
#[case::one_key_of_it(json!({"name": "mine", "projected": {"sources": [{"secret": {"name": SECRET, "items": [{"key": "vault", "path": "v"}]}}]}}), "the Secret \"sidecarset-token-@A@\"")]
#[case::an_attribute_of_a_driver(json!({"name": "mine", "csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": {"secretName": SECRET}}}), "the Secret \"sidecarset-token-@A@\"")]
#[case::a_reference_of_a_driver(json!({"name": "mine", "csi": {"driver": "nfs.csi.k8s.io", "nodePublishSecretRef": {"name": SECRET}}}), "the Secret \"sidecarset-token-@A@\"")]
fn aud9_e20_the_pod_brings_a_volume(
    #[case] volume: Value,
    #[case] message: &str,
    #[values(true, false)] is_mounted: bool,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let sets = [reaching(edited(set("a", "agent"), |set| set["spec"]["serviceAccountMode"] = json!(mode)))];
    let (volume, message) = (with_hash(&volume), with_hash(&json!(message)));
    let attack = edited(pod(), |pod| {
        push(&mut pod["spec"]["volumes"], volume.clone());
        if is_mounted {
            let mount = json!({"name": volume["name"], "mountPath": "/stolen"});
            push(&mut pod["spec"]["containers"][0]["volumeMounts"], mount);
        }
    });
    for answered in [message_of(&attack, &sets), twin(&attack, &sets)] {
        assert!(answered.starts_with("403 ") && answered.contains(message.as_str().unwrap()), "{answered}");
    }
}

#[rstest]
#[case::a_variable(json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "vault"}}}]}), "403 spec: container \"app\" takes its environment from the Secret \"sidecarset-token-@A@\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
#[case::an_environment(json!({"envFrom": [{"secretRef": {"name": SECRET}}]}), "403 spec: container \"app\" takes its environment from the Secret \"sidecarset-token-@A@\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token")]
fn aud9_e4_the_app_takes_the_secret_as_its_environment(#[case] fields: Value, #[case] message: &str) {
    let attack = edited(pod(), |pod| {
        for (key, value) in with_hash(&fields).as_object().unwrap() {
            pod["spec"]["containers"][0][key] = value.clone();
        }
    });
    let sets = [reaching(isolated("a", "agent"))];
    assert_eq!(json!(message_of(&attack, &sets)), with_hash(&json!(message)));
}

#[test]
fn aud9_e20_the_secret_is_no_pull_secret() {
    let attack = edited(pod(), |pod| pod["spec"]["imagePullSecrets"] = with_hash(&json!([{"name": SECRET}])));
    assert_eq!(
        json!(message_of(&attack, &[reaching(isolated("a", "agent"))])),
        with_hash(&json!(
            "403 spec.imagePullSecrets: the Secret \"sidecarset-token-@A@\" holds the token of a sidecar; remove it; only the volume that Pillion writes for the containers of the SidecarSet may"
        ))
    );
}

/// AUD-9: another set has the same account, and shares the mounts of the app. It mounts its own volume alone.
#[rstest]
#[case::without_tokens(|_: &mut Value| {})]
#[case::with_tokens_for_another(|set: &mut Value| set["spec"]["serviceAccountTokens"] = json!([{"audience": "sts.example", "path": "vault"}]))]
fn aud9_e4_another_set_with_the_account_shares_mounts(
    #[case] edit: fn(&mut Value),
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let with_mode = |set: Value| edited(set, |set| set["spec"]["serviceAccountMode"] = json!(mode));
    let other = edited(with_mode(set("b", "agent")), |set| {
        edit(set);
        set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "enabled"});
        set["spec"]["containers"][0]["transferEnv"] = json!([{"sourceContainerName": "a", "envName": "TOKEN"}]);
    });
    let sets = [reaching(with_mode(set("a", "agent"))), other.clone()];
    let after = injected(&pod(), &sets);
    let own = !other["spec"]["serviceAccountTokens"].is_null();
    let volume = names::token_volume(&names::credential("agent", own.then_some("b")));
    let mounted: Vec<&str> = container(&after, "b")["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["name"].as_str().unwrap())
        .collect();
    assert_eq!(mounted, [volume.as_str()]);
    // It asks for the volume of the first set itself.
    let thief = edited(other, |set| {
        set["spec"]["containers"][0]["volumeMounts"] = with_hash(&json!([{"name": VOLUME, "mountPath": "/stolen"}]));
    });
    let answered = message_of(&pod(), &[sets[0].clone(), thief]);
    let message = with_hash(&json!(
        "403 spec: container \"b\" mounts the volume \"sidecarset-sa-@A@\", which belongs to a sidecar; remove it; only the containers of the SidecarSet may hold its token"
    ));
    assert_eq!(json!(answered), message);
}

#[test]
fn aud6_merged_sets_get_none_of_their_tokens() {
    let sets = [reaching(set("a", "a")), set("b", "b")];
    let answer = admit(&pod(), &sets);
    assert!(answer.accepted, "{:?}", answer.message);
    let warning = "SidecarSet \"a\" is injected without its tokens for other audiences: the Pod runs under a merged ServiceAccount";
    assert_eq!(answer.warnings.unwrap(), [warning]);
    let after = answer.mutated_object.unwrap();
    assert!(!after["spec"].to_string().contains("vault"), "{after}");
    assert_eq!(twin(&after, &sets), "accepted");
}

/// A set that was stored without validation, or before the settings changed.
#[rstest]
#[case::an_audience_that_is_not_allowed(
    json!([{"audience": "other", "path": "o"}]),
    "spec.serviceAccountName: the audience \"other\" is not allowed; add it to serviceAccounts.allowedAudiences"
)]
#[case::an_audience_of_the_api_server(
    json!([{"audience": "https://kubernetes.default.svc", "path": "o"}]),
    "spec.serviceAccountName: the audience \"https://kubernetes.default.svc\" is one of the API server; remove the entry and use the file \"token\", or correct serviceAccounts.apiServerAudiences"
)]
#[case::too_long_a_life(
    json!([{"audience": "vault", "path": "o", "expirationSeconds": 86401}]),
    "spec.serviceAccountName: the token for \"vault\" would live 86401 seconds, and 86400 are allowed; lower expirationSeconds, or raise serviceAccounts.maxTokenExpirationSeconds"
)]
#[case::a_path_elsewhere(
    json!([{"audience": "vault", "path": "../x"}]),
    "spec.serviceAccountTokens[0].path: Invalid value: must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders; correct the SidecarSet"
)]
#[case::the_place_of_the_token(
    json!([{"audience": "vault", "path": "token"}]),
    "spec.serviceAccountTokens[0].path: Invalid value: is the name of a file that the token directory has already; choose another name; correct the SidecarSet"
)]
fn aud2_aud5_a_stored_set_refuses_its_pods(
    #[case] tokens: Value,
    #[case] message: &str,
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let set = edited(set("a", "agent"), |set| {
        set["spec"]["serviceAccountMode"] = json!(mode);
        set["spec"]["serviceAccountTokens"] = tokens;
    });
    assert_eq!(message_of(&pod(), &[set]), format!("403 SidecarSet \"a\": {message}"));
}

#[test]
fn idf4_a_field_and_an_annotation_that_disagree_refuse_the_pods() {
    let annotated = |text: &str| {
        edited(reaching(set("a", "agent")), |set| {
            set["metadata"]["annotations"] = json!({"pillion.dev/service-account-tokens": text});
        })
    };
    let other = r#"[{"audience": "vault", "path": "other"}]"#;
    assert_eq!(
        message_of(&pod(), &[annotated(other)]),
        "403 SidecarSet \"a\": metadata.annotations[pillion.dev/service-account-tokens]: Invalid value: says something else than spec.serviceAccountTokens; keep one of the two; correct the SidecarSet"
    );
    assert_eq!(message_of(&pod(), &[annotated(r#"[{"path": "vault", "audience": "vault"}]"#)]), "accepted");
}

/// A webhook that runs after the policy.
#[rstest]
#[case::copies_the_mount(|pod: &mut Value| {
    let mount = container(pod, "a")["volumeMounts"][0].clone();
    container_mut(pod, "app")["volumeMounts"] = json!([mount]);
})]
#[case::copies_it_elsewhere(|pod: &mut Value| {
    let mount = json!({"name": with_hash(&json!(VOLUME)), "mountPath": "/stolen"});
    push(&mut container_mut(pod, "app")["volumeMounts"], mount);
})]
#[case::copies_it_into_the_other_set(|pod: &mut Value| {
    let mount = json!({"name": with_hash(&json!(VOLUME)), "mountPath": "/stolen"});
    push(&mut container_mut(pod, "b")["volumeMounts"], mount);
})]
#[case::mounts_the_secret(|pod: &mut Value| {
    push(&mut pod["spec"]["volumes"], with_hash(&json!({"name": "late", "secret": {"secretName": SECRET}})));
    push(&mut container_mut(pod, "app")["volumeMounts"], json!({"name": "late", "mountPath": "/stolen"}));
})]
#[case::adds_an_audience(|pod: &mut Value| {
    let mut volumes = pod["spec"]["volumes"].as_array_mut().unwrap().iter_mut();
    let volume = volumes.find(|volume| with_hash(&json!(VOLUME)) == volume["name"]).unwrap();
    push(&mut volume["projected"]["sources"], json!({"serviceAccountToken": {"audience": "sts", "path": "sts"}}));
})]
#[case::takes_the_audience_away(|pod: &mut Value| {
    let mut volumes = pod["spec"]["volumes"].as_array_mut().unwrap().iter_mut();
    let volume = volumes.find(|volume| with_hash(&json!(VOLUME)) == volume["name"]).unwrap();
    volume["projected"]["sources"].as_array_mut().unwrap().remove(1);
})]
#[case::takes_the_mount_away(|pod: &mut Value| container_mut(pod, "a")["volumeMounts"] = json!([]))]
fn aud9_tok10_the_twin_refuses_what_a_later_webhook_does(
    #[case] edit: fn(&mut Value),
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let with_mode = |set: Value| edited(set, |set| set["spec"]["serviceAccountMode"] = json!(mode));
    let sets = [reaching(with_mode(set("a", "agent"))), with_mode(set("b", "agent"))];
    let after = injected(&pod(), &sets);
    assert_eq!(twin(&after, &sets), "accepted");
    let answered = twin(&edited(after, edit), &sets);
    assert!(answered.starts_with("403 "), "{answered}");
}

/// E7: an ephemeral container that is added to the running Pod.
#[rstest]
#[case::the_volume(|debugger: &mut Value| debugger["volumeMounts"] = with_hash(&json!([{"name": VOLUME, "mountPath": "/stolen"}])))]
#[case::at_the_place_of_the_token(|debugger: &mut Value| debugger["volumeMounts"] = with_hash(&json!([{"name": VOLUME, "mountPath": TOKEN_PATH}])))]
#[case::the_secret(|debugger: &mut Value| debugger["env"] = with_hash(&json!([{"name": "T", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "vault"}}}])))]
#[case::the_processes(|debugger: &mut Value| debugger["targetContainerName"] = json!("a"))]
fn aud9_e7_an_ephemeral_container_reaches_for_the_tokens(
    #[case] edit: fn(&mut Value),
    #[values("SidecarsOnly", "Isolate")] mode: &str,
) {
    let set = edited(set("a", "agent"), |set| set["spec"]["serviceAccountMode"] = json!(mode));
    let running = injected(&pod(), &[reaching(set)]);
    let added = |edit: fn(&mut Value)| {
        let debugger = edited(json!({"name": "debugger", "image": "i"}), edit);
        let debugged = edited(running.clone(), |pod| pod["spec"]["ephemeralContainers"] = json!([debugger]));
        let request = edited(request(&debugged), |request| {
            request["operation"] = json!("UPDATE");
            request["subResource"] = json!("ephemeralcontainers");
            request["oldObject"] = running.clone();
        });
        verdict(&ask(&request, &gated(&rules(), &[]), &Arc::new(cluster())))
    };
    let answered = added(edit);
    assert!(answered.starts_with("403 spec.ephemeralContainers[0]: "), "{answered}");
    assert_eq!(added(|_| {}), "accepted");
}

/// E11: a later webhook turns automounting on again, and the API server mounts the sidecars' account into the app.
#[test]
fn aud4_tok10_the_twin_tells_a_private_account_from_the_apps_own() {
    let sets = [reaching(set("a", "agent"))];
    let regained = edited(injected(&pod(), &sets), |pod| {
        pod["spec"]["automountServiceAccountToken"] = json!(true);
        push(&mut pod["spec"]["volumes"], automounted("kube-api-access-x7k2p"));
        let mount = json!({"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": TOKEN_PATH});
        container_mut(pod, "app")["volumeMounts"] = json!([mount]);
    });
    let answered = twin(&regained, &sets);
    assert!(
        answered.starts_with("403 ") && answered.contains("sidecar \"a\" lacks the token of \"agent\""),
        "{answered}"
    );
    // The most similar honest Pod ran under the account before.
    assert_eq!(twin(&injected(&running_as("agent"), &sets), &sets), "accepted");
}
