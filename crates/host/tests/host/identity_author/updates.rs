//! Updates, single and in several steps.

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::account;
use super::admit;
use super::request;
use super::set;
use super::stored;
use super::update;
use crate::support::identity::{Court, ask, edited, gated, rule, verdict};

/// The author of an update answers for the whole set, whoever wrote it first.
#[rstest]
#[case::a_wider_selector("/spec/selector", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}))]
#[case::another_image("/spec/containers/0/image", json!("evil:1"))]
#[case::more_namespaces("/spec/namespaceSelector", json!({"matchLabels": {"team": "a"}}))]
#[case::another_mode("/spec/serviceAccountMode", json!("Isolate"))]
#[case::no_longer_paused("/spec/injectionStrategy", json!({"paused": false}))]
#[case::another_revision("/spec/injectionStrategy", json!({"revision": {"revisionName": "agent-1"}}))]
#[case::the_mode_as_an_annotation("/metadata/annotations/pillion.dev~1service-account-mode", json!("Isolate"))]
fn esc1_an_update_that_hands_the_identity_to_others_is_asked_about(#[case] path: &str, #[case] value: Value) {
    let old = stored(&edited(set(), |set| set["spec"]["injectionStrategy"] = json!({"paused": true})));
    let new = edited(old.clone(), |set| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    });
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "agent-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "agent"}},
        "data": {"spec": {"containers": [{"name": "agent", "image": "agent:0"}]}},
    });
    let bob =
        || Court::with([account("web"), revision.clone()]).granting("bob", "web", &json!([rule("", "pods", "list")]));
    let (answer, cluster) = admit(&update("bob", &old, &new), &json!({}), bob());
    let answered = verdict(&answer);
    assert!(answered.starts_with("403 SidecarSet \"agent\": spec.serviceAccount"), "{answered}");
    assert!(
        answered.contains("\"bob\" may not grant get pods in ")
            && answered.contains("\"bob\" may not use the ServiceAccount")
    );
    assert_eq!(cluster.questions()[0], "bob: * */* \"\" in \"\"");
    let (answer, _) = admit(
        &update("root", &old, &new),
        &json!({}),
        Court::with([revision.clone()]).granting("system:masters", "", &json!([rule("*", "*", "*")])),
    );
    assert_eq!(verdict(&answer), "accepted");
}

#[rstest]
#[case::how_it_is_rolled_out("/spec/updateStrategy", json!({"type": "RollingUpdate", "partition": "50%", "maxUnavailable": 1}))]
#[case::how_much_is_remembered("/spec/revisionHistoryLimit", json!(3))]
#[case::a_label("/metadata/labels", json!({"a": "b"}))]
#[case::an_annotation_of_others("/metadata/annotations/example.com~1note", json!("x"))]
#[case::a_finalizer("/metadata/finalizers", json!(["example.com/f"]))]
fn esc1_an_update_that_changes_nothing_of_it_is_not_asked_about(#[case] path: &str, #[case] value: Value) {
    let old = stored(&set());
    let new = edited(old.clone(), |set| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    });
    let (answer, cluster) = admit(&update("bob", &old, &new), &json!({}), Court::default());
    assert_eq!(verdict(&answer), "accepted");
    assert_eq!((cluster.questions(), cluster.looked_up()), (vec![], vec![]));
}

/// Returns a stored version of the agent.
fn revision() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "agent-1", "namespace": "kruise-system", "labels": {"kruise.io/sidecarset-name": "agent"}},
        "data": {"spec": {"containers": [{"name": "agent", "image": "agent:0"}]}},
    })
}

