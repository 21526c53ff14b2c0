//! Decisions, messages, and the parts of a Pod that stay.

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::INJECTED;
use super::TOKEN_PATH;
use super::account;
use super::admit;
use super::admit_in;
use super::automounted;
use super::cluster;
use super::holders;
use super::injected;
use super::isolated;
use super::merged_name;
use super::message_of;
use super::pod;
use super::request;
use super::running_as;
use super::set;
use super::volume_of;
use crate::support::identity::{Court, ask, edited, gated, rule, verdict};

#[test]
fn e3_only_the_sidecar_holds_its_account() {
    let answer = admit(&pod(), &[set("a", "agent")]);
    let after = answer.mutated_object.unwrap();
    assert_eq!(holders(&after), ["a: agent"]);
    assert_eq!(after["spec"]["automountServiceAccountToken"], json!(false));
    assert_eq!(after["spec"]["serviceAccount"], json!("agent"), "the alias follows (A1-3)");
    assert_eq!(
        holders(&injected(&pod(), &[isolated("a", "agent")])),
        ["app: default", "a: sidecarset-token-d4f0bc5a29de06b5"]
    );
}

#[test]
fn e3_a_canary_has_the_identity_that_it_names_itself() {
    let canary = edited(set("a-canary", "other"), |set| {
        set["metadata"]["annotations"] = json!({
            "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "a",
        });
        set["spec"]["updateStrategy"] = json!({"type": "NotUpdate"});
        set["spec"]["containers"][0]["name"] = json!("a");
    });
    assert_eq!(holders(&injected(&pod(), &[set("a", "agent"), canary.clone()])), ["a: other"]);
    let without = edited(canary, |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(holders(&injected(&pod(), &[set("a", "agent"), without])), ["app: default"], "the base gives way whole");
}

/// The right to write revisions gives no identity.
#[test]
fn idc9_a_revision_has_no_say_in_the_identity() {
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "a-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "a"}},
        "data": {"spec": {
            "containers": [{"name": "a", "image": "agent:0"}],
            "serviceAccountName": "admin", "serviceAccountMode": "Pod", "serviceAccountPermissions": [rule("*", "*", "*")],
        }},
    });
    let pinned =
        |set: Value| edited(set, |set| set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "a-1"}}));
    let cluster = || Court::with([account("agent"), account("admin"), revision.clone()]);
    let after = admit_in(&pod(), json!({}), &[pinned(set("a", "agent"))], cluster()).mutated_object.unwrap();
    assert_eq!(holders(&after), ["a: agent"]);
    assert_eq!(after["spec"]["containers"][1]["image"], json!("agent:0"));
    let plain = edited(pinned(set("a", "agent")), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    let after = admit_in(&pod(), json!({}), &[plain], cluster()).mutated_object.unwrap();
    assert_eq!(holders(&after), ["app: default"]);
}

#[test]
fn e3_idp1_idp4_conflicts_name_everybody() {
    let refusing = edited(set("b", "b"), |set| {
        set["spec"].as_object_mut().unwrap().remove("behaviorWhenServiceAccountInjection");
    });
    assert_eq!(
        message_of(&pod(), &[set("a", "a"), refusing]),
        "403 SidecarSet \"a\": spec.serviceAccountName: wants ServiceAccount \"a\" (Merge) for a Pod of namespace \"web\", and other SidecarSets want another; give them one account, the behaviour Merge or the mode Isolate; SidecarSet \"b\": spec.serviceAccountName: wants ServiceAccount \"b\" (Refuse) for a Pod of namespace \"web\", and other SidecarSets want another; give them one account, the behaviour Merge or the mode Isolate"
    );
    assert_eq!(message_of(&pod(), &[set("a", "a"), isolated("b", "b")]), "accepted");
}

/// The policy treats an unset account and an explicit "default" alike; the alias follows.
#[test]
fn sap2_sap3_unset_and_default_are_alike() {
    let unset = edited(pod(), |pod| {
        pod["spec"].as_object_mut().unwrap().remove("serviceAccountName");
        pod["spec"].as_object_mut().unwrap().remove("serviceAccount");
    });
    let after = injected(&unset, &[set("a", "agent")]);
    assert_eq!(after["spec"], injected(&pod(), &[set("a", "agent")])["spec"]);
    assert_eq!(after["spec"]["serviceAccount"], after["spec"]["serviceAccountName"]);
    let by_alias =
        edited(running_as("own"), |pod| drop(pod["spec"].as_object_mut().unwrap().remove("serviceAccountName")));
    assert_eq!(injected(&by_alias, &[set("a", "agent")])["spec"].get("serviceAccountName"), None, "IDP-2");
}

/// Pull secrets are up to the API server (SAP-8h). The requester of a Pod is a controller, so its rights are not
/// checked.
#[test]
fn sap5_sap7_pull_secrets_stay_and_the_requester_is_not_asked_about() {
    let pod = edited(pod(), |pod| pod["spec"]["imagePullSecrets"] = json!([{"name": "of-default"}]));
    let cluster = Arc::new(cluster());
    let answer = ask(&request(&pod), &gated(&json!({}), &[set("a", "agent")]), &cluster);
    assert_eq!(answer.mutated_object.unwrap()["spec"]["imagePullSecrets"], json!([{"name": "of-default"}]));
    assert_eq!(cluster.questions(), [""; 0]);
    assert_eq!(cluster.looked_up(), ["v1/ServiceAccount web/agent"]);
}

