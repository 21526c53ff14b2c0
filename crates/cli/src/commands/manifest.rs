//! `pillion manifest`: what a cluster needs, from one file of settings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::files;
use crate::preview;
use crate::rendering::crd::{self, Conversion};
use crate::rendering::document::{self, Document};
use crate::rendering::options::{Controller, Kubewarden, Standalone};
use crate::rendering::{Rendered, controller, kubewarden, standalone};
use crate::status::Status;
use crate::terminal::Terminal;

const ABOUT: &str = "\
Render the manifests that a cluster needs, from one file of settings.

For Kubewarden, policies and what the policy server may read; without it, Pillion's own server with its webhooks. What \
the settings do not need is left out. The same settings give the same manifests, which can be applied again and again. \
docs/deploying.md says what each object is for.

Exit codes: 0 done; 1 where the settings are invalid; 2 for other errors.";

const EXAMPLES: &str = "\
Examples:
  pillion manifest kubewarden --settings test_data/settings-log-agent.json
  pillion manifest standalone --settings examples/identity-isolate/settings.yaml --output-dir out
  pillion manifest crd -o json";

const KUBEWARDEN_EXAMPLES: &str = "\
Examples:
  pillion manifest kubewarden --settings examples/kubewarden/policy-pods.yaml
  pillion manifest kubewarden --settings examples/identity-isolate/settings.yaml --output-dir out
  pillion manifest kubewarden --settings test_data/settings-log-agent.json --mode monitor";

const STANDALONE_EXAMPLES: &str = "\
Examples:
  pillion manifest standalone --settings test_data/settings-log-agent.json
  pillion manifest standalone --settings test_data/settings-log-agent.json --no-crd -o json
  pillion manifest standalone --settings test_data/settings-log-agent.json --replicas 3
  pillion manifest standalone --settings examples/identity-isolate/settings.yaml --output-dir out";

const CONTROLLER_EXAMPLES: &str = "\
Examples:
  pillion manifest controller --settings examples/identity-merge/settings.yaml
  pillion manifest controller --settings examples/identity-merge/settings.yaml --replicas 1
  pillion manifest controller --settings examples/identity-merge/settings.yaml -o json";

const CRD_EXAMPLES: &str = "\
Examples:
  pillion manifest crd
  pillion manifest crd -o json";

/// The arguments of `pillion manifest`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Policies for Kubewarden, and what its policy server may read.
    Kubewarden(Box<ForKubewarden>),
    /// Pillion's own server, its webhooks, and what it may do.
    Standalone(Box<ForServer>),
    /// The controllers, and what they may do.
    Controller(Box<ForController>),
    /// The SidecarSet definition alone, without a webhook that converts.
    Crd(ForDefinition),
}

#[derive(Debug, clap::Args)]
#[command(after_help = KUBEWARDEN_EXAMPLES)]
struct ForKubewarden {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Kubewarden,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
#[command(after_help = STANDALONE_EXAMPLES)]
struct ForServer {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Standalone,
    /// With --certificates files: the CA that signed the certificate, PEM.
    #[arg(long, value_name = "PATH")]
    ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CONTROLLER_EXAMPLES)]
struct ForController {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    options: Controller,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CRD_EXAMPLES)]
struct ForDefinition {
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// A file of settings, or of the Kubewarden policy that has them; - for stdin.
    #[arg(long = "settings", value_name = "PATH")]
    path: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Output {
    /// How to print it.
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write files into this folder instead of stdout; it is made where it is not there.
    #[arg(long = "output-dir", value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// With comments that say what each part is for.
    #[default]
    Yaml,
    /// One List.
    Json,
}

/// Runs `pillion manifest`.
///
/// # Errors
/// Where something cannot be read or written, or the settings cannot be rendered.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &args.what {
        What::Kubewarden(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            write(&kubewarden::render(&settings, &args.options)?, &args.output, terminal)
        }
        What::Standalone(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            let ca_bundle = args.ca_bundle.as_deref().map(read_ca).transpose()?;
            let options = Standalone { ca_bundle, ..args.options.clone() };
            write(&standalone::render(&settings, &options)?, &args.output, terminal)
        }
        What::Controller(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            write(&controller::render(&settings, &args.options)?, &args.output, terminal)
        }
        What::Crd(args) => {
            let definition = crd::document("pillion", &Conversion::None, &Value::Null);
            write(&Rendered { documents: vec![definition], notes: Vec::new() }, &args.output, terminal)
        }
    }
}

impl Settings {
    /// The settings; `None` where they are invalid, which was said then.
    fn read(&self, terminal: &mut Terminal) -> anyhow::Result<Option<Value>> {
        let value = match preview::of_files(&self.path)? {
            Value::Null => json!({}),
            settings => settings,
        };
        let assembled = preview::assemble(value, &[]);
        let problems = assembled.problems();
        for problem in &problems {
            terminal.error(&anyhow!("{problem}"));
        }
        Ok(problems.is_empty().then_some(assembled.value))
    }
}

/// A CA as `caBundle` wants it.
fn read_ca(path: &Path) -> anyhow::Result<String> {
    let pem = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(anyhow!("{}: no certificate in PEM; a caBundle is made of those", path.display()));
    }
    Ok(BASE64.encode(pem))
}

fn write(rendered: &Rendered, output: &Output, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let documents = &rendered.documents;
    match &output.folder {
        None => {
            let text = shown(documents, output.format)?;
            write!(terminal.out(), "{text}")?;
            terminal.finish()?;
        }
        Some(folder) => {
            let written = write_files(documents, folder, output.format)?;
            let _ = writeln!(terminal.err(), "{written} files in {}", folder.display());
        }
    }
    for document in documents {
        let _ = writeln!(terminal.err(), "  {}", document.title());
    }
    for note in &rendered.notes {
        let _ = writeln!(terminal.err(), "note: {note}");
    }
    Ok(Status::Done)
}

/// Writes the objects of each file, and answers how many files those are.
fn write_files(documents: &[Document], folder: &Path, format: Format) -> anyhow::Result<usize> {
    let extension = if format == Format::Json { "json" } else { "yaml" };
    // All texts first, so that little can go wrong between the first file and the last.
    let mut texts = Vec::new();
    for group in documents.chunk_by(|one, other| one.file == other.file) {
        let file = group.first().map_or("", |document| document.file);
        texts.push((folder.join(format!("{file}.{extension}")), shown(group, format)?));
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (path, text) in &texts {
        files::write(path, text.as_bytes())?;
    }
    Ok(texts.len())
}

fn shown(documents: &[Document], format: Format) -> anyhow::Result<String> {
    match format {
        Format::Yaml => document::to_yaml(documents),
        Format::Json => document::to_json(documents),
    }
}
