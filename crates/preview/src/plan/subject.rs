//! The settings, the controllers and the options of controllers that a plan is made for.

use anyhow::{Context as _, anyhow, bail};
use pillion_controllers::registry::{self, Item, Name};
use pillion_install::installation::Installation;
use pillion_install::settings;
use pillion_install::tuning::{Choice, Running, Tuning};
use pillion_terminal::Terminal;
use serde_json::Value;

use super::Options;

/// The settings and the controllers that a plan is made for.
pub(super) struct Subject {
    /// The settings.
    pub(super) settings: Value,
    /// The controllers.
    pub(super) choice: Choice,
    /// Their options.
    pub(super) tuning: Tuning,
    /// Whether a controller of the cluster keeps the bundle.
    pub(super) bundle_is_kept: bool,
}

/// Returns the settings and controllers that the options name. With `--cluster` and without settings, what the options
/// do not name is that of the installation in the cluster; tells people so.
pub(super) fn subject(options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<Subject> {
    const REMEDY: &str = "give a file with --settings";
    let (mut choice, tuning) = (options.choice.clone(), options.tuning.clone());
    let keeps_bundle = !choice.controllers.contains(&Item::Off(Name::Bundle));
    if let Some(path) = &choice.settings {
        let settings = settings::of_files(path)?;
        return Ok(Subject { settings, choice, tuning, bundle_is_kept: keeps_bundle });
    }
    let Some(reader) = options.connection.reader()? else {
        let error = choice.settings().err().unwrap_or_else(|| anyhow!("no settings"));
        bail!("{error}; with --cluster, they are those of the installation in the cluster");
    };
    let found = Installation::find(&reader).context(format!("no settings: {REMEDY}"))?;
    let part = found.as_ref().map(Installation::of_controllers).transpose();
    let part = part.with_context(|| format!("no settings: {REMEDY}"))?.flatten();
    let (Some(found), Some(part)) = (&found, part) else {
        bail!("no settings: Pillion is not installed in the cluster; {REMEDY}");
    };
    let (mut running, mut installed) = (Vec::new(), Vec::new());
    for words in found.command_lines() {
        let process = Running::of_process(words).map_err(|error| anyhow!("{}", error.to_string().trim_end()))?;
        running.extend(registry::chosen(&process.choice.controllers));
        installed.push(process.tuning);
    }
    let source = &part.source;
    if choice.controllers.is_empty() && !running.is_empty() {
        choice.controllers = running.iter().copied().map(Item::On).collect();
        let names: Vec<&str> = running.iter().map(|name| name.as_str()).collect();
        writeln!(terminal.err(), "note: the settings are those of {source}, the controllers {}", names.join(", "))?;
    } else {
        writeln!(terminal.err(), "note: the settings are those of {source}")?;
    }
    Ok(Subject {
        settings: part.settings.clone(),
        choice,
        tuning: installed.into_iter().fold(tuning, Tuning::or),
        bundle_is_kept: keeps_bundle && running.contains(&Name::Bundle),
    })
}
