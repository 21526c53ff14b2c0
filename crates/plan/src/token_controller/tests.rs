use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::write::{NewToken, claims, delete, dereference, fill};
use super::*;
use crate::Step;

const NOW: Timestamp = Timestamp(1_800_000_000);

fn account(name: &str, uid: &str, secrets: &[&str]) -> Account {
    let secrets = secrets.iter().map(|&name| name.to_owned()).collect();
    Account { name: name.to_owned(), uid: uid.to_owned(), secrets, is_terminating: false }
}

/// Returns a complete Secret of the ServiceAccount `bot`.
fn complete() -> Secret {
    Secret {
        namespace: "shop".to_owned(),
        name: "s".to_owned(),
        uid: "s1".to_owned(),
        resource_version: "7".to_owned(),
        account: "bot".to_owned(),
        account_uid: "1".to_owned(),
        token: Token::Lasting,
        ..Secret::default()
    }
}

fn bound(issued: i64, expires: i64) -> Token {
    Token::Bound(Life {
        issued: Timestamp(NOW.0 + issued),
        expires: Timestamp(NOW.0 + expires),
        account_uid: "1".to_owned(),
    })
}

fn planned(accounts: &[&Account], secrets: &[&Secret]) -> Plan {
    plan(&TokenControllerInput { is_active: true, accounts, secrets, gone: &[], sweeps: false }, NOW)
}

/// Returns the planned task for one Secret if the ServiceAccount `bot` exists.
fn done(secret: &Secret) -> &'static str {
    match planned(&[&account("bot", "1", &[])], &[secret]).tasks.as_slice() {
        [] => "nothing",
        [Task::Delete(_)] => "delete",
        [Task::Fill(Fill { token: true, .. })] => "token",
        [Task::Fill(_)] => "fill",
        tasks => panic!("{tasks:?}"),
    }
}

#[rstest]
#[case::tkn6_complete(complete(), "nothing")]
#[case::tkn6_complete_without_the_uid(Secret { account_uid: String::new(), ..complete() }, "nothing")]
#[case::tkn6_no_token(Secret { token: Token::Absent, ..complete() }, "token")]
#[case::tkn6_no_authority(Secret { lacks_authority: true, ..complete() }, "fill")]
#[case::tkn6_no_namespace(Secret { lacks_namespace: true, ..complete() }, "fill")]
#[case::tkn5_another_account(Secret { account: "other".to_owned(), ..complete() }, "delete")]
#[case::tkn5_another_uid(Secret { account_uid: "2".to_owned(), ..complete() }, "delete")]
#[case::tkn5_going_already(Secret { account: "other".to_owned(), is_terminating: true, ..complete() }, "nothing")]
#[case::tkn8_names_no_account(Secret { account: String::new(), ..complete() }, "nothing")]
#[case::tok7_a_young_token(Secret { token: bound(-10, 3590), ..complete() }, "nothing")]
#[case::tok7_an_old_token(Secret { token: bound(-2881, 719), ..complete() }, "token")]
#[case::tok7_an_expired_token(Secret { token: bound(-7200, -3600), ..complete() }, "token")]
fn a_secret_gets_what_it_lacks(#[case] secret: Secret, #[case] what: &str) {
    assert_eq!(done(&secret), what);
}

#[test]
fn tok7_a_token_of_another_uid_is_replaced_at_once() {
    let Token::Bound(life) = bound(-10, 3590) else { panic!("not bound") };
    let token = Token::Bound(Life { account_uid: "0".to_owned(), ..life });
    assert_eq!(done(&Secret { token, account_uid: String::new(), ..complete() }), "token");
}

#[test]
fn tkn2_an_account_without_a_secret_gets_none() {
    assert_eq!(planned(&[&account("bot", "1", &[])], &[]), Plan::default());
}

#[test]
fn tkn3_the_secrets_of_an_account_that_is_gone_go() {
    let secrets = [complete(), Secret { name: "t".to_owned(), account_uid: String::new(), ..complete() }];
    let tasks = planned(&[&account("other", "2", &[])], &secrets.each_ref()).tasks;
    assert_eq!(tasks, secrets.map(Task::Delete));
}

