#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod audiences;
mod clouds;
mod narrowed;

use std::collections::BTreeSet;

use pillion_sidecarset::pod;
use rstest::rstest;
use serde_json::json;

use super::granted::Granted;
use super::volumes::{mounts, token_secrets_of_volume};
use super::{settle as settle_with, *};
use crate::decision::{Decision, Grant, Token};
use crate::drivers::Drivers;
use crate::names;
use crate::rules::Rules;

const AUTOMOUNT: &str = "kube-api-access-x7k2p";

fn automount_volume() -> Value {
    json!({"name": AUTOMOUNT, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}
    ]}})
}

fn automount() -> Value {
    json!({"name": AUTOMOUNT, "readOnly": true, "mountPath": names::MOUNT_PATH})
}

/// Returns a Pod as the API server sends it: the token is mounted into the app, and the sidecars were just added.
fn pod() -> Value {
    json!({
        "metadata": {"name": "web-1"},
        "spec": {
            "serviceAccountName": "default", "serviceAccount": "default",
            "containers": [
                {"name": "app", "volumeMounts": [{"name": "data", "mountPath": "/data"}, automount()]},
                {"name": "agent"}
            ],
            "initContainers": [{"name": "setup", "volumeMounts": [automount()]}],
            "volumes": [{"name": "data", "emptyDir": {}}, automount_volume()]
        }
    })
}

fn owners(entries: &[(&str, &[&str])]) -> Owners {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    entries.iter().map(|(set, containers)| ((*set).to_owned(), own(containers))).collect()
}

fn agent() -> Owners {
    owners(&[("logs", &["agent"])])
}

fn grant(account: &str, token: Token) -> Grant {
    Grant { sidecar_set: "logs".to_owned(), account: account.to_owned(), token, audiences: Vec::new() }
}

fn swap() -> Decision {
    Decision {
        account: Some("x".to_owned()),
        hides_token: true,
        private: Some("x".to_owned()),
        grants: vec![grant("x", Token::OfPod)],
        ..Decision::default()
    }
}

fn isolate() -> Decision {
    Decision { grants: vec![grant("x", Token::OfSecret)], ..Decision::default() }
}

fn settle(before: &Value, decision: &Decision, owners: &Owners) -> Result<Settled, Vec<Reason>> {
    settle_with(before.clone(), decision, owners, &Rules::default().trusted_csi_drivers)
}

/// Returns the messages of the validating policy about a Pod.
fn judged(pod: &Value, decision: &Decision, owners: &Owners) -> Vec<String> {
    judged_with(pod, decision, assert::InEffect { sets: &[], owners })
}

/// Returns the messages of the validating policy about a Pod that has these SidecarSets.
fn judged_with(pod: &Value, decision: &Decision, in_effect: assert::InEffect<'_>) -> Vec<String> {
    let reasons = assert::judge(pod, decision, in_effect, &Rules::default().trusted_csi_drivers);
    // As in a refusal, the messages are sorted and unique.
    Vec::from_iter(reasons.into_iter().collect::<BTreeSet<_>>()).iter().map(ToString::to_string).collect()
}

fn lacking(pod: &Value, decision: &Decision, owners: &Owners) -> Vec<Reason> {
    let drivers = Drivers::new();
    assert::lacking(pod, &Volumes::from_pod(pod, &drivers), &Granted::new(decision, owners))
}

fn regained(pod: &Value, decision: &Decision, owners: &Owners) -> Vec<Reason> {
    let drivers = Drivers::new();
    let granted = Granted::new(decision, owners);
    let account = decision.private.as_deref().unwrap();
    let counted = reach::Counted::from_decision(decision, account);
    reach::regained(pod, &Volumes::from_pod(pod, &drivers), &granted, account, counted, true)
}

/// Returns the container or the volume that holds a further token.
fn further(pod: &Value, owners: &Owners) -> Option<String> {
    let rules = Rules::default();
    let owners = owners.values().flatten().map(String::as_str).collect();
    let holder = further_token(pod, &Volumes::from_pod(pod, &rules.trusted_csi_drivers), &owners)?;
    Some(holder.container.unwrap_or(holder.volume).to_owned())
}

fn messages(settled: Result<Settled, Vec<Reason>>) -> Vec<String> {
    settled.unwrap_err().iter().map(ToString::to_string).collect()
}

