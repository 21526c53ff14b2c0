//! SidecarSets as text for people.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use pillion_cluster::rollouts::age;
use pillion_cluster::rollouts::report::{Drift, Field, Group, Report, Without};
use pillion_cluster::rollouts::standing::RolloutState;
use pillion_cluster::rollouts::summary::{Summary, plain};
use pillion_cluster::rollouts::table::{Cell, Table};
use pillion_inject::matching::opt_out::OPT_OUT_OF;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_terminal::{ERROR, WARNING};
use serde_json::Value;

const HEAD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();

/// The most Pods that a list shows.
const SHOWN: usize = 10;
/// The most characters of a value that a list of fields shows.
const VALUE: usize = 40;

const COLUMNS: [&str; 8] = ["NAME", "MATCHED", "UPDATED", "READY", "REVISION", "STRATEGY", "WAITS FOR", "AGE"];
const WIDE: [&str; 4] = ["POLICIES", "PARTITION", "MAXUNAVAILABLE", "DEADLINE"];

fn style(state: RolloutState) -> Style {
    match state {
        RolloutState::Ready => GOOD,
        RolloutState::Stalled => ERROR,
        RolloutState::Waiting | RolloutState::Unobserved => WARNING,
        RolloutState::Reconciling => Style::new(),
    }
}

/// The rows of SidecarSets.
pub(super) struct Rows {
    is_wide: bool,
    now: Timestamp,
    table: Table,
}

impl Rows {
    /// Returns a table. Ages are those at this time.
    pub(super) fn new(is_wide: bool, now: Timestamp) -> Self {
        let headings: Vec<&str> = COLUMNS.iter().chain(WIDE.iter().filter(|_| is_wide)).copied().collect();
        Self { is_wide, now, table: Table::new(&headings, 0) }
    }

    /// Prints the headings and rows.
    pub(super) fn print(&mut self, summaries: &[Summary], out: &mut dyn Write) -> io::Result<()> {
        let rows: Vec<_> = summaries.iter().map(|summary| self.row(summary)).collect();
        self.table.print(&rows, out)
    }

    /// Prints further rows.
    pub(super) fn add(&mut self, summaries: &[Summary], now: Timestamp, out: &mut dyn Write) -> io::Result<()> {
        self.now = now;
        let rows: Vec<_> = summaries.iter().map(|summary| self.row(summary)).collect();
        self.table.add(&rows, out)
    }

    fn row(&self, summary: &Summary) -> Vec<Cell> {
        let mut row: Vec<Cell> = vec![summary.name.as_str().into()];
        row.extend(summary.columns().map(Cell::from));
        row.push(or_dash(if self.is_wide {
            summary.latest_revision.as_deref().unwrap_or_default()
        } else {
            summary.short_revision()
        }));
        row.push(summary.strategy_text().into());
        row.push(Cell::styled(summary.waits_for_text(), style(summary.state)));
        row.push(age::since(summary.created(), self.now).into());
        if self.is_wide {
            row.push(summary.upgrade_policies.join(",").into());
            row.push(plain(&summary.strategy.partition).into());
            row.push(plain(&summary.strategy.max_unavailable).into());
            row.push(or_dash(summary.progress_deadline.as_deref().unwrap_or_default()));
        }
        row
    }
}

fn or_dash(text: &str) -> Cell {
    if text.is_empty() { "-".into() } else { text.into() }
}

/// Prints everything about a SidecarSet. `is_wide`: lists are not shortened.
pub(super) fn report(report: &Report, is_wide: bool, out: &mut dyn Write) -> io::Result<()> {
    head(report, out)?;
    conditions(&report.conditions, out)?;
    groups(&report.pods_by_revision, is_wide, out)?;
    for drift in report.differences.iter().flatten() {
        drifts(drift, report, is_wide, out)?;
    }
    let most = if is_wide { usize::MAX } else { SHOWN };
    let stuck = report.not_upgradable.iter().map(|pod| (&pod.namespace, &pod.name, pod.reason.as_str()));
    by_reason("Not upgradable", &stuck.collect::<Vec<_>>(), most, out)?;
    let by = |pod: &Without| format!("the annotation {OPT_OUT_OF} of the {} names the SidecarSet", pod.by);
    let by: Vec<String> = report.opted_out.iter().map(by).collect();
    let opted_out = report.opted_out.iter().zip(&by).map(|(pod, by)| (&pod.namespace, &pod.name, by.as_str()));
    by_reason("Opted out", &opted_out.collect::<Vec<_>>(), most, out)?;
    let held = report.held.iter().flatten().map(|pod| (&pod.namespace, &pod.name, pod.reason.as_str()));
    by_reason("Held by PodDisruptionBudgets", &held.collect::<Vec<_>>(), most, out)?;
    let next = report.next.iter().flatten().map(|pod| {
        let how = match pod.way {
            "InPlace" => "new images in the running Pod",
            "Resize" => "new cpu and memory in the running Pod, then new images",
            "Recreate" => "evicted, so that its controller creates another one",
            _ => "the idle container gets its empty image",
        };
        (&pod.namespace, &pod.name, how)
    });
    by_reason("Next", &next.collect::<Vec<_>>(), most, out)
}

