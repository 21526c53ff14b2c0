use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// What `serde_json` makes of a text: the yardstick.
fn expected(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

fn parsed(text: &[u8]) -> Result<Value, String> {
    parse(text).map_err(|error| error.to_string())
}

fn nested(levels: usize) -> String {
    let (open, close) = if levels.is_multiple_of(2) { ("[", "]") } else { ("{\"a\":", "}") };
    format!("{}1{}", open.repeat(levels), close.repeat(levels))
}

#[rstest]
#[case::nothing("")]
#[case::space(" \t\r\n")]
#[case::words("[true,false,null]")]
#[case::half_a_word("tru")]
#[case::another_word("nul1")]
#[case::two_values("1 2")]
#[case::space_around(" \n[ 1 , {\t\"a\" : 2 } ]\r\n")]
#[case::byte_order_mark("\u{feff}1")]
#[case::control_character("\"a\nb\"")]
#[case::delete_character("\"\u{7f}\"")]
#[case::open_string("\"abc")]
#[case::open_escape("\"abc\\")]
#[case::unknown_escape(r#""\x""#)]
#[case::escapes(r#""\"\\\/\b\f\n\r\t\u00e9\u20AC""#)]
#[case::pair(r#""\ud83d\ude00""#)]
#[case::lone_low(r#""\ude00""#)]
#[case::lone_high(r#""\ud83d""#)]
#[case::high_and_text(r#""\ud83dabc""#)]
#[case::high_and_escape(r#""\ud83d\n""#)]
#[case::two_high(r#""\ud83d\ud83d""#)]
#[case::short_hex(r#""\u12""#)]
#[case::wrong_hex(r#""\u12g4""#)]
#[case::signed_hex(r#""\u+123""#)]
#[case::comma_after_the_last_item("[1,]")]
#[case::comma_after_the_last_entry(r#"{"a":1,}"#)]
#[case::comma_before_the_first_item("[,1]")]
#[case::comma_before_the_first_entry(r#"{,"a":1}"#)]
#[case::no_comma("[1 2]")]
#[case::no_comma_in_an_object(r#"{"a":1 "b":2}"#)]
#[case::no_colon(r#"{"a" 1}"#)]
#[case::no_value(r#"{"a":}"#)]
#[case::key_of_another_type("{1:2}")]
#[case::second_key_of_another_type(r#"{"a":1,2:3}"#)]
#[case::other_bracket("[1}")]
#[case::open_list("[1")]
#[case::open_list_after_a_comma("[1,")]
#[case::open_object("{")]
#[case::open_object_after_a_key(r#"{"a""#)]
#[case::open_object_after_a_comma(r#"{"a":1,"#)]
#[case::same_key_twice(r#"{"a":1,"b":2,"a":{"c":3}}"#)]
#[case::later_line("{\n\"a\": 1,\n  b\n}")]
#[case::just_after_a_line("[1,\n")]
#[case::empty_containers(r#"[{},[],"",{"":{}}]"#)]
fn texts_are_read_as_serde_json_reads_them(#[case] text: &str) {
    assert_eq!(parsed(text.as_bytes()), expected(text.as_bytes()));
}

#[test]
fn numbers_are_read_as_serde_json_reads_them() {
    let parts =
        ["", "-", "+", "0", "1", "12", "01", "18446744073709551616", ".", ".5", ".50", "e", "E3", "e+", "e-07", "x"];
    for sign in parts {
        for whole in parts {
            for fraction in parts {
                for exponent in parts {
                    let text = [sign, whole, fraction, exponent].concat();
                    assert_eq!(parsed(text.as_bytes()), expected(text.as_bytes()), "{text}");
                }
            }
        }
    }
}

#[test]
fn nesting_ends_where_that_of_serde_json_ends() {
    for levels in [1, 126, 127, 128, 129, 10_000, 10_001] {
        let text = nested(levels);
        assert_eq!(parsed(text.as_bytes()), expected(text.as_bytes()), "{levels}");
    }
    assert!(parse(nested(127).as_bytes()).is_ok() && parse(nested(128).as_bytes()).is_err());
}

#[test]
fn siblings_do_not_add_up_to_nesting() {
    let text = format!("[{}[]]", "[{}],".repeat(500));
    assert_eq!(parsed(text.as_bytes()), expected(text.as_bytes()));
}

#[test]
fn an_object_with_the_librarys_own_key_for_numbers_stays_an_object() {
    let text = r#"{"$serde_json::private::Number":"1"}"#;
    assert_eq!(shown(&parse(text.as_bytes()).unwrap()), text);
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,6}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// A change to one place of a text.
fn damage() -> impl Strategy<Value = (prop::sample::Index, prop::sample::Index, Vec<u8>)> {
    let bytes = prop_oneof![
        prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0123dDeE+-. \n".as_slice()), 0..4),
        prop::collection::vec(any::<u8>(), 0..3),
    ];
    (any::<prop::sample::Index>(), any::<prop::sample::Index>(), bytes)
}

proptest! {
    #[test]
    fn values_survive_both_printers(value in value()) {
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(shown(&value), text.as_str());
        prop_assert_eq!(parsed(text.as_bytes()), Ok(value.clone()));
        let spaced = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(parsed(&spaced), Ok(value));
    }

    #[test]
    fn damaged_texts_are_refused_with_the_same_words(
        value in value(), pretty: bool, (from, length, bytes) in damage(), cut: bool
    ) {
        let mut text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        let start = from.index(text.len());
        let end = if cut { text.len() } else { (start + length.index(4)).min(text.len()) };
        text.splice(start..end, bytes);
        prop_assert_eq!(parsed(&text), expected(&text));
    }

    #[test]
    fn any_bytes_are_read_as_serde_json_reads_them(text: Vec<u8>) {
        prop_assert_eq!(parsed(&text), expected(&text));
    }

    #[test]
    fn any_escapes_are_read_as_serde_json_reads_them(escapes in "(\\\\u?|[dD][89c-f]|[0-9a-f]{2}){0,8}") {
        let text = format!("\"{escapes}\"");
        prop_assert_eq!(parsed(text.as_bytes()), expected(text.as_bytes()));
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
