use rstest::rstest;
use serde_json::json;

use super::*;

fn parsed(text: &str) -> Vec<Manifest> {
    parse(&Arc::new(Source::new("test.yaml", text))).unwrap()
}

/// Expects the result of sigs.k8s.io/yaml, and so of kubectl.
#[rstest]
#[case::octal("v: 0644", json!(420))]
#[case::boolean_yes("v: yes", json!(true))]
#[case::boolean_on("v: on", json!(true))]
#[case::quoted("v: 'yes'", json!("yes"))]
#[case::exponent("v: 1e3", json!(1000))]
#[case::integral_float("v: 1.0", json!(1))]
#[case::no_octal("v: 08", json!(8))]
#[case::fraction("v: 0.5", json!(0.5))]
#[case::null("v: ~", json!(null))]
#[case::empty("v:", json!(null))]
#[case::block("v: |\n  a\n  b\n", json!("a\nb\n"))]
#[case::timestamp("v: 2024-01-01T00:00:00Z", json!("2024-01-01T00:00:00Z"))]
#[case::merge("b: &b {x: 1}\nv:\n  <<: *b\n  z: 2\n", json!({"x": 1, "z": 2}))]
fn yaml_is_read_as_kubectl_reads_it(#[case] text: &str, #[case] value: Value) {
    assert_eq!(parsed(text)[0].value["v"], value);
}

