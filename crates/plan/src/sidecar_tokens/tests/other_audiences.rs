//! Tokens for audiences other than the API server (AUD-3 to AUD-8).

use pillion_sidecarset::hash;

use super::*;

fn token(audience: &str, path: &str, expiration_seconds: u64) -> AudienceToken {
    AudienceToken { audience: audience.to_owned(), path: path.to_owned(), expiration_seconds }
}

/// The list of the set `logs`.
fn list() -> Vec<AudienceToken> {
    vec![token("vault", "vault", 3600), token("sts.amazonaws.com", "aws", 7200)]
}

fn own() -> Credential {
    Credential::own("logs", "log-agent")
}

fn minted(data: &str, life: i64) -> Minted {
    Minted { data: data.to_owned(), expires: Timestamp(NOW.0 + life), lifetime: life }
}

/// Returns the Secret of the set with the tokens of a list, requested just now.
fn stored_for(list: &[AudienceToken]) -> Value {
    let audiences = list.iter().map(|token| (token, minted(&token.path, token.expiration_seconds.try_into().unwrap())));
    written(&own(), &Tokens { api_server: minted("YXBp", 3600), audiences: audiences.collect() }, NOW)
}

fn needing(list: Vec<AudienceToken>) -> Needs {
    Needs { credentials: BTreeMap::from([(own(), list)]), ..Needs::default() }
}

/// Returns the needs of a Pod that mounts the Secret, while the set asks for a list; `None` if the set is gone.
fn only_mounting(declared: Option<Vec<AudienceToken>>) -> Needs {
    Needs {
        mounted: BTreeSet::from([own().secret()]),
        declared: declared.into_iter().map(|list| (own(), list)).collect(),
        ..Needs::default()
    }
}

fn rules(allowed: &[&str]) -> Rules {
    let allowed_audiences = allowed.iter().map(|glob| glob.parse().unwrap()).collect();
    Rules { allowed_audiences, ..Rules::default() }
}

fn planned_for(needs: &Needs, object: Option<&Value>, rules: &Rules, now: Timestamp) -> Plan {
    let secrets = object.map(|object| Secret::from_object(object).unwrap());
    let secrets = secrets.into_iter().map(|secret| (secret.name.clone(), secret)).collect();
    let accounts = accounts("account-1", false);
    plan(&SidecarTokenInput { namespace: NAMESPACE, needs, accounts: &accounts, secrets: &secrets }, rules, now)
}

fn audiences_of(what: &Move) -> Vec<&str> {
    match what {
        Move::Create { audiences, .. } | Move::Mint { audiences, .. } => {
            audiences.iter().map(|token| token.audience.as_str()).collect()
        }
        _ => panic!("{what:?}"),
    }
}

#[test]
fn aud4_the_secret_of_a_set_has_its_own_name_and_names_the_set() {
    let mut object = seed(NAMESPACE, &own());
    object["metadata"]["uid"] = json!("secret-1");

    let secret = Secret::from_object(&object).unwrap();

    assert_eq!((&secret.credential, secret.content), (&own(), Content::Empty));
    let names = BTreeSet::from([own(), Credential::shared("logs"), Credential::own("logs", "other")]);
    assert_eq!(names.iter().map(Credential::secret).collect::<BTreeSet<_>>().len(), 3);
    object["metadata"]["annotations"][SIDECAR_SET] = json!("other");
    assert_eq!(Secret::from_object(&object), Err(Foreign::Account));
}

#[test]
fn aud7_each_token_is_for_its_audience_and_bound_to_the_secret() {
    let secret = Secret::from_object(&stored_for(&[])).unwrap();

    let request = request(&secret, "account-1", 7200, Some("sts.amazonaws.com"));

    assert_eq!(request["spec"]["audiences"], json!(["sts.amazonaws.com"]));
    assert_eq!(request["spec"]["expirationSeconds"], 7200);
    assert_eq!(request["spec"]["boundObjectRef"]["uid"], "secret-1");
    assert_eq!(request["metadata"]["uid"], "account-1");
}

