use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rbac::denied::Denied;

fn atom(group: &str, resource: &str, name: &str, verb: &str) -> Atom {
    Atom {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        verb: verb.to_owned(),
    }
}

#[rstest]
#[case::same(("", "pods", "", "get"), ("", "pods", "", "get"), true)]
#[case::verb(("", "pods", "", "*"), ("", "pods", "", "get"), true)]
#[case::group(("*", "pods", "", "get"), ("apps", "pods", "", "get"), true)]
#[case::resource(("", "*", "", "get"), ("", "pods", "", "get"), true)]
#[case::everything_has_subresources(("", "*", "", "get"), ("", "pods/log", "", "get"), true)]
#[case::one_subresource(("", "*/log", "", "get"), ("", "pods/log", "", "get"), true)]
#[case::other_subresource(("", "*/log", "", "get"), ("", "pods/exec", "", "get"), false)]
#[case::subresource_is_not_its_resource(("", "*/log", "", "get"), ("", "pods", "", "get"), false)]
#[case::resource_has_not_its_subresources(("", "pods", "", "get"), ("", "pods/log", "", "get"), false)]
#[case::no_such_wildcard(("", "pods/*", "", "get"), ("", "pods/log", "", "get"), false)]
#[case::every_name(("", "pods", "", "get"), ("", "pods", "a", "get"), true)]
#[case::one_name(("", "pods", "a", "get"), ("", "pods", "", "get"), false)]
#[case::other_name(("", "pods", "a", "get"), ("", "pods", "b", "get"), false)]
#[case::narrower(("", "pods", "", "get"), ("", "pods", "", "*"), false)]
#[case::core_is_not_every_group(("", "pods", "", "get"), ("apps", "pods", "", "get"), false)]
fn mrg3_wider_permissions_cover_narrower_ones(
    #[case] wide: (&str, &str, &str, &str),
    #[case] narrow: (&str, &str, &str, &str),
    #[case] covers: bool,
) {
    let of = |(group, resource, name, verb)| atom(group, resource, name, verb);
    assert_eq!(of(wide).covers(&of(narrow)), covers);
}

#[rstest]
#[case::one_rule(
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get", "get"]}]),
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}])
)]
#[case::never_a_cross_product(
    json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}
    ]),
    json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ])
)]
#[case::same_verbs_share_a_rule(
    json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": ["", "apps"], "resources": ["configmaps"], "verbs": ["get"]}
    ]),
    json!([
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["configmaps"], "verbs": ["get"]}
    ])
)]
#[case::verbs_of_one_resource_come_together(
    json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    ]),
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}])
)]
#[case::names_with_the_same_verbs(
    json!([
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["b"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["c"], "verbs": ["get", "list"]}
    ]),
    json!([
        {"apiGroups": [""], "resourceNames": ["a", "b"], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resourceNames": ["c"], "resources": ["pods"], "verbs": ["get", "list"]}
    ])
)]
#[case::every_name_covers_one_but_not_its_other_verbs(
    json!([
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ]),
    json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resourceNames": ["a"], "resources": ["pods"], "verbs": ["delete"]}
    ])
)]
#[case::wildcards_swallow(
    json!([
        {"apiGroups": ["apps"], "resources": ["deployments", "*/scale"], "verbs": ["get", "*"]},
        {"apiGroups": ["*"], "resources": ["deployments", "deployments/scale"], "verbs": ["list"]}
    ]),
    json!([
        {"apiGroups": ["*"], "resources": ["deployments", "deployments/scale"], "verbs": ["list"]},
        {"apiGroups": ["apps"], "resources": ["*/scale", "deployments"], "verbs": ["*"]}
    ])
)]
#[case::nothing(json!([{"apiGroups": [], "resources": ["pods"], "verbs": ["get"]}, {}]), json!([]))]
fn mrg3_rules_are_normalised(#[case] rules: Value, #[case] normal: Value) {
    let rules: Vec<PolicyRule> = serde_json::from_value(rules).unwrap();
    assert_eq!(json!(normalised(&rules)), normal);
}