/// Returns the containers and the accounts as which they can authenticate after the API server's second pass (SAP-8):
/// if automounting is on, it mounts the Pod's token into containers without a mount at exactly that path.
fn identities(pod: &Value, account_automounts: bool) -> Vec<(String, String)> {
    let spec = &pod["spec"];
    let account = spec["serviceAccountName"].as_str().unwrap_or("default");
    let automounts = spec["automountServiceAccountToken"].as_bool().unwrap_or(account_automounts);
    let mut found = Vec::new();
    for container in containers(pod) {
        let name = pod::name(container).to_owned();
        let covered = mounts(container).iter().any(|mount| mount["mountPath"] == names::MOUNT_PATH);
        if automounts && !covered {
            found.push((name.clone(), account.to_owned()));
        }
        for mount in mounts(container) {
            let drivers = Drivers::new();
            let volumes = Volumes::from_pod(pod, &drivers);
            let volume = pod["spec"]["volumes"].as_array().unwrap().iter();
            let volume = volume.clone().find(|volume| pod::name(volume) == pod::name(mount)).unwrap();
            if volumes.gives_account(pod::name(mount)) {
                found.push((name.clone(), account.to_owned()));
            }
            for owner in ["x", "y", "z"] {
                if token_secrets_of_volume(volume).contains(&names::token_secret(owner).as_str()) {
                    found.push((name.clone(), owner.to_owned()));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|(container, account)| ((*container).to_owned(), (*account).to_owned())).collect()
}

#[test]
fn idf5_idp3_the_app_loses_its_token_and_the_sidecar_gets_one() {
    let settled = settle(&pod(), &swap(), &agent()).unwrap();
    assert_eq!(identities(&settled.pod, true), pairs(&[("agent", "x")]));
    assert_eq!(identities(&settled.pod, false), pairs(&[("agent", "x")]));
    assert_eq!(settled.pod["spec"]["serviceAccountName"], "x");
    assert_eq!(settled.pod["spec"]["serviceAccount"], "x");
    assert_eq!(
        settled.pod["spec"]["containers"][0],
        json!({
            "name": "app", "volumeMounts": [{"name": "data", "mountPath": "/data"}]
        })
    );
    assert_eq!(settled.pod["spec"]["initContainers"], json!([{"name": "setup"}]));
    assert_eq!(
        settled.pod["metadata"]["annotations"][INJECTED],
        r#"{"injected":"x","original":"default","sidecarSets":["logs"]}"#
    );
    assert_eq!(settled.warnings, [""; 0]);
}

#[test]
fn tok3_isolate_leaves_the_app_byte_identical() {
    let before = pod();
    let settled = settle(&before, &isolate(), &agent()).unwrap();
    assert_eq!(identities(&settled.pod, true), pairs(&[("agent", "x"), ("app", "default"), ("setup", "default")]));
    let mut rest = settled.pod;
    rest["spec"]["containers"][1].as_object_mut().unwrap().remove("volumeMounts");
    let volume = rest["spec"]["volumes"].as_array_mut().unwrap().pop().unwrap();
    assert_eq!(rest, before);
    assert_eq!(volume["projected"]["sources"][0]["secret"]["name"], names::token_secret("x"));
    assert_eq!(volume["projected"]["sources"][0]["secret"]["optional"], false);
}

#[rstest]
#[case::swap(swap())]
#[case::isolate(isolate())]
fn idp6_carrying_it_out_again_changes_nothing(#[case] decision: Decision) {
    let once = settle(&pod(), &decision, &agent()).unwrap().pod;
    // A Pod that runs under the account already is row "same" of IDP-7.
    let again = Decision { account: None, hides_token: false, ..decision };
    assert_eq!(settle(&once, &again, &agent()).unwrap().pod, once);
}

#[test]
fn sap8l_an_owner_with_the_automounted_token_gets_its_own_in_its_place() {
    let mut before = pod();
    before["spec"]["containers"][1]["volumeMounts"] = json!([automount()]);
    let settled = settle(&before, &isolate(), &agent()).unwrap();
    assert_eq!(settled.pod["spec"]["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
    assert!(identities(&settled.pod, true).contains(&("agent".to_owned(), "x".to_owned())));
    assert!(!identities(&settled.pod, true).contains(&("agent".to_owned(), "default".to_owned())));
}

#[rstest]
#[case::plain("/var/run/secrets/kubernetes.io/serviceaccount")]
#[case::sap8j_slash("/var/run/secrets/kubernetes.io/serviceaccount/")]
fn tok2_something_else_at_the_path_is_refused(#[case] path: &str) {
    let mut before = pod();
    before["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "data", "mountPath": path}]);
    assert_eq!(
        messages(settle(&before, &isolate(), &agent())),
        [
            "spec.containers: sidecar \"agent\" has the volume \"data\" where its token belongs; remove the mount from the \
             SidecarSet"
        ]
    );
}

/// A volume of the Pod replaces the set's volume of the same name.
#[rstest]
#[case::of_the_pods_account("default", isolate(), 1)]
#[case::of_the_same_account("x", isolate(), 0)]
#[case::the_pods_account_is_its_own("default", swap(), 0)]
fn tok2_an_isolated_sidecar_has_no_token_of_the_pod_besides(
    #[case] account: &str,
    #[case] decision: Decision,
    #[case] refused: usize,
) {
    let mut before = pod();
    before["spec"]["serviceAccountName"] = json!(account);
    let data = json!({"name": "data", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
    before["spec"]["volumes"][0] = data;
    before["spec"]["containers"][0]["volumeMounts"] = json!([automount()]);
    before["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "data", "mountPath": "/agent"}, automount()]);
    let settled = settle(&before, &decision, &agent());
    assert_eq!(settled.as_ref().err().map_or(0, Vec::len), refused, "{settled:?}");
    if refused > 0 {
        assert_eq!(
            messages(settled),
            ["spec.containers: sidecar \"agent\" mounts the volume \"data\", which holds a token of the Pod's own \
                 ServiceAccount; rename the volume; the SidecarSet has one of this name"]
        );
    }
}

#[test]
fn sap8j_the_automounted_token_is_removed_however_its_path_is_written() {
    let mut before = pod();
    before["spec"]["containers"][0]["volumeMounts"][1]["mountPath"] = json!(format!("{}/", names::MOUNT_PATH));
    let settled = settle(&before, &swap(), &agent()).unwrap();
    assert_eq!(identities(&settled.pod, true), pairs(&[("agent", "x")]));
}

#[test]
fn tok0_sidecars_without_an_account_lose_the_token_and_a_warning_names_them() {
    let mut before = pod();
    let sidecars = [json!({"name": "mesh", "volumeMounts": [automount()]}), json!({"name": "just-injected"})];
    before["spec"]["containers"].as_array_mut().unwrap().extend(sidecars);
    let owners = owners(&[("logs", &["agent"]), ("mesh", &["mesh", "just-injected"])]);
    let settled = settle(&before, &swap(), &owners).unwrap();
    assert_eq!(
        settled.warnings,
        ["mesh", "just-injected"].map(|name| {
            format!("sidecar \"{name}\" of SidecarSet \"mesh\" loses the token of the Pod's ServiceAccount")
        })
    );
}

#[rstest]
#[case::audience(json!({"name": "vault", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}}), "/vault", Some("app"))]
#[case::own_at_the_path(json!({"name": "vault", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}), names::MOUNT_PATH, Some("app"))]
#[case::automounted(json!({"name": "kube-api-access-aaaaa", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}), names::MOUNT_PATH, None)]
#[case::automounted_elsewhere(json!({"name": "kube-api-access-aaaaa", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}), "/copy", Some("app"))]
#[case::no_token(json!({"name": "vault", "emptyDir": {}}), "/vault", None)]
fn tok0_further_tokens_are_found(#[case] volume: Value, #[case] path: &str, #[case] found: Option<&str>) {
    let mount = json!({"name": volume["name"], "mountPath": path});
    let pod = json!({"spec": {"containers": [{"name": "app", "volumeMounts": [mount]}], "volumes": [volume]}});
    assert_eq!(further(&pod, &agent()).as_deref(), found);
    let owners = owners(&[("logs", &["app"])]);
    assert_eq!(further(&pod, &owners), None, "a token of an owner is its own");
}

/// The API server mounts the volume into sidecars after the policy ran, and then calls the policy again.
#[rstest]
#[case::another_audience(json!({"serviceAccountToken": {"audience": "vault", "path": "token"}}), Some("kube-api-access-own"))]
#[case::certificate(json!({"podCertificate": {"signerName": "s", "keyType": "ED25519"}}), Some("kube-api-access-own"))]
#[case::that_of_the_api_server(json!({"serviceAccountToken": {"path": "token"}}), None)]
fn sap8k_what_the_api_server_adopts_counts_before_and_after(#[case] source: Value, #[case] found: Option<&str>) {
    let mount = |containers: Value| {
        let volume = json!({"name": "kube-api-access-own", "projected": {"sources": [source]}});
        json!({"spec": {"containers": containers, "volumes": [volume]}})
    };
    let adopted = json!([{"name": "kube-api-access-own", "readOnly": true, "mountPath": names::MOUNT_PATH}]);
    for pod in [mount(json!([{"name": "agent"}])), mount(json!([{"name": "agent", "volumeMounts": adopted}]))] {
        assert_eq!(further(&pod, &agent()).as_deref(), found);
    }
}

#[rstest]
#[case::volume(json!({"volumeMounts": [{"name": "sidecarset-sa-@X@", "mountPath": "/stolen"}]}), "mounts the volume \"sidecarset-sa-@X@\"")]
#[case::secret(json!({"volumeMounts": [{"name": "own", "mountPath": "/stolen"}]}), "mounts the Secret \"sidecarset-token-@X@\"")]
#[case::projected(json!({"volumeMounts": [{"name": "own-projected", "mountPath": "/stolen"}]}), "mounts the Secret \"sidecarset-token-@X@\"")]
#[case::variable(json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "sidecarset-token-@X@", "key": "token"}}}]}), "takes its environment from the Secret \"sidecarset-token-@X@\"")]
#[case::variables(json!({"envFrom": [{"secretRef": {"name": "sidecarset-token-@X@"}}]}), "takes its environment from the Secret \"sidecarset-token-@X@\"")]
fn e4_nobody_but_owners_reaches_a_sidecars_token(#[case] container: Value, #[case] says: &str) {
    let hash = names::token_secret("x").replace(names::TOKEN_SECRET_PREFIX, "");
    let filled = |value: &Value| -> Value { serde_json::from_str(&value.to_string().replace("@X@", &hash)).unwrap() };
    let mut before = pod();
    for (key, value) in filled(&container).as_object().unwrap() {
        before["spec"]["containers"][0][key] = value.clone();
    }
    let secret = names::token_secret("x");
    let mounted = container["volumeMounts"][0]["name"].as_str();
    for volume in [
        json!({"name": "own", "secret": {"secretName": secret}}),
        json!({"name": "own-projected", "projected": {"sources": [{"secret": {"name": secret}}]}}),
    ] {
        if volume["name"].as_str() == mounted {
            before["spec"]["volumes"].as_array_mut().unwrap().push(volume);
        }
    }
    assert_eq!(
        messages(settle(&before, &isolate(), &agent())),
        [format!(
            "spec: container \"app\" {}, which belongs to a sidecar; remove it; only the containers of the SidecarSet \
             may hold its token",
            says.replace("@X@", &hash)
        )]
    );
}

#[test]
fn tok10_owners_without_their_token_are_found() {
    let texts: Vec<String> = lacking(&pod(), &isolate(), &agent()).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec: sidecar \"agent\" lacks the token of \"x\"; find the webhook that took it away, or the injecting policy \
          that did not run"
        ]
    );
    let settled = settle(&pod(), &isolate(), &agent()).unwrap();
    assert_eq!(lacking(&settled.pod, &isolate(), &agent()), []);
}

#[test]
fn a_volume_of_our_name_that_is_not_ours_is_refused() {
    let mut before = pod();
    let name = names::token_volume("x");
    before["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": name, "emptyDir": {}}));
    assert_eq!(
        messages(settle(&before, &isolate(), &agent())),
        [format!(
            "spec.volumes: the volume \"{name}\" is not the one that holds the token of \"x\"; remove it; the name is \
             Pillion's"
        )]
    );
}

#[test]
fn skipped_sets_are_annotated_and_warned_about() {
    let decision = Decision { skipped: vec![("logs".to_owned(), "why".to_owned())], ..Decision::default() };
    let settled = settle(&pod(), &decision, &agent()).unwrap();
    assert_eq!(settled.pod["metadata"]["annotations"][SKIPPED], r#"{"logs":"why"}"#);
    assert_eq!(settled.warnings, ["SidecarSet \"logs\" is injected without its ServiceAccount: why"]);
}

/// Returns a Pod whose account was swapped, changed by `edit` as by a later webhook.
fn swapped(edit: impl FnOnce(&mut Value)) -> Value {
    let mut pod = settle(&pod(), &swap(), &agent()).unwrap().pod;
    edit(&mut pod);
    pod
}

/// Returns the decision about a Pod whose account was swapped before.
fn again() -> Decision {
    Decision { account: None, hides_token: false, ..swap() }
}

fn mounted_again(pod: &mut Value) {
    pod["spec"]["volumes"].as_array_mut().unwrap().push(automount_volume());
    pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(automount());
}

/// E11, E20: annotations have no influence.
#[rstest]
#[case::as_it_was_left(|_: &mut Value| {}, false)]
#[case::mounted_again(mounted_again, true)]
#[case::in_an_init_container(|pod: &mut Value| {
    pod["spec"]["volumes"].as_array_mut().unwrap().push(automount_volume());
    pod["spec"]["initContainers"][0]["volumeMounts"] = json!([automount()]);
}, true)]
#[case::only_in_the_volumes(|pod: &mut Value| pod["spec"]["volumes"].as_array_mut().unwrap().push(automount_volume()), true)]
#[case::without_the_record(|pod: &mut Value| {
    mounted_again(pod);
    pod["metadata"]["annotations"].as_object_mut().unwrap().remove(INJECTED);
}, true)]
#[case::record_is_no_json(|pod: &mut Value| {
    mounted_again(pod);
    pod["metadata"]["annotations"][INJECTED] = json!("{");
}, true)]
#[case::as_a_certificate(|pod: &mut Value| {
    let volume = json!({"name": "late", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}});
    pod["spec"]["volumes"].as_array_mut().unwrap().push(volume);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "late", "mountPath": "/late"}]);
}, true)]
fn e11_tokens_that_came_back_are_found(#[case] edit: fn(&mut Value), #[case] found: bool) {
    let pod = swapped(edit);
    let reasons = regained(&pod, &again(), &agent());
    assert_eq!(reasons.len(), usize::from(found), "{reasons:?}");
}

