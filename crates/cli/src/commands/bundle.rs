//! `pillion bundle`: compiles many SidecarSets into one short text for the policy's settings.

mod inspect;

use std::path::PathBuf;

use anyhow::bail;
use pillion_bundle::config_map::{self, TEXT_MAX};
use pillion_bundle::source::ConfigMapName;
use pillion_install::bundling::{Bundled, bundled};
use pillion_install::settings;
use pillion_install::unread;
use pillion_kubernetes::name_validation;
use pillion_kubernetes::time::Timestamp;
use pillion_preview::Inputs;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_terminal::output::{DataFormat, Output};
use pillion_terminal::{Status, Terminal};
use serde_json::{Value, json};

use crate::files;

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
  pillion bundle --settings settings.yaml -o json
  pillion bundle examples/log-agent | pillion bundle --inspect -
  pillion bundle --config-map pillion-system/sidecarsets examples/log-agent";

const OUTPUT: &str = "\
How to print it; text: the bundle alone, with --inspect a table; yaml and json: settings, with --inspect the SidecarSets";

/// The arguments of `pillion bundle`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, mut_arg("output", |arg| arg.help(OUTPUT)))]
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
    /// Write it to this file instead of stdout.
    #[arg(long, value_name = "PATH")]
    output_file: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
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
    let settings::Given { value: base, origin, .. } =
        args.settings.as_deref().map(settings::with_policy).transpose()?.unwrap_or_default();
    let paths = if args.settings.is_some() && args.inputs.is_empty() { Vec::new() } else { args.inputs.paths()? };
    let Some(manifests) = pillion_preview::manifests(&paths, args.inputs.recursive, terminal)? else {
        return Ok((String::new(), Status::Failed));
    };
    let unknown = origin.as_ref().map(unread::unknown_fields_in_settings).unwrap_or_default();
    for warning in unknown.into_iter().chain(manifests.iter().flat_map(unread::unknown_fields)) {
        terminal.warn(warning);
    }
    let assembled = settings::assemble(base, &manifests);
    if !assembled.is_valid(terminal) {
        return Ok((String::new(), Status::Refused));
    }
    let Some(Bundled { settings, text, sets, notes }) = bundled(assembled.value)? else {
        bail!("no SidecarSets: give them as manifests, or with --settings");
    };
    for note in notes {
        let _ = writeln!(terminal.err(), "{note}");
    }
    if let Some(at) = &args.config_map {
        return config_maps(at, &sets, args, terminal);
    }
    let length: usize = sets.iter().map(|set| set.clone().for_settings().as_value().to_string().len()).sum();
    let _ = writeln!(terminal.err(), "{}, {} bytes ({length} as manifests)", count(sets.len()), text.len());
    let printed = match args.output.data() {
        None => format!("{text}\n"),
        Some(format) => format.print(&settings)?,
    };
    Ok((printed, Status::Done))
}

fn config_maps(
    at: &ConfigMapName,
    sets: &[SidecarSet],
    args: &Args,
    terminal: &mut Terminal,
) -> anyhow::Result<(String, Status)> {
    let objects = config_map::write(at, sets, args.time.unwrap_or_else(pillion_terminal::now), TEXT_MAX)?;
    let parts = if objects.len() > 1 { format!(", {} ConfigMaps", objects.len()) } else { String::new() };
    let _ = writeln!(terminal.err(), "{}{parts}", count(sets.len()));
    let printed = match (args.output.data().unwrap_or_default(), objects.as_slice()) {
        (DataFormat::Json, [object]) => DataFormat::Json.print(object)?,
        (format, several) => all(several, format)?,
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

/// Returns objects as documents of YAML, or as a List in JSON.
fn all(objects: &[Value], format: DataFormat) -> serde_json::Result<String> {
    match format {
        DataFormat::Yaml => {
            let documents: Result<Vec<String>, _> = objects.iter().map(|object| format.print(object)).collect();
            Ok(documents?.join("---\n"))
        }
        DataFormat::Json => format.print(json!({"apiVersion": "v1", "kind": "List", "items": objects})),
    }
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
