//! The namespace and the existence of an account.

use std::sync::Arc;

use pillion_host::ClusterError;
use serde_json::{Value, json};

use super::account;
use super::admit_in;
use super::cluster;
use super::holders;
use super::injected;
use super::merged_name;
use super::message_of;
use super::pod;
use super::request;
use super::running_as;
use super::set;
use crate::support::identity::{Court, ask, edited, gated, verdict};

#[test]
fn e1_pods_in_protected_namespaces() {
    let tell = |sets: &[Value]| {
        let request = edited(request(&pod()), |request| {
            request["namespace"] = json!("kube-system");
            request["object"]["metadata"]["namespace"] = json!("kube-system");
        });
        verdict(&ask(&request, &gated(&json!({}), sets), &Arc::new(cluster())))
    };
    assert_eq!(
        tell(&[set("a", "agent")]),
        "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces"
    );
    let plain = edited(set("a", "agent"), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(tell(&[plain]), "accepted");
}

/// The namespace of the request counts; older servers omit the object's.
#[test]
fn match3_sap6_the_namespace_is_the_requests() {
    let nowhere = edited(pod(), |pod| {
        let metadata = pod["metadata"].as_object_mut().unwrap();
        metadata.remove("namespace");
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), json!("p-"));
    });
    assert_eq!(holders(&injected(&nowhere, &[set("a", "agent")])), ["a: agent"]);
    let request =
        |namespace: &str, pod: &Value| edited(request(pod), |request| request["namespace"] = json!(namespace));
    let settings = gated(&json!({}), &[set("a", "agent")]);
    assert_eq!(
        verdict(&ask(&request("kube-system", &nowhere), &settings, &Arc::new(cluster()))),
        "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces"
    );
    // No API server sends this request, which would evade a protected namespace.
    assert_eq!(
        verdict(&ask(&request("kube-system", &pod()), &settings, &Arc::new(cluster()))),
        "403 SidecarSet \"a\": spec.serviceAccountName: no sidecar gets a ServiceAccount in the protected namespace \"kube-system\"; exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces"
    );
}

#[test]
fn sap9_e9_mirror_pods_stay_as_they_are() {
    let mirror = edited(running_as(""), |pod| {
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
    });
    let cluster = Arc::new(cluster());
    let answer = ask(&request(&mirror), &gated(&json!({}), &[set("a", "agent")]), &cluster);
    assert_eq!((verdict(&answer).as_str(), answer.mutated_object), ("accepted", None));
    assert_eq!(cluster.looked_up(), [""; 0]);
}

#[test]
fn idv1_without_the_gate_pods_get_no_identity_and_nothing_is_looked_up() {
    let cluster = Arc::new(cluster());
    let off = |set: Value| json!({ "sidecarSets": [set] });
    let answer = ask(&request(&pod()), &off(set("a", "agent")), &cluster);
    assert_eq!(
        answer.warnings.unwrap(),
        [
            "SidecarSet \"a\" is injected without its ServiceAccount: the feature gate SidecarSetServiceAccountInjection is off"
        ]
    );
    assert_eq!(holders(&answer.mutated_object.unwrap()), ["app: default"]);
    assert_eq!(cluster.looked_up(), [""; 0]);
    let merged = ask(&request(&running_as(&merged_name())), &off(set("a", "agent")), &cluster);
    assert!(verdict(&merged).starts_with("403 "), "E6 holds all the same");
}

#[test]
fn idv3_an_account_that_cannot_be_read_is_not_missing() {
    let failing = |text: &str| {
        let cluster = Court::default().answering(&account("agent"), Err(ClusterError::Failed(text.to_owned())));
        verdict(&admit_in(&pod(), json!({"onMissing": "Skip"}), &[set("a", "agent")], cluster))
    };
    assert_eq!(
        failing("ApiError: serviceaccounts \"agent\" is forbidden: User \"secret\": Forbidden"),
        "503 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" could not be read in namespace \"web\": not allowed; allow the policy to read it: its server's ServiceAccount needs \"get\" on it, and under Kubewarden contextAwareResources must list v1 ServiceAccount and hostCapabilities kubernetes/get_resource"
    );
    assert_eq!(
        failing("deadline has elapsed"),
        "503 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" could not be read in namespace \"web\": no answer in time; try again"
    );
    assert_eq!(
        verdict(&admit_in(&pod(), json!({}), &[set("a", "agent")], Court::default())),
        "403 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" does not exist in namespace \"web\"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
    );
    let going =
        edited(account("agent"), |account| account["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(
        verdict(&admit_in(&pod(), json!({}), &[set("a", "agent")], Court::with([going]))),
        "403 SidecarSet \"a\": spec.serviceAccountName: ServiceAccount \"agent\" is being deleted in namespace \"web\"; create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip"
    );
    let skipped = admit_in(&pod(), json!({"onMissing": "Skip"}), &[set("a", "agent")], Court::default());
    assert_eq!(
        skipped.warnings.unwrap(),
        [
            "SidecarSet \"a\" is injected without its ServiceAccount: ServiceAccount \"agent\" does not exist in namespace \"web\""
        ]
    );
    assert_eq!(holders(&skipped.mutated_object.unwrap()), ["app: default"]);
}

/// Sets of the settings are injected without validation, but their fields about identity must make sense.
#[test]
fn idv2_idv8_sets_that_were_never_validated() {
    let with =
        |field: &str, value: Value| message_of(&pod(), &[edited(set("a", "agent"), |set| set["spec"][field] = value)]);
    assert_eq!(
        with("serviceAccountName", json!("default")),
        "403 SidecarSet \"a\": spec.serviceAccountName: every Pod has \"default\"; name an account of the sidecar's own; correct the SidecarSet"
    );
    assert_eq!(
        with("serviceAccountName", json!(merged_name())),
        "403 SidecarSet \"a\": spec.serviceAccountName: names that start with \"sidecarset-merged-\" belong to merged ServiceAccounts; correct the SidecarSet"
    );
    assert_eq!(
        with("serviceAccountMode", json!("Podd")),
        "403 SidecarSet \"a\": spec.serviceAccountMode: Unsupported value: supported values: \"SidecarsOnly\", \"Isolate\", \"Pod\"; correct the SidecarSet"
    );
    assert_eq!(
        with("serviceAccountMode", json!("Pod")),
        "403 SidecarSet \"a\": spec.serviceAccountName: mode Pod would give the app the permissions of \"agent\"; use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode"
    );
}

/// Labels that are changed after admission select other SidecarSets, and the Pod keeps the sidecars that it has.
#[test]
fn e14_labels_of_a_running_pod_change_no_sidecar() {
    let of_other = edited(pod(), |pod| pod["metadata"]["labels"] = json!({"app": "other"}));
    let sets = [set("a", "agent")];
    let running = injected(&of_other, &sets);
    assert_eq!(holders(&running), ["app: default"], "no SidecarSet selects it");
    let relabelled =
        edited(running.clone(), |running| running["metadata"]["labels"] = pod()["metadata"]["labels"].clone());
    let update = edited(request(&relabelled), |request| {
        request["operation"] = json!("UPDATE");
        request["oldObject"] = running;
    });
    let answer = ask(&update, &gated(&json!({}), &sets), &Arc::new(cluster()));
    assert!(answer.accepted && answer.mutated_object.is_none(), "{answer:?}");
    assert_eq!(holders(&injected(&relabelled, &sets)), ["a: agent"], "a new Pod gets the sidecar");
}
