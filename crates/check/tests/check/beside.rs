//! Settings in a folder, with SidecarSets next to them.

use rstest::rstest;

use super::support::{agent, check, folder, lines, set};

#[rstest]
#[case::gates("featureGates: {SidecarSetServiceAccountInjection: true}\n", 0)]
#[case::a_misspelt_gate("featureGates: {SidecarSetServiceAcountInjection: true}\n", 1)]
#[case::a_misspelt_key("featureGate: {SidecarSetServiceAccountInjection: true}\n", 1)]
#[case::a_namespace("systemNamespace: Bad!\n", 1)]
#[case::rules("serviceAccounts: {onMissing: never}\n", 1)]
#[case::the_twin("role: assert\n", 1)]
#[case::json("{\"systemNamespace\": 5}", 1)]
#[case::values_of_a_chart("image: a\nserviceAccount: {create: true}\n", 0)]
#[case::gates_of_a_chart("featureGates:\n- {name: ClusterStatusConditions, enabled: true}\n", 0)]
#[case::other_gates_of_a_chart("featureGates: {ClusterStatusConditions: true}\n", 0)]
#[case::accounts_of_a_chart("serviceAccounts: {alertmanager: {create: true}}\n", 0)]
fn settings_in_a_folder_are_found(#[case] settings: &str, #[case] code: u8) {
    let here = folder(&[("settings.yaml", settings), ("a.yaml", &set("a", &agent("a")))]);
    let answer = check(here.path(), &["."], "");
    assert_eq!(answer.code, code, "{}{}", answer.out, answer.err);
    let is_chart = ["image", "ClusterStatus", "alertmanager"].iter().any(|word| settings.contains(word));
    assert_eq!(answer.err.contains("1 settings file, 1 SidecarSet"), !is_chart, "{}", answer.err);
}

#[test]
fn misspelt_settings_in_a_folder_get_a_suggestion() {
    let here = folder(&[
        ("settings.yaml", "featuregates: {SidecarSetServiceAccountInjection: true}\nsystemNamspace: a\n"),
        ("a.yaml", &set("a", &agent("a"))),
    ]);
    let found = lines(&check(here.path(), &[".", "-o", "json"], "").out);
    assert_eq!(
        found,
        [
            "error 1:1 featuregates: Unknown field \"featuregates\" -> did you mean \"featureGates\"?",
            "error 2:1 systemNamspace: Unknown field \"systemNamspace\" -> did you mean \"systemNamespace\"?",
        ]
    );
}

#[test]
fn revisions_beside_settings_count_as_inject_counts_them() {
    let revision = "apiVersion: apps/v1\nkind: ControllerRevision\nrevision: 1\ndata: {spec: {containers: []}}\n\
                    metadata:\n  name: a-1\n  namespace: kruise-system\n  labels: {kruise.io/sidecarset-name: a, apps.kruise.io/sidecarset-custom-version: v1}\n";
    let asking = set("a", &format!("  injectionStrategy: {{revision: {{customVersion: v1}}}}\n{}", agent("a")));
    let here = folder(&[("settings.yaml", "sidecarSets: []\n"), ("a.yaml", &asking)]);
    assert!(check(here.path(), &["."], "").out.contains("v1"));
    std::fs::write(here.path().join("revision.yaml"), revision).unwrap();
    let answer = check(here.path(), &["."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
}

#[test]
fn policies_do_not_inject_what_stands_beside_them() {
    let policy = "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {name: p}\nspec:\n  \
                  module: registry://registry.example.com/pillion:v1\n  mutating: true\n  rules:\n  - {apiGroups: [''], \
                  apiVersions: [v1], resources: [pods], operations: [CREATE]}\n  settings: {sidecarSets: []}\n";
    let here = folder(&[("policy.yaml", policy), ("a.yaml", &set("a", &agent("a")))]);
    let answer = check(here.path(), &["."], "");
    assert!(answer.out.contains("it will not be injected"), "{}", answer.out);
}

/// With several settings files, each applies to the SidecarSets in its own folder.
#[test]
fn settings_are_for_their_own_folder_where_there_are_several() {
    let on = "featureGates: {SidecarSetServiceAccountInjection: true}\nserviceAccounts: {protectedNamespaces: []}\n";
    let naming = |name: &str| set(name, &format!("  serviceAccountName: logs\n{}", agent(name)));
    let here = folder(&[
        ("on/settings.yaml", on),
        ("on/a.yaml", &naming("a")),
        ("off/settings.yaml", "sidecarSets: []\n"),
        ("off/b.yaml", &naming("b")),
        ("alone/c.yaml", &naming("c")),
    ]);
    let answer = check(here.path(), &["-R", ".", "-o", "github"], "");
    let refused: Vec<&str> = answer.out.lines().filter(|line| line.contains("feature gate")).collect();
    assert_eq!(refused.len(), 1, "{}", answer.out);
    assert!(refused[0].starts_with("::error file=./off/b.yaml,"), "{}", refused[0]);
}
