use super::*;

const NO_URL: &str = "must be a valid URL and have https scheme";
const NO_HTTPS: &str = "must have https scheme";

/// Returns the errors of an issuer, without the value.
fn wrong(issuer: &str) -> Vec<String> {
    let judgement = created(&shoot(json!({ "issuer": issuer })));
    for path in paths(&judgement) {
        assert_eq!(path, "spec.kubernetes.kubeAPIServer.serviceAccountConfig.issuer");
    }
    judgement.invalid.into_iter().map(|error| error.detail).collect()
}

#[rstest]
#[case::unparsable("https://a b", &[NO_URL])]
#[case::control_character("https://a\u{1}", &[NO_URL])]
#[case::bad_escape("https://a/%zz", &[NO_URL])]
#[case::bad_port("https://a:b", &[NO_URL])]
#[case::bad_ipv6("https://[::1", &[NO_URL])]
#[case::no_host("https://", &[NO_URL])]
#[case::opaque("https:a", &[NO_URL])]
#[case::no_host_but_a_path("https:///a", &[NO_URL])]
#[case::fine(A, &[])]
#[case::path("https://a.example.com:8443/b/c", &[])]
fn d4_issuers_are_urls_with_a_host(#[case] issuer: &str, #[case] expected: &[&str]) {
    assert_eq!(wrong(issuer), expected);
}

#[rstest]
#[case::fragment("https://a#f", &["must not contain a fragment"])]
#[case::user("https://u@a", &["must not contain a username or password"])]
#[case::password("https://u:p@a", &["must not contain a username or password"])]
#[case::query("https://a?q", &["must not contain a query"])]
#[case::all("https://u@a?q#f", &[
    "must not contain a fragment", "must not contain a username or password", "must not contain a query"
])]
fn d5_issuers_have_no_fragment_user_or_query(#[case] issuer: &str, #[case] expected: &[&str]) {
    assert_eq!(wrong(issuer), expected);
}

#[rstest]
#[case("http://a", &[NO_HTTPS])]
#[case("ftp://a", &[NO_HTTPS])]
#[case("//a", &[NO_HTTPS])]
fn d6_issuers_have_scheme_https(#[case] issuer: &str, #[case] expected: &[&str]) {
    assert_eq!(wrong(issuer), expected);
}

#[test]
fn d7_every_accepted_issuer_is_checked_like_the_issuer() {
    let config = json!({"acceptedIssuers": [A, "foo1", "https://a#f", null]});
    assert_eq!(
        errors(&created(&shoot(config))),
        [
            "422 acceptedIssuers[1]: Invalid value: \"foo1\": must be a valid URL and have https scheme",
            "422 acceptedIssuers[1]: Invalid value: \"foo1\": must have https scheme",
            "422 acceptedIssuers[2]: Invalid value: \"https://a#f\": must not contain a fragment",
            "422 acceptedIssuers[3]: Invalid value: \"\": must be a valid URL and have https scheme",
            "422 acceptedIssuers[3]: Invalid value: \"\": must have https scheme",
        ]
    );
}

#[test]
fn d8_the_issuer_is_no_accepted_issuer() {
    let config = json!({"issuer": A, "acceptedIssuers": [B, A, A]});
    let error = |index: &str| {
        format!(
            "422 acceptedIssuers[{index}]: Invalid value: \"https://a.example.com\": acceptedIssuers cannot contains the issuer field value: https://a.example.com"
        )
    };
    assert_eq!(errors(&created(&shoot(config))), [error("1"), error("2")]);
}

#[test]
fn d9_accepted_issuers_stand_once() {
    let config = json!({"acceptedIssuers": [A, B, A, A]});
    assert_eq!(
        errors(&created(&shoot(config))),
        [
            "422 acceptedIssuers[2]: Duplicate value: \"https://a.example.com\"",
            "422 acceptedIssuers[3]: Duplicate value: \"https://a.example.com\"",
        ]
    );
}

#[test]
fn d10_accepted_issuers_that_stay_are_not_checked_again_but_the_issuer_is() {
    let accepted = json!(["foo", "foo", A]);
    let with = |issuer: &str| json!({"issuer": issuer, "acceptedIssuers": accepted});
    assert_eq!(errors(&changed(with(B), with(B))), nothing());
    assert_eq!(errors(&changed(with(B), with("bar"))).len(), 2);
    assert_eq!(errors(&changed(with("bar"), with("bar"))).len(), 2);
    // A reordered or extended list is checked, and so is a list without an old config.
    assert_eq!(errors(&changed(with(B), json!({"acceptedIssuers": [A, "foo"]}))).len(), 2);
    assert_eq!(errors(&changed(Value::Null, with(B))).len(), 5);
    assert_eq!(errors(&changed(json!({}), with(B))).len(), 5);
    assert_eq!(errors(&created(&shoot(with(B)))).len(), 5);
}

#[test]
fn d13_the_checks_are_independent() {
    assert_eq!(wrong("foo"), [NO_URL, NO_HTTPS]);
    assert_eq!(wrong("foo1"), [NO_URL, NO_HTTPS]);
    assert_eq!(wrong("https://"), [NO_URL]);
    assert_eq!(wrong(":"), [NO_URL]);
    assert_eq!(wrong(""), [NO_URL, NO_HTTPS]);
}

