use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::field::FieldPath;
use crate::node::Node;

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[rstest]
#[case::label_equal(json!({"matchLabels": {"a": "1"}}), json!({"a": "1", "b": "2"}), true)]
#[case::label_differs(json!({"matchLabels": {"a": "1"}}), json!({"a": "2"}), false)]
#[case::label_absent(json!({"matchLabels": {"a": "1"}}), json!({}), false)]
#[case::empty_value_is_not_absent(json!({"matchLabels": {"a": ""}}), json!({}), false)]
#[case::empty_value(json!({"matchLabels": {"a": ""}}), json!({"a": ""}), true)]
#[case::label_in(expression("a", "In", &["1", "2"]), json!({"a": "2"}), true)]
#[case::label_not_in_list(expression("a", "In", &["1", "2"]), json!({"a": "3"}), false)]
#[case::in_absent(expression("a", "In", &["1"]), json!({}), false)]
#[case::not_in(expression("a", "NotIn", &["1"]), json!({"a": "2"}), true)]
#[case::not_in_listed(expression("a", "NotIn", &["1"]), json!({"a": "1"}), false)]
#[case::not_in_absent(expression("a", "NotIn", &["1"]), json!({}), true)]
#[case::exists(expression("a", "Exists", &[]), json!({"a": ""}), true)]
#[case::exists_absent(expression("a", "Exists", &[]), json!({"b": ""}), false)]
#[case::does_not_exist(expression("a", "DoesNotExist", &[]), json!({"b": ""}), true)]
#[case::does_not_exist_present(expression("a", "DoesNotExist", &[]), json!({"a": ""}), false)]
#[case::all_requirements(
    json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}),
    json!({"a": "1"}),
    false
)]
#[case::empty_matches_everything(json!({}), json!({"a": "1"}), true)]
#[case::in_without_values_matches_nothing(expression("a", "In", &[]), json!({"a": "1"}), false)]
#[case::keys_and_values_are_not_checked_here(json!({"matchLabels": {"bad key!": "v w"}}), json!({"bad key!": "v w"}), true)]
fn match6_selectors_match_labels(#[case] selector: Value, #[case] labels: Value, #[case] expected: bool) {
    let parsed = Selector::parse(&selector).unwrap();
    assert_eq!(parsed.matches_labels(labels.as_object()), expected);
    assert_eq!(parsed.unsatisfied(|key| label_of(labels.as_object(), key)).next().is_none(), expected);
}

#[test]
fn match6_an_empty_selector_selects_no_pod() {
    for empty in [json!({}), json!({"matchLabels": {}}), json!({"matchLabels": null, "matchExpressions": []})] {
        let parsed = Selector::parse(&empty).unwrap();
        assert!(parsed.is_empty() && parsed.matches_labels(None) && !parsed.selects(None), "{empty}");
    }
}

#[test]
fn match6_an_unknown_operator_is_an_error_for_pods_and_selects_no_namespace() {
    let selector =
        json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]});
    let errors = Selector::parse(&selector).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path.as_str(), "matchExpressions[0].operator");
    assert!(Selector::parse_or_nothing(&selector).is_none());
}

#[rstest]
#[case::text(json!("a=b"), "")]
#[case::list(json!([]), "")]
#[case::null(json!(null), "")]
#[case::labels_as_list(json!({"matchLabels": ["a"]}), "matchLabels")]
#[case::expressions_as_object(json!({"matchExpressions": {"key": "a"}}), "matchExpressions")]
#[case::expression_as_text(json!({"matchExpressions": ["a"]}), "matchExpressions[0].operator")]
fn other_shapes_are_errors(#[case] selector: Value, #[case] path: &str) {
    let errors = Selector::parse(&selector).unwrap_err();
    assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), [path]);
}

