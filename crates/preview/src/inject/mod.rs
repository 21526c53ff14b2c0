//! `pillion inject`: shows manifests as they are after injection.

mod documents;
mod object;
mod output;
#[cfg(test)]
mod tests;
mod timestamp;

use std::fmt;

use anyhow::anyhow;
use pillion_documents::manifest::Manifest;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};

use self::documents::Chunk;
use self::object::{Said, Shape, Verdict};
use self::output::{Form, Printer};
use crate::prepared::Prepared;
use crate::{Inputs, Preview, Situation};

/// What gets sidecars, and how it is printed.
#[derive(Debug)]
pub struct Options<'a> {
    /// The manifests.
    pub inputs: &'a Inputs,
    /// What surrounds them.
    pub situation: &'a Situation,
    /// Whether only the changes are printed.
    pub diff: bool,
    /// The format of the manifests.
    pub output: DataFormat,
    /// Whether the Pods are printed in place of what creates them.
    pub as_pods: bool,
    /// The time of injection; the time of the host if there is none.
    pub now: Option<Timestamp>,
    /// Whether only warnings and refusals are told.
    pub quiet: bool,
}

/// Shows manifests as they are after injection.
///
/// # Errors
/// If something cannot be read, the policy gives no answer, or `stdout` takes no more.
pub fn run(options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let prepared = Prepared::<Chunk>::read(options.inputs, options.situation, terminal)?;
    let Some(Prepared { given, settings, preview, doubts, .. }) = prepared else { return Ok(Status::Failed) };
    if !settings.has_sidecar_sets() {
        terminal.warn("no SidecarSets: give them among the manifests, with --sidecar-sets, or with --settings");
    }
    for doubt in doubts {
        terminal.warn(doubt);
    }
    if json::text(&settings.value, &["role"]) == "Assert" {
        terminal
            .warn("the settings have the role Assert: such a policy judges Pods after injection, and injects nothing");
    }
    inject(options, &given, &preview, terminal)
}

fn inject(
    options: &Options<'_>,
    given: &[Chunk],
    preview: &Preview,
    terminal: &mut Terminal,
) -> anyhow::Result<Status> {
    let form = match (options.diff, options.output) {
        (true, _) => Form::Diff,
        (false, DataFormat::Yaml) => Form::Yaml,
        (false, DataFormat::Json) => Form::Json,
    };
    let shape = if options.as_pods { Shape::Pods } else { Shape::Objects };
    let mut printer = Printer::new(form, shape == Shape::Objects);
    let mut counts = Counts::default();
    for chunk in given {
        let mut outcomes = Vec::new();
        for document in &chunk.documents {
            let mut of_document = Vec::new();
            for object in &document.objects {
                let outcome = object::inject(object, preview, shape, options.now)?;
                for namespace in preview.assumed() {
                    terminal.warn(format_args!(
                        "Namespace {namespace} is {}; it is assumed to exist, with {}",
                        preview.missing_in(),
                        labels(&options.situation.namespace_labels)
                    ));
                }
                for note in preview.notes() {
                    terminal.warn(note);
                }
                for doubt in &outcome.doubts {
                    terminal.warn(doubt);
                }
                for said in &outcome.said {
                    counts.add(&said.verdict);
                    tell(said, object, options.quiet, terminal);
                }
                of_document.push(outcome);
            }
            outcomes.push((document, of_document));
        }
        printer.chunk(chunk, outcomes, terminal)?;
    }
    printer.finish(terminal)?;
    if counts == Counts::default() {
        terminal.warn("no Pod and nothing that makes Pods among the manifests");
    } else if !options.quiet {
        writeln!(terminal.err(), "{counts}")?;
    }
    Ok(if counts.refused > 0 { Status::Refused } else { Status::Done })
}

/// Numbers of Pods by outcome.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    injected: usize,
    unchanged: usize,
    refused: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Injected(_) => self.injected += 1,
            Verdict::Present(_) | Verdict::Unmatched | Verdict::NotAsked(_) | Verdict::Ignored(_) => {
                self.unchanged += 1;
            }
            Verdict::Refused(..) | Verdict::Forbidden(_) | Verdict::Malformed(_) => self.refused += 1,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} injected, {} unchanged, {} refused", self.injected, self.unchanged, self.refused)
    }
}

/// Prints the verdict on one Pod. Ignores write errors: there is no other stream to report them.
fn tell(said: &Said, object: &Manifest, quiet: bool, terminal: &mut Terminal) {
    let Said { label, verdict, identities, warnings } = said;
    for warning in warnings {
        terminal.warn(format_args!("{label}: {warning}"));
    }
    let place = || format!("{}:{}", object.source.name, object.line());
    let line = match verdict {
        Verdict::Malformed(errors) => {
            for error in errors {
                terminal.error(&anyhow!("{error} ({label})"));
            }
            return;
        }
        Verdict::Refused(code, message) => {
            terminal.error(&anyhow!("{}: {label}: refused ({code}): {message}", place()));
            return;
        }
        Verdict::Forbidden(why) => {
            terminal.error(&anyhow!("{}: {label}: the policy server refuses it: {why}", place()));
            return;
        }
        Verdict::Ignored(reasons) => {
            terminal.warn(format_args!(
                "{label}: nothing happens, since the policy is not asked or not heeded: {}",
                reasons.join("; ")
            ));
            return;
        }
        Verdict::Injected(sidecars) if sidecars.is_empty() => "annotations patched".to_owned(),
        Verdict::Injected(sidecars) => format!("injected {sidecars}"),
        Verdict::Present(sidecars) => format!("already has {sidecars}"),
        Verdict::Unmatched => "no SidecarSet is for it".to_owned(),
        Verdict::NotAsked(why) => why.clone(),
    };
    let with = if identities.is_empty() { "" } else { ", with the ServiceAccounts " };
    if !quiet {
        let _ = writeln!(terminal.err(), "{label}: {line}{with}{identities}");
    }
}

fn labels(labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return "no labels but its name; add its manifest, or its labels with --namespace-labels".to_owned();
    }
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("the labels {}", labels.join(","))
}