#[rstest]
#[case::namespace(false, false)]
#[case::account(true, true)]
fn tkn6_nothing_is_filled_into_what_is_going(#[case] is_active: bool, #[case] is_terminating: bool) {
    let account = Account { is_terminating, ..account("bot", "1", &[]) };
    let secret = Secret { token: Token::Absent, lacks_namespace: true, ..complete() };
    let seen = TokenControllerInput { is_active, accounts: &[&account], secrets: &[&secret], gone: &[], sweeps: false };
    assert_eq!(plan(&seen, NOW), Plan::default());
}

#[test]
fn tok7_the_first_token_to_end_says_when_to_look_again() {
    let secrets =
        [Secret { token: bound(0, 7200), ..complete() }, Secret { token: bound(0, 3600), ..complete() }, complete()];
    let next = planned(&[&account("bot", "1", &[])], &secrets.each_ref()).next.expect("a time");
    assert!((NOW.0 + 2592..=NOW.0 + 2880).contains(&next.0), "{next}");
}

#[rstest]
#[case::seen_before(&[("s", "bot", "1")], false, &["s"])]
#[case::seen_before_without_a_uid(&[("s", "bot", "")], false, &["s"])]
#[case::of_an_account_before(&[("s", "bot", "0")], false, &[])]
#[case::of_another_account(&[("s", "other", "1")], false, &[])]
#[case::never_seen(&[], false, &[])]
#[case::tkn9_never_seen_but_generated(&[], true, &["bot-token-x2b4z"])]
#[case::there_again(&[("there", "bot", "1")], false, &[])]
fn tkn4_an_account_no_longer_names_a_secret_that_is_gone(
    #[case] gone: &[(&str, &str, &str)],
    #[case] sweeps: bool,
    #[case] removed: &[&str],
) {
    let account =
        account("bot", "1", &["s", "there", "config", "bot-token-x2b4z", "my-token-x2b4z", "bot-token-aeiou"]);
    let there = Secret { name: "there".to_owned(), ..complete() };
    let gone: Vec<Gone> = gone
        .iter()
        .map(|(secret, account, uid)| Gone {
            secret: (*secret).to_owned(),
            account: (*account).to_owned(),
            account_uid: (*uid).to_owned(),
        })
        .collect();
    let seen = TokenControllerInput { is_active: true, accounts: &[&account], secrets: &[&there], gone: &gone, sweeps };
    let names: Vec<_> = plan(&seen, NOW)
        .tasks
        .into_iter()
        .map(|task| match task {
            Task::Dereference { account, account_uid, secret } => {
                assert_eq!((account.as_str(), account_uid.as_str()), ("bot", "1"));
                secret
            }
            task => panic!("{task:?}"),
        })
        .collect();
    assert_eq!(names, removed);
}

#[rstest]
#[case::short("bot", "bot-token-x2b4z", true)]
#[case::vowels_are_not_used("bot", "bot-token-aeiou", false)]
#[case::longer("bot", "bot-token-x2b4zz", false)]
#[case::of_another("bot", "bots-token-x2b4z", false)]
fn tkn9_generated_names_are_known_by_their_form(#[case] account: &str, #[case] secret: &str, #[case] is: bool) {
    assert_eq!(is_generated(secret, account), is);
}

#[test]
fn tkn9_a_generated_name_may_have_been_cut() {
    assert!(is_generated(&format!("{}-tokx2b4z", "a".repeat(54)), &"a".repeat(54)));
    assert!(is_generated(&format!("{}x2b4z", "a".repeat(58)), &"a".repeat(70)));
}

