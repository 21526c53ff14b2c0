//! The JSON format, for editors and programs.

use std::io::{self, Write};

use serde::Serialize;

use super::{Finding, OptionalRule};

/// A finding as printed. Positions count from 1, columns in characters; the end is after the last character.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    path: &'a str,
    severity: &'static str,
    message: &'a str,
    remedy: Option<&'a str>,
    sidecar_set: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
}

pub(super) fn write(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    let records: Vec<Record<'_>> = findings.iter().map(record).collect();
    serde_json::to_writer_pretty(&mut *out, &records)?;
    writeln!(out)
}

fn record(finding: &Finding) -> Record<'_> {
    let (start, end) = (finding.place.start(), finding.place.end());
    Record {
        file: &finding.place.source.name,
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        path: &finding.path,
        severity: finding.severity.as_str(),
        message: &finding.message,
        remedy: Some(finding.remedy.as_str()).filter(|text| !text.is_empty()),
        sidecar_set: Some(finding.sidecar_set.as_str()).filter(|text| !text.is_empty()),
        rule: finding.rule.map(OptionalRule::id),
    }
}
