//! SARIF 2.1.0, for code scanning of GitHub and others.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::rules::{self, HELP, Rule};
use super::{Finding, fingerprint};

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const ABOUT: &str = "https://github.com/pillion/pillion";
/// The root of the repository, which the reader knows.
const ROOT: &str = "%SRCROOT%";

pub(super) fn write(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<Rule> = rules::all().collect();
    let mut lines = Lines::default();
    let results: Vec<Value> = findings.iter().map(|finding| result(finding, &rules, &mut lines)).collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "pillion",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": ABOUT,
                "rules": rules.iter().map(descriptor).collect::<Vec<_>>(),
            }},
            // Columns count characters.
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.means},
        "fullDescription": {"text": rule.means},
        "help": {"text": rule.help},
        "helpUri": HELP,
    })
}

fn result<'a>(finding: &'a Finding, rules: &[Rule], lines: &mut Lines<'a>) -> Value {
    let rule = rules::rule_for(finding);
    let (start, end) = (finding.place.start(), finding.place.end());
    let mut location = json!({
        "physicalLocation": {
            "artifactLocation": artifact(&finding.place.source.name),
            "region": {
                "startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column,
            },
        },
    });
    if let Some(location) = location.as_object_mut().filter(|_| !finding.path.is_empty()) {
        location.insert("logicalLocations".to_owned(), json!([{"fullyQualifiedName": finding.path}]));
    }
    json!({
        "ruleId": rule.id,
        "ruleIndex": rules.iter().position(|known| *known == rule),
        "level": finding.severity.as_str(),
        "message": {"text": finding.sentence(&finding.path)},
        "locations": [location],
        "partialFingerprints": {"primaryLocationLineHash": lines.fingerprint(finding)},
    })
}

/// Returns where a file is: relative to the root of the repository if it is below the current folder.
fn artifact(name: &str) -> Value {
    let path = Path::new(name);
    let below = env::current_dir().ok().and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
    let path = below.unwrap_or_else(|| path.to_owned());
    if path.is_absolute() {
        return json!({"uri": format!("file://{}", encoded(&path.to_string_lossy()))});
    }
    let parts: Vec<String> = path.components().map(|part| encoded(&part.as_os_str().to_string_lossy())).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| *part != ".").collect();
    json!({"uri": parts.join("/"), "uriBaseId": ROOT})
}

/// Returns a path as a part of a URI.
fn encoded(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        if is_plain {
            uri.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// The fingerprints of the lines of each file.
#[derive(Default)]
struct Lines<'a>(BTreeMap<&'a str, Vec<String>>);

impl<'a> Lines<'a> {
    fn fingerprint(&mut self, finding: &'a Finding) -> String {
        let source = &finding.place.source;
        let of_lines = self.0.entry(source.name.as_str()).or_insert_with(|| fingerprint::of_lines(&source.text));
        let line = finding.place.start().line.saturating_sub(1);
        of_lines.get(line).or(of_lines.last()).cloned().unwrap_or_default()
    }
}
