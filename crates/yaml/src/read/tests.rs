use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn value(text: &str) -> Value {
    let mut documents = documents(text);
    assert_eq!(documents.len(), 1, "{text:?}");
    documents.remove(0).unwrap_or_else(|problem| panic!("{problem} in {text:?}")).value
}

fn problem(text: &str) -> Problem {
    documents(text).into_iter().find_map(Result::err).unwrap_or_else(|| panic!("{text:?} is read"))
}

/// Each outcome is that of sigs.k8s.io/yaml; crates/testenv compares more of them with it.
#[rstest]
#[case::on("v: on", json!(true))]
#[case::capitals("v: YES", json!(true))]
#[case::odd_capitals("v: yEs", json!("yEs"))]
#[case::odd_no("v: nO", json!("nO"))]
#[case::odd_true("v: tRue", json!("tRue"))]
#[case::odd_null("v: nUll", json!("nUll"))]
#[case::y("v: y", json!(true))]
#[case::null("v: ~", json!(null))]
#[case::nothing("v:", json!(null))]
#[case::octal("v: 0644", json!(420))]
#[case::new_octal("v: 0o644", json!(420))]
#[case::no_octal("v: 08", json!(8))]
#[case::binary("v: -0b11", json!(-3))]
#[case::signed_binary("v: 0b-11", json!(-3))]
#[case::hexadecimal("v: 0X1f", json!(31))]
#[case::underscores("v: 1_000", json!(1000))]
#[case::underscores_of_a_float("v: .5_0", json!(0.5))]
#[case::underscore_without_a_digit("v: ._5", json!("._5"))]
#[case::exponent("v: 1e3", json!(1000))]
#[case::fraction("v: 1.50", json!(1.5))]
#[case::point("v: 1.", json!(1))]
#[case::commit_beyond_floats("v: 7e4321987", json!("7e4321987"))]
#[case::large("v: 18446744073709551615", json!(18_446_744_073_709_551_615_u64))]
#[case::sexagesimal("v: 12:30:45", json!("12:30:45"))]
#[case::date("v: 2001-01-01", json!("2001-01-01"))]
#[case::tagged_text("v: !!str 1", json!("1"))]
#[case::tagged_float("v: !!float 1", json!(1))]
#[case::tagged_bytes("v: !!binary aGk=", json!("hi"))]
#[case::own_tag("v: !own 1", json!("1"))]
#[case::quoted_at_column_0("v: 'a\nb'", json!("a b"))]
#[case::apostrophe("v: \"it\\'s\"", json!("it's"))]
#[case::colon_before_a_comma("v: [a:, b:]", json!(["a:", "b:"]))]
#[case::colon_before_a_brace("v: {a:}", json!({"a:": null}))]
#[case::comma_of_a_tag("v: [!own, a]", json!(["a"]))]
#[case::exclamation_marks("v: [a!, b!c,d, 'e!', !own f]", json!(["a!", "b!c", "d", "e!", "f"]))]
#[case::exclamation_marks_in_a_text("v: Hello!, it is me!, you know", json!("Hello!, it is me!, you know"))]
fn scalars_are_what_kubectl_takes_them_for(#[case] text: &str, #[case] expected: Value) {
    // Numbers are compared as they are written.
    assert_eq!(value(text)["v"].to_string(), expected.to_string());
}

#[rstest]
#[case::on("on: 1", "true")]
#[case::no("no: 1", "false")]
#[case::y("y: 1", "true")]
#[case::octal("0644: 1", "420")]
#[case::exponent("1e3: 1", "1000")]
#[case::large_float("1234567.0: 1", "1.234567e+06")]
#[case::small_float("0.00001: 1", "1e-05")]
#[case::infinity(".inf: 1", ".inf")]
#[case::quoted("'on': 1", "on")]
#[case::explicit("? a\n: 1", "a")]
#[case::alias("&a b: {*a : 1}", "b")]
fn keys_are_what_kubectl_takes_them_for(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(value(text).as_object().unwrap().keys().collect::<Vec<_>>(), [expected]);
}

#[rstest]
#[case::before_keys("b: &b {x: 1, z: 1}\nv:\n  <<: *b\n  z: 2\n", json!({"x": 1, "z": 2}))]
#[case::behind_keys("b: &b {x: 1, z: 1}\nv:\n  z: 2\n  <<: *b\n", json!({"x": 1, "z": 1}))]
#[case::two("b: &b {x: 1}\nc: &c {x: 2, w: 2}\nv:\n  <<: *b\n  <<: *c\n", json!({"x": 2, "w": 2}))]
#[case::a_list("b: &b {x: 1}\nc: &c {x: 2, w: 2}\nv:\n  <<: [*b, *c]\n", json!({"x": 1, "w": 2}))]
#[case::written_out("v: {<<: {x: 1}, w: 2}", json!({"x": 1, "w": 2}))]
#[case::quoted("v: {'<<': 1}", json!({"<<": 1}))]
#[case::nested("a: &a {x: 1}\nb: &b {<<: *a, w: 2}\nv: {<<: *b}", json!({"x": 1, "w": 2}))]
#[case::anchor_again("a: &a 1\nb: &a 2\nv: *a", json!(2))]
fn merge_keys_and_aliases_are_followed_as_kubectl_follows_them(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(value(text)["v"], expected);
}

