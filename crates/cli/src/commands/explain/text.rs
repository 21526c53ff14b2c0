//! The explanation as text.

mod identity;

use std::io::{self, Write};

use pillion_explain::chosen_revision::{Revision, Why};
use pillion_explain::finding::Finding;
use pillion_explain::parts::{Container, Fate, Part, Parts};
use pillion_explain::{Decision, Explained, Match};
use pillion_inject::list::List;

use super::subject::Told;

/// The widest column of names; a longer name pushes its line to the right.
const NAMES: usize = 32;

/// Writes the explanation of one Pod. `with_remedies` adds what to do about each `SidecarSet` that is not injected.
///
/// # Errors
/// If `out` takes no more.
pub fn write(out: &mut dyn Write, told: &Told, with_remedies: bool) -> io::Result<()> {
    writeln!(out, "{}: {}", told.label, heading(told))?;
    for finding in told.policy.iter().chain(&told.forbidden) {
        reason(out, "  the policy's ", finding, true)?;
    }
    let is_refused = !told.answer.accepted;
    for finding in &told.pod {
        reason(out, "  ", finding, true)?;
    }
    if told.outcome.is_none() || (!told.pod.is_empty() && !is_refused) {
        // No SidecarSet was looked at.
        return Ok(());
    }
    if let Some(identity) = &told.identity {
        self::identity::of_pod(out, identity)?;
    }
    let width = told.sets.iter().map(|set| set.name.chars().count()).max().unwrap_or_default().min(NAMES);
    for set in &told.sets {
        self::set(out, set, width, with_remedies)?;
    }
    Ok(())
}

fn heading(told: &Told) -> String {
    if told.is_malformed {
        return "the API server refuses it before the policy is asked".to_owned();
    }
    let sets = if told.of == 1 { "SidecarSet" } else { "SidecarSets" };
    let heading = match told.answer.code.filter(|_| !told.answer.accepted) {
        Some(code) => format!("the policy refuses it ({code})"),
        None if told.outcome.is_none() => "nothing to inject".to_owned(),
        None if told.of == 0 => "no SidecarSets".to_owned(),
        None => format!("{} of {} {sets} injected", told.injected, told.of),
    };
    match (&told.policy[..], &told.forbidden) {
        ([], None) => heading,
        ([], Some(_)) => "the policy server refuses it".to_owned(),
        _ => format!("nothing happens, since the policy is not asked or not heeded; otherwise {heading}"),
    }
}

fn set(out: &mut dyn Write, set: &Explained, width: usize, with_remedies: bool) -> io::Result<()> {
    let name = &set.name;
    let indent = " ".repeat(width + 6);
    write!(out, "  {name:width$}  ")?;
    match &set.decision {
        Decision::NotInjected(findings) => reasons(out, "not injected", findings, &indent, with_remedies)?,
        Decision::Refused(findings) => reasons(out, "refuses the Pod", findings, &indent, true)?,
        Decision::Withheld(matched) => {
            writeln!(out, "would be injected ({}), but the Pod is refused", matching(matched))?;
            revision(out, &matched.revision, &indent)?;
        }
        Decision::Injected(injection) => {
            let what = if injection.parts.are_there() { "injected already" } else { "injected" };
            writeln!(out, "{what}: {}", matching(&injection.matched))?;
            revision(out, &injection.matched.revision, &indent)?;
            parts(out, &injection.parts, &indent)?;
        }
    }
    let containers = match &set.decision {
        Decision::Injected(injection) => injection.parts.containers.as_slice(),
        _ => &[],
    };
    match &set.identity {
        Some(identity) => self::identity::of_set(out, identity, containers, &indent),
        None => Ok(()),
    }
}

/// Writes a single reason on the same line, several on lines of their own.
fn reasons(out: &mut dyn Write, what: &str, findings: &[Finding], indent: &str, with_remedy: bool) -> io::Result<()> {
    write!(out, "{what}:")?;
    if let [finding] = findings {
        return reason(out, " ", finding, false).and_then(|()| remedy(out, indent, finding, with_remedy));
    }
    writeln!(out)?;
    for finding in findings {
        reason(out, indent, finding, false)?;
        remedy(out, &format!("{indent}  "), finding, with_remedy)?;
    }
    Ok(())
}

fn reason(out: &mut dyn Write, indent: &str, finding: &Finding, with_remedy: bool) -> io::Result<()> {
    writeln!(out, "{indent}{finding}")?;
    let below = " ".repeat(indent.len() - indent.trim_start().len() + 2);
    remedy(out, &below, finding, with_remedy)
}

fn remedy(out: &mut dyn Write, indent: &str, finding: &Finding, with_remedy: bool) -> io::Result<()> {
    if with_remedy && !finding.remedy.is_empty() {
        writeln!(out, "{indent}to do: {}", finding.remedy)?;
    }
    Ok(())
}

fn matching(matched: &Match) -> String {
    let Match { selector, namespace_selector, .. } = matched;
    match namespace_selector {
        Some(namespaces) => format!("Pods with {selector} in namespaces with {namespaces}"),
        None => format!("Pods with {selector}"),
    }
}

fn revision(out: &mut dyn Write, revision: &Revision, indent: &str) -> io::Result<()> {
    match &revision.stored {
        _ if revision.why == Why::NotAsked => Ok(()),
        Some(name) => writeln!(out, "{indent}stored revision {name}: {}", revision.why),
        None => writeln!(out, "{indent}latest revision: {}", revision.why),
    }
}

fn parts(out: &mut dyn Write, parts: &Parts, indent: &str) -> io::Result<()> {
    for container in &parts.containers {
        writeln!(out, "{indent}{}", self::container(container))?;
    }
    if parts.containers.is_empty() {
        writeln!(out, "{indent}it has no containers")?;
    }
    let kinds = [("volume", &parts.volumes), ("pull secret", &parts.pull_secrets), ("annotation", &parts.annotations)];
    for (kind, parts) in kinds {
        for Part { name, fate } in parts {
            writeln!(out, "{indent}{kind} {name}: {}", self::fate(*fate))?;
        }
    }
    Ok(())
}

fn container(container: &Container) -> String {
    let kind = match (container.list, container.is_native) {
        (List::Init, true) => "native sidecar",
        (List::Init, false) => "init container",
        (List::Containers, _) => "container",
    };
    let pair = match &container.half_of {
        Some(base) => format!(", one of the hot-upgrade pair of {base}"),
        None => String::new(),
    };
    let place = match container.list {
        List::Init => "init containers",
        List::Containers => "containers",
    };
    let (index, of) = (container.index + 1, container.of);
    format!("{kind} {}: {}, {index} of {of} {place}{pair}", container.name, fate(container.fate))
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Added => "added",
        Fate::Kept => "there already",
        Fate::Replaced => "replaces the Pod's, which differs",
        Fate::Shadowed => "left out, the Pod has its own",
        Fate::Unused => "left out, nothing of the SidecarSet uses it",
    }
}
