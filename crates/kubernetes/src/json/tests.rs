use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn nested(levels: usize) -> String {
    let (open, close) = if levels.is_multiple_of(2) { ("[", "]") } else { ("{\"a\":", "}") };
    format!("{}1{}", open.repeat(levels), close.repeat(levels))
}

#[rstest]
#[case::long_integer("[12345678901234567890123456789]", "[12345678901234567890123456789]")]
#[case::fraction("[1.50,-0,-0.0]", "[1.50,-0,-0.0]")]
#[case::exponents("[1E3,1e+3,1e-07]", "[1e+3,1e+3,1e-07]")]
#[case::number_alone("1.0", "1.0")]
#[case::last_of_equal_keys(r#"{"a":1,"b":2,"a":{"c":3}}"#, r#"{"a":{"c":3},"b":2}"#)]
#[case::space(" \n[ 1 , {\t\"a\" : true } ]\r\n", r#"[1,{"a":true}]"#)]
#[case::empty_containers(r#"[{},[],"",{"":{}},null]"#, r#"[{},[],"",{"":{}},null]"#)]
#[case::escapes(r#""\"\\\/\u00e9\ud83d\ude00""#, r#""\"\\/é😀""#)]
fn texts_are_read(#[case] text: &str, #[case] shown_as: &str) {
    assert_eq!(parse(text.as_bytes()).unwrap().to_string(), shown_as);
}

#[rstest]
#[case::nothing(b"")]
#[case::two_values(b"1 2")]
#[case::not_utf8(b"\"\xff\"")]
#[case::half_a_pair(br#""\ud83d""#)]
#[case::key_of_another_type(b"{1:2}")]
#[case::leading_zero(b"01")]
fn other_texts_are_refused(#[case] text: &[u8]) {
    assert!(!parse(text).unwrap_err().is_too_dense());
}

#[test]
fn nesting_ends_at_127_levels() {
    assert!(parse(nested(127).as_bytes()).is_ok());
    for levels in [128, 129, 10_000] {
        assert!(parse(nested(levels).as_bytes()).is_err(), "{levels}");
    }
    let siblings = format!("[{}[]]", "[{}],".repeat(500));
    assert!(parse(siblings.as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text: Vec<u8>) {
        prop_assert_eq!(parse(&text).is_ok(), serde_json::from_slice::<Value>(&text).is_ok());
    }
}

#[test]
fn members_of_another_shape_read_as_absent() {
    let value = json!({"a": {"b": [1, "x"], "c": true}, "d": "text"});
    assert_eq!(text(&value, &["d"]), "text");
    assert_eq!(text(&value, &["d", "e"]), "");
    assert_eq!(items(&value, &["a", "b"]).len(), 2);
    assert!(flag(&value, &["a", "c"]) && !flag(&value, &["d"]));
}