fn head(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Report { summary, namespace, .. } = report;
    let mut line = |label: &str, text: &str| writeln!(out, "{HEAD}{label:12}{HEAD:#}{text}");
    line("Name:", &summary.name)?;
    let numbers = format!(
        "partition {}, maxUnavailable {}",
        plain(&summary.strategy.partition),
        plain(&summary.strategy.max_unavailable)
    );
    line("Strategy:", &format!("{}, {numbers}", summary.strategy_text()))?;
    let deadline = summary.progress_deadline.as_ref().map(|it| format!(", progress deadline {it}")).unwrap_or_default();
    line("Upgrades:", &format!("{}{deadline}", summary.upgrade_policies.join(", ")))?;
    let name = summary.latest_revision.as_deref().unwrap_or("-");
    line("Revision:", &report.revision.map_or_else(|| name.to_owned(), |number| format!("{number} ({name})")))?;
    if let Some(pods) = &summary.pods {
        let place = namespace.as_ref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
        let numbers = format!(
            "{} matched{place}, {} updated, {} ready, {} updated and ready",
            pods.matched_pods, pods.updated_pods, pods.ready_pods, pods.updated_ready_pods
        );
        line("Pods:", &numbers)?;
    }
    let style = style(summary.state);
    line("State:", &format!("{style}{:?}{style:#}, {}", summary.state, summary.waits_for.reason))?;
    line("", &summary.waits_for.message)
}

fn conditions(conditions: &[Value], out: &mut dyn Write) -> io::Result<()> {
    if conditions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEAD}Conditions{HEAD:#}")?;
    let row = |condition: &Value| {
        ["type", "status", "reason", "lastTransitionTime"].map(|key| Cell::from(json::text(condition, &[key]))).to_vec()
    };
    let rows: Vec<Vec<Cell>> = conditions.iter().map(row).collect();
    Table::new(&["TYPE", "STATUS", "REASON", "SINCE"], 2).print(&rows, out)
}

/// Returns the number of a revision as text.
fn number(revision: Option<i64>) -> String {
    revision.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn groups(groups: &[Group], is_wide: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{HEAD}Pods by revision{HEAD:#}")?;
    if groups.is_empty() {
        return writeln!(out, "  none");
    }
    let most = if is_wide { usize::MAX } else { 3 };
    let row = |group: &Group| {
        let mut namespaces: Vec<String> =
            group.namespaces.iter().take(most).map(|(name, pods)| format!("{name} ({pods})")).collect();
        if let Some(more) = group.namespaces.len().checked_sub(most).filter(|more| *more > 0) {
            namespaces.push(format!("{more} more"));
        }
        let name = if group.name.is_empty() { &group.hash } else { &group.name };
        let in_force = if group.in_force { Cell::styled("yes", GOOD) } else { "".into() };
        vec![
            number(group.revision).into(),
            name.as_str().into(),
            in_force,
            group.pods.to_string().into(),
            group.ready_pods.to_string().into(),
            namespaces.join(", ").into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = groups.iter().map(row).collect();
    Table::new(&["REVISION", "NAME", "IN FORCE", "PODS", "READY", "NAMESPACES"], 2).print(&rows, out)
}

fn drifts(drift: &Drift, report: &Report, is_wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let from = drift.revision.map_or_else(|| format!("hash {}", drift.hash), |number| format!("revision {number}"));
    let to = report.revision.map_or_else(|| "the revision in force".to_owned(), |number| format!("revision {number}"));
    writeln!(out, "\n{HEAD}Differences from {from} to {to}{HEAD:#}")?;
    match &drift.fields {
        None => writeln!(out, "  not known: the older revision is not stored any more"),
        Some(fields) => table_of(fields, is_wide, 2, out),
    }
}

/// Prints fields that differ as a table.
pub(crate) fn table_of(fields: &[Field], is_wide: bool, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), |value| short(value, is_wide));
    let row = |field: &Field| {
        [field.path.clone(), shown(&field.before), shown(&field.after), field.takes.text().to_owned()]
            .map(Cell::from)
            .to_vec()
    };
    let rows: Vec<Vec<Cell>> = fields.iter().map(row).collect();
    Table::new(&["FIELD", "BEFORE", "AFTER", "TAKES"], indent).print(&rows, out)
}

/// Returns a value in one line, not longer than [`VALUE`] unless everything is shown.
fn short(value: &Value, is_wide: bool) -> String {
    let text = match value {
        // Line feeds and escape sequences would spoil the table.
        Value::String(text) if !text.is_empty() && !text.contains(char::is_control) => text.clone(),
        value => value.to_string(),
    };
    if is_wide || text.chars().count() <= VALUE {
        return text;
    }
    text.chars().take(VALUE - 1).chain(['…']).collect()
}

/// Prints Pods below the reasons that they have in common.
fn by_reason(title: &str, pods: &[(&String, &String, &str)], most: usize, out: &mut dyn Write) -> io::Result<()> {
    if pods.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEAD}{title}{HEAD:#}")?;
    let mut reasons: Vec<&str> = Vec::new();
    for (_, _, reason) in pods {
        if !reasons.contains(reason) {
            reasons.push(reason);
        }
    }
    for reason in reasons {
        writeln!(out, "  {reason}:")?;
        let alike: Vec<_> = pods.iter().filter(|(_, _, other)| *other == reason).collect();
        for (namespace, name, _) in alike.iter().take(most) {
            writeln!(out, "    {namespace}/{name}")?;
        }
        if let Some(more) = alike.len().checked_sub(most).filter(|more| *more > 0) {
            writeln!(out, "    and {more} more; -o wide shows all")?;
        }
    }
    Ok(())
}
