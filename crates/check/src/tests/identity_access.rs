//! Who can get at the identities of sidecars by rights of RBAC (ESC-8).

use pillion_samples::access::{bound, jane, namespace, rule, set};
use rstest::rstest;

use super::*;

fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "name": name})
}

/// Returns what is said of these objects of a cluster with the SidecarSet: the messages about subjects, and the note.
fn checked(mode: &str, objects: &[Value]) -> (Vec<String>, Option<String>) {
    let fixed = [
        set(mode),
        namespace("shop", "a"),
        namespace("web", "a"),
        namespace("other", "b"),
        namespace("kube-system", "a"),
    ];
    let mut input = Input::default();
    for (index, object) in fixed.iter().chain(objects).enumerate() {
        input.read(&Arc::new(Source::new(format!("cluster/{index}"), object.to_string())), false);
    }
    let access = check(&input.documents, &[], None).access;
    assert!(access.findings.iter().all(|finding| finding.severity == Severity::Warning));
    assert!(access.findings.iter().all(|finding| finding.rule == Some(OptionalRule::IdentityAccess)));
    (access.findings.into_iter().map(|finding| finding.message).collect(), access.note)
}

/// Each case has the namespace of a role (none: every namespace), its rule, and what the finding says.
#[rstest]
#[case::impersonation(Some("shop"), rule(&["serviceaccounts"], &["impersonate"], &[]), "impersonate serviceaccounts in namespace \"shop\"")]
#[case::impersonation_of_this_account(None, rule(&["serviceaccounts"], &["impersonate"], &["agent"]), "impersonate serviceaccounts in every namespace")]
#[case::impersonation_of_another(None, rule(&["serviceaccounts"], &["impersonate"], &["other"]), "")]
#[case::tokens(Some("web"), rule(&["serviceaccounts/token"], &["create"], &["agent"]), "create serviceaccounts/token in namespace \"web\"")]
#[case::tokens_of_another(Some("web"), rule(&["serviceaccounts/token"], &["create"], &["other"]), "")]
#[case::commands(Some("shop"), rule(&["pods/exec"], &["get"], &[]), "create pods/exec in namespace \"shop\"")]
#[case::streams(Some("shop"), rule(&["pods/attach", "pods/portforward"], &["create"], &[]), "create pods/attach, create pods/portforward in namespace \"shop\"")]
#[case::every_subresource(Some("shop"), rule(&["*/ephemeralcontainers"], &["*"], &[]), "patch pods/ephemeralcontainers in namespace \"shop\"")]
#[case::images(Some("shop"), rule(&["pods"], &["update"], &[]), "patch pods in namespace \"shop\"")]
#[case::kubelets(None, rule(&["nodes/proxy"], &["get"], &[]), "get nodes/proxy in every namespace")]
#[case::kubelets_of_no_namespace(Some("shop"), rule(&["nodes/proxy"], &["get"], &[]), "")]
#[case::reading(None, rule(&["pods", "pods/log", "serviceaccounts"], &["get", "list", "watch"], &[]), "")]
#[case::a_namespace_without_identities(Some("other"), rule(&["pods/exec"], &["create"], &[]), "")]
#[case::a_protected_namespace(Some("kube-system"), rule(&["pods/exec"], &["create"], &[]), "")]
fn esc8_rights_that_lead_to_an_identity(#[case] within: Option<&str>, #[case] rule: Value, #[case] may: &str) {
    let (lines, _) = checked("SidecarsOnly", &bound(within, &[rule], &jane()));
    let expected = format!("User \"jane\" can get at identities of sidecars: may {may}");
    assert_eq!(lines, if may.is_empty() { vec![] } else { vec![expected] });
}

