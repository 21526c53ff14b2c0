mod other_audiences;

use pillion_identity::rules::Allowed;
use rstest::rstest;
use serde_json::json;

use super::*;

const NAMESPACE: &str = "team";
const NOW: Timestamp = Timestamp(1_800_000_000);

/// Returns a Secret as the API server stores it, with a token that was requested `age` seconds ago and lives for `life`
/// seconds.
fn stored(account: &str, life: i64, age: i64) -> Value {
    let asked_at = Timestamp(NOW.0 - age);
    let api_server = Minted { data: "dG9rZW4=".to_owned(), expires: Timestamp(asked_at.0 + life), lifetime: life };
    written(&Credential::shared(account), &Tokens { api_server, audiences: Vec::new() }, asked_at)
}

/// Returns a Secret with these tokens.
fn written(credential: &Credential, tokens: &Tokens<'_>, asked_at: Timestamp) -> Value {
    let mut object = seed(NAMESPACE, credential);
    object["metadata"]["uid"] = json!("secret-1");
    object["metadata"]["resourceVersion"] = json!("7");
    let step = fill(&Secret::from_object(&object).unwrap(), "account-1", tokens, asked_at);
    let Step::Patch { patch, .. } = step else { panic!("{step:?}") };
    merge(&mut object, &patch);
    object
}

