//! Attacks on what sidecars trust: the ConfigMap `kube-root-ca.crt` and the Service `kubernetes` (E25).

use std::sync::Arc;

use pillion_host::ClusterError;
use rstest::rstest;
use serde_json::{Value, json};

use super::{CONTROLLER, admit_in, by, cluster, message_of, namespace, request};
use crate::support::identity::{Court, ask, edited, verdict};

const PUBLISHER: &str = "system:serviceaccount:kube-system:root-ca-cert-publisher";

fn authority(certificate: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt", "namespace": "web", "annotations": {"kubernetes.io/description": "d"}},
        "data": {"ca.crt": certificate},
    })
}

fn service(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kubernetes", "namespace": "web"}, "spec": spec})
}

fn written(operation: &str, object: &Value, old: &Value) -> Value {
    let kind = if object.is_null() { &old["kind"] } else { &object["kind"] };
    request(operation, "", kind.as_str().unwrap(), object, old)
}

fn of_authority(operation: &str) -> Value {
    match operation {
        "CREATE" => written(operation, &authority("forged"), &Value::Null),
        "DELETE" => written(operation, &Value::Null, &authority("true")),
        _ => {
            let forged = edited(authority("forged"), |object| object["immutable"] = json!(true));
            written(operation, &forged, &authority("true"))
        }
    }
}

#[rstest]
#[case::creation("CREATE", "leave it to kube-controller-manager, which creates it in each namespace")]
#[case::replacement("UPDATE", "change only its labels and annotations")]
#[case::deletion("DELETE", "leave it in place; its publisher corrects it")]
fn e25_tok12_the_authority_is_its_publishers(#[case] operation: &str, #[case] remedy: &str) {
    let attack = of_authority(operation);
    let message = |user: &str| {
        format!(
            "403 metadata.name: by the ConfigMap \"kube-root-ca.crt\" the sidecars of namespace \"web\" know the API \
             server, and \"{user}\" is not its publisher; {remedy}, or add the user to serviceAccounts.rootCaPublishers"
        )
    };
    assert_eq!(message_of(&attack), message("ann"));
    // kubectl delete --all: the request has no name.
    let unnamed = edited(attack.clone(), |request| drop(request.as_object_mut().unwrap().remove("name")));
    assert_eq!(message_of(&unnamed), message("ann"));
    for user in ["system:serviceaccount:web:root-ca-cert-publisher", "System:kube-controller-manager", ""] {
        assert_eq!(message_of(&by(user, attack.clone())), message(user));
    }
    for user in [
        PUBLISHER,
        CONTROLLER,
        "system:kube-controller-manager",
        "system:serviceaccount:kube-system:namespace-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
    ] {
        assert_eq!(message_of(&by(user, attack.clone())), "accepted", "{user}");
    }
    let rules = json!({"rootCaPublishers": ["trust-manager"]});
    for user in ["trust-manager", PUBLISHER] {
        assert_eq!(verdict(&admit_in(&by(user, attack.clone()), rules.clone(), cluster())), "accepted", "{user}");
    }
    let groups = edited(attack, |request| request["userInfo"]["groups"] = json!([PUBLISHER, "trust-manager"]));
    assert_eq!(verdict(&admit_in(&groups, rules, cluster())), message("ann"), "groups make no publisher");
}

#[rstest]
#[case::a_certificate("/data/ca.crt", json!("forged"), false)]
#[case::more_certificates("/data/more", json!("forged"), false)]
#[case::bytes("/binaryData", json!({"ca.crt": "Zm9yZ2Vk"}), false)]
#[case::for_ever("/immutable", json!(true), false)]
#[case::a_finalizer("/metadata/finalizers", json!(["example.com/mine"]), false)]
#[case::an_owner("/metadata/ownerReferences", json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]), false)]
#[case::labels("/metadata/labels", json!({"team": "web"}), true)]
#[case::annotations("/metadata/annotations", json!({}), true)]
fn e25_others_change_labels_and_annotations(#[case] at: &str, #[case] value: Value, #[case] passes: bool) {
    let (parent, key) = at.rsplit_once('/').unwrap();
    let new = edited(authority("true"), |object| object.pointer_mut(parent).unwrap()[key] = value);
    let answered = message_of(&written("UPDATE", &new, &authority("true")));
    assert_eq!(answered == "accepted", passes, "{answered}");
}