/// Rules that the API server validates afterwards: a token lives at least ten minutes and has a path, mounts are
/// unique.
#[test]
fn sap4_sap13_the_volume_is_like_the_api_servers() {
    let after = injected(&pod(), &[set("a", "agent")]);
    assert_eq!(after["spec"]["volumes"], json!([automounted(&volume_of("agent"))]));
    let mount = json!([{"name": volume_of("agent"), "readOnly": true, "mountPath": TOKEN_PATH}]);
    assert_eq!(after["spec"]["containers"][1]["volumeMounts"], mount);
    assert_eq!(after["spec"]["containers"][0].get("volumeMounts"), None);
}

#[test]
fn idp5_e14_the_pod_says_what_was_done() {
    let record = |pod: &Value| pod["metadata"]["annotations"][INJECTED].clone();
    assert_eq!(
        record(&injected(&pod(), &[set("a", "agent")])),
        json!(r#"{"injected":"agent","original":"default","sidecarSets":["a"]}"#)
    );
    // A forged record is overwritten.
    let forged = edited(pod(), |pod| pod["metadata"]["annotations"] = json!({INJECTED: "{\"injected\":\"agent\"}"}));
    let after = injected(&forged, &[set("a", "agent")]);
    assert_eq!(record(&after), record(&injected(&pod(), &[set("a", "agent")])));
    assert_eq!(record(&injected(&pod(), &[isolated("a", "agent")])), Value::Null, "nothing was swapped");
}

#[test]
fn idp2_idc3_pods_with_an_account_of_their_own() {
    let own = running_as("own");
    let with = |choice: &str| admit_in(&own, json!({"onAppServiceAccount": choice}), &[set("a", "agent")], cluster());
    let kept = with("Keep");
    assert_eq!(
        kept.warnings.unwrap(),
        [
            "SidecarSet \"a\" is injected without its ServiceAccount: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
        ]
    );
    assert_eq!(holders(&kept.mutated_object.unwrap()), ["app: own"]);
    assert_eq!(
        verdict(&with("Deny")),
        "403 SidecarSet \"a\": spec.serviceAccountName: the Pod has the ServiceAccount \"own\" of its own; run the Pod under \"default\", or give the SidecarSet the mode Isolate"
    );
    assert_eq!(holders(&with("Isolate").mutated_object.unwrap()), ["app: own", "a: sidecarset-token-d4f0bc5a29de06b5"]);
}

#[test]
fn idc2_conflicts_may_cost_the_identity_instead_of_the_pod() {
    let refusing = edited(set("b", "b"), |set| {
        set["spec"].as_object_mut().unwrap().remove("behaviorWhenServiceAccountInjection");
    });
    let answer = admit_in(&pod(), json!({"onConflict": "Skip"}), &[set("a", "a"), refusing], cluster());
    assert_eq!(answer.warnings.unwrap().len(), 2);
    assert_eq!(holders(&answer.mutated_object.unwrap()), ["app: default"]);
}

/// A single set gets only its account's rights, whatever permissions it names: those are only for merging.
#[test]
fn idc4_one_set_is_granted_nothing() {
    let cluster = Arc::new(cluster());
    ask(&request(&pod()), &gated(&json!({}), &[set("a", "agent")]), &cluster);
    assert_eq!(cluster.looked_up(), ["v1/ServiceAccount web/agent"], "no Role, no RoleBinding");
}

#[test]
fn idf1_idf2_idf3_annotations_stand_for_the_fields() {
    let annotated = |name: &str| {
        edited(set(name, name), |set| {
            let permissions = set["spec"]["serviceAccountPermissions"].to_string();
            for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
                set["spec"].as_object_mut().unwrap().remove(key);
            }
            set["metadata"]["annotations"] = json!({
                "pillion.dev/service-account-name": name, "pillion.dev/service-account-conflict": "merge",
                "pillion.dev/service-account-permissions": permissions,
            });
        })
    };
    let after = injected(&pod(), &[annotated("a"), annotated("b")]);
    assert_eq!(after["spec"], injected(&pod(), &[set("a", "a"), set("b", "b")])["spec"]);
    assert_eq!(after["spec"]["serviceAccountName"], json!(merged_name()));
}

#[rstest]
#[case::processes("shareProcessNamespace", json!(true), "spec.shareProcessNamespace lets every container of the Pod read the tokens of its sidecars through /proc")]
#[case::the_hosts_processes("hostPID", json!(true), "spec.hostPID lets every container of the Pod read the tokens of its sidecars through /proc")]
fn tok9_what_isolates_nothing_is_warned_of(#[case] field: &str, #[case] value: Value, #[case] message: &str) {
    let pod = edited(pod(), |pod| pod["spec"][field] = value);
    assert_eq!(admit(&pod, &[set("a", "agent")]).warnings.unwrap(), [message]);
}

#[test]
fn tok9_privileged_apps_are_warned_of() {
    let pod = edited(pod(), |pod| pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true}));
    assert_eq!(
        admit(&pod, &[isolated("a", "agent")]).warnings.unwrap(),
        ["container \"app\" is privileged and can read the tokens of the Pod's sidecars"]
    );
    assert_eq!(admit(&super::pod(), &[isolated("a", "agent")]).warnings, None);
}
