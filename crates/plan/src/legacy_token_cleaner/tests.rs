use rstest::rstest;

use super::*;

const YEAR: i64 = 365 * DAY;

fn now() -> Timestamp {
    Timestamp::parse("2026-06-15T12:00:00Z").expect("a time")
}

/// Returns a Secret with these labels that was created long ago.
fn secret(labels: &Value) -> Value {
    json!({
        "metadata": {
            "name": "s", "namespace": "shop", "uid": "s1", "resourceVersion": "7",
            "creationTimestamp": "2020-01-01T00:00:00Z", "labels": labels,
            "annotations": {"kubernetes.io/service-account.name": "bot", "kubernetes.io/service-account.uid": "1"}
        },
        "type": "kubernetes.io/service-account-token"
    })
}

fn account(uid: &str, secrets: &[&str]) -> Account {
    let secrets = secrets.iter().map(|&name| name.to_owned()).collect();
    Account { name: "bot".to_owned(), uid: uid.to_owned(), secrets, is_terminating: false }
}

fn judged(secret: &Value, account: Option<&Account>, mounted: &[&str]) -> Verdict {
    let mounted = mounted.iter().map(|&name| name.to_owned()).collect();
    verdict(&Secret::from_object(secret), account, &mounted, YEAR, now())
}

/// Returns the decision on a Secret that a ServiceAccount lists and no Pod mounts.
fn outcome(secret: &Value) -> &'static str {
    match judged(secret, Some(&account("1", &["s"])), &[]) {
        Verdict::Kept(_) => "kept",
        Verdict::Invalidate(_) => "invalid",
        Verdict::Delete(_) => "deleted",
    }
}

#[rstest]
#[case::cln2_never_used(json!({}), "invalid")]
#[case::cln2_used_longer_ago(json!({LAST_USED: "2025-06-14"}), "invalid")]
#[case::cln2_used_on_the_day(json!({LAST_USED: "2025-06-15"}), "kept")]
#[case::cln2_used_within_the_period(json!({LAST_USED: "2026-06-01"}), "kept")]
#[case::cln2_malformed_use(json!({LAST_USED: "yesterday"}), "kept")]
#[case::cln2_malformed_use_without_zeros(json!({LAST_USED: "2020-6-1"}), "kept")]
#[case::cln2_invalid_for_less(json!({INVALID_SINCE: "2026-06-01"}), "kept")]
#[case::cln2_invalid_since_the_day(json!({INVALID_SINCE: "2025-06-15"}), "kept")]
#[case::cln2_invalid_for_longer(json!({INVALID_SINCE: "2025-06-14"}), "deleted")]
#[case::cln2_malformed_invalid(json!({INVALID_SINCE: "long ago"}), "invalid")]
#[case::cln2_used_although_invalid(json!({INVALID_SINCE: "2025-01-01", LAST_USED: "2026-01-01"}), "kept")]
fn a_token_is_judged_by_its_labels(#[case] labels: Value, #[case] what: &str) {
    assert_eq!(outcome(&secret(&labels)), what);
}

#[rstest]
#[case::cln2_manual(Some(account("1", &["other"])), &[], Kept::Manual)]
#[case::cln2_of_an_account_that_is_gone(None, &[], Kept::Manual)]
#[case::cln2_of_an_account_before(Some(account("2", &["s"])), &[], Kept::Manual)]
#[case::cln2_mounted(Some(account("1", &["s"])), &["s"], Kept::Mounted)]
fn a_token_that_somebody_may_need_is_kept(
    #[case] account: Option<Account>,
    #[case] mounted: &[&str],
    #[case] why: Kept,
) {
    let secret = secret(&json!({INVALID_SINCE: "2020-01-01"}));
    assert_eq!(judged(&secret, account.as_ref(), mounted), Verdict::Kept(why));
}

#[rstest]
#[case::cln2_made_within_the_period("creationTimestamp", json!("2025-06-15T12:00:00Z"), "kept")]
#[case::cln2_made_before("creationTimestamp", json!("2025-06-15T11:59:59Z"), "invalid")]
#[case::cln2_made_nobody_knows_when("creationTimestamp", Value::Null, "kept")]
#[case::cln2_going_already("deletionTimestamp", json!("2026-01-01T00:00:00Z"), "kept")]
#[case::cln2_of_no_account("annotations", json!({}), "kept")]
fn a_token_is_judged_by_its_metadata(#[case] field: &str, #[case] value: Value, #[case] what: &str) {
    let mut secret = secret(&json!({}));
    secret["metadata"][field] = value;
    assert_eq!(outcome(&secret), what);
}

#[test]
fn cln2_an_account_without_a_uid_in_the_secret_counts_by_name() {
    let mut secret = secret(&json!({}));
    secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "bot"});
    assert_eq!(outcome(&secret), "invalid");
}

#[test]
fn cln2_what_was_seen_has_to_hold() {
    let account = account("1", &["s"]);
    let Verdict::Invalidate(Step::Patch { uid, resource_version, patch, .. }) =
        judged(&secret(&json!({})), Some(&account), &[])
    else {
        panic!("not invalidated")
    };
    assert_eq!((uid.as_str(), resource_version.as_deref()), ("s1", Some("7")));
    assert_eq!(patch, json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-06-15"}}}));
    let Verdict::Delete(Step::Delete { uid, resource_version, .. }) =
        judged(&secret(&json!({INVALID_SINCE: "2025-01-01"})), Some(&account), &[])
    else {
        panic!("not deleted")
    };
    assert_eq!((uid.as_str(), resource_version.as_deref()), ("s1", Some("7")));
}

#[rstest]
#[case::cln2_long_enough("2025-06-13", Ok(()))]
#[case::cln2_to_the_second("2025-06-14", Ok(()))]
#[case::cln2_too_young("2025-06-15", Err(NotTracked::TooShort("2025-06-15".to_owned())))]
#[case::cln2_malformed("June", Err(NotTracked::Unknown))]
#[case::cln2_absent("", Err(NotTracked::Unknown))]
fn uses_have_to_be_noted_for_a_whole_period(#[case] since: &str, #[case] expected: Result<(), NotTracked>) {
    assert_eq!(is_tracked(&json!({"data": {"since": since}}), YEAR, now()), expected);
}

#[test]
fn cln2_the_day_on_which_noting_began_does_not_count() {
    let midnight = Timestamp::parse("2026-06-15T00:00:00Z").expect("a time");
    let config_map = json!({"data": {"since": "2025-06-14"}});
    assert_eq!(is_tracked(&config_map, YEAR, midnight), Ok(()));
    assert!(is_tracked(&config_map, YEAR, Timestamp(midnight.0 - 1)).is_err());
}