#[rstest]
#[case::key_twice("a: 1\na: 2\n", "duplicate key \"a\": kubectl would take the last and drop the others", "a")]
#[case::key_twice_in_json("{\"a\": 1, \"a\": 2}", "duplicate key \"a\"", "\"a\"")]
#[case::key_twice_once_resolved("on: 1\nyes: 2\n", "duplicate key \"true\"", "yes")]
#[case::not_separated("kind: A\nkind: B\n", "duplicate key \"kind\"", "kind")]
#[case::null_key("a: {~: 1}", "a key is empty or null", "~")]
#[case::map_as_key("{a: 1}: 2", "a key is a text, not a map or a list", "{a: 1}")]
#[case::large_key("18446744073709551615: 1", "too large for a key", "18446744073709551615")]
#[case::infinity("v: .inf", "JSON has no number inf", ".inf")]
#[case::tag("v: !!int a", "`a` is no !!int", "!!int a")]
#[case::base64("v: !!binary '*'", "no base64", "!!binary '*'")]
#[case::no_anchor("v: *b", "no anchor &b stands before the alias *b", "*b")]
#[case::itself("v: &a [*a]", "an alias is part of what it stands for", "*a")]
#[case::merged_text("v: {<<: a}", "the merge key << takes a map or a list of maps", "a")]
#[case::question_mark("v: [http://x/?a=b]", "has a question mark", "http://x/?a=b")]
#[case::slash("v: \"a\\/b\"", "a slash is escaped", "\\/")]
#[case::bracket("v: [a\n", "did not find expected ',' or ']'", "[")]
#[case::brace("v: {a\n", "did not find expected ',' or '}'", "{")]
#[case::quotation_mark("v: 'ä\n", "found unexpected end of stream", "'")]
#[case::two_colons("v: a: b\n", "mapping values are not allowed in this context", ":")]
#[case::tab("v:\n\ta: 1\n", "found character that cannot start any token", "\t")]
#[case::at_sign("v: @a\n", "found character that cannot start any token", "@")]
#[case::no_colon("v: 1\na\nb: 2\n", "could not find expected ':'", "a")]
#[case::control("v: \"\u{1}\"", "control characters are not allowed", "\u{1}")]
#[case::rest("[a]\nb: 1\n", "the document ends before this line", "b: 1")]
fn what_kubectl_refuses_or_would_drop_is_an_error_with_its_place(
    #[case] text: &str,
    #[case] message: &str,
    #[case] place: &str,
) {
    let problem = problem(text);
    assert!(problem.message.contains(message), "{problem:?}");
    assert_eq!(text.get(problem.range.clone()), Some(place), "{problem:?}");
}

#[test]
fn problems_of_later_documents_have_their_place_in_the_text() {
    for text in ["ä: 1\n---\nb: [1\n---\nc: 1\n", "ä: 1\r\n---\r\nb: [1\r\n---\r\nc: 1\r\n"] {
        let read = documents(text);
        let values: Vec<Option<&Value>> =
            read.iter().map(|read| read.as_ref().ok().map(|document| &document.value)).collect();
        assert_eq!(values, [Some(&json!({"ä": 1})), None, Some(&json!({"c": 1}))]);
        assert_eq!(problem(text).range.start, text.find('[').unwrap());
    }
}

#[rstest]
#[case::at_the_start("\u{feff}a: 1\n")]
#[case::behind_a_separator("---\n\u{feff}a: 1\n")]
#[case::before_a_separator("\u{feff}---\na: 1\n")]
#[case::of_a_later_document("# x\n---\n\u{feff}# y\n---\n\u{feff}a: 1\n")]
fn a_byte_order_mark_at_a_document_is_left_out(#[case] text: &str) {
    let values: Vec<Value> = documents(text).into_iter().map(|read| read.unwrap().value).collect();
    assert_eq!(values.last(), Some(&json!({"a": 1})));
    assert!(values.iter().rev().skip(1).all(Value::is_null), "{values:?}");
}

#[test]
fn a_byte_order_mark_elsewhere_is_text() {
    assert_eq!(value("a: x\u{feff}y\n"), json!({"a": "x\u{feff}y"}));
}

