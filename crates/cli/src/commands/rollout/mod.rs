//! `pillion rollout`: the verbs of `kubectl rollout` for SidecarSets.

pub mod history;
pub mod status;

use clap::Subcommand;

use crate::status::Status;
use crate::terminal::Terminal;

const ABOUT: &str = "\
Look at the rollouts of SidecarSets, as `kubectl rollout` does for workloads.

SidecarSets are in no namespace, so these commands need none. The name may have the kind before it: \
`sidecarset/log-agent`.";

const EXAMPLES: &str = "\
Examples:
  # exits with 2 where there is no cluster
  pillion rollout status log-agent --timeout 10m
  # exits with 2 where there is no cluster
  pillion rollout history log-agent";

/// The arguments of `pillion rollout`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
enum Command {
    /// Wait until a rollout has ended, with its progress.
    #[command(long_about = status::ABOUT)]
    Status(status::Args),
    /// Show the stored revisions of a SidecarSet.
    #[command(long_about = history::ABOUT)]
    History(history::Args),
}

/// Runs `pillion rollout`.
///
/// # Errors
/// If the cluster cannot be read, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &args.command {
        Command::Status(args) => status::run(args, terminal),
        Command::History(args) => history::run(args, terminal),
    }
}