/// A Pod that ran under the account before may have tokens of it, whatever its annotations say.
#[test]
fn e11_tokens_that_the_pod_had_before_are_its_own() {
    let mut before = pod();
    before["spec"]["serviceAccountName"] = json!("x");
    before["spec"]["automountServiceAccountToken"] = json!(false);
    before["metadata"]["annotations"] = json!({INJECTED: "{\"injected\":\"x\"}"});
    let settled = settle(&before, &again(), &agent()).unwrap();
    assert_eq!(judged(&settled.pod, &again(), &agent()), [""; 0]);
}

#[test]
fn e11_the_message_names_the_container_and_the_account() {
    let texts: Vec<String> =
        regained(&swapped(mounted_again), &again(), &agent()).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec: container \"app\" mounts a token of \"x\", which is for sidecars alone; find the webhook that changed \
             the Pod after it was injected"
        ]
    );
}

/// TOK-10: a mount of the right name is not enough.
#[rstest]
#[case::as_it_was_left(|_: &mut Value| {}, false)]
#[case::account_set_back(|pod: &mut Value| pod["spec"]["serviceAccountName"] = json!("default"), true)]
#[case::unmounted(|pod: &mut Value| pod["spec"]["containers"][1]["volumeMounts"] = json!([]), true)]
#[case::mounted_elsewhere(|pod: &mut Value| pod["spec"]["containers"][1]["volumeMounts"][0]["mountPath"] = json!("/t"), true)]
#[case::hidden(|pod: &mut Value| {
    let mount = json!({"name": "data", "mountPath": format!("{}/", names::MOUNT_PATH)});
    pod["spec"]["containers"][1]["volumeMounts"].as_array_mut().unwrap().push(mount);
}, true)]
#[case::emptied(|pod: &mut Value| {
    let name = names::token_volume("x");
    let mut volumes = pod["spec"]["volumes"].as_array_mut().unwrap().iter_mut();
    *volumes.find(|volume| volume["name"] == name.as_str()).unwrap() = json!({"name": name, "emptyDir": {}});
}, true)]
#[case::sidecar_is_not_there(|pod: &mut Value| drop(pod["spec"]["containers"].as_array_mut().unwrap().pop()), false)]
fn idf6_tok10_owners_hold_the_right_token(#[case] edit: fn(&mut Value), #[case] lacks: bool) {
    let reasons = lacking(&swapped(edit), &swap(), &agent());
    assert_eq!(reasons.len(), usize::from(lacks), "{reasons:?}");
}