/// Secrets hold tokens of isolated sidecars only.
#[rstest]
#[case::all("Isolate", &[], true)]
#[case::that_of_the_sidecar("Isolate", &["sidecarset-token-d4f0bc5a29de06b5"], true)]
#[case::another("Isolate", &["other"], false)]
#[case::without_isolation("SidecarsOnly", &[], false)]
fn esc8_secrets_count_where_they_hold_tokens(#[case] mode: &str, #[case] names: &[&str], #[case] counts: bool) {
    let (lines, _) = checked(mode, &bound(Some("shop"), &[rule(&["secrets"], &["get"], names)], &jane()));
    let expected = "User \"jane\" can get at identities of sidecars: may get secrets in namespace \"shop\"".to_owned();
    assert_eq!(lines, if counts { vec![expected] } else { vec![] });
}

/// One line for a subject, whatever gives it the rights, and none for what holds them by its nature.
#[rstest]
#[case::a_group(group("devs"), &["Group \"devs\""])]
#[case::everybody(group("system:authenticated"), &["Group \"system:authenticated\""])]
#[case::accounts_of_a_namespace(group("system:serviceaccounts:web"), &["Group \"system:serviceaccounts:web\""])]
#[case::an_account(account("ci", "deployer"), &["ServiceAccount \"ci/deployer\""])]
#[case::an_account_by_its_user_name(json!({"kind": "User", "name": "system:serviceaccount:ci:deployer"}), &["ServiceAccount \"ci/deployer\""])]
#[case::administrators(group("system:masters"), &[])]
#[case::nodes(group("system:nodes"), &[])]
#[case::the_control_plane(json!({"kind": "User", "name": "system:kube-controller-manager"}), &[])]
#[case::a_controller(account("kube-system", "replicaset-controller"), &[])]
#[case::pillion(account("pillion-system", "pillion-controller"), &[])]
#[case::accounts_of_the_system(group("system:serviceaccounts:kube-system"), &[])]
fn esc8_a_line_for_each_subject(#[case] subject: Value, #[case] whose: &[&str]) {
    let mut objects = bound(None, &[rule(&["pods/exec"], &["create"], &[])], &subject).to_vec();
    objects.extend(bound(Some("shop"), &[rule(&["pods/exec", "pods"], &["create", "patch"], &[])], &subject));
    objects.extend(bound(Some("web"), &[rule(&["pods", "pods/attach"], &["create", "patch"], &[])], &subject));
    let (lines, note) = checked("SidecarsOnly", &objects);
    let rights = "can get at identities of sidecars: may create pods/exec in every namespace; create pods/attach, patch pods in \
                  namespace \"web\"; patch pods in namespace \"shop\"";
    let expected: Vec<String> = whose.iter().map(|who| format!("{who} {rights}")).collect();
    assert_eq!(lines, expected);
    let of_system = "identities of sidecars can also be had by 1 subject of the system and its namespaces";
    assert_eq!(note.as_deref(), Some(of_system).filter(|_| whose.is_empty()));
}

/// Bindings that the API server makes for its own components are not counted.
#[test]
fn esc8_bindings_of_the_api_server_are_left_out_silently() {
    let mut objects = bound(None, &[rule(&["pods"], &["patch"], &[])], &account("kube-system", "job-controller"));
    objects[1]["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    assert_eq!(checked("Isolate", &objects), (Vec::new(), None));
}

/// A thousand namespaces with a binding of one group are one line.
#[test]
fn esc8_many_bindings_of_a_subject_are_one_line() {
    let mut objects = Vec::new();
    for index in 0..200 {
        let name = format!("team-{index:03}");
        objects.push(namespace(&name, "a"));
        objects.extend(bound(Some(&name), &[rule(&["pods/exec"], &["create"], &[])], &group("devs")));
    }
    let (lines, _) = checked("SidecarsOnly", &objects);
    assert_eq!(
        lines,
        [
            "Group \"devs\" can get at identities of sidecars: may create pods/exec in namespaces \"team-000\", \"team-001\", \
          \"team-002\", \"team-003\", \"team-004\" and 195 more"
        ]
    );
}
