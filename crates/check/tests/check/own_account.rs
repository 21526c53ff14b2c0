//! SidecarSets whose ServiceAccount gives way to that of a Pod (IDP-2).

use rstest::rstest;

use super::support::{agent, check, folder, lines, set};

const GATE: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n";
const NOTE: &str = "note: a SidecarSet without serviceAccountMode has the mode SidecarsOnly: in Pods that have a \
                    ServiceAccount of their own, its containers go without theirs; the mode Isolate gives it to them in \
                    every Pod\n";

/// Returns a SidecarSet that names the account `logs`, with further fields.
fn logs(fields: &str) -> String {
    let shop = "  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}\n";
    set("a", &format!("{shop}  serviceAccountName: logs\n{fields}{}", agent("a")))
}

/// Returns a Pod of the namespace `shop` whose label the SidecarSet selects, with fields of its `spec`.
fn pod(fields: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop, labels: {{logs: collect}}}}\nspec: \
         {{{fields}containers: [{{name: web, image: web}}]}}\n"
    )
}

/// Returns a Deployment of the namespace `shop` with Pods like those of [`pod`].
fn deployment(name: &str, account: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  template:\n    \
         metadata: {{labels: {{logs: collect}}}}\n    spec: {{serviceAccountName: {account}, containers: [{{name: web, \
         image: web}}]}}\n"
    )
}

/// Returns the findings for a SidecarSet beside settings and other documents.
fn beside(set: &str, settings: &str, others: &str) -> Vec<String> {
    let here = folder(&[("a.yaml", set), ("settings.yaml", settings), ("apps.yaml", others)]);
    lines(&check(here.path(), &[".", "-o", "json"], "").out)
}

#[test]
fn idp2_a_pod_with_an_account_of_its_own_is_named() {
    let expected = "warning 9:23 spec.serviceAccountName: Pod shop/web has the ServiceAccount \"shop\" of its own: this \
                    SidecarSet is injected there without \"logs\" -> set serviceAccountMode to Isolate, which gives the \
                    sidecars theirs beside it";
    assert_eq!(beside(&logs(""), GATE, &pod("serviceAccountName: shop, ")), [expected]);
}

#[test]
fn idp2_a_mode_that_is_written_is_the_place_and_several_workloads_are_counted() {
    let apps = [deployment("one", "web"), deployment("two", "store"), deployment("three", "web")].join("---\n");
    let found = beside(&logs("  serviceAccountMode: SidecarsOnly\n"), GATE, &apps);
    let expected = "warning 10:23 spec.serviceAccountMode: Deployment shop/one has the ServiceAccount \"web\" of its own, \
                    and so have 2 other objects: this SidecarSet is injected there without \"logs\"";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:#?}");
}

#[rstest]
#[case::the_former_name_of_the_field("serviceAccount: shop, ", "", GATE, 1)]
#[case::without_an_account("", "", GATE, 0)]
#[case::under_default("serviceAccountName: default, ", "", GATE, 0)]
#[case::under_the_account_of_the_sidecars("serviceAccountName: logs, ", "", GATE, 0)]
#[case::under_a_merged_account("serviceAccountName: sidecarset-merged-0123, ", "", GATE, 0)]
#[case::mode_pod(
    "serviceAccountName: shop, ",
    "  serviceAccountMode: Pod\n",
    "featureGates: {SidecarSetServiceAccountInjection: true}\nserviceAccounts: {allowPodMode: true}\n",
    1
)]
#[case::mode_isolate("serviceAccountName: shop, ", "  serviceAccountMode: Isolate\n", GATE, 0)]
#[case::settings_isolate(
    "serviceAccountName: shop, ",
    "",
    "featureGates: {SidecarSetServiceAccountInjection: true}\nserviceAccounts: {onAppServiceAccount: Isolate}\n",
    0
)]
fn idp2_a_pod_is_told_only_if_it_keeps_its_account(
    #[case] spec: &str,
    #[case] fields: &str,
    #[case] settings: &str,
    #[case] count: usize,
) {
    let found = beside(&logs(fields), settings, &pod(spec));
    let told = found.iter().filter(|line| line.contains("of its own")).count();
    assert_eq!(told, count, "{found:#?}");
}

#[rstest]
#[case::of_another_namespace("namespace: shop", "namespace: store")]
#[case::with_other_labels("logs: collect", "logs: keep")]
fn idp2_a_pod_that_is_not_selected_is_not_told(#[case] from: &str, #[case] to: &str) {
    let other = pod("serviceAccountName: shop, ").replace(from, to);
    assert_eq!(beside(&logs(""), GATE, &other), [""; 0]);
}

#[test]
fn idp2_a_canary_takes_the_place_of_its_base() {
    let annotations = "  annotations: {apps.kruise.io/sidecarset-canary: 'true', apps.kruise.io/sidecarset-base: a}\n";
    let canary =
        logs("  serviceAccountMode: Isolate\n").replace("  name: a\nspec", &format!("  name: b\n{annotations}spec"));
    let others = [pod("serviceAccountName: shop, "), canary].join("---\n");
    let found = beside(&logs(""), GATE, &others);
    assert!(!found.iter().any(|line| line.contains("of its own")), "{found:#?}");
}

#[rstest]
#[case::no_mode("", "", NOTE)]
#[case::a_mode("  serviceAccountMode: SidecarsOnly\n", "", "")]
#[case::a_pod_that_shows_it("", &pod(""), "")]
fn a_mode_that_is_left_out_is_explained_where_no_pod_shows_its_effect(
    #[case] fields: &str,
    #[case] others: &str,
    #[case] note: &str,
) {
    let here = folder(&[("a.yaml", &logs(fields)), ("settings.yaml", GATE), ("apps.yaml", others)]);
    let answer = check(here.path(), &["."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
    let (notes, _) = answer.err.split_once("0 errors, ").unwrap();
    assert_eq!(notes.lines().filter(|line| line.contains("serviceAccountMode")).count(), note.lines().count());
    assert!(notes.contains(note), "{notes}");
}
