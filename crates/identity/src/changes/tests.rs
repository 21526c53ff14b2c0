use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::defaults;
use pillion_sidecarset::sidecar_set::prepare::stamp;
use rstest::rstest;
use serde_json::json;

use super::*;

/// Returns a stored SidecarSet with an account and a revision with this policy.
fn stored(policy: &str) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "agent", "annotations": {"apps.kruise.io/sidecarset-base": "b"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "agent", "image": "agent:1"}],
            "injectionStrategy": {"revision": {"revisionName": "agent-1", "policy": policy}},
            "updateStrategy": {"partition": "50%"},
            "serviceAccountName": "agent", "serviceAccountMode": "Isolate",
            "behaviorWhenServiceAccountInjection": "Merge",
        },
    });
    defaults::apply(&mut set);
    stamp(&mut set);
    set
}

fn with(mut set: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    set
}

fn changed(new: &Value, old: &Value) -> Vec<String> {
    let set = |value: &Value| decode(value.clone()).unwrap().into_sidecar_set();
    changes(&set(new), &set(old)).iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::image("/spec/containers/0/image", json!("evil:1"), "spec.containers")]
#[case::selector("/spec/selector", json!({"matchLabels": {"app": "other"}}), "spec.selector")]
#[case::namespaces("/spec/namespaceSelector", json!({}), "spec.namespaceSelector")]
#[case::volumes("/spec/volumes", json!([{"name": "v", "emptyDir": {}}]), "spec.volumes")]
#[case::patches("/spec/patchPodMetadata", json!([]), "spec.patchPodMetadata")]
#[case::custom_version("/spec/customVersion", json!("v2"), "spec.customVersion")]
#[case::unknown("/spec/later", json!(1), "spec.later")]
#[case::revision("/spec/injectionStrategy/revision/revisionName", json!("agent-0"), "spec.injectionStrategy")]
#[case::account("/spec/serviceAccountName", json!("admin"), "spec.serviceAccountName")]
#[case::aud5_tokens("/spec/serviceAccountTokens", json!([{"audience": "vault", "path": "vault"}]), "spec.serviceAccountTokens")]
#[case::aud5_tokens_as_an_annotation("/metadata/annotations/pillion.dev~1service-account-tokens", json!("[]"), "metadata.annotations[pillion.dev/service-account-tokens]")]
#[case::canary("/metadata/annotations/apps.kruise.io~1sidecarset-canary", json!("true"), "metadata.annotations[apps.kruise.io/sidecarset-canary]")]
#[case::base("/metadata/annotations/apps.kruise.io~1sidecarset-base", json!("c"), "metadata.annotations[apps.kruise.io/sidecarset-base]")]
#[case::own_annotation("/metadata/annotations/pillion.dev~1rollback", json!("x"), "metadata.annotations[pillion.dev/rollback]")]
#[case::custom_version_label("/metadata/labels", json!({"apps.kruise.io/sidecarset-custom-version": "v"}), "metadata.labels[apps.kruise.io/sidecarset-custom-version]")]
fn esc1_what_decides_what_is_injected_counts(#[case] pointer: &str, #[case] value: Value, #[case] path: &str) {
    for policy in ["Always", "Partial"] {
        let old = stored(policy);
        assert_eq!(changed(&with(old.clone(), pointer, value.clone()), &old), [path]);
    }
}

#[rstest]
#[case::history("/spec/revisionHistoryLimit", json!(3))]
#[case::label("/metadata/labels", json!({"a": "b"}))]
#[case::annotation("/metadata/annotations/example.com~1note", json!("x"))]
#[case::finalizer("/metadata/finalizers", json!(["example.com/f"]))]
#[case::how_many_at_once("/spec/updateStrategy/maxUnavailable", json!(3))]
#[case::in_which_order("/spec/updateStrategy/priorityStrategy", json!({"orderPriority": [{"orderedKey": "a"}]}))]
#[case::how("/spec/updateStrategy/type", json!("NotUpdate"))]
fn esc1_what_does_not_is_not_asked_about(#[case] pointer: &str, #[case] value: Value) {
    for policy in ["Always", "Partial"] {
        let old = stored(policy);
        assert_eq!(changed(&with(old.clone(), pointer, value.clone()), &old), [""; 0]);
    }
}

