//! The asserting twin.

use rstest::rstest;
use serde_json::{Value, json};

use super::roles::{AUTHORITIES, EPHEMERAL, PODS, SECRETS, SERVICES, complete, of_logs, policy, said, twin, with};

fn edited(mut value: Value, pointer: &str, new: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = new;
    value
}

#[rstest]
#[case::mutating(
    with(twin(&of_logs()), "mutating", json!(true)),
    "spec.mutating: the asserting twin is asked among the mutating webhooks, before others are done with the Pod -> set it \
     to false"
)]
#[case::other_rules(
    with(twin(&of_logs()), "rules", json!([])),
    "spec.rules: the asserting twin only looks at Pods that are created, and no rule asks it about them -> add a rule with \
     apiGroups [\"\"], apiVersions [v1], resources [pods], operations [CREATE]"
)]
#[case::monitoring(
    with(twin(&of_logs()), "mode", json!("monitor")),
    "spec.mode: the policy only monitors: nothing is refused -> set it to protect when its log says what you expect"
)]
#[case::ignored(
    with(twin(&of_logs()), "failurePolicy", json!("Ignore")),
    "spec.failurePolicy: while the policy server does not answer, Pods start although their tokens may not be where they \
     belong -> use Fail, and leave out the namespaces that must start without it"
)]
#[case::without_the_gate(
    edited(twin(&of_logs()), "/spec/settings/featureGates/SidecarSetServiceAccountInjection", json!(false)),
    "spec.settings.featureGates: the asserting twin asserts nothing: the feature gate SidecarSetServiceAccountInjection is \
     off -> give it the settings of the policy that injects"
)]
#[case::other_sets(
    edited(twin(&of_logs()), "/spec/settings/sidecarSets/0/spec/containers/0/image", json!("agent:2")),
    "spec.settings.sidecarSets: sidecarSets is not that of the injecting policy \"pods\": the twin judges Pods by what they \
     did not get -> give both the same"
)]
#[case::other_rules_for_accounts(
    edited(twin(&of_logs()), "/spec/settings/serviceAccounts", json!({"protectedNamespaces": [], "onMissing": "Skip"})),
    "spec.settings.serviceAccounts: serviceAccounts is not that of the injecting policy \"pods\": the twin judges Pods by \
     what they did not get -> give both the same"
)]
fn tok10_a_twin_is_held_against_the_policy_that_injects(#[case] twin: Value, #[case] expected: &str) {
    let mut policies = complete(&of_logs());
    policies[3] = twin;
    let said = said(&policies);
    assert!(said.contains(&expected.to_owned()), "{said:#?}");
    let of_twin =
        said.iter().filter(|line| !line.starts_with("spec.settings.role") && !line.contains("injected without"));
    assert!(of_twin.count() <= 2, "{said:#?}");
}

#[test]
fn tok10_a_policy_that_only_asserts_is_no_injecting_one() {
    assert_eq!(
        said(&[twin(&of_logs())]),
        [
            "spec.settings.role: this policy only asserts, and no policy here injects -> check it together with the policy \
          that injects; that one has the role Inject"
        ]
    );
}

#[test]
fn tok10_the_twin_reads_what_the_injecting_policy_reads() {
    let twin = with(twin(&of_logs()), "contextAwareResources", json!([]));
    let said = said(&[policy("pods", &[PODS, EPHEMERAL, SECRETS, AUTHORITIES, SERVICES], &of_logs()), twin]);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].contains("SidecarSet \"logs\" names a ServiceAccount, but the policy may not read"), "{said:#?}");
}

#[test]
fn a_twin_may_be_in_a_group_since_it_never_mutates() {
    let settings = &twin(&of_logs())["spec"]["settings"];
    let group = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicyGroup", "metadata": {"name": "g"},
        "spec": {"policies": {
            "asserts": {"module": "registry://registry.example.com/pillion:v1", "settings": settings},
            "injects": {"module": "registry://registry.example.com/pillion:v1", "settings": of_logs()},
        }},
    });
    let said = said(&[group]);
    assert_eq!(
        said,
        ["spec.policies.injects: members of a policy group may not mutate: nothing is injected -> use a \
          ClusterAdmissionPolicy"]
    );
}