#[test]
fn requirements_read_as_kubectl_writes_them() {
    let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [
        {"key": "b", "operator": "In", "values": ["x", "y"]},
        {"key": "c", "operator": "NotIn", "values": ["z"]},
        {"key": "d", "operator": "Exists"},
        {"key": "e", "operator": "DoesNotExist"},
    ]});
    let parsed = Selector::parse(&selector).unwrap();
    assert_eq!(parsed.to_string(), "a=1,b in (x,y),c notin (z),d,!e");
    let labels = json!({"a": "1", "b": "z", "d": ""});
    let unsatisfied: Vec<_> = parsed.unsatisfied(|key| label_of(labels.as_object(), key)).map(|r| r.key).collect();
    assert_eq!(unsatisfied, ["b"]);
}

#[rstest]
#[case::fine(json!({"matchLabels": {"example.com/a": "1"}}), &[])]
#[case::in_without_values(expression("a", "In", &[]), &["s.matchExpressions[0].values"])]
#[case::not_in_without_values(expression("a", "NotIn", &[]), &["s.matchExpressions[0].values"])]
#[case::exists_with_values(expression("a", "Exists", &["1"]), &["s.matchExpressions[0].values"])]
#[case::does_not_exist_with_values(expression("a", "DoesNotExist", &["1"]), &["s.matchExpressions[0].values"])]
#[case::operator(expression("a", "in", &["1"]), &["s.matchExpressions[0].operator"])]
#[case::key(expression("a b", "Exists", &[]), &["s.matchExpressions[0].key"])]
#[case::value(expression("a", "In", &["x", "-"]), &["s.matchExpressions[0].values[1]"])]
#[case::label_key_and_value(json!({"matchLabels": {"a b": "c d"}}), &["s.matchLabels", "s.matchLabels"])]
#[case::empty(json!({}), &["s"])]
#[case::empty_lists(json!({"matchLabels": {}, "matchExpressions": []}), &["s"])]
fn val5_selectors_are_checked(#[case] selector: Value, #[case] paths: &[&str]) {
    let mut errors = Vec::new();
    check_not_empty(&Node { value: &selector, place: FieldPath::new("s") }, &mut errors);
    assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), paths);
}

fn labels(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

#[rstest]
#[case::same_label(labels("a", "b"), labels("a", "b"), true)]
#[case::other_value(labels("a", "b"), labels("a", "c"), false)]
#[case::other_key(labels("a", "b"), labels("c", "d"), true)]
#[case::excluded(labels("a", "b"), expression("a", "NotIn", &["b"]), false)]
#[case::another_excluded(labels("a", "b"), expression("a", "NotIn", &["c"]), true)]
#[case::exists(labels("a", "b"), expression("a", "Exists", &[]), true)]
#[case::diff5_exists_on_a_key_that_the_other_does_not_mention(labels("a", "b"), expression("z", "Exists", &[]), true)]
#[case::absent_elsewhere(labels("a", "b"), expression("z", "DoesNotExist", &[]), true)]
#[case::absent_where_needed(labels("a", "b"), expression("a", "DoesNotExist", &[]), false)]
#[case::diff5_exists_and_not_in(expression("a", "Exists", &[]), expression("a", "NotIn", &["b"]), true)]
#[case::absence_satisfies_both(expression("a", "NotIn", &["b"]), expression("a", "DoesNotExist", &[]), true)]
#[case::exists_and_does_not(expression("a", "Exists", &[]), expression("a", "DoesNotExist", &[]), false)]
#[case::lists_share_a_value(expression("a", "In", &["1", "2"]), expression("a", "In", &["2", "3"]), true)]
#[case::lists_share_none(expression("a", "In", &["1", "2"]), expression("a", "In", &["3"]), false)]
#[case::the_shared_value_is_excluded(
    expression("a", "In", &["1", "2"]),
    json!({"matchExpressions": [
        {"key": "a", "operator": "In", "values": ["2", "3"]},
        {"key": "a", "operator": "NotIn", "values": ["2"]},
    ]}),
    false
)]
#[case::a_selector_that_matches_nothing(
    json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
    labels("b", "1"),
    false
)]
#[case::the_value_named_all_is_no_wildcard(labels("a", "ALL"), labels("a", "b"), false)]
#[case::empty_selects_everything(json!({}), labels("a", "b"), true)]
fn val51_overlap_is_exact(#[case] one: Value, #[case] other: Value, #[case] expected: bool) {
    let (one, other) = (Selector::parse(&one).unwrap(), Selector::parse(&other).unwrap());
    assert_eq!(overlap(&one, &other), expected);
    assert_eq!(overlap(&other, &one), expected);
}