#[test]
fn aud7_one_patch_writes_all_tokens_and_states_the_list() {
    let object = stored_for(&list());

    assert_eq!(object["data"], json!({"token": "YXBp", "vault": "vault", "aws": "aws"}));
    let stated = r#"[{"audience":"sts.amazonaws.com","expirationSeconds":7200,"path":"aws"},{"audience":"vault","expirationSeconds":3600,"path":"vault"}]"#;
    assert_eq!(object["metadata"]["annotations"][AUDIENCES], stated);
    let secret = Secret::from_object(&object).unwrap();
    assert!(matches!(secret.content, Content::Token { .. }), "{secret:?}");
    let mut read = secret.audiences.clone();
    read.reverse();
    assert_eq!(read, list());
    assert_eq!(planned_for(&needing(list()), Some(&object), &rules(&["*"]), NOW).moves, []);
}

#[test]
fn aud8_the_first_token_that_is_due_renews_all() {
    let tokens = [token("short", "short", 600), token("long", "long", 86_400)];

    let secret = Secret::from_object(&stored_for(&tokens)).unwrap();

    let Content::Token { expires, renew_after } = secret.content else { panic!("{secret:?}") };
    assert_eq!(expires, Timestamp(NOW.0 + 600));
    assert!((NOW.0 + 420..=NOW.0 + 480).contains(&renew_after.0), "{renew_after}");
}

#[rstest]
#[case::same(list(), None)]
#[case::in_another_order(vec![list().remove(1), list().remove(0)], None)]
#[case::one_more(vec![list().remove(0), list().remove(1), token("gcp", "gcp", 3600)], Some(3))]
#[case::one_less(vec![list().remove(0)], Some(1))]
#[case::another_audience(vec![token("vault-2", "vault", 3600), list().remove(1)], Some(2))]
#[case::another_path(vec![token("vault", "v", 3600), list().remove(1)], Some(2))]
#[case::another_lifetime(vec![token("vault", "vault", 601), list().remove(1)], Some(2))]
fn aud8_a_changed_list_is_written_at_once(#[case] wanted: Vec<AudienceToken>, #[case] count: Option<usize>) {
    let object = stored_for(&list());

    let plan = planned_for(&needing(wanted), Some(&object), &rules(&["*"]), NOW);

    match count {
        None => assert_eq!(plan.moves, []),
        Some(count) => {
            assert!(matches!(only(&plan), Move::Mint { why: Why::Changed, .. }), "{plan:?}");
            assert_eq!(audiences_of(only(&plan)).len(), count);
        }
    }
}

#[test]
fn aud8_keys_that_the_list_no_longer_has_are_removed() {
    let mut object = stored_for(&list());
    object["data"]["stray"] = json!("c3RyYXk=");
    let secret = Secret::from_object(&object).unwrap();
    assert_eq!(secret.content, Content::Edited, "the Pod gets every key");
    let vault = list().remove(0);
    let tokens = Tokens { api_server: minted("bmV3", 3600), audiences: vec![(&vault, minted("dmF1bHQ=", 3600))] };

    let Step::Patch { patch, .. } = fill(&secret, "account-1", &tokens, NOW) else { panic!("no patch") };
    merge(&mut object, &patch);

    assert_eq!(object["data"], json!({"token": "bmV3", "vault": "dmF1bHQ="}));
    assert!(matches!(Secret::from_object(&object).unwrap().content, Content::Token { .. }), "{object}");
}

#[rstest]
#[case::another_token(|secret: &mut Value| secret["data"]["vault"] = json!("b3RoZXI="))]
#[case::without_a_token(|secret: &mut Value| drop(secret["data"].as_object_mut().unwrap().remove("vault")))]
#[case::two_swapped(|secret: &mut Value| {
    secret["data"]["vault"] = json!("aws");
    secret["data"]["aws"] = json!("vault");
})]
#[case::the_stated_list(|secret: &mut Value| secret["metadata"]["annotations"][AUDIENCES] = json!("[]"))]
#[case::no_list(|secret: &mut Value| secret["metadata"]["annotations"][AUDIENCES] = json!("{"))]
fn aud8_edits_of_tokens_and_of_the_list_are_undone(#[case] edit: fn(&mut Value)) {
    let mut object = stored_for(&list());
    edit(&mut object);

    let plan = planned_for(&needing(list()), Some(&object), &rules(&["*"]), NOW);

    assert!(matches!(only(&plan), Move::Mint { why: Why::Edited, .. }), "{plan:?}");
    assert_eq!(audiences_of(only(&plan)), ["vault", "sts.amazonaws.com"]);
}

