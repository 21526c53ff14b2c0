//! Findings: what is wrong at a place of a text, and how people, editors and CI read it.

mod github;
mod json;
pub mod locate;
mod place;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::ValueEnum;

pub use self::place::{Place, Position};

/// How bad a finding is. Errors come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy refuses it.
    Error,
    /// The policy takes it, and it may not do what is meant.
    Warning,
}

impl Severity {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the text.
    pub place: Place,
    /// The field, as Kubernetes writes it: `spec.containers[0].image`; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it; empty where the message says it.
    pub remedy: String,
    /// The name of the `SidecarSet` that it is about; empty where it is about none.
    pub sidecar_set: String,
}

/// How findings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: the line with a caret under what is wrong.
    #[default]
    Text,
    /// A list of objects, for editors and programs.
    Json,
    /// Annotations of a GitHub workflow.
    Github,
}

/// Writes all findings.
///
/// # Errors
/// Where `out` takes no more.
pub fn write(findings: &[Finding], format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Text => text::write(findings, out),
        Format::Json => json::write(findings, out),
        Format::Github => github::write(findings, out),
    }
}

/// Puts findings into the order of the files and lines, and leaves out what was found twice. `files` are the names of
/// the files in the order in which they were given.
pub fn sort(findings: &mut Vec<Finding>, files: &[String]) {
    let ranks: BTreeMap<&str, usize> = files.iter().enumerate().map(|(rank, file)| (file.as_str(), rank)).collect();
    let rank = |finding: &Finding| ranks.get(finding.place.source.name.as_str()).copied();
    findings.sort_by_cached_key(|finding| {
        let span = &finding.place.span;
        (rank(finding), span.start, finding.severity, span.end, finding.path.clone(), finding.message.clone())
    });
    findings.dedup();
}
