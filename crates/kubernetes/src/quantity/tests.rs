use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;

use super::*;

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Each row has the JSON, the stored text, and the text after rounding up to milli; or an error.
const E21: &[(&str, Option<(&str, &str)>)] = &[
    (r#""0""#, Some(("0", "0"))),
    (r#""1""#, Some(("1", "1"))),
    (r"1", Some(("1", "1"))),
    (r"1.5", Some(("1500m", "1500m"))),
    (r#""1.5""#, Some(("1500m", "1500m"))),
    (r#""0.5""#, Some(("500m", "500m"))),
    (r#""500m""#, Some(("500m", "500m"))),
    (r#""1000m""#, Some(("1", "1"))),
    (r#""1500m""#, Some(("1500m", "1500m"))),
    (r#""0.1""#, Some(("100m", "100m"))),
    (r#""0.0001""#, Some(("100u", "1m"))),
    (r#""100u""#, Some(("100u", "1m"))),
    (r#""1n""#, Some(("1n", "1m"))),
    (r#""0.1n""#, Some(("1n", "1m"))),
    (r#""1.1n""#, Some(("2n", "1m"))),
    (r#""128974848""#, Some(("128974848", "128974848"))),
    (r#""129e6""#, Some(("129e6", "129e6"))),
    (r#""129E6""#, Some(("129E6", "129E6"))),
    (r#""64e6""#, Some(("64e6", "64e6"))),
    (r#""1e3""#, Some(("1e3", "1e3"))),
    (r#""1.5e3""#, Some(("1500", "1500"))),
    (r#""1e-3""#, Some(("1e-3", "1e-3"))),
    (r#""129M""#, Some(("129M", "129M"))),
    (r#""0.5Gi""#, Some(("512Mi", "512Mi"))),
    (r#""1.5Gi""#, Some(("1536Mi", "1536Mi"))),
    (r#""1024Mi""#, Some(("1Gi", "1Gi"))),
    (r#""1024Ki""#, Some(("1Mi", "1Mi"))),
    (r#""1000Ki""#, Some(("1000Ki", "1000Ki"))),
    (r#""1Gi""#, Some(("1Gi", "1Gi"))),
    (r#""1G""#, Some(("1G", "1G"))),
    (r#""1000M""#, Some(("1G", "1G"))),
    (r#""1000k""#, Some(("1M", "1M"))),
    (r#""1024""#, Some(("1024", "1024"))),
    (r#""1048576""#, Some(("1048576", "1048576"))),
    (r#""0.1Ki""#, Some(("102400m", "102400m"))),
    (r#""0.7Mi""#, Some(("734003200m", "734003200m"))),
    (r#""1.0001Gi""#, Some(("1073849198182400u", "1073849198183m"))),
    (r#""100Gi""#, Some(("100Gi", "100Gi"))),
    (r#""1Ti""#, Some(("1Ti", "1Ti"))),
    (r#""1Pi""#, Some(("1Pi", "1Pi"))),
    (r#""1Ei""#, Some(("1Ei", "1Ei"))),
    (r#""8Ei""#, Some(("9223372036854775807", "9223372036854775807"))),
    (r#""9223372036854775807""#, Some(("9223372036854775807", "9223372036854775807"))),
    (r#""9223372036854775808""#, Some(("9223372036854775808", "9223372036854775808"))),
    (r#""1E""#, Some(("1E", "1E"))),
    (r#""10E""#, Some(("10E", "10E"))),
    (r#""-1""#, Some(("-1", "-1"))),
    (r#""-500m""#, Some(("-500m", "-500m"))),
    (r#""+1""#, Some(("+1", "+1"))),
    (r#""1.""#, Some(("1.", "1."))),
    (r#"".5""#, Some(("500m", "500m"))),
    (r#""1K""#, None),
    (r#""1ki""#, None),
    (r#""1mi""#, None),
    (r#"" 1""#, Some(("1", "1"))),
    (r#""1 Gi""#, None),
    (r#""""#, None),
    (r#""1e""#, None),
    (r#""1eG""#, None),
    (r#""0x10""#, None),
    (r#""1_000""#, None),
    (r#""12345678901234567890""#, Some(("12345678901234567890", "12345678901234567890"))),
    (r#""0.000000000000001""#, Some(("1n", "1m"))),
    (r#""3.14159265358979""#, Some(("3141592654n", "3142m"))),
    (r#""00100""#, Some(("00100", "00100"))),
    (r#""1e100""#, Some(("10e99", "10e99"))),
    (r#""100000000000000000000m""#, Some(("100P", "100P"))),
    (r"null", Some(("0", "0"))),
    (r"true", None),
    (r#""0Mi""#, Some(("0", "0"))),
    (r#""0.0""#, Some(("0", "0"))),
    (r#""1e0""#, Some(("1e0", "1e0"))),
    (r#""5e-9""#, Some(("5e-9", "1e-3"))),
    (r#""5e-10""#, Some(("1e-9", "1e-3"))),
];

#[test]
fn qty2_json_becomes_the_canonical_text() {
    for (json, expected) in E21 {
        let value: Value = serde_json::from_str(json).unwrap();
        let got = Quantity::from_json(&value).ok();
        let got = got.map(|quantity| (quantity.to_string(), quantity.round_up_to_milli().to_string()));
        let expected = expected.map(|(text, milli)| (text.to_owned(), milli.to_owned()));
        assert_eq!(got, expected, "{json}");
    }
}

/// Recorded from apimachinery v0.32.10: short texts stay as written, longer ones become canonical.
const RECORDED: &[(&str, Option<(&str, &str)>)] = &[
    ("1.234", Some(("1.234", "1.234"))),
    ("1.234567", Some(("1.234567", "1235m"))),
    ("1.2345", Some(("1234500u", "1235m"))),
    ("10.0100", Some(("10010m", "10010m"))),
    ("1.00e-1", Some(("1.00e-1", "1.00e-1"))),
    ("1.Ki", Some(("1.Ki", "1.Ki"))),
    ("1.0Ki", Some(("1Ki", "1Ki"))),
    ("12Ki", Some(("12Ki", "12Ki"))),
    ("8Ki", Some(("8Ki", "8Ki"))),
    ("1032Ki", Some(("1032Ki", "1032Ki"))),
    ("0001Ki", Some(("0001Ki", "0001Ki"))),
    ("100Ti", Some(("100Ti", "100Ti"))),
    ("10Ti", Some(("10Ti", "10Ti"))),
    ("1Pi", Some(("1Pi", "1Pi"))),
    ("7Ei", Some(("7Ei", "7Ei"))),
    ("-8Ei", Some(("-9223372036854775807", "-9223372036854775807"))),
    ("1024Ei", Some(("9223372036854775807", "9223372036854775807"))),
    ("-1.5Ki", Some(("-1536", "-1536"))),
    ("1023.5Ki", Some(("1048064", "1048064"))),
    ("-0.0001Ki", Some(("-102400u", "-103m"))),
    ("0.0001Ki", Some(("102400u", "103m"))),
    ("1e21", Some(("1e21", "1e21"))),
    ("1e1000", Some(("10e999", "10e999"))),
    ("1e-400", Some(("1e-9", "1e-3"))),
    ("0e-400", Some(("0", "0"))),
    ("0e99999999", Some(("0", "0"))),
    ("-0", Some(("0", "0"))),
    ("0Pi", Some(("0", "0"))),
    ("+", Some(("0", "0"))),
    ("m", Some(("0", "0"))),
    (".", Some(("0", "0"))),
    ("Ki", Some(("0", "0"))),
    (".Ki", Some(("0", "0"))),
    ("Pi", None),
    (".e-10", None),
    ("1.5E", Some(("1500P", "1500P"))),
    ("1E5", Some(("100e3", "100e3"))),
    ("1e+4", Some(("10e3", "10e3"))),
    ("123456789012345678", Some(("123456789012345678", "123456789012345678"))),
    ("1234567890123456789", Some(("1234567890123456789", "1234567890123456789"))),
    ("1000000000000000000", Some(("1E", "1E"))),
    ("123456789012345678901234567890Ki", Some(("9223372036854775807", "9223372036854775807"))),
    ("-1.1n", Some(("-2n", "-1m"))),
    ("-1u", Some(("-1u", "-1m"))),
    ("00000000000000000000001", Some(("00000000000000000000001", "00000000000000000000001"))),
    ("999999999999999999n", Some(("999999999999999999n", "1G"))),
    ("0.000000001", Some(("1n", "1m"))),
    ("0.0000000011", Some(("2n", "1m"))),
    ("1e-9", Some(("1e-9", "1e-3"))),
    ("1000000u", Some(("1", "1"))),
    ("3000m", Some(("3", "3"))),
    ("1000e3", Some(("1e6", "1e6"))),
    ("100e-2", Some(("1", "1"))),
    ("1m5", None),
    ("1+5", None),
    ("1e5e5", None),
    ("--1", None),
    ("1.2.3", None),
    ("1,5", None),
    ("é", None),
    ("1é", None),
    ("1 ", None),
];

#[test]
fn qty1_texts_are_kept_or_made_canonical_as_apimachinery_does() {
    for (text, expected) in RECORDED {
        let got = Quantity::parse(text).ok();
        let got = got.map(|quantity| (quantity.to_string(), quantity.round_up_to_milli().to_string()));
        let expected = expected.map(|(text, milli)| (text.to_owned(), milli.to_owned()));
        assert_eq!(got, expected, "{text}");
    }
}

/// Kubernetes' library prints `1` for `1000E`, because there is no suffix above exa. The value must not change when it
/// is stored.
#[rstest]
#[case("1000E", "1000E")]
#[case("1000000000000000000000", "1000E")]
#[case("-25000000P", "-25000E")]
fn qty1_values_above_exa_keep_their_digits(#[case] text: &str, #[case] canonical: &str) {
    assert_eq!(q(text).to_string(), canonical);
    assert_eq!(q(canonical), q(text));
}

#[test]
fn qty1_spaces_are_taken_off_in_json_only() {
    let spaced = Value::from("\u{a0} 1Gi ");
    assert_eq!(Quantity::from_json(&spaced).unwrap().to_string(), "1Gi");
    assert_eq!(Quantity::parse(" 1Gi"), Err(QuantityError::Malformed));
    assert_eq!(Quantity::from_json(&Value::from("1Gi\t")), Err(QuantityError::Malformed));
    assert_eq!(Quantity::from_json(&Value::from("  ")), Err(QuantityError::Malformed));
}

#[rstest]
#[case("null", Some("0"))]
#[case("129e6", Some("129e6"))]
#[case("129E+6", Some("129e6"))]
#[case("1e-3", Some("1e-3"))]
#[case("1.50", Some("1500m"))]
#[case("-2", Some("-2"))]
#[case("12345678901234567890123456789", Some("12345678901234567890123456789"))]
#[case("[]", None)]
#[case("{}", None)]
#[case("false", None)]
fn qty1_json_numbers_and_null_are_quantities(#[case] json: &str, #[case] expected: Option<&str>) {
    let got = Quantity::from_json(&serde_json::from_str(json).unwrap());
    assert_eq!(got.ok().map(|quantity| quantity.to_string()).as_deref(), expected);
}

#[test]
fn errors_say_what_is_accepted() {
    let message = |text: &str| Quantity::parse(text).unwrap_err().to_string();
    assert!(message("").contains("such as \"500m\" or \"1Gi\""));
    assert!(message("1K").starts_with("unknown suffix \"K\": use one of n u m k M"));
    assert!(message(&"9".repeat(5_000)).contains("at most 4096 digits"));
    assert_eq!(
        Quantity::from_json(&Value::Bool(true)).unwrap_err().to_string(),
        "must be a string or a number, not a boolean"
    );
}

#[test]
fn digits_and_exponents_are_exact_up_to_the_limit_and_errors_beyond() {
    let longest = "9".repeat(MAX_DIGITS);
    assert_eq!(q(&longest).to_string(), longest);
    assert_eq!(Quantity::parse(&format!("{longest}9")), Err(QuantityError::TooLarge));
    assert_eq!(Quantity::parse(&format!("0.{longest}")), Ok(q("1")));
    assert_eq!(Quantity::parse(&format!("0.{longest}9")), Err(QuantityError::TooLarge));
    assert_eq!(q("1e4096").to_string(), "10e4095");
    assert_eq!(Quantity::parse("1e4097"), Err(QuantityError::TooLarge));
    assert!(Quantity::parse("1e4294967296").is_err(), "wraps around to 1e0 in Kubernetes");
    assert_eq!(q(&format!("{longest}Ki")), q("8Ei"), "binary values are capped");
    assert_eq!(q(&format!("{longest}e-5000")).to_string(), "1e-9");
    let largest = q(&format!("{longest}e4095"));
    assert_eq!(q(&largest.to_string()), largest);
    let sums = std::iter::successors(Some(largest), |sum| sum.checked_add(sum));
    assert!(sums.take(20_000).count() < 20_000, "a sum may not grow without limit");
}

/// `100e4096` prints as `1e4098`, and `9...9.9` with 4096 digits prints with two more digits and an `m`. Neither text
/// could be parsed again.
#[test]
fn a_quantity_whose_canonical_text_is_beyond_the_limit_is_an_error() {
    let long = "9".repeat(MAX_DIGITS - 1);
    for text in ["100e4096", &format!("{long}9e4096"), &format!("{long}.9"), &format!("-{long}.9")] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::TooLarge), "{text}");
    }
    for text in ["10e4095", &format!("{long}9e4095"), &format!("{long}9E"), &format!("{long}9n"), "0e9999"] {
        assert_eq!(q(&q(text).to_string()), q(text), "{text}");
    }
}

#[rstest]
#[case("1", "500m", "1500m", "500m")]
#[case("0", "1Ki", "1Ki", "-1Ki")]
#[case("1Gi", "1G", "2073741824", "73741824")]
#[case("1G", "1Gi", "2073741824", "-73741824")]
#[case("1.", "0", "1", "1")]
#[case("1e3", "1k", "2e3", "0")]
#[case("-1", "-0.5", "-1500m", "-500m")]
#[case("0.1", "1n", "100000001n", "99999999n")]
#[case("9223372036854775807", "1", "9223372036854775808", "9223372036854775806")]
#[case("8Ei", "8Ei", "18446744073709551614", "0")]
#[case(
    "1e100",
    "1e-9",
    "10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001e-9",
    "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999e-9"
)]
fn expr7_sums_are_exact_in_the_format_of_the_first_that_is_not_zero(
    #[case] left: &str,
    #[case] right: &str,
    #[case] sum: &str,
    #[case] difference: &str,
) {
    assert_eq!(q(left).checked_add(&q(right)).unwrap().to_string(), sum);
    assert_eq!(q(left).checked_sub(&q(right)).unwrap().to_string(), difference);
    assert_eq!(q(left).checked_add(&q(right).negated()).unwrap().to_string(), difference);
}

#[test]
fn order_and_equality_are_those_of_the_value() {
    let ascending = [
        "-1e100", "-1Gi", "-1001m", "-1", "0", "1n", "1m", "999m", "1", "1001m", "1023", "1Ki", "1G", "1Gi", "9E",
        "1e100",
    ];
    for (place, lower) in ascending.iter().enumerate() {
        for (other, upper) in ascending.iter().enumerate() {
            assert_eq!(q(lower).cmp(&q(upper)), place.cmp(&other), "{lower} {upper}");
        }
    }
    assert_eq!(q("1"), q("1000m"));
    assert_eq!(q("1e0"), q("+1"));
    assert_eq!(q("-0"), Quantity::default());
}

#[rstest]
#[case("0", Some(0), Some(0))]
#[case("1.5", Some(2), Some(1500))]
#[case("1n", Some(1), Some(1))]
#[case("-1.0001", Some(-2), Some(-1001))]
#[case("9223372036854775807", Some(i64::MAX), None)]
#[case("-9223372036854775808", Some(i64::MIN), None)]
#[case("9223372036854775808", None, None)]
#[case("9223372036854775807m", Some(9_223_372_036_854_776), Some(i64::MAX))]
#[case("1e100", None, None)]
fn integers_are_rounded_away_from_zero(#[case] text: &str, #[case] units: Option<i64>, #[case] milli: Option<i64>) {
    assert_eq!(q(text).to_i64_ceil(), units);
    assert_eq!(q(text).to_milli_ceil(), milli);
}

#[rstest]
#[case("1.", "1.")]
#[case("1000.5Ki", "1024512")]
#[case("1023.9999Ki", "1Mi")]
#[case("0.1Ki", "103")]
#[case("778.178352862Gi", "835562644000")]
#[case("34917580799m", "34917581")]
#[case("-0.5", "-1")]
#[case("1e-3", "1")]
#[case("1100e-3", "2")]
fn diff10_whole_numbers_round_up_and_keep_their_format(#[case] text: &str, #[case] whole: &str) {
    let rounded = q(text).round_up_to_whole();
    assert!(rounded.is_whole());
    assert_eq!(rounded.to_string(), whole);
    assert_eq!(rounded.format(), q(text).format());
}

#[test]
fn amounts_are_made_from_integers() {
    assert_eq!(Quantity::from_milli(1500, Format::DecimalSi).to_string(), "1500m");
    assert_eq!(Quantity::from_milli(2000, Format::DecimalExponent).to_string(), "2");
    assert_eq!(Quantity::from_milli(i64::MIN, Format::DecimalSi).to_string(), "-9223372036854775808m");
    assert_eq!(Quantity::from_units(-2048, Format::BinarySi).to_string(), "-2Ki");
    assert_eq!(Quantity::from_units(1000, Format::BinarySi).to_string(), "1k");
    assert_eq!(Quantity::from_units(11_259_000, Format::BinarySi).to_string(), "11259000");
    assert_eq!(Quantity::from_units(i64::MIN, Format::BinarySi).to_string(), "-8Ei");
    assert!(Quantity::from_units(0, Format::BinarySi).is_zero());
    assert!(Quantity::from_milli(-1, Format::DecimalSi).is_negative());
}

proptest! {
    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = Quantity::parse(&text);
        let _ = Quantity::from_json(&Value::String(text));
    }

    #[test]
    fn printed_quantities_read_back_as_the_same_value_and_text(
        text in "[+-]?[0-9]{0,25}(\\.[0-9]{0,25})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?"
    ) {
        if let Ok(quantity) = Quantity::parse(&text) {
            for quantity in [quantity.round_up_to_milli(), quantity.round_up_to_whole(), quantity] {
                let printed = quantity.to_string();
                let again = q(&printed);
                prop_assert_eq!(&again, &quantity);
                // As in Kubernetes, a binary quantity that 1,024 does not divide has no suffix, and reads back as a
                // decimal one, which may be printed with a suffix.
                let has_suffix = printed.ends_with(|last: char| last.is_ascii_alphabetic());
                if has_suffix || quantity.format() != Format::BinarySi {
                    prop_assert_eq!(again.to_string(), printed);
                }
            }
        }
    }

    #[test]
    fn sums_and_order_are_those_of_integers(left in any::<i64>(), right in any::<i64>()) {
        let (a, b) = (Quantity::from_milli(left, Format::DecimalSi), Quantity::from_milli(right, Format::BinarySi));
        let sum = i128::from(left) + i128::from(right);
        prop_assert_eq!(a.checked_add(&b), Quantity::parse(&format!("{sum}m")).ok());
        prop_assert_eq!(a.cmp(&b), left.cmp(&right));
        prop_assert_eq!(a.checked_sub(&b).unwrap().checked_add(&b).unwrap(), a);
    }
}
