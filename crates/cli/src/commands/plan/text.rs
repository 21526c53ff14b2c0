//! A plan as text.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use pillion_controller::preview::{Change, Preview, Remark, Verb};

use crate::terminal::{ERROR, WARNING};

const MADE: Style = AnsiColor::Green.on_default();
const HEAD: Style = Style::new().bold();

/// Prints the changes by controller, then the problems, the later changes and the totals. Lists the changed fields
/// below each change.
pub(super) fn print(preview: &Preview, differences: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let width = preview.changes.iter().map(|change| object(change).len()).max().unwrap_or_default();
    let mut controller = None;
    let differences = differences.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    for (change, fields) in preview.changes.iter().zip(differences) {
        if controller != Some(change.controller) {
            writeln!(out, "{HEAD}{}{HEAD:#}", change.controller)?;
            controller = Some(change.controller);
        }
        let style = match change.verb {
            Verb::Create | Verb::Mint => MADE,
            Verb::Change => WARNING,
            Verb::Delete => ERROR,
        };
        let (verb, object) = (change.verb.as_str(), object(change));
        writeln!(out, "  {style}{verb:6}{style:#}  {object:width$}  {}", change.why)?;
        for field in fields {
            writeln!(out, "          {field}")?;
        }
    }
    remarks("problems", ERROR, &preview.problems, out)?;
    remarks("later", HEAD, &preview.later, out)?;
    let count = |verb| preview.changes.iter().filter(|change| change.verb == verb).count();
    if preview.changes.is_empty() {
        write!(out, "nothing to do")?;
    } else {
        let verbs = [
            (Verb::Create, "to create"),
            (Verb::Mint, "to mint"),
            (Verb::Change, "to change"),
            (Verb::Delete, "to delete"),
        ];
        let counts = verbs.into_iter().map(|(verb, text)| (count(verb), text)).filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, text)| format!("{count} {text}")).collect();
        write!(out, "{}", counts.join(", "))?;
    }
    match preview.problems.len() {
        0 => writeln!(out),
        1 => writeln!(out, ", 1 problem"),
        problems => writeln!(out, ", {problems} problems"),
    }
}

/// Names an object as kubectl does.
fn object(change: &Change) -> String {
    let Change { kind, namespace, name, .. } = change;
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn remarks(head: &str, style: Style, remarks: &[Remark], out: &mut dyn Write) -> io::Result<()> {
    if !remarks.is_empty() {
        writeln!(out, "{style}{head}{style:#}")?;
    }
    for Remark { namespace, text, .. } in remarks {
        match namespace {
            Some(namespace) => writeln!(out, "  {namespace}: {text}")?,
            None => writeln!(out, "  {text}")?,
        }
    }
    Ok(())
}
