//! The text format, for people.

use std::io::{self, Write};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::{Finding, Severity};

/// The maximum width of output; longer lines are cut around the place.
const WIDTH: usize = 120;

pub(super) fn write(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    let renderer = Renderer::styled().term_width(WIDTH);
    for finding in findings {
        writeln!(out, "{}\n", render(finding, &renderer))?;
    }
    Ok(())
}

fn render(finding: &Finding, renderer: &Renderer) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    // Pass only one line: the renderer does not need the rest of the text, which may be long.
    let (line, span) = finding.place.first_line();
    let mut annotation = AnnotationKind::Primary.span(span);
    if !finding.path.is_empty() {
        annotation = annotation.label(one_line(&finding.path));
    }
    let snippet = Snippet::source(line)
        .line_start(finding.place.start().line)
        .path(finding.place.source.name.as_str())
        .annotation(annotation);
    let mut title = level.primary_title(one_line(&finding.message));
    if let Some(rule) = finding.rule {
        title = title.id(rule.id());
    }
    let mut group = title.element(snippet);
    if !finding.sidecar_set.is_empty() {
        group = group.element(Level::NOTE.message(format!("in SidecarSet {:?}", finding.sidecar_set)));
    }
    if !finding.remedy.is_empty() {
        group = group.element(Level::HELP.message(one_line(&finding.remedy)));
    }
    renderer.render(&[group])
}

/// Replaces control characters: values of manifests may contain some, which would reach the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}