#[rstest]
#[case::secrets(("", "secrets", "", "get"), true)]
#[case::one_secret(("", "secrets", "mine", "get"), true)]
#[case::every_resource(("", "*", "", "get"), true)]
#[case::every_group(("*", "*", "", "list"), true)]
#[case::every_verb_covers_escalate(("apps", "deployments", "", "*"), true)]
#[case::escalate(("apps", "deployments", "", "escalate"), true)]
#[case::impersonate(("", "users", "", "impersonate"), true)]
#[case::subresource(("", "pods/exec", "", "create"), true)]
#[case::subresource_of_everything(("", "*/exec", "", "create"), true)]
#[case::tokens(("", "serviceaccounts/token", "", "create"), true)]
#[case::tokens_of_everything(("*", "*/token", "", "create"), true)]
#[case::writes_to_rbac(("rbac.authorization.k8s.io", "roles", "", "patch"), true)]
#[case::reads_of_rbac(("rbac.authorization.k8s.io", "roles", "", "get"), false)]
#[case::admission(("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "update"), true)]
#[case::nodes_proxy(("", "nodes/proxy", "", "get"), true)]
#[case::a_pods_ports(("", "pods/portforward", "", "create"), true)]
#[case::a_pods_proxy(("", "pods/proxy", "web", "get"), true)]
#[case::a_services_proxy(("", "services/proxy", "", "create"), true)]
#[case::every_proxy(("", "*/proxy", "", "get"), true)]
#[case::kubewardens_policies(("policies.kubewarden.io", "clusteradmissionpolicies", "", "delete"), true)]
#[case::a_kubewarden_policy(("policies.kubewarden.io", "admissionpolicies", "mine", "patch"), true)]
#[case::reads_of_kubewarden(("policies.kubewarden.io", "clusteradmissionpolicies", "", "list"), false)]
#[case::sidecar_sets(("apps.kruise.io", "sidecarsets", "", "update"), true)]
#[case::every_kind_of_openkruise(("apps.kruise.io", "*", "", "create"), true)]
#[case::reads_of_sidecar_sets(("apps.kruise.io", "sidecarsets", "", "watch"), false)]
#[case::openkruises_workloads(("apps.kruise.io", "clonesets", "", "update"), false)]
#[case::services(("", "services", "", "create"), false)]
#[case::pods(("", "pods", "", "delete"), false)]
#[case::logs(("", "pods/log", "", "get"), false)]
#[case::all_logs(("", "*/log", "", "get"), false)]
#[case::secrets_of_another_group(("example.com", "secrets", "", "get"), false)]
fn esc4_what_reaches_the_list_is_denied(#[case] of: (&str, &str, &str, &str), #[case] denied: bool) {
    let (group, resource, name, verb) = of;
    let list = denied_by_default();
    assert_eq!(Denied::new(&list).denial(atom(group, resource, name, verb).as_permission()).is_some(), denied);
}

#[test]
fn esc1_subresources_are_asked_for_apart() {
    assert_eq!(atom("", "pods/log", "", "get").resource_and_subresource(), ("pods", "log"));
    assert_eq!(atom("", "a/b/c", "", "get").resource_and_subresource(), ("a", "b/c"));
    assert_eq!(atom("", "pods", "", "get").resource_and_subresource(), ("pods", ""));
}

/// Returns a rule with `texts` texts of `bytes` bytes in each list.
fn wide(texts: [usize; 4], bytes: [usize; 4]) -> PolicyRule {
    let list = |count: usize, bytes: usize| (0..count).map(|index| format!("{index:0>bytes$}")).collect::<Vec<_>>();
    let [groups, resources, verbs, names] = [0, 1, 2, 3].map(|field| list(texts[field], bytes[field]));
    PolicyRule {
        api_groups: Some(groups),
        resources: Some(resources),
        verbs,
        resource_names: Some(names),
        non_resource_urls: None,
    }
}

