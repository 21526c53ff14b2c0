//! `pillion manifest`: renders the objects that a cluster needs from one file of settings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Subcommand, ValueEnum};
use pillion_documents::manifest::{self, Source};
use pillion_kubernetes::json;
use serde_json::{Value, json};

use crate::files;
use crate::preview;
use crate::rendering::crd::{self, Conversion};
use crate::rendering::document::{self, Document, INSTANCE, PART_OF, PILLION};
use crate::rendering::options::{Controller, Kubewarden, Standalone, module_reference};
use crate::rendering::{Rendered, controller, kubewarden, standalone};
use crate::status::Status;
use crate::terminal::Terminal;

const ABOUT: &str = "\
Render the manifests that a cluster needs, from one file of settings.

For Kubewarden, policies and what the policy server may read; without it, Pillion's own server with its webhooks. What \
the settings do not need is left out. The same settings give the same manifests, which can be applied again and again. \
docs/deploying.md explains each object. Other commands read the folder that this one writes: `pillion check DIR`, \
`pillion inject --settings DIR`, and --settings DIR here.

Policies for Kubewarden get the SidecarSets of the settings compiled (--sidecar-sets), since a policy server copies the \
settings for each request. Pillion's own server compiles settings when it loads them, so its ConfigMap has the \
SidecarSets as they are written.

Exit codes: 0 done; 1 if the settings are invalid; 2 for other errors.";

const EXAMPLES: &str = "\
Examples:
  pillion manifest kubewarden --settings test_data/settings-log-agent.json
  pillion manifest standalone --settings examples/identity-isolate/settings.yaml --output-dir out
  pillion manifest crd -o json";

const KUBEWARDEN_EXAMPLES: &str = "\
Examples:
  pillion manifest kubewarden --settings examples/kubewarden/settings.yaml
  pillion manifest kubewarden --settings examples/identity-isolate/settings.yaml --output-dir out
  pillion manifest kubewarden --settings test_data/settings-log-agent.json --mode monitor";

const STANDALONE_EXAMPLES: &str = "\
Examples:
  pillion manifest standalone --settings test_data/settings-log-agent.json --image localhost/pillion
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
    /// A file of settings, or of the Kubewarden policy that has them, or a folder that this command has written; - for
    /// stdin.
    #[arg(long = "settings", value_name = "PATH")]
    path: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Output {
    /// How to print it.
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write files into this folder instead of stdout; created if missing. Files of an earlier run for the same
    /// installation that are no longer needed are removed, and stderr lists them. Other files stay.
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
/// If something cannot be read or written, or the settings cannot be rendered.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &args.what {
        What::Kubewarden(args) => {
            let Some((settings, policy)) = args.settings.with_policy(terminal)? else { return Ok(Status::Refused) };
            let module =
                args.options.module.clone().map_or_else(|| module_of(policy.as_ref()), |named| Ok(Some(named)));
            let options = Kubewarden { module: module?, ..args.options.clone() };
            write(&kubewarden::render(&settings, &options)?, &args.output, is_for_kubewarden, terminal)
        }
        What::Standalone(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            let ca_bundle = args.ca_bundle.as_deref().map(read_ca).transpose()?;
            let options = Standalone { ca_bundle, ..args.options.clone() };
            write(&standalone::render(&settings, &options)?, &args.output, is_of_process, terminal)
        }
        What::Controller(args) => {
            let Some(settings) = args.settings.read(terminal)? else { return Ok(Status::Refused) };
            write(&controller::render(&settings, &args.options)?, &args.output, is_of_process, terminal)
        }
        What::Crd(args) => {
            let definition = crd::document("pillion", &Conversion::None, &Value::Null);
            write(&Rendered { documents: vec![definition], notes: Vec::new() }, &args.output, |_| false, terminal)
        }
    }
}

impl Settings {
    /// Returns the settings, or `None` if they are invalid; the errors are printed before.
    fn read(&self, terminal: &mut Terminal) -> anyhow::Result<Option<Value>> {
        Ok(self.with_policy(terminal)?.map(|(settings, _)| settings))
    }

    /// Returns the result of [`Self::read`], with the policy that contains the settings, if any.
    fn with_policy(&self, terminal: &mut Terminal) -> anyhow::Result<Option<(Value, Option<Value>)>> {
        let preview::Given { value, policy, .. } = preview::with_policy(&self.path)?;
        let value = if value.is_null() { json!({}) } else { value };
        let assembled = preview::assemble(value, &[]);
        let problems = assembled.problems();
        for problem in &problems {
            terminal.error(&anyhow!("{problem}"));
        }
        Ok(problems.is_empty().then_some((assembled.value, policy)))
    }
}

/// Returns the module that a policy runs.
///
/// # Errors
/// If the policy's module is neither an image reference nor a URL.
fn module_of(policy: Option<&Value>) -> anyhow::Result<Option<String>> {
    let module = policy.map_or("", |policy| json::text(policy, &["spec", "module"]));
    if module.is_empty() {
        return Ok(None);
    }
    let read = module_reference(module);
    read.map(Some).map_err(|wrong| anyhow!("the policy's spec.module is {module:?}: {wrong}"))
}

