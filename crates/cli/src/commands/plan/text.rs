//! A plan as text.

use std::io::{self, Write};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use pillion_controller::preview::{Change, Event, Preview, Remark, Verb, Wave};
use pillion_documents::diff;
use pillion_documents::yaml::{self, Tree};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::ObjectRef;
use serde_json::Value;

use crate::terminal::{ERROR, WARNING};

const MADE: Style = AnsiColor::Green.on_default();
const HEAD: Style = Style::new().bold();

/// Prints the changes by controller, then the problems, the later changes and the totals; the same for each further
/// round. Below each change stand the fields that differ, or with `has_diff` the difference of the whole object.
pub(super) fn print(preview: &Preview, has_diff: bool, out: &mut dyn Write) -> io::Result<()> {
    wave(&preview.first, has_diff, out)?;
    for (index, it) in preview.waves.iter().enumerate() {
        writeln!(out, "\n{HEAD}then ({}){HEAD:#}", index + 1)?;
        wave(it, has_diff, out)?;
    }
    if !preview.never.is_empty() {
        writeln!(out)?;
    }
    remarks("never, as things are", HEAD, &preview.never, out)
}

fn wave(wave: &Wave, has_diff: bool, out: &mut dyn Write) -> io::Result<()> {
    let Wave { changes, events, problems, later, .. } = wave;
    let width = changes.iter().map(|change| object(change).len()).max().unwrap_or_default();
    let mut controller = None;
    for change in changes {
        if controller != Some(change.controller) {
            writeln!(out, "{HEAD}{}{HEAD:#}", change.controller)?;
            controller = Some(change.controller);
        }
        let style = match change.verb {
            Verb::Create | Verb::Mint => MADE,
            Verb::Change => WARNING,
            Verb::Delete | Verb::Evict => ERROR,
        };
        let (verb, object) = (change.verb.as_str(), object(change));
        writeln!(out, "  {style}{verb:6}{style:#}  {object:width$}  {}", change.why)?;
        if has_diff {
            difference(change, &object, out)?;
            continue;
        }
        for field in change.differences() {
            writeln!(out, "          {field}")?;
        }
    }
    if !events.is_empty() {
        writeln!(out, "{HEAD}events{HEAD:#}")?;
    }
    for Event { type_, reason, message, object } in events {
        let text = |key| json::text(object, &[key]);
        let place = [text("namespace"), text("name")].into_iter().filter(|part| !part.is_empty());
        let place = place.collect::<Vec<_>>().join("/");
        writeln!(out, "  {type_} {reason} on {} {place}: {message}", text("kind"))?;
    }
    remarks("problems", ERROR, problems, out)?;
    remarks("later", HEAD, later, out)?;
    totals(changes, problems.len(), out)
}

fn totals(changes: &[Change], problems: usize, out: &mut dyn Write) -> io::Result<()> {
    let count = |verb| changes.iter().filter(|change| change.verb == verb).count();
    if changes.is_empty() {
        write!(out, "nothing to do")?;
    } else {
        let verbs = [
            (Verb::Create, "to create"),
            (Verb::Mint, "to mint"),
            (Verb::Change, "to change"),
            (Verb::Delete, "to delete"),
            (Verb::Evict, "to evict"),
        ];
        let counts = verbs.into_iter().map(|(verb, text)| (count(verb), text)).filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, text)| format!("{count} {text}")).collect();
        write!(out, "{}", counts.join(", "))?;
    }
    match problems {
        0 => writeln!(out),
        1 => writeln!(out, ", 1 problem"),
        problems => writeln!(out, ", {problems} problems"),
    }
}

/// Prints the difference between the object before and after, as YAML.
fn difference(change: &Change, object: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = |object: &Option<Arc<Value>>| {
        object.as_ref().map(|object| yaml::document(&Tree::conventional(object))).unwrap_or_default()
    };
    diff::write(out, object, &format!("{object} (planned)"), &text(&change.before), &text(&change.after))
}

/// Names an object as kubectl does.
fn object(change: &Change) -> String {
    let ObjectRef { kind, namespace, name, .. } = &change.object;
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