#[rstest]
#[case::many_combinations(wide([100_000; 4], [6; 4]), Err(Oversize::Combinations))]
#[case::as_many_as_may_be(wide([8, 8, 8, 8], [1; 4]), Ok(()))]
#[case::one_too_many(wide([1, 1, COMBINATIONS_MAX + 1, 1], [4; 4]), Err(Oversize::Combinations))]
#[case::that_stand_for_nothing(wide([0, 0, COMBINATIONS_MAX + 1, 0], [4; 4]), Err(Oversize::Combinations))]
#[case::as_long_as_kubernetes_has_them(wide([1; 4], [253, 253, 63, 253]), Ok(()))]
#[case::a_long_verb(wide([2, 1, 2, 1], [1, 1, 64, 1]), Err(too_long("verbs", 63)))]
#[case::a_long_group(wide([1; 4], [254, 1, 1, 1]), Err(too_long("apiGroups", 253)))]
#[case::a_long_resource(wide([1; 4], [1, 254, 1, 1]), Err(too_long("resources", 253)))]
#[case::a_long_name(wide([1; 4], [1, 1, 1, 254]), Err(too_long("resourceNames", 253)))]
fn e18_rules_have_a_size(#[case] rule: PolicyRule, #[case] expected: Result<(), Oversize>) {
    assert_eq!(check_size(&[rule]), expected);
}

fn too_long(list: &'static str, limit: usize) -> Oversize {
    Oversize::Length { rule: 0, list, text: 0, limit }
}

#[test]
fn e18_rules_count_together() {
    let half = || wide([1, 1, COMBINATIONS_MAX / 2 + 1, 1], [4; 4]);
    assert_eq!(check_size(&[half()]), Ok(()));
    assert_eq!(check_size(&[half(), half()]), Err(Oversize::Combinations));
    let empty = vec![PolicyRule::default(); COMBINATIONS_MAX + 1];
    assert_eq!(check_size(&empty), Err(Oversize::Combinations));
}

/// Rules from small alphabets, so that they often overlap.
fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    let some = |texts: &'static [&'static str]| prop::collection::vec(prop::sample::select(texts), 0..3);
    let rule = (
        some(&["", "apps", "*"]),
        some(&["pods", "pods/log", "*/log", "*", "secrets"]),
        some(&["a", "b"]),
        some(&["get", "list", "*"]),
    )
        .prop_map(|(groups, resources, names, verbs)| {
            let rule = json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs});
            serde_json::from_value(rule).unwrap()
        });
    prop::collection::vec(rule, 0..5)
}

/// Whether `atoms` grant `wanted`.
fn grants(atoms: &[Atom], wanted: &Atom) -> bool {
    atoms.iter().any(|atom| atom.covers(wanted))
}

proptest! {
    #[test]
    fn mrg3_the_union_grants_what_its_parts_grant_and_nothing_else(rules in rules()) {
        let before = atoms(&rules);
        let after = atoms(&normalised(&rules));
        let is_wide = |atom: &&Atom| !before.iter().any(|other| other != *atom && other.covers(atom));
        let wide: Vec<Atom> = before.iter().filter(is_wide).cloned().collect();
        prop_assert_eq!(&after, &wide);
        let reduced: Vec<Atom> = reduced(&permissions(&rules)).into_iter().map(Atom::from).collect();
        prop_assert_eq!(&reduced, &wide);
        prop_assert!(before.iter().all(|atom| grants(&after, atom)));
        prop_assert!(after.iter().all(|atom| grants(&before, atom)));
    }

    #[test]
    fn mrg3_normalising_is_idempotent_and_does_not_depend_on_order(rules in rules()) {
        let normal = normalised(&rules);
        let reversed: Vec<PolicyRule> = rules.iter().rev().cloned().collect();
        prop_assert_eq!(&normalised(&normal), &normal);
        prop_assert_eq!(&normalised(&reversed), &normal);
    }

    #[test]
    fn esc4_a_permission_that_covers_a_denied_one_is_denied(rules in rules()) {
        let list = denied_by_default();
        for atom in atoms(&rules) {
            if list.iter().any(|entry| atom.covers(entry)) {
                prop_assert!(Denied::new(&list).denial(atom.as_permission()).is_some());
            }
        }
    }
}
