//! Tokens for other audiences (AUD-1, AUD-2, AUD-5).

use rstest::rstest;
use serde_json::{Value, json};

use super::account;
use super::admit;
use super::cluster;
use super::request;
use super::set;
use super::stored;
use super::update;
use crate::support::identity::{Court, edited, rule, verdict};

fn rules() -> Value {
    json!({"allowedAudiences": ["vault", "a?", "a??", "https://*"], "maxTokenExpirationSeconds": 86400})
}

fn message_of(set: &Value) -> String {
    verdict(&admit(&request("ann", set), &rules(), cluster()).0)
}

fn asking(tokens: Value) -> Value {
    edited(set(), |set| {
        set["spec"]["serviceAccountTokens"] = tokens;
        set["spec"]["serviceAccountMode"] = json!("Isolate");
    })
}

/// Returns the set with the list in the annotation instead of the field.
fn annotated(tokens: &Value) -> Value {
    edited(asking(Value::Null), |set| {
        set["metadata"]["annotations"] = json!({"pillion.dev/service-account-tokens": tokens.to_string()});
    })
}

const FOLDERS: &str =
    "must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders";
const TAKEN: &str = "is the name of a file that the token directory has already; choose another name";

/// Lists that are invalid, in the field and in the annotation.
#[rstest]
#[case::above(json!([{"audience": "vault", "path": "../x"}]), &format!("[0].path: Invalid value: \"../x\": {FOLDERS}"))]
#[case::a_folder(json!([{"audience": "vault", "path": "a/b"}]), &format!("[0].path: Invalid value: \"a/b\": {FOLDERS}"))]
#[case::the_root(json!([{"audience": "vault", "path": "/etc"}]), &format!("[0].path: Invalid value: \"/etc\": {FOLDERS}"))]
#[case::the_token(json!([{"audience": "vault", "path": "token"}]), &format!("[0].path: Invalid value: \"token\": {TAKEN}"))]
#[case::the_certificate(json!([{"audience": "vault", "path": "ca.crt"}]), &format!("[0].path: Invalid value: \"ca.crt\": {TAKEN}"))]
#[case::the_namespace(json!([{"audience": "vault", "path": "namespace"}]), &format!("[0].path: Invalid value: \"namespace\": {TAKEN}"))]
#[case::an_audience_twice(
    json!([{"audience": "vault", "path": "a"}, {"audience": "vault", "path": "b"}]),
    "[1].audience: Duplicate value: \"vault\""
)]
#[case::a_path_twice(
    json!([{"audience": "vault", "path": "a"}, {"audience": "a1", "path": "a"}]), "[1].path: Duplicate value: \"a\""
)]
#[case::seventeen(
    (0..17).map(|index| json!({"audience": format!("a{index}"), "path": format!("p{index}")})).collect(),
    ": Too many: a SidecarSet may have at most 16 tokens; remove some"
)]
#[case::a_life_of_599_seconds(
    json!([{"audience": "vault", "path": "a", "expirationSeconds": 599}]),
    "[0].expirationSeconds: Invalid value: \"599\": give whole seconds, from 600 to 4294967296"
)]
#[case::no_audience(
    json!([{"path": "a"}]),
    "[0].audience: Required value: name the service that accepts the token; the token for the API server is in the file \"token\""
)]
#[case::an_unknown_field(
    json!([{"audience": "vault", "path": "a", "mode": 511}]),
    "[0].mode: Unknown field: a token has audience, path and expirationSeconds"
)]
fn aud2_lists_that_are_refused(#[case] tokens: Value, #[case] message: &str) {
    assert_eq!(
        message_of(&asking(tokens.clone())),
        format!("422 SidecarSet \"agent\": spec.serviceAccountTokens{message}")
    );
    let annotation = "metadata.annotations[pillion.dev/service-account-tokens]";
    assert_eq!(message_of(&annotated(&tokens)), format!("422 SidecarSet \"agent\": {annotation}{message}"));
    let honest = (0..16).map(|index| json!({"audience": format!("a{index}"), "path": format!("p{index}")})).collect();
    assert_eq!(message_of(&asking(honest)), "accepted");
}

