#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use rstest::rstest;

use super::*;

fn list(tokens: Value) -> Result<Vec<AudienceToken>, Vec<String>> {
    read(&tokens, &FieldPath::new("spec.serviceAccountTokens"))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn errors(tokens: Value) -> Vec<String> {
    list(tokens).unwrap_err()
}

/// Returns a valid entry with these fields in the place of its own.
fn entry(fields: Value) -> Value {
    let mut entry = json!({"audience": "vault", "path": "vault"});
    entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    entry
}

fn token(audience: &str, path: &str, expiration_seconds: u64) -> AudienceToken {
    AudienceToken { audience: audience.to_owned(), path: path.to_owned(), expiration_seconds }
}

#[test]
fn aud1_a_list_is_read_in_its_order() {
    let tokens = json!([
        {"audience": "sts.amazonaws.com", "path": "aws", "expirationSeconds": 86400},
        {"audience": "https://vault.example.com", "path": "vault"},
    ]);
    let expected = [token("sts.amazonaws.com", "aws", 86400), token("https://vault.example.com", "vault", 3600)];
    assert_eq!(list(tokens).unwrap(), expected);
    assert_eq!(list(json!([])).unwrap(), []);
}

#[test]
fn aud1_an_entry_is_written_as_it_is_read() {
    let read = token("vault", "vault", 3600);
    assert_eq!(list(json!([read.to_json()])).unwrap(), [read]);
}

#[rstest]
#[case::shortest(json!({"expirationSeconds": 600}), token("vault", "vault", 600))]
#[case::longest(json!({"expirationSeconds": 4_294_967_296_u64}), token("vault", "vault", 1 << 32))]
#[case::null_is_absent(json!({"expirationSeconds": null, "later": null}), token("vault", "vault", 3600))]
#[case::hidden_file(json!({"path": ".vault_1-a"}), token("vault", ".vault_1-a", 3600))]
#[case::looks_like_the_token(json!({"path": "token.jwt"}), token("vault", "token.jwt", 3600))]
#[case::longest_path(json!({"path": "p".repeat(253)}), token("vault", &"p".repeat(253), 3600))]
#[case::url(json!({"audience": "//iam.googleapis.com/p/1?a=b#~"}), token("//iam.googleapis.com/p/1?a=b#~", "vault", 3600))]
#[case::longest_audience(json!({"audience": "a".repeat(512)}), token(&"a".repeat(512), "vault", 3600))]
fn aud2_what_is_at_the_limits_is_accepted(#[case] fields: Value, #[case] expected: AudienceToken) {
    assert_eq!(list(json!([entry(fields)])).unwrap(), [expected]);
}

#[rstest]
#[case::no_audience(json!({"audience": null}), "[0].audience: Required value: name the service that accepts the token; the token for the API server is in the file \"token\"")]
#[case::empty_audience(json!({"audience": ""}), "[0].audience: Required value: name the service that accepts the token; the token for the API server is in the file \"token\"")]
#[case::audience_of_another_type(json!({"audience": ["vault"]}), "[0].audience: Invalid value: must be a string, found a list")]
#[case::long_audience(json!({"audience": "a".repeat(513)}), "[0].audience: Too long: may have at most 512 bytes")]
#[case::space(json!({"audience": "va ult"}), "[0].audience: Invalid value: \"va ult\": use printable ASCII characters without spaces")]
#[case::look_alike(json!({"audience": "vаult"}), "[0].audience: Invalid value: \"vаult\": use printable ASCII characters without spaces")]
#[case::line_break(json!({"audience": "vault\n"}), "[0].audience: Invalid value: \"vault\\n\": use printable ASCII characters without spaces")]
#[case::no_path(json!({"path": null}), "[0].path: Required value: name the file that holds the token")]
#[case::empty_path(json!({"path": ""}), "[0].path: Required value: name the file that holds the token")]
#[case::path_of_another_type(json!({"path": 1}), "[0].path: Invalid value: must be a string, found a number")]
#[case::long_path(json!({"path": "p".repeat(254)}), "[0].path: Too long: may have at most 253 bytes")]
#[case::above(json!({"path": "../x"}), "[0].path: Invalid value: \"../x\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::folder(json!({"path": "a/b"}), "[0].path: Invalid value: \"a/b\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::elsewhere(json!({"path": "/etc/passwd"}), "[0].path: Invalid value: \"/etc/passwd\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::the_directory(json!({"path": "."}), "[0].path: Invalid value: \".\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::the_directory_above(json!({"path": ".."}), "[0].path: Invalid value: \"..\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::of_the_kubelet(json!({"path": "..data"}), "[0].path: Invalid value: \"..data\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::backslash(json!({"path": "a\\b"}), "[0].path: Invalid value: \"a\\\\b\": must be the name of a file in the token directory: letters, digits, \"-\", \"_\" and \".\", without folders")]
#[case::token(json!({"path": "token"}), "[0].path: Invalid value: \"token\": is the name of a file that the token directory has already; choose another name")]
#[case::certificate(json!({"path": "ca.crt"}), "[0].path: Invalid value: \"ca.crt\": is the name of a file that the token directory has already; choose another name")]
#[case::namespace(json!({"path": "namespace"}), "[0].path: Invalid value: \"namespace\": is the name of a file that the token directory has already; choose another name")]
#[case::token_on_windows(json!({"path": "Token"}), "[0].path: Invalid value: \"Token\": is the name of a file that the token directory has already; choose another name")]
#[case::too_short_a_life(json!({"expirationSeconds": 599}), "[0].expirationSeconds: Invalid value: \"599\": give whole seconds, from 600 to 4294967296")]
#[case::too_long_a_life(json!({"expirationSeconds": 4_294_967_297_u64}), "[0].expirationSeconds: Invalid value: \"4294967297\": give whole seconds, from 600 to 4294967296")]
#[case::negative_life(json!({"expirationSeconds": -1}), "[0].expirationSeconds: Invalid value: \"-1\": give whole seconds, from 600 to 4294967296")]
#[case::fraction(json!({"expirationSeconds": 600.5}), "[0].expirationSeconds: Invalid value: \"600.5\": give whole seconds, from 600 to 4294967296")]
#[case::life_of_another_type(json!({"expirationSeconds": "1h"}), "[0].expirationSeconds: Invalid value: \"\\\"1h\\\"\": give whole seconds, from 600 to 4294967296")]
#[case::unknown_field(json!({"mode": 420}), "[0].mode: Unknown field: a token has audience, path and expirationSeconds")]
fn aud2_entries_that_are_refused(#[case] fields: Value, #[case] message: &str) {
    assert_eq!(errors(json!([entry(fields)])), [format!("spec.serviceAccountTokens{message}")]);
}

#[rstest]
#[case::audience(
    json!({"path": "other"}), &["spec.serviceAccountTokens[1].audience: Duplicate value: \"vault\""]
)]
#[case::path(
    json!({"audience": "other"}), &["spec.serviceAccountTokens[1].path: Duplicate value: \"vault\""]
)]
#[case::path_on_windows(
    json!({"audience": "other", "path": "VAULT"}), &["spec.serviceAccountTokens[1].path: Duplicate value: \"VAULT\""]
)]
#[case::both(
    json!({"expirationSeconds": 700}),
    &["spec.serviceAccountTokens[1].audience: Duplicate value: \"vault\"", "spec.serviceAccountTokens[1].path: Duplicate value: \"vault\""]
)]
#[case::neither(json!({"audience": "Vault", "path": "other"}), &[])]
fn aud2_no_audience_and_no_file_is_there_twice(#[case] fields: Value, #[case] expected: &[&str]) {
    let found = list(json!([entry(json!({})), entry(fields)])).err().unwrap_or_default();
    assert_eq!(found, expected);
}

