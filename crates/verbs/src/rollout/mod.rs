//! `pillion rollout`: the verbs of `kubectl rollout` for SidecarSets.

pub mod history;
mod pause;
mod restart;
pub mod status;
mod undo;

use clap::Subcommand;
use pillion_terminal::{Status, Terminal};

const ABOUT: &str = "\
Manage the rollout of a SidecarSet, as `kubectl rollout` does for workloads.

The SidecarSet is one of the cluster of the kubeconfig. SidecarSets are in no namespace, so these commands need none. The \
name may have the kind before it: `sidecarset/log-agent`.";

const EXAMPLES: &str = "\
Examples:
  pillion rollout status log-agent --timeout 10m
  pillion rollout history log-agent
  pillion rollout undo log-agent --dry-run=server
  pillion rollout pause log-agent";

/// The arguments of `pillion rollout`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Wait until a rollout has ended, with its progress.
    #[command(long_about = status::ABOUT)]
    Status(status::Args),
    /// Show the stored revisions of a SidecarSet.
    #[command(long_about = history::ABOUT)]
    History(history::Args),
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
        Verb::Status(args) => status::run(args, terminal),
        Verb::History(args) => history::run(args, terminal),
        Verb::Undo(args) => undo::run(args, terminal),
        Verb::Pause(args) => pause::pause(args, terminal),
        Verb::Resume(args) => pause::resume(args, terminal),
        Verb::Restart(args) => restart::run(args, terminal),
    }
}