#[rstest]
#[case::not_allowed(
    json!([{"audience": "vault", "path": "a"}, {"audience": "vault2", "path": "b"}]),
    "[1]: the audience \"vault2\" is not allowed; add it to serviceAccounts.allowedAudiences"
)]
#[case::of_the_api_server(
    json!([{"audience": "https://kubernetes.default.svc.cluster.local", "path": "a"}]),
    "[0]: the audience \"https://kubernetes.default.svc.cluster.local\" is one of the API server; remove the entry and use the file \"token\", or correct serviceAccounts.apiServerAudiences"
)]
#[case::too_long_a_life(
    json!([{"audience": "vault", "path": "a", "expirationSeconds": 86401}]),
    "[0]: the token for \"vault\" would live 86401 seconds, and 86400 are allowed; lower expirationSeconds, or raise serviceAccounts.maxTokenExpirationSeconds"
)]
fn aud5_lists_that_the_settings_do_not_allow(#[case] tokens: Value, #[case] message: &str) {
    let expected = format!("403 SidecarSet \"agent\": spec.serviceAccountTokens{message}");
    assert_eq!(message_of(&asking(tokens.clone())), expected);
    assert_eq!(message_of(&annotated(&tokens)), expected);
    // Not even an administrator may write it: the settings decide.
    let (answer, _) = admit(&request("root", &asking(tokens)), &rules(), cluster());
    assert_eq!(verdict(&answer), expected);
}

#[test]
fn aud5_the_list_of_allowed_audiences_is_empty_by_default() {
    let set = asking(json!([{"audience": "vault", "path": "a"}]));
    let (answer, _) = admit(&request("root", &set), &json!({}), cluster());
    assert_eq!(
        verdict(&answer),
        "403 SidecarSet \"agent\": spec.serviceAccountTokens[0]: the audience \"vault\" is not allowed; add it to serviceAccounts.allowedAudiences"
    );
}

#[test]
fn aud2_a_list_without_an_account_is_refused() {
    let set = edited(asking(json!([{"audience": "vault", "path": "a"}])), |set| {
        for key in ["serviceAccountName", "serviceAccountPermissions", "behaviorWhenServiceAccountInjection"] {
            set["spec"].as_object_mut().unwrap().remove(key);
        }
    });
    assert_eq!(
        message_of(&set),
        "422 SidecarSet \"agent\": spec.serviceAccountTokens: Forbidden: tokens belong to a ServiceAccount; set spec.serviceAccountName"
    );
}

#[test]
fn idf4_a_field_and_an_annotation_may_not_disagree() {
    let with = |text: &str| {
        edited(asking(json!([{"audience": "vault", "path": "a"}])), |set| {
            set["metadata"]["annotations"] = json!({"pillion.dev/service-account-tokens": text});
        })
    };
    for other in [r#"[{"audience": "vault", "path": "b"}]"#, "[]", r#"[{"audience": "vault", "path": "a"}, null]"#] {
        assert_eq!(
            message_of(&with(other)),
            "422 SidecarSet \"agent\": metadata.annotations[pillion.dev/service-account-tokens]: Invalid value: says something else than spec.serviceAccountTokens; keep one of the two"
        );
    }
    assert_eq!(message_of(&with(r#"[{"path": "a", "audience": "vault"}]"#)), "accepted");
}

/// AUD-5: a change of the list needs the same rights of the author as a change of the account.
#[rstest]
#[case::added("/spec/serviceAccountTokens", Value::Null, json!([{"audience": "vault", "path": "a"}]))]
#[case::another_audience(
    "/spec/serviceAccountTokens", json!([{"audience": "a1", "path": "a"}]), json!([{"audience": "vault", "path": "a"}])
)]
#[case::a_longer_life(
    "/spec/serviceAccountTokens", json!([{"audience": "vault", "path": "a"}]),
    json!([{"audience": "vault", "path": "a", "expirationSeconds": 7200}])
)]
#[case::removed("/spec/serviceAccountTokens", json!([{"audience": "vault", "path": "a"}]), Value::Null)]
#[case::by_annotation(
    "/metadata/annotations/pillion.dev~1service-account-tokens", Value::Null,
    json!("[{\"audience\": \"vault\", \"path\": \"a\"}]")
)]
fn aud5_an_author_without_rights_does_not_change_the_list(
    #[case] path: &str,
    #[case] before: Value,
    #[case] after: Value,
) {
    let with = |mut set: Value, value: Value| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
        set
    };
    let old = with(stored(&set()), before);
    let new = with(old.clone(), after);
    let bob = || Court::with([account("web")]).granting("bob", "web", &json!([rule("", "pods", "get")]));
    let (answer, _) = admit(&update("bob", &old, &new), &rules(), bob());
    assert_eq!(
        verdict(&answer),
        "403 SidecarSet \"agent\": spec.serviceAccountName: \"bob\" may not use the ServiceAccount \"agent\" in namespace \"web\"; the author needs \"create\" on pods, or on serviceaccounts/token of this name"
    );
    let (answer, _) = admit(&update("ann", &old, &new), &rules(), cluster());
    assert_eq!(verdict(&answer), "accepted");
    // Without a change of the list, nobody is asked.
    let same = edited(old.clone(), |set| set["metadata"]["labels"] = json!({"a": "b"}));
    let (answer, court) = admit(&update("bob", &old, &same), &rules(), bob());
    assert_eq!((verdict(&answer), court.questions()), ("accepted".to_owned(), vec![]));
}
