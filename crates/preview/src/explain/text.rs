//! The explanation as text.

mod identity;
mod page;

use std::io;

use pillion_explain::chosen_revision::{Revision, Why};
use pillion_explain::finding::Finding;
use pillion_explain::parts::{Container, Fate, Part, Parts};
use pillion_explain::{Decision, Explained, Match};
use pillion_sidecarset::overrides::{Override, Ruling};
use pillion_sidecarset::sidecar::List;
use pillion_terminal::{ERROR, WARNING};

pub use self::page::Page;
use super::groups::{GOOD, Group, HEAD};
use super::subject::ExplainedPod;

/// The widest column of names; a longer name pushes its line to the right.
const NAMES: usize = 32;

/// Writes the explanation of one Pod. `with_remedies` adds what to do about each `SidecarSet` that is not injected.
///
/// # Errors
/// If the stream takes no more.
pub fn write(page: &mut Page<'_>, explained: &ExplainedPod, with_remedies: bool) -> io::Result<()> {
    let style = Group::from_explained(explained).style();
    page.line("", 4, &format!("{HEAD}{}{HEAD:#}: {style}{}{style:#}", explained.label, heading(explained)))?;
    for finding in explained.policy.iter().chain(&explained.forbidden) {
        reason(page, "  the policy's ", finding)?;
    }
    for finding in explained.not_asked.iter().flat_map(|not_asked| &not_asked.findings) {
        reason(page, "  ", finding)?;
    }
    let is_refused = !explained.answer.accepted;
    for finding in &explained.pod {
        reason(page, "  ", finding)?;
    }
    if explained.outcome.is_none() || (!explained.pod.is_empty() && !is_refused) {
        // No SidecarSet was looked at.
        return warnings(page, explained);
    }
    if let Some(identity) = &explained.identity {
        self::identity::of_pod(page, identity)?;
    }
    let width = explained.sets.iter().map(|set| set.name.chars().count()).max().unwrap_or_default().min(NAMES);
    for set in &explained.sets {
        self::set(page, set, width, with_remedies)?;
    }
    warnings(page, explained)
}

/// Writes what the creator of the Pod is warned of.
fn warnings(page: &mut Page<'_>, explained: &ExplainedPod) -> io::Result<()> {
    for warning in explained.answer.warnings.iter().flatten() {
        page.line("  ", 4, &format!("{WARNING}warning{WARNING:#}: {warning}"))?;
    }
    Ok(())
}

fn heading(explained: &ExplainedPod) -> String {
    if explained.is_malformed {
        return "the API server refuses it before the policy is asked".to_owned();
    }
    if let Some(not_asked) = &explained.not_asked {
        return not_asked.summary.clone();
    }
    let sets = if explained.total == 1 { "SidecarSet" } else { "SidecarSets" };
    let heading = match explained.answer.code.filter(|_| !explained.answer.accepted) {
        Some(code) => format!("the policy refuses it ({code})"),
        None if explained.outcome.is_none() => "nothing to inject".to_owned(),
        None if explained.total == 0 => "no SidecarSets".to_owned(),
        None => format!("{} of {} {sets} injected", explained.injected, explained.total),
    };
    match (&explained.policy[..], &explained.forbidden) {
        ([], None) => heading,
        ([], Some(_)) => "the policy server refuses it".to_owned(),
        _ => format!("nothing happens, since the policy is not asked or not heeded; otherwise {heading}"),
    }
}

/// The place of a `SidecarSet` on the page.
struct Row<'a> {
    /// The start of its first line: its name.
    start: String,
    /// The indent of its other lines.
    indent: &'a str,
}

