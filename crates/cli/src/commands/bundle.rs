//! `pillion bundle`: many SidecarSets as one short text for the policy's settings.

mod inspect;

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use pillion_core::bundle::{self, Bundle};
use pillion_core::settings::Settings;
use pillion_core::sidecar_set::SidecarSet;
use serde_json::{Value, json};

use crate::files;
use crate::manifest;
use crate::preview::{self, Inputs};
use crate::status::Status;
use crate::terminal::Terminal;
use crate::yaml;

const ABOUT: &str = "\
Compile SidecarSets into one text for settings.bundle.

A policy server copies the settings for every request. A bundle is a tenth of the manifests' length, and the policy \
opens only the SidecarSets that a Pod matches. It holds the SidecarSets as their admission would store them: validated, \
defaulted and hashed. The same SidecarSets give the same text, so it can be kept in a repository.

Exit codes: 0 done; 1 where a SidecarSet is invalid, or a bundle is damaged; 2 for other errors.";

const EXAMPLES: &str = "\
Examples:
  pillion bundle examples/log-agent/sidecarset.yaml
  pillion bundle examples/log-agent -o yaml
  pillion bundle --settings test_data/settings-log-agent.json -o json
  pillion bundle examples/log-agent | pillion bundle --inspect -";

/// The arguments of `pillion bundle`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// Settings, or the Kubewarden policy that has them: their SidecarSets go into the bundle, too; with -o yaml or json
    /// the settings are printed with the bundle in their place.
    #[arg(long, value_name = "PATH", conflicts_with = "inspect")]
    settings: Option<PathBuf>,
    /// Say what is in bundles: files that hold one, or settings that do.
    #[arg(long)]
    inspect: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Write it to this file instead of stdout.
    #[arg(long, value_name = "PATH")]
    output_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The bundle alone; with --inspect, a table.
    #[default]
    Text,
    /// Settings; with --inspect, the SidecarSets.
    Yaml,
    /// The same as JSON.
    Json,
}

/// Runs `pillion bundle`.
///
/// # Errors
/// Where something cannot be read or written, or there is nothing to compile.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let (text, status) = if args.inspect { inspect::run(args, terminal)? } else { compile(args, terminal)? };
    match (&args.output_file, status) {
        (Some(path), Status::Done) => files::write(path, text.as_bytes())?,
        _ => write!(terminal.out(), "{text}")?,
    }
    terminal.finish()?;
    Ok(status)
}

fn compile(args: &Args, terminal: &mut Terminal) -> anyhow::Result<(String, Status)> {
    let nothing = || Ok((String::new(), Status::Failed));
    let base = args.settings.as_deref().map(preview::of_files).transpose()?.unwrap_or_default();
    let paths = if args.settings.is_some() && args.inputs.is_empty() { Vec::new() } else { args.inputs.paths()? };
    let Some(manifests) = preview::read(&paths, args.inputs.recursive, terminal, manifest::parse)? else {
        return nothing();
    };
    let assembled = preview::assemble(base, &manifests);
    let problems = assembled.problems();
    if !problems.is_empty() {
        for problem in problems {
            terminal.error(&anyhow!("{problem}"));
        }
        return Ok((String::new(), Status::Refused));
    }
    // Whatever was found above would be found here.
    let settings = Settings::decode(assembled.value.clone()).map_err(|_| anyhow!("the settings cannot be decoded"))?;
    let sets = settings.all_sidecar_sets()?;
    if sets.is_empty() {
        bail!("no SidecarSets: give them as manifests, or with --settings");
    }
    let text = bundle::write(&sets);
    Bundle::read(text.as_bytes()).and_then(|bundle| bundle.verify()).context("the bundle")?;
    let length: usize = sets.iter().map(|set| set.as_value().to_string().len()).sum();
    let _ = writeln!(terminal.err(), "{}, {} bytes ({length} as manifests)", count(sets.len()), text.len());
    let printed = match args.output {
        Format::Text => format!("{text}\n"),
        format => shown(&with_bundle(assembled.value, &text), format)?,
    };
    Ok((printed, Status::Done))
}

fn count(sets: usize) -> String {
    format!("{sets} SidecarSet{}", if sets == 1 { "" } else { "s" })
}

/// The settings with a bundle in the place of their SidecarSets.
fn with_bundle(mut settings: Value, text: &str) -> Value {
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("sidecarSets");
        settings.insert("bundle".to_owned(), json!(text));
    }
    settings
}

fn shown(value: &Value, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(value).map_err(io::Error::from)? + "\n",
        Format::Text | Format::Yaml => yaml::document(&yaml::Tree::conventional(value)),
    })
}

/// The lines of a table whose columns are as wide as they need to be.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn selector(set: &SidecarSet, field: &str) -> String {
    let Some(selector) = set.spec(&[field]) else { return "*".to_owned() };
    pillion_core::selector::Selector::parse_known(selector).to_string()
}