#[test]
fn json_keeps_the_literals_of_numbers() {
    let manifests = parsed(r#"{"a": 1234567890123456789012345, "b": [1.50]}"#);
    assert_eq!(manifests[0].value.to_string(), r#"{"a":1234567890123456789012345,"b":[1.50]}"#);
}

#[test]
fn documents_are_separate_and_empty_ones_are_skipped() {
    let manifests = parsed("---\n# nothing\n---\nkind: A\n---\n---\nkind: B\n...\n");
    let kinds: Vec<&str> = manifests.iter().filter_map(|manifest| manifest.value["kind"].as_str()).collect();
    assert_eq!(kinds, ["A", "B"]);
    assert_eq!(manifests.iter().map(Manifest::line).collect::<Vec<_>>(), [4, 7]);
}

#[test]
fn a_dump_of_a_cluster_is_not_too_much() {
    let document = "kind: A\nspec: {a: [1, 2, 3, 4, 5], b: {c: d}}\n";
    assert_eq!(parsed(&vec![document; 1_500].join("---\n")).len(), 1_500);
}

#[test]
fn json_values_may_follow_each_other() {
    let text = "{\"kind\": \"A\"}\n{\"kind\": \"B\", \"n\": 1.50}{\"kind\": \"C\"}\n";
    let manifests = parsed(text);
    let kinds: Vec<&str> = manifests.iter().filter_map(|manifest| manifest.value["kind"].as_str()).collect();
    assert_eq!(kinds, ["A", "B", "C"]);
    assert_eq!(manifests[1].value["n"].to_string(), "1.50");
    assert_eq!(manifests.iter().map(Manifest::line).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(text.get(manifests[2].value_at("/kind").unwrap()).unwrap(), "\"C\"");
}

#[test]
fn a_list_stands_for_its_items_and_they_know_their_place() {
    let text = "kind: List\nitems:\n- kind: A\n  metadata:\n    name: a\n- kind: B\n";
    let manifests = parsed(text);
    assert_eq!(manifests.len(), 2);
    let range = manifests[0].value_at("/metadata/name").unwrap();
    assert_eq!(text.get(range).unwrap(), "a");
    assert_eq!(manifests[1].line(), 6);
}

#[test]
fn keys_and_values_know_their_bytes() {
    let text = "metadata:\n  labels:\n    example.com/ä: \"ü\"\n    after: here\n";
    let manifest = &parsed(text)[0];
    assert_eq!(text.get(manifest.key_at("/metadata/labels/example.com~1ä").unwrap()).unwrap(), "example.com/ä");
    assert_eq!(text.get(manifest.value_at("/metadata/labels/after").unwrap()).unwrap(), "here");
    assert_eq!(manifest.value_at("/metadata/name"), None);
}

#[rstest]
#[case::duplicate("a: 1\na: 2\n", "duplicate")]
#[case::not_separated("kind: A\nkind: B\n", "= help: documents in one file are separated by ---")]
#[case::unclosed("a: [1\n", "test.yaml")]
#[case::list("- a\n", "this is a list")]
#[case::text("hello\n", "this is a string")]
fn what_is_no_manifest_is_refused(#[case] text: &str, #[case] message: &str) {
    let source = Arc::new(Source::new("test.yaml", text));
    let error = parse(&source).unwrap_err().to_string();
    assert!(error.contains(message) && error.starts_with("test.yaml"), "{error}");
}

#[test]
fn lists_within_lists_stand_for_their_items() {
    let text = "kind: List\nitems:\n- kind: A\n- kind: List\n  items:\n  - kind: List\n    items: []\n  - kind: B\n";
    let manifests = parsed(text);
    let kinds: Vec<&str> = manifests.iter().filter_map(|manifest| manifest.value["kind"].as_str()).collect();
    assert_eq!(kinds, ["A", "B"]);
    assert_eq!(manifests.iter().map(Manifest::line).collect::<Vec<_>>(), [3, 8]);
}

#[test]
fn a_byte_order_mark_is_left_out() {
    let manifests = parsed("\u{feff}kind: A\n");
    assert_eq!(manifests[0].value, json!({"kind": "A"}));
    assert_eq!(manifests[0].source.text, "kind: A\n");
}

#[rstest]
#[case::long_line(format!("a: 1\nb: {{{}, x: 1, x: 2}}\n", "ä: 1, ".to_owned() + &yaml_keys(200)), "x: 2")]
#[case::long_line_of_json(format!("{{\"a\": 1}}\n{{{}, \"x\": 1, \"x\": 2}}\n", json_keys(200)), "\"x\": 2")]
#[case::carriage_return("a: 1\rb: 2\r\nc: {x: 1, x: 2}\n".to_owned(), "x: 2")]
fn syntax_errors_have_the_column_of_the_line(#[case] text: String, #[case] wrong: &str) {
    let source = Arc::new(Source::new("test.yaml", text.clone()));
    let error = parse(&source).unwrap_err();
    let Error::Syntax { at, problem, .. } = &error else { panic!("{error}") };
    let before = text.split_once(wrong).unwrap().0;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
    assert_eq!(*at, Some((line, column)), "{error}");
    assert!(problem.starts_with(&format!("line {line} column {column}: ")), "{problem}");
    assert!(problem.contains(&format!("--> test.yaml:{line}:{column}")), "{problem}");
}

fn yaml_keys(count: usize) -> String {
    (0..count).map(|index| format!("k{index}: v")).collect::<Vec<_>>().join(", ")
}

fn json_keys(count: usize) -> String {
    (0..count).map(|index| format!("\"k{index}\": 1")).collect::<Vec<_>>().join(", ")
}

#[rstest]
#[case::value("name: {{ .Values.name }}\n", 1)]
#[case::block("a: 1\n# {{ a comment }}\n{{- if .Values.on }}\nb: 1\n{{- end }}\n", 3)]
#[case::include("a:\n  {{- include \"x\" . | nindent 2 }}\nb: [\n", 2)]
fn templates_of_helm_are_called_by_their_name(#[case] text: &str, #[case] line: usize) {
    let error = parse(&Arc::new(Source::new("test.yaml", text))).unwrap_err();
    let Error::Syntax { summary, problem, .. } = &error else { panic!("{error}") };
    let expected = format!(
        "this is a Helm template, no manifest: line {line} has {{{{ ... }}}}; render it first: helm template CHART | pillion ..."
    );
    assert_eq!(*summary, expected);
    assert!(problem.contains("this is a Helm template") && problem.contains("= help: render it first: "), "{problem}");
    assert!(!problem.contains("expected string scalar"), "{problem}");
}

#[test]
fn texts_with_braces_are_no_templates() {
    assert_eq!(parsed("args: ['{{workflow.name}}']\n")[0].value, json!({"args": ["{{workflow.name}}"]}));
    for text in ["a: [1\n", "args: ['{{workflow.name}}']\nb: [1\n"] {
        let error = parse(&Arc::new(Source::new("test.yaml", text))).unwrap_err();
        assert!(!error.to_string().contains("Helm"), "{error}");
    }
}