fn set(page: &mut Page<'_>, set: &Explained, width: usize, with_remedies: bool) -> io::Result<()> {
    let name = &set.name;
    let indent = " ".repeat(width + 6);
    let row = Row { start: format!("  {name:width$}  "), indent: &indent };
    match &set.decision {
        Decision::NotInjected(findings) => reasons(page, &row, "not injected", findings, with_remedies)?,
        Decision::Refused(findings) => {
            let what = format!("{ERROR}refuses the Pod{ERROR:#}");
            reasons(page, &row, &what, findings, true)?;
        }
        Decision::Withheld(matched) => {
            let what = format!("{WARNING}would be injected{WARNING:#}");
            let text = format!("{what} ({}), but the Pod is refused", matching(matched));
            page.line(&row.start, indent.len(), &text)?;
            revision(page, &matched.revision, &indent)?;
        }
        Decision::Injected(injection) => {
            let what = if injection.parts.are_there() { "injected already" } else { "injected" };
            let text = format!("{GOOD}{what}{GOOD:#}: {}", matching(&injection.matched));
            page.line(&row.start, indent.len(), &text)?;
            revision(page, &injection.matched.revision, &indent)?;
            parts(page, &injection.parts, &indent)?;
            overrides(page, &set.overrides, &indent)?;
        }
    }
    let containers = match &set.decision {
        Decision::Injected(injection) => injection.parts.containers.as_slice(),
        _ => &[],
    };
    match &set.identity {
        Some(identity) => self::identity::of_set(page, identity, containers, &indent),
        None => Ok(()),
    }
}

/// Writes a single reason on the line of the `SidecarSet`, several on lines of their own.
fn reasons(
    page: &mut Page<'_>,
    Row { start, indent }: &Row<'_>,
    what: &str,
    findings: &[Finding],
    with_remedies: bool,
) -> io::Result<()> {
    if let [finding] = findings {
        page.line(start, indent.len(), &format!("{what}: {finding}"))?;
        return remedy(page, indent, finding, with_remedies);
    }
    page.line(start, indent.len(), &format!("{what}:"))?;
    for finding in findings {
        page.line(indent, indent.len() + 2, &finding.to_string())?;
        remedy(page, &format!("{indent}  "), finding, with_remedies)?;
    }
    Ok(())
}

/// Writes a reason that is not about a `SidecarSet`, with what to do.
fn reason(page: &mut Page<'_>, start: &str, finding: &Finding) -> io::Result<()> {
    page.line(start, 4, &finding.to_string())?;
    remedy(page, "    ", finding, true)
}

fn remedy(page: &mut Page<'_>, indent: &str, finding: &Finding, with_remedies: bool) -> io::Result<()> {
    if with_remedies && !finding.remedy.is_empty() {
        page.line(indent, indent.len() + 2, &format!("to do: {}", finding.remedy))?;
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

fn revision(page: &mut Page<'_>, revision: &Revision, indent: &str) -> io::Result<()> {
    let text = match &revision.stored {
        _ if revision.why == Why::NotAsked => return Ok(()),
        Some(name) => format!("stored revision {name}: {}", revision.why),
        None => format!("latest revision: {}", revision.why),
    };
    page.line(indent, indent.len() + 2, &text)
}

fn parts(page: &mut Page<'_>, parts: &Parts, indent: &str) -> io::Result<()> {
    let mut line = |text: String| page.line(indent, indent.len() + 2, &text);
    for container in &parts.containers {
        line(self::container(container))?;
    }
    if parts.containers.is_empty() {
        line("it has no containers".to_owned())?;
    }
    let kinds = [("volume", &parts.volumes), ("pull secret", &parts.pull_secrets), ("annotation", &parts.annotations)];
    for (kind, parts) in kinds {
        for Part { name, fate } in parts {
            line(format!("{kind} {name}: {}", self::fate(*fate)))?;
        }
    }
    Ok(())
}

/// Writes what the Pod and its Namespace override. The page's warnings have what does not count.
fn overrides(page: &mut Page<'_>, all: &[Override], indent: &str) -> io::Result<()> {
    for one in all {
        let (Some(field), Some(value)) = (&one.field, one.value()) else { continue };
        let by = format!("the {}'s annotation {}", one.by.kind(), one.annotation());
        let why = match &one.ruling {
            Ruling::Allowed { bounds, .. } => format!("from {by}, allowed {bounds}"),
            _ => format!("the nearest amount that is allowed to {by}"),
        };
        page.line(indent, indent.len() + 2, &format!("{}: {field} {value}: {why}", one.container))?;
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
    let (name, fate, list) = (&container.name, fate(container.fate), container.list.key());
    format!("{kind} {name}: {fate}, at place {} of {} in {list}{pair}", container.index + 1, container.of)
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