#[rstest]
#[case::itself(labels("a", "b"), labels("a", "b"), true)]
#[case::narrower(
    json!({"matchLabels": {"a": "b", "c": "d"}}),
    labels("a", "b"),
    true
)]
#[case::wider(labels("a", "b"), json!({"matchLabels": {"a": "b", "c": "d"}}), false)]
#[case::another_value(labels("a", "b"), labels("a", "c"), false)]
#[case::another_key(labels("a", "b"), labels("c", "d"), false)]
#[case::one_of_several(labels("a", "1"), expression("a", "In", &["1", "2"]), true)]
#[case::several_of_one(expression("a", "In", &["1", "2"]), labels("a", "1"), false)]
#[case::value_exists(labels("a", "b"), expression("a", "Exists", &[]), true)]
#[case::existing_has_no_known_value(expression("a", "Exists", &[]), labels("a", "b"), false)]
#[case::value_is_not_another(labels("a", "b"), expression("a", "NotIn", &["c"]), true)]
#[case::absent_is_not_in(expression("a", "DoesNotExist", &[]), expression("a", "NotIn", &["c"]), true)]
#[case::not_in_may_be_present(expression("a", "NotIn", &["c"]), expression("a", "DoesNotExist", &[]), false)]
#[case::fewer_excluded(expression("a", "NotIn", &["1", "2"]), expression("a", "NotIn", &["1"]), true)]
#[case::more_excluded(expression("a", "NotIn", &["1"]), expression("a", "NotIn", &["1", "2"]), false)]
#[case::everything_is_within_everything(json!({}), json!({}), true)]
#[case::anything_is_within_everything(labels("a", "b"), json!({}), true)]
#[case::everything_is_within_nothing_else(json!({}), labels("a", "b"), false)]
#[case::nothing_is_within_anything(
    json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
    labels("b", "1"),
    true
)]
fn idv4_one_selector_is_within_another(#[case] one: Value, #[case] other: Value, #[case] expected: bool) {
    let (one, other) = (Selector::parse(&one).unwrap(), Selector::parse(&other).unwrap());
    assert_eq!(implies(&one, &other), expected);
}

fn any_selector() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["a", "b"]);
    let values = prop::collection::vec(prop::sample::select(vec!["1", "2", "3"]), 1..3);
    let expression = (key, prop::sample::select(Op::ALL.to_vec()), values).prop_map(|(key, op, values)| {
        let values = if matches!(op, Op::In | Op::NotIn) { values } else { vec![] };
        json!({"key": key, "operator": op.as_str(), "values": values})
    });
    prop::collection::vec(expression, 0..5).prop_map(|expressions| json!({"matchExpressions": expressions}))
}

proptest! {
    /// The value `other` represents every value that no requirement names.
    #[test]
    fn val51_overlap_is_what_trying_all_labels_says(one in any_selector(), other in any_selector()) {
        let states = [None, Some("1"), Some("2"), Some("3"), Some("other")];
        let (one, other) = (Selector::parse(&one).unwrap(), Selector::parse(&other).unwrap());
        let tried = states.iter().any(|a| states.iter().any(|b| {
            let label = |key: &str| if key == "a" { *a } else { *b };
            one.matches(label) && other.matches(label)
        }));
        prop_assert_eq!(overlap(&one, &other), tried);
    }

    /// Checks both directions: `implies` is true exactly if the implication holds.
    #[test]
    fn idv4_being_within_is_what_trying_all_labels_says(one in any_selector(), other in any_selector()) {
        let states = [None, Some("1"), Some("2"), Some("3"), Some("other")];
        let (one, other) = (Selector::parse(&one).unwrap(), Selector::parse(&other).unwrap());
        let tried = states.iter().all(|a| states.iter().all(|b| {
            let label = |key: &str| if key == "a" { *a } else { *b };
            !one.matches(label) || other.matches(label)
        }));
        prop_assert_eq!(implies(&one, &other), tried);
    }
}