#[rstest]
#[case::of_the_api_server(automount_volume(), false)]
#[case::of_another_name(json!({"name": "data", "emptyDir": {}}), false)]
#[case::empty(json!({"name": "kube-api-access-own", "emptyDir": {}}), true)]
#[case::another_audience(
    json!({"name": "kube-api-access-own", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}}),
    true
)]
fn sap8k_what_the_api_server_takes_for_its_own(#[case] volume: Value, #[case] misled: bool) {
    let drivers = Drivers::new();
    let with = |volumes: Value| Volumes::from_pod(&json!({"spec": {"volumes": volumes}}), &drivers).is_misled();
    assert_eq!(with(json!([volume])), misled);
    assert!(!with(json!([automount_volume(), volume])), "the first of them counts");
}

/// E18: if the Pod were read once for each mount, this test would take minutes.
#[test]
fn e18_mounts_and_volumes_are_read_once() {
    let count = 20_000;
    let name = |n: usize| format!("v{n}");
    let volumes: Vec<Value> = (0..count).map(|n| json!({"name": name(n), "emptyDir": {}})).collect();
    let mounts: Vec<Value> =
        (0..count).rev().map(|n| json!({"name": name(n), "mountPath": format!("/m/{n}")})).collect();
    let mut before = pod();
    before["spec"]["volumes"].as_array_mut().unwrap().extend(volumes);
    for container in [0, 1] {
        before["spec"]["containers"][container]["volumeMounts"] = json!(mounts);
    }
    for decision in [swap(), isolate()] {
        let settled = settle(&before, &decision, &agent()).unwrap();
        assert_eq!(
            judged(&settled.pod, &Decision { account: None, hides_token: false, ..decision }, &agent()),
            [""; 0]
        );
    }
    let many: Vec<String> = (0..count).map(name).collect();
    let owners: Owners = many.iter().map(|name| (name.clone(), vec![name.clone()])).collect();
    let grants = many.iter().map(|name| Grant {
        sidecar_set: name.clone(),
        account: name.clone(),
        token: Token::OfSecret,
        audiences: Vec::new(),
    });
    let decision = Decision { grants: grants.collect(), ..Decision::default() };
    let containers: Vec<Value> = many.iter().map(|name| json!({"name": name})).collect();
    let crowd = json!({"metadata": {}, "spec": {"containers": containers}});
    let settled = settle(&crowd, &decision, &owners).unwrap();
    assert_eq!(settled.pod["spec"]["volumes"].as_array().unwrap().len(), count);
    assert_eq!(judged(&settled.pod, &decision, &owners), [""; 0]);
}