#[rstest]
#[case::object(json!({}), "spec.serviceAccountTokens: Invalid value: must be a list of tokens, found an object")]
#[case::text(json!("vault"), "spec.serviceAccountTokens: Invalid value: must be a list of tokens, found a string")]
#[case::entry(json!(["vault"]), "spec.serviceAccountTokens[0]: Invalid value: must be an object with audience and path, found a string")]
#[case::null(json!([null]), "spec.serviceAccountTokens[0]: Invalid value: must be an object with audience and path, found null")]
fn aud2_other_shapes_are_refused(#[case] tokens: Value, #[case] message: &str) {
    assert_eq!(errors(tokens), [message]);
}

#[test]
fn aud2_a_set_has_at_most_sixteen_tokens() {
    let tokens = |count: usize| {
        let entries = (0..count).map(|index| json!({"audience": format!("a{index}"), "path": format!("p{index}")}));
        list(entries.collect())
    };
    assert_eq!(tokens(16).unwrap().len(), 16);
    let message = "spec.serviceAccountTokens: Too many: a SidecarSet may have at most 16 tokens; remove some";
    assert_eq!(tokens(17).unwrap_err(), [message]);
}

#[test]
fn e18_an_entry_with_many_unknown_fields_has_few_errors() {
    let fields: serde_json::Map<String, Value> = (0..10_000).map(|index| (format!("f{index}"), json!(1))).collect();
    assert!(errors(json!([fields])).len() <= ERRORS_MAX + 2);
}