#[rstest]
#[case("https://a#")]
#[case("https://a?")]
#[case("HTTPS://a")]
#[case("https://:443")]
fn d13_odd_urls_pass_as_in_gardener(#[case] issuer: &str) {
    assert_eq!(wrong(issuer), nothing());
    assert_eq!(errors(&created(&shoot(json!({ "acceptedIssuers": [issuer] })))), nothing());
}

const TWICE: &str = "is the issuer, too, and kube-apiserver does not start with an issuer that is given twice; remove it from acceptedIssuers";

#[test]
fn d14_an_accepted_issuer_does_not_become_the_issuer_and_stay() {
    let old = json!({"issuer": A, "acceptedIssuers": [C, B]});
    let error = format!("422 acceptedIssuers[1]: Invalid value: \"https://b.example.com\": {TWICE}");
    assert_eq!(errors(&changed(old.clone(), json!({"issuer": B, "acceptedIssuers": [C, B]}))), [error]);
    // This is how to migrate back.
    assert_eq!(errors(&changed(old, json!({"issuer": B, "acceptedIssuers": [C, A]}))), nothing());
}

#[test]
fn d14_what_was_there_before_the_policy_is_only_warned_of() {
    let config = json!({"issuer": B, "acceptedIssuers": [B]});
    let judgement = changed(config.clone(), config);
    assert_eq!(errors(&judgement), nothing());
    assert_eq!(judgement.warnings, [format!("acceptedIssuers: \"https://b.example.com\" {TWICE}")]);
}

#[rstest]
#[case("https://discovery.garden.example.com/projects/dev/shoots/3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11/issuer")]
#[case("https://elsewhere.example.com:8443/projects/p/shoots/3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11/issuer")]
fn d14_d20_the_managed_issuer_is_no_accepted_issuer_whatever_its_host(#[case] url: &str) {
    let new = managed(json!({ "acceptedIssuers": [A, url] }));
    let judgement = updated(&new, &shoot(json!({"acceptedIssuers": [A, url]})));
    assert_eq!(errors(&judgement).len(), 1, "{judgement:#?}");
    assert_eq!(paths(&judgement), ["spec.kubernetes.kubeAPIServer.serviceAccountConfig.acceptedIssuers[1]"]);
    assert_eq!(judgement.invalid[0].detail, TWICE);
    // The issuer is refused if it is added while the Shoot is managed. It is only warned of if it stays.
    assert_eq!(errors(&updated(&new, &managed(json!({"acceptedIssuers": [A]})))).len(), 1);
    let kept = updated(&new, &new);
    assert_eq!((errors(&kept), kept.warnings.len()), (nothing(), 1));
}

#[rstest]
#[case::another_shoot("https://d.example.com/projects/dev/shoots/00000000-0000-0000-0000-000000000000/issuer")]
#[case::another_path("https://d.example.com/x/projects/dev/shoots/3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11/issuer")]
#[case::no_project("https://d.example.com/projects//shoots/3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11/issuer")]
#[case::keys("https://d.example.com/projects/dev/shoots/3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11/jwks")]
#[case::slash("https://d.example.com/projects/dev/shoots/3f9b9d3c-5b0e-4a54-9d6e-0a4c8f0f7d11/issuer/")]
fn d20_other_urls_are_not_the_managed_issuer(#[case] url: &str) {
    assert_eq!(errors(&updated(&managed(json!({ "acceptedIssuers": [url] })), &shoot(json!({})))), nothing());
}

#[test]
fn d20_the_managed_issuer_is_unknown_while_there_is_no_uid() {
    let mut new = managed(json!({"acceptedIssuers": ["https://d.example.com/projects/dev/shoots//issuer"]}));
    new["metadata"]["uid"] = Value::Null;
    assert_eq!(errors(&created(&new)), nothing());
}

#[test]
fn e18_more_accepted_issuers_than_are_looked_at_are_refused_unless_they_stay() {
    let many =
        |count: usize| -> Vec<String> { (0..count).map(|index| format!("https://{index}.example.com")).collect() };
    assert_eq!(created(&shoot(json!({"acceptedIssuers": many(1_000)}))), Judgement::default());
    let shown = |judgement: &Judgement| judgement.invalid.iter().map(ToString::to_string).collect::<Vec<_>>();
    let too_many =
        ["spec.kubernetes.kubeAPIServer.serviceAccountConfig.acceptedIssuers: Too many: may have at most 1000 issuers"];
    assert_eq!(shown(&created(&shoot(json!({"acceptedIssuers": many(1_001)})))), too_many);
    let stored = json!({"issuer": A, "acceptedIssuers": many(1_001)});
    let kept = changed(stored.clone(), stored.clone());
    assert_eq!((shown(&kept).len(), kept.warnings.len()), (0, 1), "{kept:?}");
    for new in
        [json!({"issuer": B, "acceptedIssuers": many(1_001)}), json!({"issuer": A, "acceptedIssuers": many(1_002)})]
    {
        assert_eq!(shown(&changed(stored.clone(), new)), too_many);
    }
}
