use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::print;

/// Returns the text of the only document after `change`, or `None` if it has to be written anew.
fn edited(text: &str, change: impl Fn(&mut Value)) -> Option<String> {
    let document = documents(text).pop().unwrap().unwrap();
    let mut value = document.value.clone();
    change(&mut value);
    let tree = Tree::placed(&document.value, |pointer| document.places.key(pointer).map(|range| range.start));
    let original = Original { text, value: &document.value, places: &document.places };
    edit(&original, &tree.order(&value))
}

fn add_container(pod: &mut Value) {
    pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "sidecar", "args": ["a"]}));
}

const POD: &str = "\
# above
kind:   Pod     # the kind
metadata: {name: web}
spec:
  # the app
  containers:
  # first
  - name: 'app'   # quoted
    image: \"app:1\"
    args: [ a,  b ]

  # behind the containers
  restartPolicy: Always
# below
";

#[test]
fn what_is_added_stands_behind_what_is_there_and_the_rest_keeps_its_bytes() {
    let change = |pod: &mut Value| {
        add_container(pod);
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    };
    let expected = POD
        .replace("b ]\n", "b ]\n  - name: sidecar\n    args:\n    - a\n")
        .replace("Always\n", "Always\n  volumes:\n  - name: v\n    emptyDir: {}\n");
    assert_eq!(edited(POD, change).unwrap(), expected);
}

#[rstest]
#[case::first(0, "  containers:\n  - name: sidecar\n  # first\n")]
#[case::last(1, "b ]\n  - name: sidecar\n\n")]
fn an_item_stands_where_its_list_has_it(#[case] index: usize, #[case] expected: &str) {
    let add = |pod: &mut Value| {
        pod["spec"]["containers"].as_array_mut().unwrap().insert(index, json!({"name": "sidecar"}));
    };
    let text = edited(POD, add).unwrap();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_document_keeps_its_own_indentation() {
    let text = "spec:\n    containers:\n        - name: a\n          env:\n            - name: A\n";
    let change = |pod: &mut Value| pod["spec"]["volumes"] = json!([{"name": "v", "nfs": {"server": "s"}}]);
    let expected = text.to_owned() + "    volumes:\n        - name: v\n          nfs:\n              server: s\n";
    assert_eq!(edited(text, change).unwrap(), expected);
}

#[rstest]
#[case::scalar("a: 'x' # why\n", "/a", json!("z"), "a: z # why\n")]
#[case::null("a:\nb: 1\n", "/a", json!("z"), "a: z\nb: 1\n")]
#[case::null_with_a_comment("a: # why\nb: 1\n", "/a", json!("z"), "a: z # why\nb: 1\n")]
#[case::empty_map("a: {} # why\nb: 1\n", "/a", json!({"c": 1}), "a: # why\n  c: 1\nb: 1\n")]
#[case::flow("a: {c: 1}\nb: 1\n", "/a/d", json!(2), "a:\n  c: 1\n  d: 2\nb: 1\n")]
#[case::flow_in_an_item("- {c: 1}\n- b\n", "/0/d", json!(2), "- c: 1\n  d: 2\n- b\n")]
#[case::block_text("a: |\n  x\n\nb: 1\n", "/a", json!("z"), "a: z\n\nb: 1\n")]
#[case::to_block_text("a: x\nb: 1\n", "/a", json!("y\nz\n"), "a: |\n  y\n  z\nb: 1\n")]
#[case::in_an_item("- a: 1 # one\n  b: 2\n", "/0/c", json!(3), "- a: 1 # one\n  b: 2\n  c: 3\n")]
#[case::in_a_list_of_lists("- - a\n  - b\n", "/0", json!(["c", "a", "b"]), "- - c\n  - a\n  - b\n")]
#[case::behind_block_text("a:\n  b: |\n    x\n\nc: 1\n", "/a/d", json!(2), "a:\n  b: |\n    x\n  d: 2\n\nc: 1\n")]
#[case::behind_kept_lines("a:\n  b: |+\n    x\n\nc: 1\n", "/a/d", json!(2), "a:\n  b: |+\n    x\n\n  d: 2\nc: 1\n")]
#[case::beside_a_merge_key("x: &x {b: 1}\na:\n  <<: *x\n", "/a/c", json!(2), "x: &x {b: 1}\na:\n  <<: *x\n  c: 2\n")]
#[case::over_a_merged_value("x: &x {b: 1}\na:\n  <<: *x\n", "/a/b", json!(2), "x: &x {b: 1}\na:\n  <<: *x\n  b: 2\n")]
#[case::an_alias("x: &x {b: 1}\na: *x\n", "/a/c", json!(2), "x: &x {b: 1}\na:\n  b: 1\n  c: 2\n")]
#[case::windows("a:\r\n  b: 1\r\nc: 2\r\n", "/a/d", json!(3), "a:\r\n  b: 1\r\n  d: 3\r\nc: 2\r\n")]
#[case::no_line_end("a: 1", "/b", json!(2), "a: 1\nb: 2\n")]
#[case::marker("--- # x\na: 1\n...\n", "/b", json!(2), "--- # x\na: 1\nb: 2\n...\n")]
fn a_value_changes_where_it_stands(
    #[case] text: &str,
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let change = |root: &mut Value| match root.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
        parent => parent[key] = value.clone(),
    };
    assert_eq!(edited(text, change).as_deref(), Some(expected));
}

