//! `check` and `inject` count a SidecarSet beside settings alike.

use rstest::rstest;

use super::support::{agent, check, folder, set};

/// Returns the exit code and `stderr` of `pillion inject` for the folder `sets` with these settings.
fn inject(here: &std::path::Path, settings: &str) -> (i32, String) {
    let output = assert_cmd::Command::cargo_bin("pillion")
        .unwrap()
        .current_dir(here)
        .args(["inject", "sets", "--settings", settings])
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// `check` judges a SidecarSet next to settings like `inject --settings`.
#[rstest]
#[case::not_among_them("sidecarSets: []\n", &agent("a"), 0)]
#[case::an_identity(
    "featureGates: {SidecarSetServiceAccountInjection: true}\nserviceAccounts: {protectedNamespaces: []}\n",
    &format!("  serviceAccountName: logs\n{}", agent("a")), 0
)]
#[case::an_account_that_is_not_allowed(
    "featureGates: {SidecarSetServiceAccountInjection: true}\nserviceAccounts: {protectedNamespaces: [], allowed: [{namespaces: [a], names: [b]}]}\n",
    &format!("  serviceAccountName: logs\n{}", agent("a")), 1
)]
#[case::invalid("sidecarSets: []\n", "  containers: [{name: a, image: ''}]\n", 1)]
fn a_sidecar_set_beside_settings_counts_as_inject_counts_it(
    #[case] settings: &str,
    #[case] spec: &str,
    #[case] code: i32,
) {
    let here = folder(&[("settings.yaml", settings), ("sets/a.yaml", &set("a", spec))]);
    let answer = check(here.path(), &["settings.yaml", "sets"], "");
    assert_eq!(answer.code, code, "{}{}", answer.out, answer.err);
    assert!(!answer.out.contains("will not be injected"), "{}", answer.out);
    let (injected, said) = inject(here.path(), "settings.yaml");
    // Invalid settings cannot be used for injection.
    assert_eq!(injected == 2, code == 1, "{said}");
}
