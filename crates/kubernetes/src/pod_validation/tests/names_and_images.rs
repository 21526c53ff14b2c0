use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, container, of_container, of_init_container, paths, with};
use crate::field::Cause;

#[test]
fn val12_a_plain_pod_is_fine() {
    assert_eq!(
        paths(&[container("a")], &[container("b"), container("c")], &[json!({"name": "v", "emptyDir": {}})]),
        [""; 0]
    );
}

#[test]
fn val12_a_pod_needs_a_container() {
    assert_eq!(paths(&[container("a")], &[], &[]), ["spec.containers"]);
}

#[rstest]
#[case(json!({"name": null}), "name")]
#[case(json!({"name": ""}), "name")]
#[case(json!({"name": "A"}), "name")]
#[case(json!({"name": "a.b"}), "name")]
#[case(json!({"name": "a".repeat(64)}), "name")]
#[case(json!({"name": "a".repeat(63)}), "")]
#[case(json!({"image": null}), "image")]
#[case(json!({"image": ""}), "image")]
#[case(json!({"image": " a"}), "image")]
#[case(json!({"image": "a\u{a0}"}), "image")]
#[case(json!({"image": "a b"}), "")]
#[case(json!({"imagePullPolicy": null}), "imagePullPolicy")]
#[case(json!({"imagePullPolicy": "always"}), "imagePullPolicy")]
#[case(json!({"imagePullPolicy": "Never"}), "")]
#[case(json!({"terminationMessagePolicy": null}), "terminationMessagePolicy")]
#[case(json!({"terminationMessagePolicy": "Other"}), "terminationMessagePolicy")]
#[case(json!({"terminationMessagePolicy": "FallbackToLogsOnError"}), "")]
#[case(json!({"terminationMessagePath": ""}), "")]
#[case(json!({"name": null, "image": null, "imagePullPolicy": ""}), "image imagePullPolicy name")]
fn val12_names_images_and_policies(#[case] fields: Value, #[case] expected: &str) {
    assert_paths(&of_container(&fields), expected, &fields);
    assert_paths(&of_init_container(&fields), expected, &fields);
}

#[rstest]
#[case(&[], &["a", "a"], "spec.containers[1].name")]
#[case(&["a"], &["b", "a"], "spec.initContainers[0].name")]
#[case(&["a", "a"], &["b"], "spec.initContainers[1].name")]
#[case(&["a", "b"], &["c", "d"], "")]
fn val12_names_are_unique_across_both_lists(#[case] init: &[&str], #[case] plain: &[&str], #[case] expected: &str) {
    let make = |names: &[&str]| -> Vec<Value> { names.iter().map(|name| container(name)).collect() };
    assert_paths(&paths(&make(init), &make(plain), &[]), expected, &json!([init, plain]));
}

#[test]
fn val12_a_name_that_is_taken_is_a_duplicate_and_an_empty_one_is_not() {
    let errors = super::super::validate(&[container("a")], &[container("a")], &[]);
    let causes: Vec<Cause> = errors.iter().map(|error| error.cause).collect();
    assert_eq!(causes, [Cause::Duplicate]);
    let unnamed = with("", &json!({}));
    let errors = super::super::validate(&[], &[unnamed.clone(), unnamed], &[]);
    assert!(errors.iter().all(|error| error.cause == Cause::Required), "{errors:?}");
}

#[rstest]
#[case(json!({"restartPolicy": "Always"}), "restartPolicy", "")]
#[case(json!({"restartPolicy": "Never"}), "restartPolicy", "restartPolicy")]
#[case(json!({"restartPolicy": "Never", "restartPolicyRules": []}), "restartPolicy", "restartPolicy")]
#[case(json!({"restartPolicy": "", "restartPolicyRules": [{"action": "Restart"}]}), "restartPolicy", "restartPolicy")]
#[case(json!({"restartPolicy": "OnFailure", "restartPolicyRules": [{"action": "Restart"}]}), "", "")]
#[case(json!({"restartPolicy": "Always", "restartPolicyRules": [{"action": "RestartAllContainers"}]}), "", "")]
#[case(json!({"restartPolicyRules": [{"action": "Restart"}]}), "restartPolicy", "restartPolicy")]
#[case(
    json!({"restartPolicy": "Never", "restartPolicyRules": vec![json!({"action": "Restart"}); 21]}),
    "restartPolicyRules",
    "restartPolicyRules"
)]
#[case(json!({"restartPolicy": "Sometimes"}), "restartPolicy", "restartPolicy")]
#[case(json!({"restartPolicy": ""}), "restartPolicy", "restartPolicy")]
#[case(json!({"lifecycle": {}}), "", "lifecycle")]
#[case(json!({"lifecycle": {}, "restartPolicy": "Always"}), "restartPolicy", "")]
#[case(json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}), "", "resizePolicy")]
#[case(
    json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}], "restartPolicy": "Always"}),
    "restartPolicy",
    ""
)]
fn val12_diff38_what_plain_and_init_containers_may_not_have(
    #[case] fields: Value,
    #[case] plain: &str,
    #[case] init: &str,
) {
    assert_paths(&of_container(&fields), plain, &fields);
    assert_paths(&of_init_container(&fields), init, &fields);
}
