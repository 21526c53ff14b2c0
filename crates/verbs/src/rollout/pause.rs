//! `pillion rollout pause` and `resume`: `spec.updateStrategy.paused`.

use pillion_cluster::rollouts::sets::SetName;
use pillion_cluster::rollouts::strategy;
use pillion_cluster::{Change, Forced, Writing, concluded};
use pillion_kubernetes::json;
use pillion_terminal::{Status, Terminal};

const PAUSE: &str = "\
Stop the upgrade of further Pods.

Sets spec.updateStrategy.paused. Pods whose containers restart already finish it, and new Pods still get the new version. \
`pillion rollout resume` goes on.

Exit codes: 0 paused, or was so already; 1 if a tool owns the SidecarSet, or the cluster refuses the change; 2 for errors.";

const PAUSE_EXAMPLES: &str = "\
Examples:
  pillion rollout pause log-agent
  pillion rollout pause log-agent --dry-run=server -o yaml";

const RESUME: &str = "\
Go on with the upgrade of Pods that `pillion rollout pause` has stopped.

Sets spec.updateStrategy.paused to false.

Exit codes: 0 resumed, or was not paused; 1 if a tool owns the SidecarSet, or the cluster refuses the change; 2 for errors.";

const RESUME_EXAMPLES: &str = "\
Examples:
  pillion rollout resume log-agent
  pillion rollout resume log-agent --context staging";

/// The arguments of `pillion rollout pause`.
#[derive(Debug, clap::Args)]
#[command(long_about = PAUSE, after_help = PAUSE_EXAMPLES)]
pub struct Pause {
    #[command(flatten)]
    common: PauseArgs,
}

/// The arguments of `pillion rollout resume`.
#[derive(Debug, clap::Args)]
#[command(long_about = RESUME, after_help = RESUME_EXAMPLES)]
pub struct Resume {
    #[command(flatten)]
    common: PauseArgs,
}

#[derive(Debug, clap::Args)]
struct PauseArgs {
    /// The name of the SidecarSet.
    #[arg(value_name = "NAME")]
    sidecar_set: SetName,
    #[command(flatten)]
    forced: Forced,
    #[command(flatten)]
    writing: Writing,
}

/// Runs `pillion rollout pause`.
///
/// # Errors
/// If the command could not do its work.
pub fn pause(args: &Pause, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let done = write(&args.common, true, terminal);
    concluded(done, terminal)
}

/// Runs `pillion rollout resume`.
///
/// # Errors
/// If the command could not do its work.
pub fn resume(args: &Resume, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let done = write(&args.common, false, terminal);
    concluded(done, terminal)
}

fn write(args: &PauseArgs, is_paused: bool, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let writing = &args.writing;
    let (runtime, writer) = writing.writer()?;
    runtime.block_on(async {
        let set = writer.sidecar_set(&args.sidecar_set.0).await?;
        if json::flag(&set, &["spec", "updateStrategy", "paused"]) == is_paused {
            writing.print(&set, if is_paused { "already paused" } else { "not paused" }, terminal)?;
            return Ok(Status::Done);
        }
        args.forced.check(&set)?;
        let change = Change::new(&set, vec![strategy::set_field(&set, "paused", &is_paused.into())]);
        let changed = change.make(&writer, writing.dry_run).await?;
        writing.print(&changed, if is_paused { "paused" } else { "resumed" }, terminal)?;
        Ok(Status::Done)
    })
}
