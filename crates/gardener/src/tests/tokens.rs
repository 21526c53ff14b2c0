use super::*;

fn max(text: &str) -> Vec<String> {
    errors(&created(&shoot(json!({"maxTokenExpiration": text, "extendTokenExpiration": false}))))
}

#[rstest]
#[case("-1ns", "-1ns")]
#[case("-720h", "-720h0m0s")]
fn d1_negative(#[case] text: &str, #[case] shown: &str) {
    let error = format!("422 maxTokenExpiration: Invalid value: \"{shown}\": can not be negative");
    assert_eq!(max(text), [error]);
}

#[rstest]
#[case("1ns", "1ns")]
#[case("12h", "12h0m0s")]
#[case("719h59m59.999999999s", "719h59m59.999999999s")]
fn d2_shorter_than_30_days(#[case] text: &str, #[case] shown: &str) {
    let error = format!("422 maxTokenExpiration: Forbidden: \"{shown}\": must be at least 720h (30d)");
    assert_eq!(max(text), [error]);
}

#[rstest]
#[case("2160h0m0.000000001s", "2160h0m0.000000001s")]
#[case("8760h", "8760h0m0s")]
fn d3_longer_than_90_days(#[case] text: &str, #[case] shown: &str) {
    let error = format!("422 maxTokenExpiration: Forbidden: \"{shown}\": must be at most 2160h (90d)");
    assert_eq!(max(text), [error]);
}

#[rstest]
#[case("720h")]
#[case("2160h")]
#[case("1080h")]
#[case("43200m")]
#[case("719h60m")]
fn d11_the_bounds_are_inclusive(#[case] text: &str) {
    assert_eq!(max(text), nothing());
}

#[rstest]
#[case("0")]
#[case("0s")]
#[case("-0h")]
#[case("0.1ns")]
fn d11_zero_means_no_maximum_and_is_refused(#[case] text: &str) {
    assert_eq!(
        max(text),
        [
            "422 maxTokenExpiration: Invalid value: \"0s\": 0 means no maximum; use 720h to 2160h, or leave the field out"
        ]
    );
}

#[test]
fn d11_zero_that_was_there_before_the_policy_is_only_warned_of() {
    let judgement = changed(json!({"maxTokenExpiration": "0"}), json!({"maxTokenExpiration": "0s"}));
    assert_eq!(errors(&judgement), nothing());
    assert_eq!(
        judgement.warnings,
        ["maxTokenExpiration: 0 means no maximum; use 720h to 2160h, or leave the field out"]
    );
    assert_eq!(errors(&changed(json!({"maxTokenExpiration": "720h"}), json!({"maxTokenExpiration": "0"}))).len(), 1);
    assert_eq!(errors(&changed(json!({}), json!({"maxTokenExpiration": "0"}))).len(), 1);
}

#[test]
fn d1_d2_d3_hold_for_what_was_there_before_as_in_gardener() {
    for text in ["-1s", "1h", "2161h"] {
        let config = json!({"maxTokenExpiration": text});
        assert_eq!(errors(&changed(config.clone(), config)).len(), 1, "{text}");
    }
}

#[rstest]
#[case("45d", "\"45d\": time: unknown unit \"d\" in duration \"45d\"; use 1080h")]
#[case("30d", "\"30d\": time: unknown unit \"d\" in duration \"30d\"; use 720h")]
#[case("1d12h", "\"1d12h\": time: unknown unit \"d\" in duration \"1d12h\"; use hours, as in 720h")]
#[case("", "\"\": time: invalid duration \"\"; use hours, as in 720h")]
#[case("2592000", "\"2592000\": time: missing unit in duration \"2592000\"; use hours, as in 720h")]
#[case("720H", "\"720H\": time: unknown unit \"H\" in duration \"720H\"; use hours, as in 720h")]
fn d12_only_go_durations_are_read(#[case] text: &str, #[case] detail: &str) {
    assert_eq!(max(text), [format!("422 maxTokenExpiration: Invalid value: {detail}")]);
}

#[test]
fn d12_an_endless_text_makes_no_endless_message() {
    let errors = max(&"9".repeat(100_000));
    assert!(errors[0].ends_with("...\": time: invalid duration; use hours, as in 720h"), "{errors:?}");
    assert!(errors[0].len() < 200);
}

#[test]
fn w5_a_maximum_does_not_bind_while_extension_is_on() {
    let warned = |config| created(&shoot(config)).warnings;
    let expected = [
        "maxTokenExpiration does not bind the tokens of Pods while extendTokenExpiration is not false: they may live for one year; set extendTokenExpiration to false",
    ];
    // D15: the default of kube-apiserver is true.
    assert_eq!(warned(json!({"maxTokenExpiration": "720h"})), expected);
    assert_eq!(warned(json!({"maxTokenExpiration": "720h", "extendTokenExpiration": true})), expected);
    assert_eq!(warned(json!({"maxTokenExpiration": "720h", "extendTokenExpiration": false})), nothing());
    assert_eq!(warned(json!({"extendTokenExpiration": true})), nothing());
    let config = json!({"maxTokenExpiration": "720h"});
    assert_eq!(changed(config.clone(), config).warnings, expected);
}
