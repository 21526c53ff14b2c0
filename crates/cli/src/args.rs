//! What stands on the command line.

use clap::{Parser, Subcommand};

use crate::commands;
use crate::terminal::Color;

/// Injects sidecars as SidecarSets describe them: previews, explains and checks it, without a cluster.
#[derive(Debug, Parser)]
#[command(name = "pillion", version, propagate_version = true, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a policy module on a request, as `kwctl run` does.
    Run(commands::run::Args),
    /// Add metadata to a policy module, as `kwctl annotate` does.
    Annotate(commands::annotate::Args),
    /// Show manifests as they are after injection.
    Inject(commands::inject::Args),
    /// Say for each SidecarSet why a Pod gets it or not.
    Explain(commands::explain::Args),
    /// Find all problems in settings and SidecarSets.
    #[command(long_about = commands::check::ABOUT)]
    Check(commands::check::Args),
    /// Print the JSON Schema of the policy's settings.
    Schema(commands::schema::Args),
    /// Print a completion script for a shell.
    Completions(commands::completions::Args),
    /// Write the man pages into a folder.
    Man(commands::man::Args),
}
