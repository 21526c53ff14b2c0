//! Annotations of a GitHub workflow: `::error file=...,line=...::message`.

use std::io::{self, Write};

use super::Finding;

pub(super) fn write(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "{}", command(finding))?;
    }
    Ok(())
}

fn command(finding: &Finding) -> String {
    let (start, end) = (finding.place.start(), finding.place.end());
    let mut properties = vec![
        format!("file={}", property(&finding.place.source.name)),
        format!("line={}", start.line),
        format!("endLine={}", end.line),
    ];
    // GitHub takes columns only within one line.
    if start.line == end.line {
        properties.push(format!("col={}", start.column));
        properties.push(format!("endColumn={}", end.column));
    }
    if !finding.path.is_empty() {
        properties.push(format!("title={}", property(&finding.path)));
    }
    let rule = finding.rule.map_or_else(String::new, |rule| format!(" [{}]", rule.id()));
    format!("::{} {}::{}{rule}", finding.severity.as_str(), properties.join(","), data(&finding.sentence("")))
}

/// Escapes characters that end a command in GitHub's runner.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