#[test]
fn json_keeps_its_numbers_and_escapes() {
    let text = r#"{"a": 1234567890123456789012345, "b": [1.50], "c": "\ud83d\ude00\/"}"#;
    assert_eq!(value(text).to_string(), r#"{"a":1234567890123456789012345,"b":[1.50],"c":"😀/"}"#);
}

#[test]
fn json_values_may_follow_each_other() {
    let text = "{\"a\": 1}\n{\"a\": 2}{\"a\": [{}]}";
    let read: Vec<Document> = documents(text).into_iter().map(Result::unwrap).collect();
    assert_eq!(
        read.iter().map(|document| document.value.to_string()).collect::<String>(),
        "{\"a\":1}{\"a\":2}{\"a\":[{}]}"
    );
    let places = &read.last().unwrap().places;
    assert_eq!(text.get(places.value("/a/0").unwrap()), Some("{"));
    assert_eq!(text.get(places.key("/a").unwrap()), Some("\"a\""));
}

/// The parser that came before had limits on the number of aliases for each anchor, and of comments in a row.
#[test]
fn a_block_may_be_shared_by_hundreds() {
    let users = (0..500).map(|index| format!("u{index}: *shared\n")).collect::<Vec<_>>().concat();
    let comments = "# a line\n".repeat(100);
    let text = format!("shared: &shared {{a: b}}\nbehind:\n{comments}\n  comments: 1\n{users}");
    let value = value(&text);
    assert_eq!(value["u499"], json!({"a": "b"}));
    assert_eq!(value["behind"]["comments"], json!(1));
}

#[test]
fn documents_that_expand_without_bound_are_refused() {
    let laughs = (1..10).map(|index| {
        let list = vec![format!("*a{}", index - 1); 9].join(", ");
        format!("a{index}: &a{index} [{list}]\n")
    });
    let billion = format!("a0: &a0 [x]\n{}", laughs.collect::<String>());
    assert!(problem(&billion).message.contains("the aliases of this document stand for too many values"));
    let long = format!("a: &a {}\n{}", "x".repeat(1 << 20), "b: [*a, *a, *a, *a, *a, *a, *a, *a]\n");
    assert!(documents(&long).iter().all(Result::is_ok));
    let longer = (0..100).map(|index| format!("c{index}: *a\n")).collect::<Vec<_>>().concat();
    assert!(problem(&(long + &longer)).message.contains("repeat more than 64 MiB of text"));
}

#[rstest]
#[case::lists("[".repeat(100_000))]
#[case::maps("{a: ".repeat(10_000))]
#[case::block((0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<Vec<_>>().concat())]
#[case::json(format!("{}{}", "{\"a\":".repeat(2_000), "1".to_owned() + &"}".repeat(2_000)))]
#[case::aliases((1..100).fold("a0: &a0 [1]\n".to_owned(), |text, index| {
    format!("{text}a{index}: &a{index} {}*a{}{}\n", "[".repeat(20), index - 1, "]".repeat(20))
}))]
fn documents_that_are_nested_too_deeply_are_refused(#[case] text: String) {
    let problem = problem(&text);
    assert!(problem.message.contains("nested more than 500 deep"), "{problem:?}");
}

#[test]
fn values_of_a_type_name_the_field_that_is_wrong() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only read")]
    struct Options {
        ports: Vec<u16>,
    }
    let wrong = |text: &str| {
        let problem = from_str::<Options>(text).unwrap_err();
        (problem.message.clone(), text.get(problem.range).unwrap_or_default().to_owned())
    };
    assert_eq!(from_str::<Options>("ports: [1]").unwrap().ports, [1]);
    let (message, place) = wrong("ports:\n- 1\n- a\n");
    assert_eq!(message, "ports[1]: invalid type: string \"a\", expected a whole number that is not negative");
    assert_eq!(wrong("a").0, "invalid type: string \"a\", expected an object");
    assert_eq!(place, "a");
    assert!(wrong("port: []\n").0.contains("unknown field `port`"));
    assert_eq!(wrong("ports: []\n---\nports: []\n").0, "there is a second document");
    assert_eq!(from_str::<Option<u8>>("# nothing\n"), Ok(None));
}

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-?:,\\[\\]{}#&*!|>'\"%@` \n\ta0.]{0,8}",
        "\\PC{0,4}",
        Just("<<: *a\n".to_owned()),
        Just("&a ".to_owned()),
        Just("!!str,".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\r\n---\r\n".to_owned()),
        Just("- ".to_owned()),
        Just("a: |+\n  ".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn nothing_makes_the_reader_panic(fragments in proptest::collection::vec(fragment(), 0..12)) {
        let text = fragments.concat();
        for read in documents(&text) {
            match read {
                Ok(document) => {
                    prop_assert!(text.get(document.places.document()).is_some());
                    for pointer in ["", "/a", "/0"] {
                        prop_assert!(document.places.value(pointer).is_none_or(|range| text.get(range).is_some()));
                    }
                }
                Err(problem) => prop_assert!(text.get(problem.range.clone()).is_some(), "{:?}", problem),
            }
        }
    }
}
