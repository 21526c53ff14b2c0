//! `pillion schema`: the JSON Schema of the settings, for editors and CI.

use std::io;

use clap::ValueEnum;

use crate::schema;
use crate::status::Status;
use crate::terminal::Terminal;

const EXAMPLES: &str = "Examples:
  pillion schema
  pillion schema --sidecar-set
  pillion schema -o markdown

An editor with a YAML language server knows the schema of a file by its first line:
  # yaml-language-server: $schema=settings.schema.json";

/// The arguments of `pillion schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The schema of a SidecarSet manifest instead of the settings'.
    #[arg(long)]
    sidecar_set: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// JSON Schema, draft 2020-12.
    #[default]
    Json,
    /// Tables for people.
    Markdown,
}

/// Runs `pillion schema`.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match (args.output, args.sidecar_set) {
        (Format::Markdown, true) => write!(terminal.out(), "{}", schema::markdown::sidecar_set())?,
        (Format::Markdown, false) => write!(terminal.out(), "{}", schema::markdown::reference())?,
        (Format::Json, is_sidecar_set) => {
            let schema = if is_sidecar_set { schema::of_sidecar_set() } else { schema::of_settings() };
            // Convert to an I/O error, so that callers recognise a closed pipe.
            serde_json::to_writer_pretty(terminal.out(), &schema).map_err(io::Error::from)?;
            writeln!(terminal.out())?;
        }
    }
    Ok(Status::Done)
}
