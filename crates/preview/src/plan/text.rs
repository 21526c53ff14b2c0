//! A plan as text.

use std::io::{self, Write};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use pillion_controllers::preview::{Event, Preview, Remark, Rollout, Verb, Wave};
use pillion_controllers::registry::Name;
use pillion_documents::diff;
use pillion_kubernetes::json;
use pillion_terminal::{ERROR, WARNING};
use pillion_yaml::{self as yaml, Tree};
use serde_json::Value;

use super::lines::{Sum, lines, sums};

const MADE: Style = AnsiColor::Green.on_default();
const HEAD: Style = Style::new().bold();

/// Prints the changes by controller, then the problems, the later changes and the totals; the same for each further
/// round. A change says in words what it changes; with `has_diff`, the difference of the whole object stands below.
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
    let Wave { changes, events, problems, later, rollouts, .. } = wave;
    let sums = sums(changes);
    let lines = lines(&sums);
    let mut controllers: Vec<Name> = sums.iter().map(|sum| sum.controller).collect();
    controllers.dedup();
    if !rollouts.is_empty() && !controllers.contains(&Name::SidecarSetRollout) {
        controllers.push(Name::SidecarSetRollout);
    }
    for controller in controllers {
        writeln!(out, "{HEAD}{controller}{HEAD:#}")?;
        for rollout in rollouts.iter().filter(|_| controller == Name::SidecarSetRollout) {
            writeln!(out, "  SidecarSet {}: {}", rollout.sidecar_set, progress(rollout))?;
        }
        if has_diff {
            for sum in sums.iter().filter(|sum| sum.controller == controller) {
                change(sum.verb, &sum.title(), &sum.words(), out)?;
                difference(sum, out)?;
            }
        } else {
            for line in lines.iter().filter(|line| line.controller == controller) {
                change(line.verb, &line.title(), &line.words, out)?;
            }
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
    totals(&sums, problems.len(), out)
}

fn change(verb: Verb, title: &str, words: &str, out: &mut dyn Write) -> io::Result<()> {
    let style = match verb {
        Verb::Create | Verb::Mint => MADE,
        Verb::Change => WARNING,
        Verb::Delete | Verb::Evict => ERROR,
    };
    writeln!(out, "  {style}{:6}{style:#}  {title}: {words}", verb.as_str())
}

/// Says how many Pods of a rollout get the version now, and when the others do.
fn progress(rollout: &Rollout) -> String {
    let Rollout { pods, updated, now, kept, message, .. } = rollout;
    if *now == 0 {
        return message.clone();
    }
    let rest = pods.saturating_sub(updated.saturating_add(*now).saturating_add(*kept));
    let mut parts = vec![format!("{now} of {pods} Pods now")];
    if rest > 0 {
        parts.push(format!("{rest} more as Pods become available"));
    }
    if *updated > 0 {
        parts.push(format!("{updated} {} updated already", if *updated == 1 { "is" } else { "are" }));
    }
    if *kept > 0 {
        parts.push(format!("{kept} {} version", if *kept == 1 { "keeps its" } else { "keep their" }));
    }
    parts.join(", ")
}

fn totals(sums: &[Sum<'_>], problems: usize, out: &mut dyn Write) -> io::Result<()> {
    let count = |verb| sums.iter().filter(|sum| sum.verb == verb).count();
    if sums.is_empty() {
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
fn difference(sum: &Sum<'_>, out: &mut dyn Write) -> io::Result<()> {
    let text =
        |object: Option<&Arc<Value>>| object.map(|object| yaml::print(&Tree::conventional(object))).unwrap_or_default();
    let title = sum.title();
    diff::write(out, &title, &format!("{title} (planned)"), &text(sum.before), &text(sum.after))
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