#[test]
fn tkn6_what_is_missing_is_filled_in() {
    let secret = Secret { lacks_authority: true, lacks_namespace: true, account_uid: String::new(), ..complete() };
    let wanted = Fill { secret, account_uid: "1".to_owned(), token: true };
    let token = NewToken { token: "t".to_owned(), expires: Some(Timestamp(0)) };
    let Step::Patch { uid, resource_version, patch, .. } = fill(&wanted, Some("ca"), Some(&token)) else {
        panic!("no patch")
    };
    assert_eq!((uid.as_str(), resource_version.as_deref()), ("s1", Some("7")), "c2_7");
    assert_eq!(
        patch,
        json!({
            "metadata": {"annotations": {
                "kubernetes.io/service-account.name": "bot", "kubernetes.io/service-account.uid": "1",
                "pillion.dev/token-expires-at": "1970-01-01T00:00:00Z"
            }},
            "stringData": {"ca.crt": "ca", "namespace": "shop", "token": "t"}
        })
    );
}

#[test]
fn tkn6_what_is_there_stays() {
    let wanted =
        Fill { secret: Secret { lacks_namespace: true, ..complete() }, account_uid: "1".to_owned(), token: false };
    let Step::Patch { patch, .. } = fill(&wanted, Some("ca"), None) else { panic!("no patch") };
    assert_eq!(patch["stringData"], json!({"namespace": "shop"}));
}

#[rstest]
#[case::tkn5_gone(None, true)]
#[case::tkn5_another_by_now(Some("2"), true)]
#[case::tkn5_there_after_all(Some("1"), false)]
fn tkn5_tkn7_a_secret_goes_only_where_the_api_server_says_so(#[case] live: Option<&str>, #[case] goes: bool) {
    let live = live.map(|uid| json!({"metadata": {"name": "bot", "uid": uid}}));
    let step = delete(&complete(), live.as_ref());
    assert_eq!(step.is_some(), goes);
    if let Some(Step::Delete { uid, resource_version, .. }) = step {
        assert_eq!((uid.as_str(), resource_version.as_deref()), ("s1", Some("7")), "c2_3");
    }
}

#[rstest]
#[case::named("1", json!([{"name": "a"}, {"name": "s"}, {"name": "b", "namespace": "x"}]), Some(json!([{"name": "a"}, {"name": "b", "namespace": "x"}])))]
#[case::alone("1", json!([{"name": "s"}]), Some(json!([])))]
#[case::another_uid("2", json!([{"name": "s"}]), None)]
#[case::not_named_any_more("1", json!([{"name": "a"}]), None)]
#[case::names_none("1", Value::Null, None)]
fn tkn4_only_the_name_goes(#[case] uid: &str, #[case] secrets: Value, #[case] left: Option<Value>) {
    let metadata = json!({"name": "bot", "namespace": "shop", "uid": uid, "resourceVersion": "9"});
    let live = json!({"metadata": metadata, "secrets": secrets});
    let written = dereference(&live, "1", "s").map(|step| match step {
        Step::Patch { resource_version, patch, .. } => {
            assert_eq!(resource_version.as_deref(), Some("9"));
            patch
        }
        step => panic!("{step:?}"),
    });
    assert_eq!(written, left.map(|left| json!({"secrets": left})));
}

#[test]
fn tkn10_the_claims_are_those_of_kube_controller_manager() {
    assert_eq!(
        claims("shop", "bot", "1", "s"),
        json!({
            "iss": "kubernetes/serviceaccount",
            "sub": "system:serviceaccount:shop:bot",
            "kubernetes.io/serviceaccount/namespace": "shop",
            "kubernetes.io/serviceaccount/secret.name": "s",
            "kubernetes.io/serviceaccount/service-account.name": "bot",
            "kubernetes.io/serviceaccount/service-account.uid": "1"
        })
    );
}

proptest! {
    /// For any lifetime that the API server grants, the token is replaced in time and not needlessly early.
    #[test]
    fn tok7_a_token_is_replaced_between_72_and_80_percent_of_its_life_or_a_day(seconds in 600_i64..10_000_000, uid in ".{1,36}") {
        let life = Life { issued: NOW, expires: Timestamp(NOW.0 + seconds), account_uid: String::new() };
        let after = rotation(&life, &uid).0 - NOW.0;
        let latest = (seconds * 4 / 5 + 1).min(LONGEST);
        prop_assert!(after <= latest && after >= latest * 9 / 10 - 1, "{after} of {seconds}");
    }
}
