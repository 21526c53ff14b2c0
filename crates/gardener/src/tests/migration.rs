use super::*;

const TRUST: &str = "the issuer of tokens changes: systems outside the cluster that trust the old one (cloud identities, OIDC clients) read the claim iss and must trust the new issuer, too";
const LOST: &str = "\"https://a.example.com\" is no longer the issuer, and its tokens stop working at once; add it to acceptedIssuers until they have been replaced";
const REMOVED: &str = "\"https://c.example.com\" is removed and its tokens stop working. First: short-lived projected tokens, Pods rolled, token Secrets recreated, 12h waited. Acknowledge: annotation pillion.dev/acknowledge-removed-issuer";
const AT_ONCE: &str = "403 acceptedIssuers: Forbidden: \"https://c.example.com\" is removed while the issuer changes; change the issuer first, and remove it once its tokens have been replaced";

fn old() -> Value {
    shoot(json!({"issuer": A}))
}

#[rstest]
#[case::another_issuer(shoot(json!({"issuer": B})))]
#[case::another_issuer_and_others_accepted(shoot(json!({"issuer": B, "acceptedIssuers": [C]})))]
#[case::no_issuer(shoot(json!({})))]
#[case::no_config(shoot(Value::Null))]
#[case::managed(managed(json!({})))]
#[case::the_same_with_a_slash(shoot(json!({"issuer": "https://a.example.com/"})))]
fn w1_a_custom_issuer_that_goes_has_to_be_accepted(#[case] new: Value) {
    let denied = judge(&new, Some(&old()), true, &denying());
    assert_eq!(errors(&denied), [format!("403 acceptedIssuers: Forbidden: {LOST}")]);
    let warned = updated(&new, &old());
    assert_eq!(errors(&warned), nothing());
    assert_eq!(warned.warnings.first().map(String::as_str), Some(LOST));
}

#[rstest]
#[case::another_issuer(shoot(json!({"issuer": B, "acceptedIssuers": [A]})))]
#[case::no_issuer(shoot(json!({"acceptedIssuers": [A]})))]
#[case::managed(managed(json!({"acceptedIssuers": [C, A]})))]
#[case::unchanged(shoot(json!({"issuer": A})))]
fn w1_an_issuer_that_is_accepted_may_go(#[case] new: Value) {
    let judgement = judge(&new, Some(&old()), true, &denying());
    assert_eq!(errors(&judgement), nothing());
    assert!(!judgement.warnings.contains(&LOST.to_owned()));
}

#[test]
fn d15_w2_from_the_default_issuer_nothing_is_needed() {
    for old in [Value::Null, json!({}), json!({"acceptedIssuers": [C]}), json!({"issuer": ""})] {
        let accepted = old["acceptedIssuers"].clone();
        for new in
            [shoot(json!({"issuer": B, "acceptedIssuers": accepted})), managed(json!({"acceptedIssuers": accepted}))]
        {
            let judgement = judge(&new, Some(&shoot(old.clone())), true, &denying());
            assert_eq!(errors(&judgement), nothing());
            assert!(judgement.warnings.iter().all(|warning| !warning.contains("acceptedIssuers")));
        }
    }
}

#[rstest]
#[case::list_shortened(json!({"issuer": A, "acceptedIssuers": [B]}))]
#[case::list_gone(json!({"issuer": A}))]
#[case::replaced(json!({"issuer": A, "acceptedIssuers": [B, "https://d.example.com"]}))]
fn w3_removing_an_accepted_issuer_is_warned_of(#[case] new: Value) {
    let old = json!({"issuer": A, "acceptedIssuers": [B, C]});
    let judgement = changed(old, new);
    assert_eq!(errors(&judgement), nothing());
    assert!(judgement.warnings.contains(&REMOVED.to_owned()), "{judgement:#?}");
}

#[rstest]
#[case(C)]
#[case("https://b.example.com,https://c.example.com")]
#[case("https://b.example.com, https://c.example.com")]
fn w3_unless_the_removal_is_acknowledged(#[case] acknowledged: &str) {
    let new = annotated(shoot(json!({"issuer": A})), "pillion.dev/acknowledge-removed-issuer", acknowledged);
    let old = shoot(json!({"issuer": A, "acceptedIssuers": [C]}));
    assert_eq!(updated(&new, &old), Judgement::default());
}

#[rstest]
#[case("")]
#[case("true")]
#[case("https://c.example.com/")]
#[case("https://b.example.com")]
fn w3_the_acknowledgement_names_the_issuer(#[case] acknowledged: &str) {
    let new = annotated(shoot(json!({"issuer": A})), "pillion.dev/acknowledge-removed-issuer", acknowledged);
    let old = shoot(json!({"issuer": A, "acceptedIssuers": [C]}));
    assert_eq!(updated(&new, &old).warnings, [REMOVED]);
}

#[rstest]
#[case::another_issuer(shoot(json!({"issuer": B, "acceptedIssuers": [A]})))]
#[case::no_issuer(shoot(json!({"acceptedIssuers": [A]})))]
#[case::managed(managed(json!({"acceptedIssuers": [A]})))]
fn w4_the_issuer_does_not_change_while_another_is_removed(#[case] new: Value) {
    let old = shoot(json!({"issuer": A, "acceptedIssuers": [C]}));
    for settings in [ShootSettings::default(), denying()] {
        assert_eq!(errors(&judge(&new, Some(&old), true, &settings)), [AT_ONCE]);
    }
    let acknowledged = annotated(new, "pillion.dev/acknowledge-removed-issuer", C);
    assert_eq!(errors(&updated(&acknowledged, &old)), [AT_ONCE]);
}

#[test]
fn w4_nor_while_the_default_issuer_gives_way() {
    assert_eq!(errors(&changed(json!({"acceptedIssuers": [C]}), json!({"issuer": B}))), [AT_ONCE]);
}

#[test]
fn w4_issuers_may_change_places() {
    let judgement =
        changed(json!({"issuer": A, "acceptedIssuers": [B, C]}), json!({"issuer": B, "acceptedIssuers": [A, C]}));
    assert_eq!(errors(&judgement), nothing());
    assert_eq!(judgement.warnings, [TRUST]);
}

#[rstest]
#[case::default_to_custom(shoot(json!({})), shoot(json!({"issuer": B})), true)]
#[case::custom_to_custom(old(), shoot(json!({"issuer": B, "acceptedIssuers": [A]})), true)]
#[case::custom_to_default(old(), shoot(json!({"acceptedIssuers": [A]})), true)]
#[case::default_to_managed(shoot(json!({})), managed(json!({})), true)]
#[case::without_any_config(shoot(Value::Null), managed(Value::Null), true)]
#[case::unchanged(old(), shoot(json!({"issuer": A, "acceptedIssuers": [B]})), false)]
fn w7_trust_outside_of_the_cluster_keys_on_the_issuer(#[case] old: Value, #[case] new: Value, #[case] warned: bool) {
    let warnings = updated(&new, &old).warnings;
    assert_eq!(warnings.iter().filter(|warning| *warning == TRUST).count(), usize::from(warned), "{warnings:#?}");
}

#[test]
fn a_new_shoot_migrates_from_nothing() {
    for new in [shoot(json!({"issuer": A, "acceptedIssuers": [B]})), managed(json!({"acceptedIssuers": [B]}))] {
        let warnings = judge(&new, None, true, &denying()).warnings;
        assert!(warnings.iter().all(|warning| warning.starts_with("the managed issuer")), "{warnings:#?}");
    }
}