/// Applies a JSON merge patch (RFC 7386).
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in members {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

fn needs(account: &str) -> Needs {
    Needs { credentials: BTreeMap::from([(Credential::shared(account), Vec::new())]), ..Needs::default() }
}

fn mounted(account: &str) -> Needs {
    Needs { mounted: BTreeSet::from([Credential::shared(account).secret()]), ..Needs::default() }
}

fn accounts(uid: &str, is_terminating: bool) -> BTreeMap<String, Account> {
    BTreeMap::from([("logs".to_owned(), Account { uid: uid.to_owned(), is_terminating })])
}

fn planned(needs: &Needs, accounts: &BTreeMap<String, Account>, object: Option<&Value>, now: Timestamp) -> Plan {
    let secrets = object.map(|object| Secret::from_object(object).unwrap());
    let secrets = secrets.into_iter().map(|secret| (secret.name.clone(), secret)).collect();
    plan(&SidecarTokenInput { namespace: NAMESPACE, needs, accounts, secrets: &secrets }, &Rules::default(), now)
}

fn only(plan: &Plan) -> &Move {
    let [(credential, what)] = plan.moves.as_slice() else { panic!("{plan:?}") };
    assert_eq!(credential.account, "logs");
    what
}

#[test]
fn tok5_a_secret_is_created_empty_with_label_and_annotation_and_is_then_ours() {
    let logs = Credential::shared("logs");
    let mut seed = seed(NAMESPACE, &logs);

    assert_eq!(seed["metadata"]["name"], logs.secret());
    assert_eq!((&seed["type"], &seed["data"]), (&json!("Opaque"), &Value::Null));
    seed["metadata"]["uid"] = json!("secret-1");
    let secret = Secret::from_object(&seed).unwrap();
    assert_eq!((&secret.credential, secret.content), (&logs, Content::Empty));
    let plan = planned(&needs("logs"), &accounts("account-1", false), None, NOW);
    assert_eq!(*only(&plan), Move::Create { account_uid: "account-1".to_owned(), audiences: Vec::new() });
}

#[test]
fn tok5_the_token_is_bound_to_the_secret_and_is_for_the_account_that_was_seen() {
    let secret = Secret::from_object(&stored("logs", 3600, 0)).unwrap();

    let request = request(&secret, "account-1", 3600, None);

    let bound = json!({"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": "secret-1"});
    assert_eq!(request["metadata"], json!({"uid": "account-1"}));
    assert_eq!(request["spec"], json!({"audiences": [], "boundObjectRef": bound, "expirationSeconds": 3600}));
}

#[rstest]
#[case::too_short(0, 600)]
#[case::shortest(600, 600)]
#[case::longer(86_400, 86_400)]
fn tok6_nothing_shorter_than_ten_minutes_is_asked_for(#[case] lifetime: u64, #[case] asked: u64) {
    let secret = Secret::from_object(&stored("logs", 3600, 0)).unwrap();

    assert_eq!(request(&secret, "account-1", lifetime, None)["spec"]["expirationSeconds"], asked);
}

#[test]
fn tok5_what_was_written_is_read_back() {
    let object = stored("logs", 3600, 0);

    let secret = Secret::from_object(&object).unwrap();

    let Content::Token { expires, renew_after } = secret.content else { panic!("{secret:?}") };
    assert_eq!(expires, Timestamp(NOW.0 + 3600));
    assert!((NOW.0 + 2520..=NOW.0 + 2880).contains(&renew_after.0), "{renew_after}");
    assert_eq!(secret.account_uid, "account-1");
    assert!(!format!("{secret:?}").contains("dG9rZW4"));
}

#[rstest]
#[case::hour(3600, 3600, 2520..=2880)]
#[case::ten_minutes(600, 600, 420..=480)]
#[case::a_day_at_most(10 * 86_400, 10 * 86_400, 75_600..=86_400)]
#[case::server_shortens_what_it_gives(3600, 600, 420..=480)]
#[case::server_only_says_when_it_ends(600, 3600, 420..=480)]
#[case::no_time_left_by_this_clock(-5, 3600, 42..=48)]
fn tok7_tokens_are_renewed_after_four_fifths_of_their_life_or_a_day(
    #[case] left: i64,
    #[case] lifetime: i64,
    #[case] after: std::ops::RangeInclusive<i64>,
    #[values("a", "b", "5b3c1f3e-7c1c-4e7a-9a43-0b3b9a3f2f11")] uid: &str,
) {
    let minted = Minted { data: "dA==".to_owned(), expires: Timestamp(NOW.0 + left), lifetime };

    let renewed = mint::renew_after(uid, &minted, NOW).0 - NOW.0;

    assert!(after.contains(&renewed), "{renewed}");
    assert_eq!(renewed, mint::renew_after(uid, &minted, NOW).0 - NOW.0);
}

#[test]
fn tok7_tokens_of_one_moment_are_renewed_at_many() {
    let minted = Minted { data: "dA==".to_owned(), expires: Timestamp(NOW.0 + 3600), lifetime: 3600 };

    let times: BTreeSet<_> = (0..360).map(|uid| mint::renew_after(&uid.to_string(), &minted, NOW)).collect();

    assert!(times.len() > 180, "{}", times.len());
}

#[rstest]
#[case::young(1000, None)]
#[case::old(2880, Some(Why::Due))]
#[case::ended(4000, Some(Why::Due))]
fn tok7_a_token_is_renewed_when_its_time_has_come(#[case] age: i64, #[case] why: Option<Why>) {
    let object = stored("logs", 3600, age);

    let plan = planned(&needs("logs"), &accounts("account-1", false), Some(&object), NOW);

    match why {
        None => {
            assert_eq!(plan.moves, []);
            let Content::Token { renew_after, .. } = Secret::from_object(&object).unwrap().content else {
                panic!("{object}")
            };
            assert_eq!(plan.next, Some(renew_after));
        }
        Some(why) => assert!(matches!(only(&plan), Move::Mint { why: is, .. } if *is == why), "{plan:?}"),
    }
}

#[rstest]
#[case::emptied(|secret: &mut Value| secret["data"] = Value::Null, Why::Empty)]
#[case::other_token(|secret: &mut Value| secret["data"]["token"] = json!("b3RoZXI="), Why::Edited)]
#[case::later_renewal(|secret: &mut Value| secret["metadata"]["annotations"][RENEW_AFTER] = json!("2099-01-01T00:00:00Z"), Why::Edited)]
#[case::no_time(|secret: &mut Value| secret["metadata"]["annotations"][EXPIRES] = json!("soon"), Why::Edited)]
#[case::no_checksum(|secret: &mut Value| secret["metadata"]["annotations"][CHECKSUM] = Value::Null, Why::Edited)]
#[case::another_account_uid(|secret: &mut Value| secret["metadata"]["annotations"][ACCOUNT_UID] = json!("account-2"), Why::Edited)]
#[case::restored_from_a_copy(|secret: &mut Value| secret["metadata"]["uid"] = json!("secret-2"), Why::Edited)]
fn tok5_what_somebody_edited_or_emptied_gets_a_new_token(#[case] edit: fn(&mut Value), #[case] why: Why) {
    let mut object = stored("logs", 3600, 10);
    edit(&mut object);

    let plan = planned(&needs("logs"), &accounts("account-1", false), Some(&object), NOW);

    assert!(matches!(only(&plan), Move::Mint { why: is, .. } if *is == why), "{plan:?}");
}

#[test]
fn tok5_what_nobody_can_write_to_is_made_anew_once_it_needs_a_token() {
    let mut object = stored("logs", 3600, 10);
    object["immutable"] = json!(true);
    assert_eq!(planned(&needs("logs"), &accounts("account-1", false), Some(&object), NOW).moves, []);
    let mut old = stored("logs", 3600, 3000);
    old["immutable"] = json!(true);

    let plan = planned(&needs("logs"), &accounts("account-1", false), Some(&old), NOW);

    let Move::Write(Step::Delete { uid, resource_version, .. }) = only(&plan) else { panic!("{plan:?}") };
    assert_eq!((uid.as_str(), resource_version.as_deref()), ("secret-1", Some("7")));
}

#[test]
fn tok7_an_account_that_was_made_anew_gets_a_token_at_once() {
    let object = stored("logs", 3600, 10);

    let plan = planned(&needs("logs"), &accounts("account-2", false), Some(&object), NOW);

    let Move::Mint { account_uid, why, .. } = only(&plan) else { panic!("{plan:?}") };
    assert_eq!((account_uid.as_str(), *why), ("account-2", Why::NewAccount));
}

#[rstest]
#[case::missing(BTreeMap::new(), Lack::Missing)]
#[case::terminating(accounts("account-1", true), Lack::Terminating)]
fn sap11_without_an_account_there_is_no_token(
    #[case] accounts: BTreeMap<String, Account>,
    #[case] lack: Lack,
    #[values(false, true)] has_secret: bool,
) {
    let object = has_secret.then(|| stored("logs", 3600, 3600));

    let plan = planned(&needs("logs"), &accounts, object.as_ref(), NOW);

    assert_eq!((plan.moves, plan.lacks), (vec![], BTreeMap::from([(Credential::shared("logs"), lack)])));
}

#[test]
fn tok6_nothing_is_bound_to_a_secret_that_is_being_deleted() {
    let mut object = stored("logs", 3600, 3600);
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");

    let plan = planned(&needs("logs"), &accounts("account-1", false), Some(&object), NOW);

    assert_eq!(
        (plan.moves, plan.lacks),
        (vec![], BTreeMap::from([(Credential::shared("logs"), Lack::SecretTerminating)]))
    );
    assert_eq!(planned(&Needs::default(), &BTreeMap::new(), Some(&object), NOW), Plan::default());
}

#[rstest]
#[case::allowed(&["team"], &["logs"], "team", true)]
#[case::another_name(&["*"], &["metrics"], "team", false)]
#[case::another_namespace(&["other"], &["*"], "team", false)]
#[case::protected(&["*"], &["*"], "kube-system", false)]
fn esc5_only_accounts_that_the_settings_allow_get_tokens(
    #[case] namespaces: &[&str],
    #[case] accounts_allowed: &[&str],
    #[case] namespace: &str,
    #[case] is_allowed: bool,
    #[values(false, true)] is_only_mounted: bool,
) {
    let globs = |globs: &[&str]| globs.iter().map(|glob| glob.parse().unwrap()).collect();
    let allowed = Allowed { namespaces: globs(namespaces), names: globs(accounts_allowed) };
    let rules = Rules { allowed: vec![allowed], ..Rules::default() };
    let needs = if is_only_mounted { mounted("logs") } else { needs("logs") };
    let secret = Secret::from_object(&stored("logs", 3600, 3600)).unwrap();
    let secrets = BTreeMap::from([(secret.name.clone(), secret)]);
    let seen =
        SidecarTokenInput { namespace, needs: &needs, accounts: &accounts("account-1", false), secrets: &secrets };

    let plan = plan(&seen, &rules, NOW);

    assert_eq!(matches!(plan.moves.as_slice(), [(_, Move::Mint { .. })]), is_allowed, "{plan:?}");
    assert_eq!(plan.lacks.get(&Credential::shared("logs")).cloned(), (!is_allowed).then_some(Lack::NotAllowed));
}

/// Mounting the Secret of an account in a Pod does not create a token of that account.
#[test]
fn e6_a_pod_that_mounts_a_secret_keeps_it_and_its_token_but_makes_none() {
    let all = accounts("account-1", false);

    assert_eq!(planned(&mounted("logs"), &all, None, NOW), Plan::default());
    let renewed = planned(&mounted("logs"), &all, Some(&stored("logs", 3600, 3600)), NOW);
    assert!(matches!(only(&renewed), Move::Mint { why: Why::Due, .. }), "{renewed:?}");
}

#[rstest]
#[case::not_noted(None, "mark", None)]
#[case::now(Some(0), "wait", Some(600))]
#[case::almost(Some(599), "wait", Some(1))]
#[case::ten_minutes(Some(600), "collect", None)]
#[case::noted_by_a_clock_that_is_ahead(Some(-1), "mark", None)]
fn mrg10_what_nobody_needs_is_collected_ten_minutes_later(
    #[case] ago: Option<i64>,
    #[case] what: &str,
    #[case] next: Option<i64>,
) {
    let mut object = stored("logs", 3600, 3600);
    if let Some(ago) = ago {
        object["metadata"]["annotations"][UNNEEDED_SINCE] = Timestamp(NOW.0 - ago).to_string().into();
    }

    let plan = planned(&Needs::default(), &accounts("account-1", false), Some(&object), NOW);

    assert_eq!(plan.next, next.map(|next| Timestamp(NOW.0 + next)));
    match what {
        "wait" => assert_eq!(plan.moves, []),
        "collect" => assert_eq!(*only(&plan), Move::Collect(Secret::from_object(&object).unwrap())),
        _ => {
            let Move::Write(Step::Patch { patch, resource_version, .. }) = only(&plan) else { panic!("{plan:?}") };
            assert_eq!(*patch, json!({"metadata": {"annotations": {UNNEEDED_SINCE: NOW.to_string()}}}));
            assert_eq!(resource_version.as_deref(), Some("7"));
        }
    }
}

#[rstest]
#[case::needed(needs("logs"))]
#[case::mounted(mounted("logs"))]
fn mrg11_a_new_need_takes_the_mark_away_before_anything_else(#[case] needs: Needs) {
    let mut object = stored("logs", 3600, 3600);
    object["metadata"]["annotations"][UNNEEDED_SINCE] = Timestamp(NOW.0 - 6000).to_string().into();

    let plan = planned(&needs, &accounts("account-1", false), Some(&object), NOW);

    let Move::Write(Step::Patch { patch, .. }) = only(&plan) else { panic!("{plan:?}") };
    assert_eq!(*patch, json!({"metadata": {"annotations": {UNNEEDED_SINCE: null}}}));
    merge(&mut object, patch);
    let after = planned(&needs, &accounts("account-1", false), Some(&object), NOW);
    assert!(matches!(only(&after), Move::Mint { why: Why::Due, .. }), "{after:?}");
}

#[rstest]
#[case::no_labels(|secret: &mut Value| secret["metadata"]["labels"] = Value::Null, Foreign::Label)]
#[case::other_manager(|secret: &mut Value| secret["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm"), Foreign::Label)]
#[case::no_account(|secret: &mut Value| secret["metadata"]["annotations"] = json!({}), Foreign::Account)]
#[case::other_account(|secret: &mut Value| secret["metadata"]["annotations"][ACCOUNT] = json!("admin"), Foreign::Account)]
#[case::of_a_sidecar_set(|secret: &mut Value| secret["metadata"]["annotations"][SIDECAR_SET] = json!("logs"), Foreign::Account)]
#[case::other_name(|secret: &mut Value| secret["metadata"]["name"] = json!("mine"), Foreign::Account)]
#[case::other_type(|secret: &mut Value| secret["type"] = json!("kubernetes.io/service-account-token"), Foreign::Type)]
fn mrg2_a_secret_of_which_label_annotation_name_and_type_disagree_is_not_ours(
    #[case] edit: fn(&mut Value),
    #[case] foreign: Foreign,
) {
    let mut object = stored("logs", 3600, 10);
    edit(&mut object);

    assert_eq!(Secret::from_object(&object), Err(foreign));
}