#[rstest]
#[case::pausing("/spec/updateStrategy/paused", json!(true), "spec.updateStrategy.paused")]
#[case::another_share("/spec/updateStrategy/partition", json!("0%"), "spec.updateStrategy.partition")]
#[case::a_number("/spec/updateStrategy/partition", json!(1), "spec.updateStrategy.partition")]
#[case::other_pods("/spec/updateStrategy/selector", json!({"matchLabels": {"a": "b"}}), "spec.updateStrategy.selector")]
fn e23_the_update_strategy_counts_where_a_partial_revision_depends_on_it(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] path: &str,
) {
    let partial = stored("Partial");
    assert_eq!(changed(&with(partial.clone(), pointer, value.clone()), &partial), [path]);
    // And back again.
    assert_eq!(changed(&partial, &with(partial.clone(), pointer, value.clone())), [path]);
    // With `Always` every Pod gets the stored version, with none every Pod gets the latest (INJ-1, INJ-5).
    let always = stored("Always");
    assert_eq!(changed(&with(always.clone(), pointer, value.clone()), &always), [""; 0]);
    let latest = with(always, "/spec/injectionStrategy", json!({}));
    assert_eq!(changed(&with(latest.clone(), pointer, value), &latest), [""; 0]);
}

/// Another webhook, or none, may have admitted the stored object.
#[test]
fn esc1_defaults_and_spellings_are_no_change() {
    let plain = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "agent:1"}],
            "serviceAccountName": "agent", "behaviorWhenServiceAccountInjection": "merge", "volumes": null,
        },
    });
    let mut new = plain.clone();
    defaults::apply(&mut new);
    stamp(&mut new);
    new["spec"]["behaviorWhenServiceAccountInjection"] = json!("Merge");
    assert_eq!(changed(&new, &plain), [""; 0]);
}

#[test]
fn esc1_a_label_of_v1alpha1_is_the_custom_version() {
    let old = with(stored("Always"), "/apiVersion", json!("apps.kruise.io/v1alpha1"));
    let new = with(old.clone(), "/metadata/labels", json!({"apps.kruise.io/sidecarset-custom-version": "v2"}));
    assert_eq!(changed(&new, &old), ["spec.customVersion"]);
}

fn while_off(new: &Value, old: &Value) -> Vec<String> {
    let set = |value: &Value| decode(value.clone()).unwrap().into_sidecar_set();
    check_while_off(&set(new), &set(old)).iter().map(|error| error.path.clone()).collect()
}

#[rstest]
#[case::image("/spec/containers/0/image", json!("evil:1"), "spec.containers")]
#[case::selector("/spec/selector", json!({"matchLabels": {"app": "other"}}), "spec.selector")]
#[case::share("/spec/updateStrategy/partition", json!("0%"), "spec.updateStrategy.partition")]
#[case::mode("/spec/serviceAccountMode", json!(null), "spec.serviceAccountMode")]
#[case::behaviour("/spec/behaviorWhenServiceAccountInjection", json!(null), "spec.behaviorWhenServiceAccountInjection")]
#[case::tokens("/spec/serviceAccountTokens", json!([{"audience": "vault", "path": "vault"}]), "spec.serviceAccountTokens")]
fn e23_while_the_gate_is_off_only_the_account_may_go(#[case] pointer: &str, #[case] value: Value, #[case] path: &str) {
    let old = stored("Partial");
    let new = with(old.clone(), pointer, value.clone());
    assert_eq!(while_off(&new, &old), [path]);
    // An annotation may name the account, and a field of the wrong type does not hide the account.
    let annotated = |set: &Value| {
        let set = with(set.clone(), "/metadata/annotations/pillion.dev~1service-account-name", json!("agent"));
        with(set, "/spec/serviceAccountName", json!(null))
    };
    assert_eq!(while_off(&annotated(&new), &annotated(&old)), [path]);
    let odd = |set: &Value| with(set.clone(), "/spec/serviceAccountName", json!(7));
    assert_eq!(while_off(&odd(&new), &odd(&old)), [path]);
    for given_up in [json!(null), json!("")] {
        assert_eq!(while_off(&with(new.clone(), "/spec/serviceAccountName", given_up), &old), [""; 0]);
    }
}

#[test]
fn e23_while_the_gate_is_off_a_set_may_say_the_same_once_instead_of_twice() {
    let old = with(stored("Always"), "/metadata/annotations/pillion.dev~1service-account-name", json!("agent"));
    let new = with(old.clone(), "/metadata/annotations/pillion.dev~1service-account-name", json!(""));
    assert_eq!(while_off(&new, &old), [""; 0]);
    assert_eq!(while_off(&with(old.clone(), "/spec/revisionHistoryLimit", json!(3)), &old), [""; 0]);
}
