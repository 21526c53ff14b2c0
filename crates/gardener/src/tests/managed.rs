use super::*;

const AT: &str = "403 metadata.annotations[authentication.gardener.cloud/issuer]: Forbidden: ";

fn forbidden(text: &str) -> Vec<String> {
    vec![format!("{AT}{text}")]
}

fn plain() -> Value {
    shoot(json!({}))
}

fn on() -> Value {
    managed(json!({}))
}

fn judged(new: &Value, old: Option<&Value>, settings: &ShootSettings) -> Vec<String> {
    errors(&judge(new, old, true, settings))
}

#[test]
fn d16_it_cannot_be_enabled_where_it_is_not_supported() {
    let error =
        forbidden("cannot enable managed service account issuer as it is not supported in this Gardener installation");
    assert_eq!(judged(&on(), None, &unsupported()), error);
    assert_eq!(judged(&on(), Some(&plain()), &unsupported()), error);
    assert_eq!(judged(&on(), Some(&on()), &unsupported()), error);
    // Only the first broken rule is reported.
    assert_eq!(judged(&managed(json!({"issuer": A})), None, &unsupported()), error);
}

#[test]
fn d17_it_is_missing_where_it_was_on() {
    let error =
        forbidden("old shoot object has managed service account issuer enabled, but Gardener configuration is missing");
    assert_eq!(judged(&plain(), Some(&on()), &unsupported()), error);
}

#[test]
fn d18_it_cannot_be_disabled() {
    let error = forbidden("once enabled managed service account issuer cannot be disabled");
    let default = ShootSettings::default();
    assert_eq!(judged(&plain(), Some(&on()), &default), error);
    let other = annotated(plain(), "authentication.gardener.cloud/issuer", "Managed");
    assert_eq!(judged(&other, Some(&on()), &default), error);
}

#[test]
fn d19_it_excludes_an_issuer_even_an_empty_one() {
    let error = forbidden(
        "managed service account issuer cannot be enabled when .kubernetes.kubeAPIServer.serviceAccountConfig.issuer is set",
    );
    assert_eq!(judged(&managed(json!({"issuer": A})), None, &ShootSettings::default()), error);
    let empty = judged(&managed(json!({"issuer": ""})), None, &ShootSettings::default());
    assert_eq!(empty.last(), error.first());
    assert_eq!(judged(&managed(json!({"issuer": null})), None, &ShootSettings::default()), nothing());
}

#[test]
fn d16_to_d19_are_asked_only_where_it_is_or_was_managed() {
    for settings in [ShootSettings::default(), unsupported()] {
        assert_eq!(judged(&plain(), None, &settings), nothing());
        assert_eq!(judged(&plain(), Some(&plain()), &settings), nothing());
        assert_eq!(judged(&shoot(json!({"issuer": A})), None, &settings), nothing());
    }
    assert_eq!(judged(&on(), None, &ShootSettings::default()), nothing());
    assert_eq!(judged(&on(), Some(&plain()), &ShootSettings::default()), nothing());
    assert_eq!(judged(&on(), Some(&on()), &ShootSettings::default()), nothing());
}

#[rstest]
#[case("Managed")]
#[case("true")]
#[case(" managed")]
fn other_values_are_ignored_and_warned_of(#[case] value: &str) {
    let new = annotated(plain(), "authentication.gardener.cloud/issuer", value);
    let judgement = judge(&new, None, true, &unsupported());
    assert_eq!(errors(&judgement), nothing());
    let warning =
        ["annotation authentication.gardener.cloud/issuer: \"", value, "\" is ignored; only \"managed\" counts"];
    assert_eq!(judgement.warnings, [warning.concat()]);
}

const IRREVERSIBLE: &str = "the managed issuer cannot be disabled once it is enabled";
const NO_RECONCILE: &str = "the annotation starts no reconciliation: the managed issuer takes effect in the next one; annotate gardener.cloud/operation=reconcile, or wait for the maintenance window";

#[test]
fn w6_enabling_it_is_irreversible() {
    assert_eq!(created(&on()).warnings, [IRREVERSIBLE]);
    assert!(updated(&on(), &plain()).warnings.contains(&IRREVERSIBLE.to_owned()));
    assert_eq!(updated(&on(), &on()).warnings, nothing());
}

#[test]
fn d21_the_annotation_starts_no_reconciliation() {
    assert!(updated(&on(), &plain()).warnings.contains(&NO_RECONCILE.to_owned()));
    let reconciled = annotated(on(), "gardener.cloud/operation", "reconcile");
    assert!(!updated(&reconciled, &plain()).warnings.contains(&NO_RECONCILE.to_owned()));
    // A new Shoot is reconciled anyway, and a Shoot that was managed before is not enabled now.
    assert!(!created(&on()).warnings.contains(&NO_RECONCILE.to_owned()));
    assert!(!updated(&on(), &on()).warnings.contains(&NO_RECONCILE.to_owned()));
}