/// Pausing alone would change which image runs under the account.
#[rstest]
#[case::pausing("paused", json!(true))]
#[case::another_share("partition", json!("0%"))]
#[case::other_pods("selector", json!({"matchLabels": {"app": "other"}}))]
fn e23_what_decides_between_two_versions_is_asked_about(#[case] field: &str, #[case] value: Value) {
    let with_policy = |policy: &str| {
        edited(stored(&set()), |set| {
            set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "agent-1", "policy": policy}});
            if field != "selector" {
                set["spec"]["updateStrategy"]["partition"] = json!("50%");
            }
        })
    };
    let tell = |policy: &str, user: &str| {
        let old = with_policy(policy);
        let new = edited(old.clone(), |set| set["spec"]["updateStrategy"][field] = value.clone());
        let court =
            Court::with([account("web"), revision()]).granting("system:masters", "", &json!([rule("*", "*", "*")]));
        let (answer, cluster) = admit(&update(user, &old, &new), &json!({}), court);
        (verdict(&answer), cluster.questions().len())
    };
    let (answered, _) = tell("Partial", "bob");
    assert!(
        answered.starts_with("403 SidecarSet \"agent\": ") && answered.contains("may not use the ServiceAccount"),
        "{answered}"
    );
    assert_eq!(tell("Partial", "root").0, "accepted");
    // Every Pod gets the stored version, whatever the progress of the rollout.
    assert_eq!(tell("Always", "bob"), ("accepted".to_owned(), 0));
}

#[test]
fn e23_how_many_are_updated_at_once_is_not_asked_about() {
    let old = edited(stored(&set()), |set| {
        set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "agent-1", "policy": "Partial"}});
    });
    let new = edited(old.clone(), |set| set["spec"]["updateStrategy"]["maxUnavailable"] = json!(3));
    let (answer, cluster) = admit(&update("bob", &old, &new), &json!({}), Court::with([revision()]));
    assert_eq!((verdict(&answer).as_str(), cluster.questions()), ("accepted", vec![]));
}

/// Changes made while the gate is off would take effect, unchecked, once it is on.
#[rstest]
#[case::the_image("/spec/containers/0/image", json!("evil:1"), "spec.containers")]
#[case::the_selector("/spec/selector", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), "spec.selector")]
#[case::the_namespaces("/spec/namespaceSelector", json!({"matchLabels": {"team": "a"}}), "spec.namespaceSelector")]
#[case::whose_canary("/metadata/annotations/apps.kruise.io~1sidecarset-base", json!("other"), "metadata.annotations[apps.kruise.io/sidecarset-base]")]
#[case::the_mode_as_it_was_by_default("/metadata/annotations/pillion.dev~1rollback", json!("true"), "metadata.annotations[pillion.dev/rollback]")]
#[case::fewer_permissions("/spec/serviceAccountPermissions", json!(null), "spec.serviceAccountPermissions")]
fn e23_while_the_gate_is_off_an_account_can_only_be_given_up(
    #[case] path: &str,
    #[case] value: Value,
    #[case] field: &str,
) {
    let old = stored(&set());
    let new = edited(old.clone(), |set| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    });
    let tell = |new: &Value| {
        let cluster = Arc::new(Court::default());
        let answered = verdict(&ask(&update("root", &old, new), &json!({}), &cluster));
        assert_eq!((cluster.questions(), cluster.looked_up()), (vec![], vec![]));
        answered
    };
    let answered = tell(&new);
    assert!(answered.contains(&format!("422 SidecarSet \"agent\": {field}: Forbidden: ")), "{answered}");
    assert!(
        answered.contains("SidecarSetServiceAccountInjection is off")
            && answered.contains("remove spec.serviceAccountName")
    );
    let given_up = edited(new, |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(tell(&given_up), "accepted");
}

/// Bob may use the account in his own namespace. A CustomResourceDefinition without conversion keeps the field, and the
/// controller reads v1alpha1, where the field overrides the selector.
#[test]
fn esc5_a_namespace_of_the_other_version_is_none_that_is_asked_about() {
    let set = edited(set(), |set| {
        set["spec"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] = json!("bobs");
        set["spec"]["serviceAccountPermissions"] = json!([]);
    });
    let bob = || Court::with([account("web")]).granting("bob", "bobs", &json!([rule("", "pods", "create")]));
    let tell = |set: &Value| verdict(&admit(&request("bob", set), &json!({}), bob()).0);
    assert_eq!(tell(&set), "accepted");
    let attack = edited(set.clone(), |set| set["spec"]["namespace"] = json!("web"));
    let answered = tell(&attack);
    assert!(
        answered.starts_with("422 SidecarSet \"agent\": spec.namespace: Forbidden: v1beta1 has no such field"),
        "{answered}"
    );
    // In v1alpha1 the field decides which namespace is checked.
    let alpha = edited(request("bob", &attack), |request| {
        request["object"]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
        for field in ["kind", "resource"] {
            request[field]["version"] = json!("v1alpha1");
        }
    });
    let answered = verdict(&admit(&alpha, &json!({}), bob()).0);
    assert!(answered.contains("\"bob\" may not use the ServiceAccount \"agent\" in namespace \"web\""), "{answered}");
}

