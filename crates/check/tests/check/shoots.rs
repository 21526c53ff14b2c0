//! Shoots, checked before they are applied.

use rstest::rstest;

use super::support::{check, folder, found, lines};

fn shoot(config: &str) -> String {
    format!(
        "apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {{name: s, namespace: garden-a}}\nspec:\n  \
         kubernetes:\n    kubeAPIServer:\n      serviceAccountConfig:\n{config}"
    )
}

const SOUND: &str = "        issuer: https://a.example.com\n        extendTokenExpiration: false\n";

#[test]
fn d4_d12_a_shoot_alone_is_judged() {
    let text = shoot("        issuer: foo\n        maxTokenExpiration: 45d\n");
    let found = found(&text);
    let errors: Vec<&str> = found.iter().filter_map(|line| line.strip_prefix("error ")).collect();
    let config = "spec.kubernetes.kubeAPIServer.serviceAccountConfig";
    assert_eq!(errors.len(), 3, "{found:#?}");
    assert!(errors[0].starts_with(&format!("8:17 {config}.issuer: Invalid value: \"foo\": must be a valid URL")));
    assert!(errors[2].starts_with(&format!("9:29 {config}.maxTokenExpiration: Invalid value: \"45d\"")), "{errors:#?}");
}

#[test]
fn a_sound_shoot_is_counted() {
    let here = folder(&[("shoot.yaml", &shoot(SOUND))]);
    let answer = check(here.path(), &["shoot.yaml"], "");
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (0, "", "0 errors, 0 warnings in 1 Shoot\n"));
}

#[test]
fn w5_consequences_are_warnings_at_their_place() {
    let found = found(&shoot("        maxTokenExpiration: 720h\n"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("warning 7:7 spec.kubernetes.kubeAPIServer.serviceAccountConfig: "), "{found:#?}");
}

/// The issuer changes, compared with the previous Shoot.
#[rstest]
#[case::w1_is_warned_of("", 0, "warning")]
#[case::w1_is_refused("shoots: {enabled: true, migration: Deny}\n", 1, "error")]
#[case::w1_is_refused_where_the_rules_are_off("shoots: {migration: Deny}\n", 1, "error")]
fn a_shoot_is_judged_against_the_one_before(#[case] settings: &str, #[case] code: u8, #[case] severity: &str) {
    let here = folder(&[
        ("old.yaml", &shoot(SOUND)),
        ("new.yaml", &shoot(&SOUND.replace("//a.", "//b."))),
        ("settings.yaml", settings),
    ]);
    let mut args = vec!["new.yaml", "--old", "old.yaml", "-o", "json"];
    if !settings.is_empty() {
        args.extend(["--settings", "settings.yaml"]);
    }
    let answer = check(here.path(), &args, "");
    assert_eq!(answer.code, code, "{}{}", answer.out, answer.err);
    let w1 = lines(&answer.out).into_iter().find(|line| line.contains("https://a.example.com")).unwrap();
    assert!(w1.starts_with(severity), "{w1}");
    let is_off = settings.starts_with("shoots: {migration");
    assert_eq!(answer.err.contains("note: Shoots are judged as if shoots.enabled were true"), is_off, "{}", answer.err);
    // Without the previous Shoot, no issuer is removed.
    let alone: Vec<&str> = args.iter().copied().filter(|arg| !["--old", "old.yaml"].contains(arg)).collect();
    assert_eq!(check(here.path(), &alone, "").out, "[]\n");
}

#[test]
fn errors_in_the_shoot_before_stand_in_its_file() {
    let here = folder(&[("old.yaml", &shoot("        issuer: 5\n")), ("new.yaml", &shoot(SOUND))]);
    let answer = check(here.path(), &["new.yaml", "--old", "old.yaml"], "");
    assert_eq!(answer.code, 1);
    assert!(answer.out.contains("--> old.yaml:8:17"), "{}", answer.out);
}

#[rstest]
#[case::another("name: s,", "name: t,", 1)]
#[case::another_namespace("garden-a", "garden-b", 1)]
#[case::no_namespace(", namespace: garden-a", "", 0)]
fn only_the_same_object_is_the_one_before(#[case] from: &str, #[case] to: &str, #[case] warnings: usize) {
    let here = folder(&[("old.yaml", &shoot(SOUND).replace(from, to)), ("new.yaml", &shoot(SOUND))]);
    let answer = check(here.path(), &["new.yaml", "--old", "old.yaml", "-o", "json"], "");
    let found = lines(&answer.out);
    assert_eq!(found.len(), warnings, "{found:#?}");
    assert!(found.iter().all(|line| line.contains("it is judged as one that is created")), "{found:#?}");
}

#[test]
fn a_shoot_that_is_being_deleted_is_left_alone() {
    let old = shoot(SOUND).replace("name: s,", "name: s, deletionTimestamp: '2026-11-21T12:00:00Z',");
    let here = folder(&[("old.yaml", &old), ("new.yaml", &shoot("        issuer: foo\n"))]);
    assert_eq!(check(here.path(), &["new.yaml"], "").code, 1);
    assert_eq!(check(here.path(), &["new.yaml", "--old", "old.yaml"], "").code, 0);
}

#[test]
fn other_objects_of_gardener_are_judged_at_their_paths() {
    let garden = "apiVersion: operator.gardener.cloud/v1alpha1\nkind: Garden\nmetadata: {name: g}\nspec:\n  \
                  virtualCluster: {kubernetes: {kubeAPIServer: {serviceAccountConfig: {issuer: foo}}}}\n";
    let here = folder(&[("garden.yaml", garden)]);
    let answer = check(here.path(), &["garden.yaml"], "");
    assert_eq!(answer.code, 1);
    assert!(answer.err.ends_with("0 warnings in 1 Garden\n"), "{}", answer.err);
}

#[test]
fn an_object_before_that_cannot_be_read_is_an_error() {
    let here = folder(&[("new.yaml", &shoot(SOUND))]);
    let answer = check(here.path(), &["new.yaml", "--old", "gone.yaml"], "");
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("gone.yaml: No such file"), "{}", answer.err);
}
