//! `pillion check`: everything that is wrong with settings, `SidecarSet`s and policies, at once.

mod documents;
mod identity;
mod lint;
mod misspelt;
mod sets;
mod settings;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use pillion_core::field::FieldPath;
use serde_json::Value;

use self::documents::{Document, Role, role};
pub use self::misspelt::{unknown_fields, unknown_fields_in_settings};
use self::subject::Spot;
use crate::manifest::{self, Manifest, Source};
use crate::report::{self, Finding, Format, Place, Severity, locate};
use crate::status::Status;
use crate::terminal::Terminal;
use crate::words;

const EXAMPLES: &str = "Examples:
  pillion check test_data/settings-log-agent.json
  pillion check --settings test_data/settings-log-agent.json -o json
  pillion check --warnings-as-errors test_data/settings-log-agent.json";

/// What the command does, at length.
pub const ABOUT: &str = "Find all problems in settings and SidecarSets.

Reads the policy's settings, Kubewarden policies that hold them, and SidecarSets of both versions; ControllerRevisions, \
Namespaces, Roles with their bindings, and the ConfigMap kruise-configuration are taken into account where they are given. Other documents are \
passed over. Errors are those for which the policy refuses the settings or the SidecarSet. Warnings are about what it \
takes and what may not be meant. Policies are looked at together, since what one of them is not asked about, another may \
be.

Exits with 0 where there are no errors, 1 where there are, and 2 where something could not be read or nothing was there \
to check.";

/// The arguments of `pillion check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files, folders, or - for stdin.
    #[arg(value_name = "PATH", required_unless_present_any = ["files", "settings"])]
    paths: Vec<PathBuf>,
    /// The same, as kubectl has it; may be given several times.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Go through folders within folders.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// A file that holds settings, whatever it looks like; may be given several times.
    #[arg(long, value_name = "PATH")]
    settings: Vec<PathBuf>,
    /// How to print what was found.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Exit with 1 where there are warnings, too.
    #[arg(long, visible_alias = "strict")]
    warnings_as_errors: bool,
    /// Also say which documents were passed over.
    #[arg(short, long)]
    verbose: bool,
}

/// Runs `pillion check`.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let mut input = Input::default();
    let paths: Vec<PathBuf> = args.paths.iter().chain(&args.files).cloned().collect();
    // Settings first: the same file may be in a folder, too.
    for (paths, is_settings) in [(&args.settings, true), (&paths, false)] {
        for source in manifest::sources_each(paths, args.recursive) {
            match source {
                Ok(source) => input.read(&source, is_settings),
                Err(error) => {
                    input.unreadable += 1;
                    terminal.error(&error);
                }
            }
        }
    }
    let mut findings = check(&input.documents);
    findings.append(&mut input.findings);
    report::sort(&mut findings, &input.files);
    report::write(&findings, args.output, terminal.out())?;
    terminal.finish()?;
    if args.verbose {
        for document in input.documents.iter().filter(|document| document.role == Role::Other) {
            say(terminal, &passed_over(&document.manifest));
        }
    }
    let has = |severity| findings.iter().any(|finding| finding.severity == severity);
    if input.unreadable == 0 && findings.is_empty() && !input.has_work() {
        bail!(
            "there is nothing to check: no settings, SidecarSet or policy of Pillion; a file of settings that is not known as one can be given with --settings"
        );
    }
    say(terminal, &summary(&findings, &input));
    Ok(if input.unreadable > 0 {
        Status::Failed
    } else if has(Severity::Error) || (args.warnings_as_errors && has(Severity::Warning)) {
        Status::Refused
    } else {
        Status::Done
    })
}

/// There is nowhere to tell that `stderr` is closed.
fn say(terminal: &mut Terminal, text: &str) {
    let _ = writeln!(terminal.err(), "{text}");
}

/// What has been read.
#[derive(Default)]
struct Input {
    documents: Vec<Document>,
    /// Documents that are none.
    findings: Vec<Finding>,
    /// The names of the files, in their order.
    files: Vec<String>,
    unreadable: usize,
}

impl Input {
    fn read(&mut self, source: &Arc<Source>, is_settings: bool) {
        // A file that is given twice is one file.
        if self.files.contains(&source.name) {
            return;
        }
        self.files.push(source.name.clone());
        for parsed in manifest::parse_each(source) {
            match parsed {
                Ok(manifest) => {
                    let role = if is_settings { Role::Settings } else { role(&manifest.value) };
                    self.documents.push(Document { manifest, role });
                }
                Err(error) => self.findings.extend(broken(source, error, is_settings)),
            }
        }
    }