/// Whether `pillion manifest kubewarden` writes files with this stem. Excludes the SidecarSet definition: deleting it
/// from a cluster deletes all SidecarSets.
fn is_for_kubewarden(stem: &str) -> bool {
    stem == "rbac" || stem.starts_with("policy-")
}

/// Whether `pillion manifest standalone` or `controller` writes files with this stem.
fn is_of_process(stem: &str) -> bool {
    stem.split_once('-')
        .is_some_and(|(number, _)| number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads a CA and returns it encoded for `caBundle`.
fn read_ca(path: &Path) -> anyhow::Result<String> {
    let pem = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(anyhow!("{}: no certificate in PEM; a caBundle is made of those", path.display()));
    }
    Ok(BASE64.encode(pem))
}

/// Prints rendered objects or writes them into files. `is_own` accepts the file stems of this kind of rendering.
fn write(
    rendered: &Rendered,
    output: &Output,
    is_own: fn(&str) -> bool,
    terminal: &mut Terminal,
) -> anyhow::Result<Status> {
    let documents = &rendered.documents;
    match &output.folder {
        None => {
            let text = shown(documents, output.format)?;
            write!(terminal.out(), "{text}")?;
            terminal.finish()?;
        }
        Some(folder) => {
            let written = write_files(documents, folder, output.format)?;
            let (objects, files) = (documents.len(), written.len());
            let _ = writeln!(terminal.err(), "{objects} objects in {files} files in {}", folder.display());
            for stale in stale(folder, &written, documents, is_own)? {
                fs::remove_file(&stale).with_context(|| stale.display().to_string())?;
                let _ = writeln!(
                    terminal.err(),
                    "removed {}: an earlier run wrote it, and these settings and options do not need it",
                    stale.display()
                );
            }
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

/// Returns files of earlier runs that this run did not write: files with an accepted stem whose objects all belong to
/// the same installation.
fn stale(
    folder: &Path,
    written: &[PathBuf],
    documents: &[Document],
    is_own: fn(&str) -> bool,
) -> anyhow::Result<Vec<PathBuf>> {
    let own = instance(documents);
    let is_ours = |path: &Path| instance_in(path).is_some_and(|found| found == own);
    let entries: Result<Vec<fs::DirEntry>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut paths: Vec<PathBuf> =
        entries.with_context(|| folder.display().to_string())?.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| {
        let is_manifest = path.extension().is_some_and(|extension| extension == "yaml" || extension == "json");
        let has_name = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_own);
        is_manifest && has_name && !written.contains(path) && is_ours(path)
    });
    paths.sort();
    Ok(paths)
}

/// Returns the installation that rendered objects belong to.
fn instance(documents: &[Document]) -> String {
    let instance = documents.first().map_or("", |document| label(&document.object, INSTANCE));
    controller::installation(instance).to_owned()
}

/// Returns the installation that all objects of a file belong to, or `None` if the file is missing or has other
/// content.
fn instance_in(path: &Path) -> Option<String> {
    let source = Source::new(path.display().to_string(), fs::read_to_string(path).ok()?);
    let objects = manifest::parse(&Arc::new(source)).ok()?;
    let instance_of = |object: &Value| controller::installation(label(object, INSTANCE)).to_owned();
    let instance = instance_of(&objects.first()?.value);
    let is_of_it = |object: &Value| label(object, PART_OF) == PILLION && instance_of(object) == instance;
    objects.iter().all(|object| is_of_it(&object.value)).then_some(instance)
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    json::text(object, &["metadata", "labels", key])
}

/// Returns the objects of each file, both in the order of application.
///
/// # Errors
/// If two objects are the same one of the cluster, which is a bug in this program: the second would replace the first.
fn by_file(documents: &[Document]) -> anyhow::Result<Vec<(&'static str, Vec<Document>)>> {
    let mut files: Vec<(&str, Vec<Document>)> = Vec::new();
    let mut known = BTreeSet::new();
    for document in documents {
        let title = document.title();
        if !known.insert(title.clone()) {
            bail!("{title} is there twice");
        }
        match files.iter_mut().find(|(file, _)| *file == document.file) {
            Some((_, group)) => group.push(document.clone()),
            None => files.push((document.file, vec![document.clone()])),
        }
    }
    Ok(files)
}

/// Writes a file for each group of objects and returns the paths.
fn write_files(documents: &[Document], folder: &Path, format: Format) -> anyhow::Result<Vec<PathBuf>> {
    let extension = if format == Format::Json { "json" } else { "yaml" };
    // Render all texts first, so that little can fail between writing the first file and the last.
    let mut texts = Vec::new();
    for (file, group) in by_file(documents)? {
        texts.push((folder.join(format!("{file}.{extension}")), shown(&group, format)?));
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let own = instance(documents);
    for (path, _) in &texts {
        if let Some(other) = instance_in(path).filter(|other| *other != own) {
            bail!(
                "{}: belongs to the installation {other:?}, and this is {own:?}; write into another folder",
                path.display()
            );
        }
    }
    for (path, text) in &texts {
        files::write(path, text.as_bytes())?;
    }
    Ok(texts.into_iter().map(|(path, _)| path).collect())
}

fn shown(documents: &[Document], format: Format) -> anyhow::Result<String> {
    match format {
        Format::Yaml => document::to_yaml(documents),
        Format::Json => document::to_json(documents),
    }
}
