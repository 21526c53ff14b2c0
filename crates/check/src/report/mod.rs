//! Findings about places of a text, and their formats for people, editors and CI.

mod fingerprint;
mod github;
mod json;
mod rules;
mod sarif;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::ValueEnum;
use pillion_documents::place::FilePlace;

pub use self::rules::OptionalRule;

/// The severity of a finding. Errors come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy refuses the input.
    Error,
    /// The policy accepts the input, but its effect may be unintended.
    Warning,
}

impl Severity {
    /// Returns the word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The place in the text.
    pub place: FilePlace,
    /// The field, as Kubernetes writes it: `spec.containers[0].image`; empty for the whole document.
    pub path: String,
    /// The problem.
    pub message: String,
    /// The remedy; empty if the message contains it.
    pub remedy: String,
    /// The name of the `SidecarSet` with the problem; empty if none.
    pub sidecar_set: String,
    /// The rule that warns of it, if it can be turned off.
    pub rule: Option<OptionalRule>,
}

impl Finding {
    /// Returns the finding as one of a rule that can be turned off.
    #[must_use]
    pub fn with_rule(self, rule: OptionalRule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// Returns the message, with the name of the SidecarSet and this path before it and the remedy behind it. Leaves out what is
    /// empty.
    fn sentence(&self, path: &str) -> String {
        let Self { message, remedy, sidecar_set, .. } = self;
        let set = if sidecar_set.is_empty() { String::new() } else { format!("SidecarSet {sidecar_set:?}: ") };
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
        format!("{set}{path}{message}{remedy}")
    }
}

/// How findings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FindingFormat {
    /// For people: the line with a caret under what is wrong.
    #[default]
    Text,
    /// A list of objects, for editors and programs.
    Json,
    /// Annotations of a GitHub workflow.
    Github,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// Writes all findings.
///
/// # Errors
/// If `out` takes no more.
pub fn write(findings: &[Finding], format: FindingFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        FindingFormat::Text => text::write(findings, out),
        FindingFormat::Json => json::write(findings, out),
        FindingFormat::Github => github::write(findings, out),
        FindingFormat::Sarif => sarif::write(findings, out),
    }
}

/// Sorts findings by file, line and severity, and removes duplicates. `files` has the names of the files in the order
/// given.
pub fn sort(findings: &mut Vec<Finding>, files: &[String]) {
    let ranks: BTreeMap<&str, usize> = files.iter().enumerate().map(|(rank, file)| (file.as_str(), rank)).collect();
    let rank = |finding: &Finding| ranks.get(finding.place.source.name.as_str()).copied();
    findings.sort_by_cached_key(|finding| {
        let span = &finding.place.span;
        (rank(finding), span.start, finding.severity, span.end, finding.path.clone(), finding.message.clone())
    });
    findings.dedup();
}