#[test]
fn esc1_giving_the_account_up_needs_no_rights_and_taking_it_back_does() {
    let with = stored(&set());
    let without = edited(with.clone(), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(verdict(&admit(&update("bob", &with, &without), &json!({}), Court::default()).0), "accepted");
    let answered = verdict(&admit(&update("bob", &without, &with), &json!({}), Court::default()).0);
    assert!(answered.starts_with("403 "), "{answered}");
}

/// An object that is being deleted must be able to lose its finalizers. This must not evade the rules, because the
/// object stays in effect as long as a finalizer remains on it.
#[test]
fn esc1_a_set_that_is_being_deleted_gains_nothing() {
    let old = edited(stored(&set()), |set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        set["metadata"]["finalizers"] = json!(["example.com/keep"]);
    });
    let tell = |new: &Value, rules: &Value| verdict(&admit(&update("bob", &old, new), rules, Court::default()).0);
    let released = edited(old.clone(), |set| set["metadata"]["finalizers"] = json!([]));
    assert_eq!(tell(&released, &json!({"protectedNamespaces": ["web"]})), "accepted");
    let widened = edited(old.clone(), |set| {
        set["spec"]["serviceAccountPermissions"] = json!([rule("*", "*", "*")]);
    });
    assert_eq!(
        tell(&widened, &json!({})),
        "403 SidecarSet \"agent\": spec.serviceAccountPermissions[0]: grants * *.*, which reaches escalate *.*; no sidecar may get that; grant less, or change serviceAccounts.denyPermissions"
    );
    let replaced = edited(old.clone(), |set| set["spec"]["containers"][0]["image"] = json!("evil:1"));
    assert_eq!(
        tell(&replaced, &json!({})),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"bob\" may not use the ServiceAccount \"agent\" in namespace \"web\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name; SidecarSet \"agent\": spec.serviceAccountPermissions: \"bob\" may not grant get pods in namespace \"web\"; write permissions that you hold, or ask a holder to write it"
    );
}

#[test]
fn idv1_without_the_gate_nothing_of_it_is_set() {
    let off = json!({});
    let tell = |request: &Value| {
        let cluster = Arc::new(Court::default());
        let verdict = verdict(&ask(request, &off, &cluster));
        assert_eq!((cluster.questions(), cluster.looked_up()), (vec![], vec![]), "nothing is looked up");
        verdict
    };
    assert_eq!(
        tell(&request("root", &set())),
        "422 SidecarSet \"agent\": spec.behaviorWhenServiceAccountInjection: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this; SidecarSet \"agent\": spec.serviceAccountName: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this; SidecarSet \"agent\": spec.serviceAccountPermissions: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this"
    );
    let annotated = edited(set(), |set| {
        for key in ["serviceAccountName", "behaviorWhenServiceAccountInjection", "serviceAccountPermissions"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
        set["metadata"]["annotations"] = json!({"pillion.dev/service-account-name": "agent"});
    });
    assert_eq!(
        tell(&request("root", &annotated)),
        "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-name]: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this"
    );
    let old = stored(&set());
    assert_eq!(
        tell(&update("bob", &old, &edited(old.clone(), |set| set["spec"]["serviceAccountName"] = json!("admin")))),
        "422 SidecarSet \"agent\": spec.serviceAccountName: Forbidden: the feature gate SidecarSetServiceAccountInjection is off; turn it on in featureGates, or remove this"
    );
    assert_eq!(
        tell(&update(
            "bob",
            &old,
            &edited(old.clone(), |set| set["spec"]["updateStrategy"] = json!({"type": "NotUpdate"}))
        )),
        "accepted"
    );
}

/// A version that was stored while the set had no account. The account comes, or the request for the version.
#[rstest]
#[case::the_account_comes(true)]
#[case::the_version_is_requested(false)]
fn idc9_a_requested_version_is_checked_when_the_set_is_written(#[case] is_requested_before: bool) {
    let stored_with =
        |volume: Value| edited(revision(), |revision| revision["data"]["spec"]["volumes"] = json!([volume]));
    let token = json!({"name": "v", "projected": {"sources": [
        {"serviceAccountToken": {"audience": "elsewhere", "expirationSeconds": 31_536_000, "path": "t"}}
    ]}});
    let pinned = |set: Value| {
        edited(set, |set| set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "agent-1"}}))
    };
    let plain =
        edited(set(), |set| set["spec"].as_object_mut().unwrap().retain(|key, _| !key.contains("erviceAccount")));
    let old = if is_requested_before { pinned(plain) } else { set() };
    let message_of = |stored: Value| {
        let cluster =
            Court::with([account("web"), stored]).granting("system:masters", "", &json!([rule("*", "*", "*")]));
        let (answer, cluster) = admit(&update("root", &old, &pinned(set())), &json!({}), cluster);
        let count = cluster.looked_up().iter().filter(|object| object.contains("ControllerRevision")).count();
        assert_eq!(count, 1, "looked up once");
        verdict(&answer)
    };
    let refused = message_of(stored_with(token));
    assert!(
        refused.starts_with("422 SidecarSet \"agent\": spec.injectionStrategy.revision.revisionName: ")
            && refused.contains(
                "ControllerRevision \"agent-1\" would run under the ServiceAccount, and has spec.volumes[0].projected"
            ),
        "{refused}"
    );
    assert_eq!(message_of(stored_with(json!({"name": "v", "emptyDir": {}}))), "accepted");
}