    fn count(&self, role: Role) -> usize {
        self.documents.iter().filter(|document| document.role == role).count()
    }

    fn has_work(&self) -> bool {
        let is_beside = |role| matches!(role, Role::Other | Role::Namespace | Role::Whitelist | Role::Rbac);
        self.documents.iter().any(|document| !is_beside(document.role))
    }
}

/// A document that is no object. Where it is not said to be settings, it may be anything.
fn broken(source: &Arc<Source>, error: manifest::Error, is_settings: bool) -> Option<Finding> {
    let (place, message) = match error {
        manifest::Error::Syntax { summary, at, .. } => {
            let (line, column) = at.unwrap_or((1, 1));
            (Place::at(source, line, column), summary)
        }
        manifest::Error::NotAnObject { line, found, .. } if is_settings => {
            (Place::at(source, line, 1), format!("settings are an object, this is {found}"))
        }
        manifest::Error::NotAnObject { .. } => return None,
    };
    let remedy = String::new();
    Some(Finding { severity: Severity::Error, place, path: String::new(), message, remedy, sidecar_set: String::new() })
}

/// Everything that is wrong with documents, in no order.
fn check(documents: &[Document]) -> Vec<Finding> {
    let of = |role: Role| documents.iter().filter(move |document| document.role == role);
    let of_settings = of(Role::Settings).map(|document| Spot::document(&document.manifest));
    let of_policies = of(Role::Policy).map(|document| Spot {
        base: FieldPath::new("spec.settings"),
        raw: document.manifest.value.pointer("/spec/settings").unwrap_or(&Value::Null),
        ..Spot::document(&document.manifest)
    });
    let of_members = of(Role::PolicyGroup).flat_map(|document| {
        documents::members(&document.manifest.value).map(|(name, member)| Spot {
            base: FieldPath::new("spec.policies").child(name).child("settings"),
            raw: member.get("settings").unwrap_or(&Value::Null),
            ..Spot::document(&document.manifest)
        })
    });
    let mut settings: Vec<_> = of_settings.chain(of_policies).chain(of_members).map(settings::judge).collect();
    let spots: Vec<_> = of(Role::SidecarSet).map(|document| Spot::sidecar_set(&document.manifest)).collect();
    let (sets, mut findings) = sets::decode(&spots);
    let items = settings.iter().flat_map(|judged| judged.items.iter().cloned());
    let every: Vec<_> = items.chain(spots).collect();
    if settings.is_empty() {
        findings.extend(sets::judge(&sets, None, documents));
    }
    for judged in &settings {
        findings.extend(sets::judge(&sets, Some(judged), documents));
    }
    findings.extend(sets::revisions(documents));
    findings.extend(settings.iter_mut().flat_map(|judged| std::mem::take(&mut judged.findings)));
    findings.extend(lint::all(&lint::Everything { documents, settings: &settings, spots: &every, sets: &sets }));
    findings
}

/// The index in `sidecarSets[index].rest`, and the rest.
fn item_of(path: &FieldPath) -> Option<(usize, FieldPath)> {
    let (index, rest) = path.as_str().strip_prefix("sidecarSets[")?.split_once(']')?;
    Some((index.parse().ok()?, FieldPath::new(rest.strip_prefix('.').unwrap_or(rest))))
}

fn passed_over(manifest: &Manifest) -> String {
    let text = |pointer: &str| manifest.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let what = match (text("/kind"), text("/metadata/name")) {
        ("", _) => "document".to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind} {name:?}"),
    };
    format!("{}:{}: {what} passed over", manifest.source.name, manifest.line())
}

fn summary(findings: &[Finding], input: &Input) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let of = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut checked = Vec::new();
    for (role, one, many) in [
        (Role::Settings, "settings file", "settings files"),
        (Role::Policy, "policy", "policies"),
        (Role::PolicyGroup, "policy group", "policy groups"),
        (Role::SidecarSet, "SidecarSet", "SidecarSets"),
    ] {
        let number = input.count(role);
        if number > 0 {
            checked.push(of(number, one, many));
        }
    }
    let mut summary = format!(
        "{}, {} in {}",
        of(count(Severity::Error), "error", "errors"),
        of(count(Severity::Warning), "warning", "warnings"),
        if checked.is_empty() { of(input.files.len(), "file", "files") } else { checked.join(", ") },
    );
    let others = input.count(Role::Other);
    // Writing to a String cannot fail.
    if others > 0 {
        let _ = write!(summary, "; {} passed over", of(others, "other document", "other documents"));
    }
    if input.unreadable > 0 {
        let _ = write!(summary, "; {} could not be read", input.unreadable);
    }
    summary
}