#[rstest]
#[case::entry("a: 1\nb: 2 # two\n# three\nc: 3\n", "/b", "a: 1\n# three\nc: 3\n")]
#[case::first_of_an_item("- a: 1\n  b: 2\n", "/0/a", "- b: 2\n")]
#[case::item("a:\n- b\n# c\n- c\n- d\n", "/a/1", "a:\n- b\n# c\n- d\n")]
#[case::last_item("a:\n- b\nc: 1\n", "/a/0", "a: []\nc: 1\n")]
#[case::last_entry("a:\n  b: 1\nc: 1\n", "/a/b", "a: {}\nc: 1\n")]
fn what_is_removed_goes_with_its_lines(#[case] text: &str, #[case] pointer: &str, #[case] expected: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let change = |root: &mut Value| match root.pointer_mut(parent).unwrap() {
        Value::Array(items) => drop(items.remove(key.parse().unwrap())),
        parent => drop(parent.as_object_mut().unwrap().remove(key)),
    };
    assert_eq!(edited(text, change).as_deref(), Some(expected));
}

#[rstest]
#[case::anchor("a: &x\n  b: 1\nc: *x\n", "/a/d")]
#[case::anchor_above("x: &x\n  a: {b: 1}\nc: *x\n", "/x/a/d")]
#[case::comments_in_braces("a: {\n  b: 1, # one\n}\n", "/a/d")]
#[case::root_in_braces("{a: {b: 1}}\n", "/a/d")]
fn what_leaves_no_room_is_not_changed_in_place(#[case] text: &str, #[case] pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    assert_eq!(edited(text, |root| root.pointer_mut(parent).unwrap()[key] = json!(2)), None);
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u8>().prop_map(Value::from),
        "[a-c]{1,2}".prop_map(Value::from),
        "[a-c #:\n]{0,6}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("(name|[a-d])", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Puts comments on lines of their own, and behind values that end their line.
fn commented(text: &str, places: &[bool]) -> String {
    let mut is_text = false;
    let lines = text.lines().zip(places.iter().cycle()).map(|(line, comment)| {
        let indent = line.len() - line.trim_start().len();
        is_text = is_text || line.ends_with(['|', '-', '+']) || line.contains(['\'', '"', '#']);
        match comment {
            true if !is_text => format!("{}# c\n{line} # d\n", " ".repeat(indent)),
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn what_is_edited_is_read_as_the_new_value(old in value(), new in value(), places in proptest::collection::vec(any::<bool>(), 1..9)) {
        let text = commented(&print(&Tree::conventional(&json!({ "v": old }))), &places);
        if let Some(text) = edited(&text, |root| root["v"] = new.clone()) {
            let read = documents(&text).pop().unwrap().unwrap();
            prop_assert_eq!(&read.value, &json!({ "v": new }), "{}", text);
        }
    }

    #[test]
    fn nothing_changes_where_nothing_changes(old in value(), places in proptest::collection::vec(any::<bool>(), 1..9)) {
        let text = commented(&print(&Tree::conventional(&json!({ "v": old }))), &places);
        prop_assert_eq!(edited(&text, |_| {}), Some(text));
    }

    /// What people change: they add entries and items to what is there.
    #[test]
    fn additions_keep_every_line(old in value(), places in proptest::collection::vec(any::<bool>(), 1..9)) {
        let text = commented(&print(&Tree::conventional(&json!({ "a": {"x": old}, "b": [old] }))), &places);
        let add = |root: &mut Value| {
            root["a"]["y"] = json!({"k": [1, {"l": "m"}]});
            root["b"].as_array_mut().unwrap().push(json!({"name": "new"}));
        };
        let edited = edited(&text, add);
        prop_assert!(edited.is_some(), "{}", text);
        let edited = edited.unwrap();
        let mut lines = edited.lines();
        for line in text.lines() {
            prop_assert!(lines.any(|kept| kept == line), "{:?} is missing in\n{}", line, edited);
        }
    }
}