/// The cluster does not answer about the version that runs under the account.
#[test]
fn idc9_a_version_that_cannot_be_read_is_asked_for_again() {
    let pinned =
        edited(set(), |set| set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": "agent-1"}}));
    let new = edited(pinned.clone(), |set| set["spec"]["containers"][0]["image"] = json!("agent:2"));
    let failing = Court::with([account("web")])
        .answering(&revision(), Err(pillion_host::ClusterError::Failed("timeout".to_owned())))
        .granting("system:masters", "", &json!([rule("*", "*", "*")]));
    let answered = verdict(&admit(&update("root", &pinned, &new), &json!({}), failing).0);
    assert!(
        answered.starts_with("503 SidecarSet \"agent\": spec.injectionStrategy.revision.revisionName: "),
        "{answered}"
    );
}

/// A set without an account that would write into the folder of one in the settings.
#[test]
fn idc11_a_set_that_uses_an_owners_volume_is_refused_when_it_is_written() {
    let with_conf = |set: Value| {
        edited(set, |set| {
            set["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "conf", "mountPath": "/conf"}]);
            set["spec"]["volumes"] = json!([{"name": "conf", "emptyDir": {}}]);
        })
    };
    let other = edited(with_conf(set()), |set| {
        set["metadata"]["name"] = json!("other");
        set["spec"]["containers"][0]["name"] = json!("other");
        set["spec"].as_object_mut().unwrap().retain(|key, _| !key.contains("erviceAccount"));
    });
    let naming = |set: &Value, partner: &str| {
        edited(set.clone(), |set| set["spec"]["serviceAccountPartners"] = json!([partner]))
    };
    let message_of = |other: &Value, owner: &Value| {
        let settings = gated(&json!({}), std::slice::from_ref(owner));
        let cluster = Court::default().granting("system:masters", "", &json!([rule("*", "*", "*")]));
        verdict(&ask(&request("root", other), &settings, &Arc::new(cluster)))
    };
    let owner = with_conf(set());
    let refused = message_of(&other, &owner);
    assert!(
        refused.starts_with("422 SidecarSet \"other\": spec.volumes[0]: ")
            && refused.contains("SidecarSet \"agent\" uses the volume \"conf\" in the same Pods"),
        "{refused}"
    );
    assert_eq!(message_of(&naming(&other, "agent"), &naming(&owner, "other")), "accepted");
    assert_eq!(message_of(&naming(&other, "agent"), &owner), refused, "one side alone is not enough");
    let elsewhere = edited(other, |set| set["spec"]["selector"] = json!({"matchLabels": {"app": "db"}}));
    assert_eq!(message_of(&elsewhere, &owner), "accepted");
}
