//! `pillion annotate`: metadata in a policy module, as `kwctl annotate` writes it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pillion_host::Module;
use pillion_host::metadata::Metadata;
use pillion_terminal::{Status, Terminal};

use crate::files;

const EXAMPLES: &str = "\
Examples:
  pillion annotate -m metadata.yml -u README.md -o annotated-policy.wasm policy.wasm

Exit codes, as kwctl's: 0 done; 1 not done; 2 the arguments are wrong.";

/// Adds metadata to a policy module, where policy servers look for it.
///
/// The metadata goes into a custom section, io.kubewarden.metadata, and replaces any that the module had. The protocol
/// version comes from the module itself. The same input gives the same bytes; a failure leaves no file behind.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The module.
    #[arg(value_name = "MODULE")]
    module: PathBuf,
    /// The metadata, YAML.
    #[arg(short, long, value_name = "FILE")]
    metadata_path: PathBuf,
    /// How to use the policy, usually its README; it becomes an annotation of the metadata.
    #[arg(short, long, value_name = "FILE")]
    usage_path: Option<PathBuf>,
    /// Where to write the module with the metadata; may be the module itself.
    #[arg(short, long, value_name = "FILE")]
    output_path: PathBuf,
}

/// Runs `pillion annotate`.
///
/// # Errors
/// Returns only errors of writing output. Reports every other error itself and exits with 1, as kwctl does.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    super::as_kwctl(execute(args, terminal), terminal)
}

fn execute(args: &Args, terminal: &mut Terminal) -> anyhow::Result<()> {
    let usage = args.usage_path.as_deref().map(text).transpose()?;
    let (mut metadata, unknown) =
        Metadata::from_yaml(&text(&args.metadata_path)?).with_context(named(&args.metadata_path))?;
    for key in unknown {
        terminal.warn(format_args!("{}: {key}: unknown, and ignored by policy servers", args.metadata_path.display()));
    }
    let module = std::fs::read(&args.module).with_context(named(&args.module))?;
    metadata.has_known_mode().with_context(named(&args.metadata_path))?;
    let mismatch = metadata.capability_mismatch(&module).with_context(named(&args.module))?;
    let version = Module::load(&module).and_then(|module| module.protocol_version());
    metadata.protocol_version = Some(version.with_context(named(&args.module))?);
    if let Some(usage) = usage {
        metadata.set_usage(&usage);
    }
    metadata.validate().with_context(named(&args.metadata_path))?;
    for capability in mismatch.undeclared {
        terminal.warn(format_args!("hostCapabilities: the module seems to use {capability}, which is not listed"));
    }
    for capability in mismatch.unused {
        terminal.warn(format_args!("hostCapabilities: {capability} is listed, but the module does not seem to use it"));
    }
    let annotated = metadata.write_into(&module)?;
    files::write(&args.output_path, &annotated)
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(named(path))
}

fn named(path: &Path) -> impl FnOnce() -> String {
    move || path.display().to_string()
}
