use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Number, json};

use super::*;
use crate::{Document, documents};
use serde_json::Value;

fn read(text: &str) -> Vec<Document> {
    documents(text).into_iter().map(|read| read.unwrap_or_else(|error| panic!("{error}\n{text}"))).collect()
}

fn tree(document: &Document) -> Tree {
    Tree::placed(&document.value, |pointer| document.places.key(pointer).map(|range| range.start))
}

fn printed(value: &Value) -> String {
    print(&Tree::conventional(value))
}

#[rstest]
#[case::word(json!("nginx"), "nginx")]
#[case::image(json!("fluent/fluent-bit:3.0"), "fluent/fluent-bit:3.0")]
#[case::flag(json!("--verbose"), "--verbose")]
#[case::short_flag(json!("-c"), "-c")]
#[case::negative_number_as_text(json!("-.5"), "\"-.5\"")]
#[case::quantity(json!("128Mi"), "128Mi")]
#[case::milli(json!("500m"), "500m")]
#[case::reference(json!("$(POD)/x"), "$(POD)/x")]
#[case::number(json!(8080), "8080")]
#[case::number_as_text(json!("8080"), "\"8080\"")]
#[case::version(json!("1.10"), "\"1.10\"")]
#[case::octal(json!("0644"), "\"0644\"")]
#[case::exponent(json!("1e3"), "\"1e3\"")]
#[case::sexagesimal(json!("12:30:45"), "\"12:30:45\"")]
#[case::date(json!("2026-11-21"), "\"2026-11-21\"")]
#[case::time(json!("2026-11-21T05:14:31Z"), "\"2026-11-21T05:14:31Z\"")]
#[case::boolean(json!(true), "true")]
#[case::boolean_as_text(json!("true"), "\"true\"")]
#[case::norway(json!("NO"), "\"NO\"")]
#[case::y(json!("y"), "\"y\"")]
#[case::null(json!(null), "null")]
#[case::null_as_text(json!("Null"), "\"Null\"")]
#[case::tilde(json!("~"), "\"~\"")]
#[case::time_with_a_space(json!("2001-12-14 21:59:43.10 -5"), "\"2001-12-14 21:59:43.10 -5\"")]
#[case::empty(json!(""), "\"\"")]
#[case::star(json!("*"), "\"*\"")]
#[case::colon(json!("a: b"), "\"a: b\"")]
#[case::comment(json!("a #b"), "\"a #b\"")]
#[case::dash(json!("-"), "\"-\"")]
#[case::json_text(json!(r#"{"a":"b"}"#), r#"'{"a":"b"}'"#)]
#[case::json_text_with_quote(json!(r#"{"a":"it's"}"#), r#"'{"a":"it''s"}'"#)]
#[case::control(json!("a\u{1}\u{7f}\u{85}"), "\"a\\u0001\\u007f\\u0085\"")]
#[case::right_to_left(json!("a\u{202e}b"), "\"a\\u202eb\"")]
#[case::lines(json!("a\n\nb\n"), "|\n  a\n\n  b")]
#[case::lines_without_end(json!("a\nb"), "|-\n  a\n  b")]
#[case::lines_with_more_ends(json!("a\nb\n\n"), "|+\n  a\n  b\n")]
#[case::indented_first_line(json!(" a\nb"), "\" a\\nb\"")]
#[case::empty_list(json!([]), "[]")]
#[case::empty_map(json!({}), "{}")]
fn scalars_are_printed_so_that_they_stay_what_they_are(#[case] value: Value, #[case] text: &str) {
    let printed = printed(&json!({ "v": value }));
    assert_eq!(printed, format!("v: {text}\n"));
    assert_eq!(read(&printed)[0].value, json!({ "v": value }));
}

#[test]
fn lists_stand_below_their_key_and_keys_in_the_conventional_order() {
    let value = json!({
        "status": {}, "spec": {"containers": [{"env": [{"value": "1", "name": "A"}], "args": [["x"], []], "image": "i", "name": "c"}]},
        "metadata": {"labels": {"on": "x"}, "name": "web"}, "kind": "Pod", "apiVersion": "v1"
    });
    assert_eq!(
        printed(&value),
        "apiVersion: v1
kind: Pod
metadata:
  name: web
  labels:
    \"on\": x
spec:
  containers:
  - name: c
    image: i
    args:
    - - x
    - []
    env:
    - name: A
      value: \"1\"
status: {}
"
    );
}

#[test]
fn the_order_of_a_text_is_kept_and_new_parts_come_after_it() {
    let text = "kind: K\nspec:\n  b: 1\n  a: 2\n  list:\n  - x: 1\n    name: one\n  - w: 1\n    name: two\nmetadata: {z: 1, c: 2}\n";
    let tree = tree(&read(text)[0]);
    assert_eq!(print(&tree), text.replace("{z: 1, c: 2}", "\n  z: 1\n  c: 2").replace("metadata: \n", "metadata:\n"));
    let new = json!({
        "kind": "K", "metadata": {"c": 2, "z": 1, "name": "web"},
        "spec": {"a": 2, "b": 1, "list": [{"q": 0, "name": "zero"}, {"name": "two", "w": 1}, {"name": "one", "x": 1, "w": 2}]}
    });
    assert_eq!(
        print(&tree.order(&new)),
        "kind: K
spec:
  b: 1
  a: 2
  list:
  - name: zero
    q: 0
  - w: 1
    name: two
  - x: 1
    name: one
    w: 2
metadata:
  z: 1
  c: 2
  name: web
"
    );
}

#[test]
fn json_keeps_the_order_and_the_literals_of_numbers() {
    let text = r#"{"b": 1234567890123456789012345, "a": {"d": 1.50, "c": null}}"#;
    let tree = tree(&read(text)[0]);
    assert_eq!(serde_json::to_string(&tree).unwrap(), text.replace(' ', ""));
}

/// Generates texts: arbitrary ones and ones that YAML parsers tend to misread.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        any::<String>(),
        "[-+.0-9eExXoOb_:TZ ]{1,12}",
        "[yYnNoOtTrRuUeEfFaAlLsS~]{1,5}",
        "[ -?:#\\[\\]{}&*!|>'\"%@`,\n\ta]{0,12}",
        "([ -~]{0,6}\n){1,4}[ -~]{0,4}\n{0,3}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1.0e6..1.0e6_f64).prop_filter_map("a fraction", |number| Number::from_f64(number)
            .filter(|_| number.fract() != 0.0)
            .map(Value::Number)),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_printed_is_read_as_the_same_value(value in value()) {
        let value = json!({ "v": value });
        let text = printed(&value);
        let documents = read(&text);
        prop_assert_eq!(documents.len(), 1, "{}", text);
        prop_assert_eq!(&documents[0].value, &value, "{}", text);
        let ordered = tree(&documents[0]);
        prop_assert_eq!(print(&ordered), text);
    }

    #[test]
    fn ordering_changes_no_value(old in value(), new in value()) {
        let ordered = Tree::conventional(&old).order(&new);
        prop_assert_eq!(serde_json::to_value(&ordered).unwrap(), new);
    }
}
