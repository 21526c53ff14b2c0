//! `pillion bundle`: compiles many SidecarSets into one short text for the policy's settings.

mod inspect;

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use pillion_admission::settings::Settings;
use pillion_bundle::Bundle;
use pillion_bundle::config_map::{self, TEXT_MAX};
use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::lookup::{Answer, Lookup, ObjectRef};
use pillion_kubernetes::name_validation;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::requested_revision::{self, RequestedRevision};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

use crate::files;
use crate::manifest;
use crate::preview::{self, Inputs};
use crate::status::Status;
use crate::terminal::Terminal;
use crate::yaml;

const ABOUT: &str = "\
Compile SidecarSets into one text for settings.bundle.

A policy server copies the settings for every request, and the policy opens only the SidecarSets of a bundle that a Pod \
matches. The bundle of a hundred SidecarSets is about half as long as their manifests, that of many similar ones a \
quarter or less. The bundle of a few is longer than the manifests, that of a single one up to four times. stderr says \
both lengths. A bundle holds the SidecarSets as their admission would store them: validated, defaulted and hashed, each \
with the ControllerRevision that its injectionStrategy.revision requests, if that is among the manifests. The same \
SidecarSets give the same text, so it can be kept in a repository.

Exit codes: 0 done; 1 if a SidecarSet is invalid, or a bundle is damaged; 2 for other errors.";

const EXAMPLES: &str = "\
Examples:
  pillion bundle examples/log-agent/sidecarset.yaml
  pillion bundle examples/log-agent -o yaml
  pillion bundle --settings test_data/settings-log-agent.json -o json
  pillion bundle examples/log-agent | pillion bundle --inspect -
  pillion bundle --config-map pillion-system/sidecarsets examples/log-agent";

/// The arguments of `pillion bundle`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// Settings, or the Kubewarden policy that contains them: their SidecarSets go into the bundle, too. With -o yaml
    /// or json, prints the settings with the bundle in place of their SidecarSets.
    #[arg(long, value_name = "PATH", conflicts_with = "inspect")]
    settings: Option<PathBuf>,
    /// Describe the bundles in the given files or settings.
    #[arg(long)]
    inspect: bool,
    /// Print the ConfigMap for settings.bundleRef; if one is too small for all SidecarSets, an index and its shards,
    /// the index last. It becomes stale after bundleMaxAge unless its time is renewed.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map_name, conflicts_with = "inspect")]
    config_map: Option<ConfigMapName>,
    /// The time of the ConfigMap, as in 2026-01-02T03:04:05Z, instead of the clock's.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "config_map")]
    time: Option<Timestamp>,
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
/// If something cannot be read or written, or there is nothing to compile.
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
    if !preview::is_understood(&[], &manifests, terminal) {
        return nothing();
    }
    let assembled = preview::assemble(base, &manifests);
    let problems = assembled.problems();
    if !problems.is_empty() {
        for problem in problems {
            terminal.error(&anyhow!("{problem}"));
        }
        return Ok((String::new(), Status::Refused));
    }
    // `problems` already reported every error of decoding.
    let settings = Settings::decode(assembled.value.clone()).map_err(|_| anyhow!("the settings cannot be decoded"))?;
    let sets = settings.all_sidecar_sets()?;
    if sets.is_empty() {
        bail!("no SidecarSets: give them as manifests, or with --settings");
    }
    let sets: Vec<SidecarSet> = sets.iter().map(|set| with_revision(set.clone(), &settings, terminal)).collect();
    let text = pillion_bundle::write(&sets);
    Bundle::read(text.as_bytes()).and_then(|bundle| bundle.verify()).context("the bundle")?;
    if let Some(at) = &args.config_map {
        return config_maps(at, &sets, args, terminal);
    }
    let length: usize = sets.iter().map(|set| set.as_value().to_string().len()).sum();
    let _ = writeln!(terminal.err(), "{}, {} bytes ({length} as manifests)", count(sets.len()), text.len());
    let printed = match args.output {
        Format::Text => format!("{text}\n"),
        format => shown(&with_bundle(assembled.value, &text), format)?,
    };
    Ok((printed, Status::Done))
}

/// Returns the set with the stored revision that it requests, if the manifests or the settings contain it.
fn with_revision(set: SidecarSet, settings: &Settings, terminal: &mut Terminal) -> SidecarSet {
    let Some(selection) = RequestedRevision::of(&set) else { return set };
    match requested_revision::find(
        &set,
        selection,
        &settings.controller_revisions,
        &settings.system_namespace,
        &Nothing,
    ) {
        Ok(Some(found)) => set.with_revision(&found),
        // A revision that was in a bundle already stays in the set.
        Ok(None) | Err(_) if set.revision().is_some() => set,
        Ok(None) => {
            let _ = writeln!(
                terminal.err(),
                "SidecarSet \"{}\": no ControllerRevision with an earlier version was given, so every Pod gets the latest one",
                set.name()
            );
            set
        }
        Err(_) => {
            let _ = writeln!(
                terminal.err(),
                "SidecarSet \"{}\": no ControllerRevision with {} \"{}\" was given, so the policy has to find it for each Pod",
                set.name(),
                selection.field(),
                selection.value()
            );
            set
        }
    }
}

/// A cluster without objects.
struct Nothing;

impl Lookup for Nothing {
    fn get(&self, _: &ObjectRef) -> Answer {
        Ok(None)
    }
}

fn config_maps(
    at: &ConfigMapName,
    sets: &[SidecarSet],
    args: &Args,
    terminal: &mut Terminal,
) -> anyhow::Result<(String, Status)> {
    let objects = config_map::write(at, sets, args.time.unwrap_or_else(preview::now), TEXT_MAX)?;
    let parts = if objects.len() > 1 { format!(", {} ConfigMaps", objects.len()) } else { String::new() };
    let _ = writeln!(terminal.err(), "{}{parts}", count(sets.len()));
    let printed = match (args.output, objects.as_slice()) {
        (Format::Json, [object]) => shown(object, Format::Json)?,
        (Format::Json, several) => shown(&json!({"apiVersion": "v1", "kind": "List", "items": several}), Format::Json)?,
        (Format::Text | Format::Yaml, several) => {
            let documents: Result<Vec<String>, _> = several.iter().map(|object| shown(object, Format::Yaml)).collect();
            documents?.join("---\n")
        }
    };
    Ok((printed, Status::Done))
}

fn config_map_name(text: &str) -> Result<ConfigMapName, String> {
    let (namespace, name) = text.split_once('/').ok_or("write NAMESPACE/NAME, as in pillion-system/sidecarsets")?;
    if let Some(wrong) = name_validation::dns_label(namespace).or_else(|| name_validation::dns_subdomain(name)) {
        return Err(wrong.to_owned());
    }
    Ok(ConfigMapName { namespace: namespace.to_owned(), name: name.to_owned() })
}

fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write it as in 2026-01-02T03:04:05Z".to_owned())
}

fn count(sets: usize) -> String {
    format!("{sets} SidecarSet{}", if sets == 1 { "" } else { "s" })
}

/// Replaces the SidecarSets in settings with a bundle.
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

/// Returns a table whose columns are as wide as their widest cell.
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
    pillion_kubernetes::selector::Selector::parse_known(selector).to_string()
}
