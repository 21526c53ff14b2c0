//! `pillion schema`: the JSON Schemas of the files that people write, for editors and CI.

use anyhow::bail;
use clap::ValueEnum;
use pillion_install::schema;
use pillion_terminal::output;
use pillion_terminal::{Status, Terminal};

const EXAMPLES: &str = "Examples:
  pillion schema
  pillion schema sidecarset
  pillion schema policy
  pillion schema -o markdown

An editor with a YAML language server knows the schema of a file by its first line:
  # yaml-language-server: $schema=settings.schema.json";

/// The arguments of `pillion schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file that the schema is for.
    #[arg(value_enum, default_value_t, value_name = "FILE")]
    subject: Subject,
    /// The schema of a SidecarSet manifest instead of the settings'.
    #[arg(long, hide = true, conflicts_with = "subject")]
    sidecar_set: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: SchemaFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// The policy's settings.
    #[default]
    Settings,
    /// A ClusterAdmissionPolicy or an AdmissionPolicy with the settings in it.
    Policy,
    /// A SidecarSet of either version.
    Sidecarset,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum SchemaFormat {
    /// JSON Schema, draft 2020-12.
    #[default]
    Json,
    /// Tables for people.
    Markdown,
}

/// Runs `pillion schema`.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let subject = if args.sidecar_set { Subject::Sidecarset } else { args.subject };
    match (args.output, subject) {
        (SchemaFormat::Markdown, Subject::Sidecarset) => write!(terminal.out(), "{}", schema::markdown::sidecar_set())?,
        (SchemaFormat::Markdown, Subject::Settings) => write!(terminal.out(), "{}", schema::markdown::reference())?,
        (SchemaFormat::Markdown, Subject::Policy) => {
            bail!(
                "there are no tables of a policy, since Kubewarden documents its fields; use -o json, or print the tables of its settings: pillion schema settings -o markdown"
            )
        }
        (SchemaFormat::Json, subject) => {
            let schema = match subject {
                Subject::Settings => schema::of_settings(),
                Subject::Policy => schema::of_policy(),
                Subject::Sidecarset => schema::of_sidecar_set(),
            };
            write!(terminal.out(), "{}", output::json(&schema)?)?;
        }
    }
    Ok(Status::Done)
}