#[test]
fn e25_set8_the_authority_goes_with_its_namespace_and_a_frozen_one_goes_anyway() {
    let deletion = of_authority("DELETE");
    let tell = |request: &Value, phase| verdict(&admit_in(request, json!({}), Court::with([namespace(phase)])));
    assert_eq!(tell(&deletion, "Terminating"), "accepted");
    assert_eq!(verdict(&admit_in(&deletion, json!({}), Court::default())), "accepted", "it is gone");
    assert!(tell(&of_authority("UPDATE"), "Terminating").starts_with("403 "));
    let unreadable = Court::default().answering(&namespace(""), Err(ClusterError::Failed("boom".to_owned())));
    assert_eq!(
        verdict(&admit_in(&deletion, json!({}), unreadable)),
        "503 metadata.namespace: Namespace \"web\" could not be read: no usable answer; try again"
    );
    let frozen = edited(authority("forged"), |object| object["immutable"] = json!(true));
    assert_eq!(tell(&written("DELETE", &Value::Null, &frozen), "Active"), "accepted");
}

#[test]
fn e25_tok13_no_other_service_is_called_kubernetes() {
    let forged = service(&json!({"ports": [{"port": 443}], "selector": {"app": "mine"}}));
    let moved = service(&json!({"type": "ExternalName", "externalName": "example.com"}));
    let problem = "403 metadata.name: in namespace \"web\", a Service called \"kubernetes\" takes the place of the API \
                   server: Pods send their tokens to it; ";
    for user in ["ann", CONTROLLER, PUBLISHER, "system:kube-controller-manager"] {
        let creation = by(user, written("CREATE", &forged, &Value::Null));
        assert_eq!(message_of(&creation), format!("{problem}choose another name"), "{user}");
        let unnamed = edited(creation, |request| drop(request.as_object_mut().unwrap().remove("name")));
        assert_eq!(message_of(&unnamed), format!("{problem}choose another name"), "{user}");
        let change = by(user, written("UPDATE", &moved, &forged));
        assert_eq!(message_of(&change), format!("{problem}delete it, or leave its spec as it is"), "{user}");
    }
    assert_eq!(message_of(&written("DELETE", &Value::Null, &forged)), "accepted");
    let held = edited(forged.clone(), |object| object["metadata"]["finalizers"] = json!(["example.com/mine"]));
    assert_eq!(message_of(&written("UPDATE", &forged, &held)), "accepted");
    let at_home = |request: Value| edited(request, |request| request["namespace"] = json!("default"));
    assert_eq!(message_of(&at_home(written("CREATE", &forged, &Value::Null))), "accepted");
    assert_eq!(message_of(&at_home(written("UPDATE", &moved, &forged))), "accepted");
}

/// The guard checks no ConfigMap of another name. Without the gate it checks none: then no sidecar has its own token.
#[test]
fn e25_other_objects_and_other_clusters_are_left_alone() {
    for name in ["settings", "kube-root-ca.crt.old", "kubernetes-dashboard"] {
        for object in [authority("a"), service(&json!({"ports": []}))] {
            let object = edited(object, |object| object["metadata"]["name"] = json!(name));
            assert_eq!(message_of(&written("CREATE", &object, &Value::Null)), "accepted", "{name}");
            assert_eq!(message_of(&written("DELETE", &Value::Null, &object)), "accepted", "{name}");
        }
    }
    let settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": false}});
    for attack in ["CREATE", "UPDATE", "DELETE"].map(of_authority) {
        assert_eq!(verdict(&ask(&attack, &settings, &Arc::new(cluster()))), "accepted");
    }
    let forged = written("CREATE", &service(&json!({"ports": []})), &Value::Null);
    assert_eq!(verdict(&ask(&forged, &settings, &Arc::new(cluster()))), "accepted");
}