/// A Secret that an earlier version wrote has neither a set nor a list: its checksum is over these six lines.
#[test]
fn tok5_secrets_of_earlier_versions_stay_valid() {
    let mut object = stored("logs", 3600, 10);
    let annotations = &object["metadata"]["annotations"];
    assert_eq!(annotations.as_object().unwrap().len(), 5, "{annotations}");
    let parts = [ACCOUNT_UID, EXPIRES, RENEW_AFTER].map(|key| annotations[key].as_str().unwrap());
    let lines = [&["secret-1", "logs"][..], &parts, &["dG9rZW4="]].concat();
    assert_eq!(annotations[CHECKSUM], hash::sha256(lines.join("\n").as_bytes()));
    // Nobody mounts other keys of such a Secret, and nobody reads a list there.
    object["data"]["other"] = json!("b3RoZXI=");
    object["metadata"]["annotations"][AUDIENCES] = json!(audiences::stated(&list()));
    assert_eq!(planned(&needs("logs"), &accounts("account-1", false), Some(&object), NOW).moves, []);
}

/// While Pods mount the Secret of a set, they keep what they have, or get what the set asks for, as far as the settings
/// allow it. Mounting alone gives nothing more.
#[rstest]
#[case::set_is_gone(None, &["*"], None, false)]
#[case::set_asks_for_the_same(Some(list()), &["*"], None, false)]
#[case::set_asks_for_less(Some(vec![list().remove(0)]), &["*"], Some(vec!["vault"]), false)]
#[case::set_asks_for_nothing(Some(vec![]), &["*"], Some(vec![]), false)]
#[case::set_is_gone_and_one_is_not_allowed(None, &["vault"], Some(vec!["vault"]), true)]
#[case::set_is_there_and_one_is_not_allowed(Some(list()), &["sts.*"], Some(vec!["sts.amazonaws.com"]), true)]
#[case::none_is_allowed(None, &[], Some(vec![]), true)]
fn aud5_aud8_pods_that_run_keep_what_is_allowed(
    #[case] declared: Option<Vec<AudienceToken>>,
    #[case] allowed: &[&str],
    #[case] minted: Option<Vec<&str>>,
    #[case] is_told: bool,
) {
    let object = stored_for(&list());
    let needs = only_mounting(declared);

    let plan = planned_for(&needs, Some(&object), &rules(allowed), NOW);

    assert_eq!(plan.moves.first().map(|(_, what)| audiences_of(what)), minted);
    let lack = plan.lacks.get(&own());
    assert_eq!(matches!(lack, Some(Lack::AudienceNotAllowed(why)) if why.contains("allowedAudiences")), is_told);
    assert_eq!(planned_for(&needs, None, &rules(allowed), NOW), Plan::default(), "mounting creates no Secret");
    let later = planned_for(&needs, Some(&object), &rules(&["*"]), Timestamp(NOW.0 + 4000));
    assert!(matches!(only(&later), Move::Mint { .. }), "it is renewed: {later:?}");
}

/// AUD-5: the controller checks again, in case the settings changed since the needs were found.
#[test]
fn aud5_an_audience_that_is_not_allowed_is_never_requested() {
    let plan = planned_for(&needing(list()), None, &rules(&["vault"]), NOW);

    assert_eq!(audiences_of(only(&plan)), ["vault"]);
    assert!(matches!(plan.lacks.get(&own()), Some(Lack::AudienceNotAllowed(_))), "{plan:?}");
}
