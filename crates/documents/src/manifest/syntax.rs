//! Errors of texts that are not YAML.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use pillion_yaml::Problem;

use super::{Error, Source};

/// The maximum width of an error; longer lines are cut around the place.
const WIDTH: usize = 120;

/// The remedy for a chart.
const RENDER: &str = "render it first: helm template CHART | pillion ...";

/// Returns the error of a problem in a text.
pub(super) fn error(source: &Source, problem: &Problem) -> Error {
    let (message, help) = match template_line(&source.text) {
        Some(line) => (format!("this is a Helm template, no manifest: line {line} has {{{{ ... }}}}"), Some(RENDER)),
        None => (problem.message.clone(), problem.help),
    };
    let line = source.line(problem.range.start);
    let start = source.line_start(line);
    let shown = source.text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let span = within(shown, problem.range.start.saturating_sub(start)..problem.range.end.saturating_sub(start));
    let column = shown.get(..span.start).unwrap_or_default().chars().count() + 1;
    let snippet = Snippet::source(shown)
        .line_start(line)
        .path(source.name.as_str())
        .annotation(AnnotationKind::Primary.span(span));
    let title = format!("line {line} column {column}: {message}");
    let mut group = Level::ERROR.no_name().primary_title(title.as_str()).element(snippet);
    if let Some(help) = help {
        group = group.element(Level::HELP.message(help));
    }
    let problem = Renderer::plain().term_width(WIDTH).render(&[group]);
    let summary = help.map_or_else(|| message.clone(), |help| format!("{message}; {help}"));
    Error::Syntax { source_name: source.name.clone(), problem, summary, at: Some((line, column)) }
}

/// Returns a range within a line.
fn within(line: &str, range: Range<usize>) -> Range<usize> {
    let start = range.start.min(line.len());
    start..range.end.clamp(start, line.len())
}

/// Returns the first line, from 1, with a Go template action outside quotes. A text with such a line is not YAML.
fn template_line(text: &str) -> Option<usize> {
    let is_quoted = |before: &str| ['"', '\''].iter().any(|mark| before.matches(*mark).count() % 2 == 1);
    let is_action =
        |line: &str| line.split_once("{{").is_some_and(|(before, rest)| rest.contains("}}") && !is_quoted(before));
    text.lines().position(|line| !line.trim_start().starts_with('#') && is_action(line)).map(|index| index + 1)
}
