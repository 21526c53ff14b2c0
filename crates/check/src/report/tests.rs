use std::sync::Arc;

use pillion_documents::manifest::Source;
use rstest::rstest;

use super::*;

fn source(text: &str) -> Arc<Source> {
    Arc::new(Source::new("sets/a.yaml", text))
}

fn finding(text: &str, needle: &str) -> Finding {
    let start = text.find(needle).unwrap();
    Finding {
        severity: Severity::Error,
        place: FilePlace::new(&source(text), start..start + needle.len()),
        path: "spec.containers[0].image".to_owned(),
        message: "Required value: image is required".to_owned(),
        remedy: "name an image".to_owned(),
        sidecar_set: "log-agent".to_owned(),
        rule: None,
    }
}

fn written(findings: &[Finding], format: FindingFormat) -> String {
    let mut out = anstream::StripStream::new(Vec::new());
    write(findings, format, &mut out).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

#[test]
fn people_see_the_line_and_a_caret() {
    let text = "spec:\n  containers:\n  - name: ä\n    image: \"\" # none\n";
    insta::assert_snapshot!(written(&[finding(text, "\"\"")], FindingFormat::Text), @r#"
error: Required value: image is required
 --> sets/a.yaml:4:12
  |
4 |     image: "" # none
  |            ^^ spec.containers[0].image
  |
  = note: in SidecarSet "log-agent"
  = help: name an image
"#);
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let text = format!("{{\"a\": \"{}\", \"image\": 5, \"b\": \"{}\"}}", "x".repeat(3000), "y".repeat(3000));
    let report = written(&[finding(&text, "5,")], FindingFormat::Text);
    assert!(report.lines().all(|line| line.chars().count() <= 130), "{report}");
    assert!(report.contains("\"image\": 5"), "{report}");
}

#[test]
fn values_cannot_reach_the_terminal_as_escape_sequences() {
    let mut finding = finding("a: b\n", "b");
    finding.message = "Invalid value: \u{1b}[31mred\u{7}".to_owned();
    let mut out = Vec::new();
    write(&[finding], FindingFormat::Text, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!out.contains("\u{1b}[31mred") && !out.contains('\u{7}'), "{out:?}");
}

#[test]
fn editors_get_positions_in_characters() {
    let text = "ä: [1,\n  ü]\n";
    let mut finding = finding(text, "[1,\n  ü]");
    finding.sidecar_set.clear();
    finding.remedy.clear();
    insta::assert_snapshot!(written(&[finding], FindingFormat::Json), @r#"
[
  {
    "file": "sets/a.yaml",
    "line": 1,
    "column": 4,
    "endLine": 2,
    "endColumn": 5,
    "path": "spec.containers[0].image",
    "severity": "error",
    "message": "Required value: image is required",
    "remedy": null,
    "sidecarSet": null
  }
]
"#);
}

#[test]
fn github_gets_one_command_a_finding() {
    let mut finding = finding("a: b\n", "b");
    finding.message = "50% of: a,\nb".to_owned();
    insta::assert_snapshot!(written(&[finding], FindingFormat::Github), @r#"::error file=sets/a.yaml,line=1,endLine=1,col=4,endColumn=5,title=spec.containers[0].image::SidecarSet "log-agent": 50%25 of: a,%0Ab; name an image"#);
}

#[rstest]
#[case::value("a: bc\n", 3..5, "bc")]
#[case::trailing_space("a: |\n  b\n\nc: d\n", 7..10, "b")]
#[case::nothing_but_a_place("a: b\n", 3..3, "b")]
#[case::end_of_line("a:\nb: c\n", 2..2, ":")]
#[case::beyond_the_text("a: b", 9..12, "b")]
#[case::within_a_character("ä", 1..2, "ä")]
#[case::empty_text("", 0..0, "")]
fn there_is_something_to_point_at(#[case] text: &str, #[case] span: std::ops::Range<usize>, #[case] shown: &str) {
    let place = FilePlace::new(&source(text), span);
    assert_eq!(text.get(place.span).unwrap(), shown);
}

#[rstest]
#[case::first(1, 1, "a")]
#[case::behind_wide_characters(2, 4, "y")]
#[case::after_the_line(2, 99, "z")]
#[case::after_the_text(9, 1, "z")]
fn positions_become_places(#[case] line: usize, #[case] column: usize, #[case] shown: &str) {
    let text = "a\nöä yz";
    let place = FilePlace::at(&source(text), line, column);
    assert_eq!(text.get(place.span).unwrap(), shown);
}

#[test]
fn findings_are_sorted_by_file_and_place_and_none_stands_twice() {
    let text = "a: b\nc: d\n";
    let mut other = finding(text, "a");
    other.place = FilePlace::new(&Arc::new(Source::new("first.yaml", text)), 0..1);
    let warning = Finding { severity: Severity::Warning, ..finding(text, "a") };
    let mut findings = vec![finding(text, "d"), warning.clone(), finding(text, "a"), finding(text, "d"), other.clone()];
    sort(&mut findings, &["first.yaml".to_owned(), "sets/a.yaml".to_owned()]);
    assert_eq!(findings, [other, finding(text, "a"), warning, finding(text, "d")]);
}