/// E20: the references to Secrets of core/v1, and those that drivers may define.
#[rstest]
#[case::secret(json!({"secret": {"secretName": "@"}}), true)]
#[case::projected(json!({"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "@"}}]}}), true)]
#[case::azure(json!({"azureFile": {"secretName": "@", "shareName": "s"}}), true)]
#[case::csi(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "@"}}}), true)]
#[case::csi_attribute(json!({"csi": {"driver": "d", "volumeAttributes": {"from": "web/@"}}}), true)]
#[case::flex(json!({"flexVolume": {"driver": "d", "options": {"credentials": "@"}}}), true)]
#[case::of_tomorrow(json!({"newFS": {"auth": {"adminSecretRef": {"name": "@", "namespace": "n"}}}}), true)]
#[case::config_map(json!({"configMap": {"name": "@"}}), false)]
#[case::path(json!({"secret": {"secretName": "mine", "items": [{"key": "k", "path": "@"}]}}), false)]
#[case::longer(json!({"secret": {"secretName": "my-@"}}), false)]
#[case::called_so(json!({"name": "@", "emptyDir": {}}), false)]
fn e20_volumes_that_name_the_secret_of_a_sidecar(#[case] volume: Value, #[case] names: bool) {
    let secret = crate::names::token_secret("x");
    let volume: Value = serde_json::from_str(&volume.to_string().replace('@', &secret)).unwrap();
    assert_eq!(token_secrets_of_volume(&volume), if names { vec![secret.as_str()] } else { Vec::new() });
}

/// A provisioner reads the Secret's name from the annotations of the claim.
#[test]
fn e20_the_claim_template_of_an_ephemeral_volume_may_name_a_secret() {
    let annotations = json!({"csi.example.com/node-publish-secret-name": names::token_secret("x")});
    let template = json!({"metadata": {"annotations": annotations}, "spec": {}});
    let volume = json!({"name": "late", "ephemeral": {"volumeClaimTemplate": template}});
    let pod = json!({"spec": {"containers": [{"name": "app"}], "volumes": [volume]}});
    assert_eq!(intruders(&pod).len(), 1);
}
