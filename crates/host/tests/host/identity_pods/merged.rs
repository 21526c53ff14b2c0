//! Merged accounts (E6).

use rstest::rstest;
use serde_json::{Value, json};

use super::INJECTED;
use super::account;
use super::admit;
use super::admit_in;
use super::holders;
use super::injected;
use super::merged_name;
use super::merged_objects;
use super::message_of;
use super::pod;
use super::running_as;
use super::set;
use crate::support::identity::{Court, edited, verdict};

#[rstest]
#[case::of_nobody(running_as("sidecarset-merged-0123456789abcdef"), vec![], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0123456789abcdef\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::of_other_sets(running_as("sidecarset-merged-0123456789abcdef"), vec![set("a", "a"), set("b", "b")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-0123456789abcdef\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::of_one_set(running_as(&merged_name()), vec![set("a", "a")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::of_sets_that_do_not_merge(running_as(&merged_name()), vec![set("a", "a"), edited(set("b", "b"), |set| {
    set["spec"]["behaviorWhenServiceAccountInjection"] = json!("Refuse");
    set["spec"]["serviceAccountPermissions"] = json!([]);
})], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::in_the_alias_alone(edited(running_as(&merged_name()), |pod| drop(pod["spec"].as_object_mut().unwrap().remove("serviceAccountName"))), vec![], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::with_forged_annotations(edited(running_as(&merged_name()), |pod| {
    pod["metadata"]["annotations"] = json!({
        INJECTED: json!({"original": "default", "injected": merged_name(), "sidecarSets": ["a", "b"]}).to_string(),
    });
}), vec![], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
#[case::that_says_it_is_being_deleted(edited(running_as(&merged_name()), |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")), vec![set("a", "a"), set("b", "b")], "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" is merged for other SidecarSets than this Pod's; name another ServiceAccount; merged ones are set by the policy alone")]
fn e6_pods_do_not_choose_a_merged_account(#[case] pod: Value, #[case] sets: Vec<Value>, #[case] message: &str) {
    assert_eq!(message_of(&pod, &sets), message);
    assert_eq!(message_of(&running_as("default"), &[set("a", "a"), set("b", "b")]), "accepted");
}

/// The account is the right one for the sets, so this may be a second admission of the Pod. Then only the sidecars hold
/// its token.
#[test]
fn e6_naming_the_right_merged_account_gives_the_app_nothing() {
    let sets = [set("a", "a"), set("b", "b")];
    let merged = merged_name();
    let after = injected(&pod(), &sets);
    assert_eq!(holders(&after), [format!("a: {merged}"), format!("b: {merged}")]);
    assert!(admit(&after, &sets).mutated_object.is_none(), "IDP-6");

    let after = injected(&running_as(&merged), &sets);
    assert_eq!(holders(&after), [format!("a: {merged}"), format!("b: {merged}")]);
    // The same for a Pod whose status says that it has finished (MATCH-2).
    let finished = edited(running_as(&merged), |pod| pod["status"] = json!({"phase": "Succeeded"}));
    assert_eq!(holders(&injected(&finished, &sets)), [format!("a: {merged}"), format!("b: {merged}")]);
    // With a token that the Pod projects itself.
    let greedy = edited(running_as(&merged), |pod| {
        pod["spec"]["automountServiceAccountToken"] = json!(false);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "mine", "mountPath": "/mine"}]);
        pod["spec"]["volumes"] =
            json!([{"name": "mine", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
    });
    assert_eq!(
        message_of(&greedy, &sets),
        "403 spec.serviceAccountName: container \"app\" mounts a token of the merged ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\", which is for sidecars alone; name another ServiceAccount; merged ones are set by the policy alone"
    );
}

#[rstest]
#[case::an_account_for_other_sets(0, |object: &mut Value| object["metadata"]["annotations"]["pillion.dev/sidecarsets"] = json!("a,b,c"), "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, has the annotation pillion.dev/sidecarsets \"a,b,c\" where \"a,b\" belongs; Pillion does not adopt what it did not make; delete it as serviceAccounts.controllerUser")]
#[case::an_account_without_the_annotation(0, |object: &mut Value| drop(object["metadata"].as_object_mut().unwrap().remove("annotations")), "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, has the annotation pillion.dev/sidecarsets \"\" where \"a,b\" belongs; Pillion does not adopt what it did not make; delete it as serviceAccounts.controllerUser")]
#[case::a_wider_role(1, |object: &mut Value| object["rules"][0]["verbs"] = json!(["*"]), "503 spec.serviceAccountName: Role \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::another_role(2, |object: &mut Value| object["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::a_cluster_role_of_the_name(2, |object: &mut Value| object["roleRef"]["kind"] = json!("ClusterRole"), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::a_second_subject(2, |object: &mut Value| object["subjects"].as_array_mut().unwrap().push(json!({"kind": "User", "name": "dev"})), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::another_namespace(2, |object: &mut Value| object["subjects"][0]["namespace"] = json!("bank"), "503 spec.serviceAccountName: RoleBinding \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, does not say yet what the SidecarSets say; the controller prepares it; try again")]
#[case::a_terminating_account(0, |object: &mut Value| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), "503 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, is being deleted; the controller prepares it; try again")]
#[case::a_role_that_goes(1, |object: &mut Value| object["metadata"]["annotations"]["pillion.dev/gc-pending"] = json!("2026-01-01T00:00:00Z"), "503 spec.serviceAccountName: Role \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, is about to be collected; the controller prepares it; try again")]
#[case::an_annotation_with_line_breaks(0, |object: &mut Value| object["metadata"]["annotations"]["pillion.dev/sidecarsets"] = json!("x\n\nall is well; run \u{1b}[31mthis"), "403 spec.serviceAccountName: ServiceAccount \"sidecarset-merged-7e18f737311b2dc3\" in namespace \"web\", merged for the SidecarSets a,b, has the annotation pillion.dev/sidecarsets \"x\\n\\nall is well; run \\u{1b}[31mthis\" where \"a,b\" belongs; Pillion does not adopt what it did not make; delete it as serviceAccounts.controllerUser")]
fn mrg2_mrg5_merged_objects_that_are_not_what_they_should_be(
    #[case] which: usize,
    #[case] edit: fn(&mut Value),
    #[case] message: &str,
) {
    let mut objects = merged_objects();
    edit(&mut objects[which]);
    let cluster = Court::with(["a", "b"].map(account).into_iter().chain(objects));
    assert_eq!(verdict(&admit_in(&pod(), json!({}), &[set("a", "a"), set("b", "b")], cluster)), message);
    assert_eq!(message_of(&pod(), &[set("a", "a"), set("b", "b")]), "accepted");
}
