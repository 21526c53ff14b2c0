//! `pillion rollout`: verbs for the rollout of one SidecarSet.

mod pause;
mod restart;
mod undo;

use clap::Subcommand;

pub(super) use self::pause::of_strategy;

use crate::status::Status;
use crate::terminal::Terminal;

const ABOUT: &str = "\
Manage the rollout of a SidecarSet, as `kubectl rollout` does for a Deployment.

The SidecarSet is one of the cluster of the kubeconfig.";

const EXAMPLES: &str = "\
Examples:
  # exits with 2 where there is no cluster
  pillion rollout pause log-agent
  # exits with 2 where there is no cluster
  pillion rollout undo log-agent --dry-run=server";

/// The arguments of `pillion rollout`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write the sidecars of an earlier revision into a SidecarSet.
    Undo(undo::Args),
    /// Stop the upgrade of further Pods.
    Pause(pause::Pause),
    /// Go on with the upgrade of Pods.
    Resume(pause::Resume),
    /// Evict the Pods of a SidecarSet, one budget after another.
    Restart(restart::Args),
}

/// Runs `pillion rollout`.
///
/// # Errors
/// If the command could not do its work.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &args.verb {
        Verb::Undo(args) => undo::run(args, terminal),
        Verb::Pause(args) => pause::pause(args, terminal),
        Verb::Resume(args) => pause::resume(args, terminal),
        Verb::Restart(args) => restart::run(args, terminal),
    }
}
