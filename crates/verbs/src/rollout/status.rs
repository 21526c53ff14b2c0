//! `pillion rollout status`: waits until a rollout has ended.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::anyhow;
use clap::ArgAction;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pillion_cluster::rollouts::sets::{self, SetName};
use pillion_cluster::rollouts::standing::{self, RolloutState, Standing};
use pillion_cluster::{Ended, Event, Kind, Kubeconfig};
use pillion_terminal::units::Span;
use pillion_terminal::{Status, Terminal};
use serde_json::Value;

use crate::status::Rollouts;

/// The long description.
pub(super) const ABOUT: &str = "\
Wait until the rollout of a SidecarSet has done what its strategy asks for, and print one line.

Meanwhile the progress is shown: as a bar if stderr is a terminal, else as a line whenever something changes. Only a \
status about the present generation counts, so the command may follow an edit at once. Lost connections are made again. \
Where the status has no conditions, as with OpenKruise's definition of SidecarSets, the counters decide; they do not tell \
that a rollout is stalled.

With --watch=false, the line tells how far the rollout is now.

Exit codes: 0 done, or with --watch=false also if the rollout goes on; 1 if the rollout is stalled, the time is over, or \
the SidecarSet is deleted; 2 for errors, and if the command is interrupted, which does not stop the rollout.";

const EXAMPLES: &str = "\
Examples:
  pillion rollout status log-agent
  # not longer than ten minutes
  pillion rollout status log-agent --timeout 10m
  # without waiting
  pillion rollout status log-agent --watch=false";

/// How often the bar is drawn anew.
const TICK: Duration = Duration::from_millis(250);

/// The arguments of `pillion rollout status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The SidecarSet.
    #[arg(value_name = "NAME")]
    sidecar_set: SetName,
    /// Wait until the rollout has ended; =false: look once.
    #[arg(short, long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = true, default_missing_value = "true", hide_possible_values = true)]
    watch: bool,
    /// Wait not longer than this, as in 10m; 0: as long as it takes.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    timeout: Span,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    rollouts: Rollouts,
}

/// What the end of a rollout is.
enum Verdict {
    Ended(Standing),
    Deleted,
}

/// Runs `pillion rollout status`.
///
/// # Errors
/// If the cluster cannot be read, or `stdout` takes no more.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let reader = args.kubeconfig.reader()?;
    let name = &args.sidecar_set;
    let (object, version) = sets::one(&reader, name)?;
    let settings = args.rollouts.read(&reader)?;
    if !args.watch {
        return tell(name, &Standing::from_status(&object, &settings), terminal);
    }
    let mut display = Display::new(name, &Standing::from_status(&object, &settings));
    let limit = Some(args.timeout.0).filter(|limit| !limit.is_zero());
    let kind = Kind(version, sets::KIND);
    let ended = reader.watch(kind, Some(&name.0), None, limit, |event| match event {
        Event::Gone(_) => Some(Verdict::Deleted),
        Event::Lost(why) => {
            display.lost(&why, terminal);
            None
        }
        Event::Seen(object) => {
            let standing = Standing::from_status(&object, &settings);
            if matches!(standing.state, RolloutState::Ready | RolloutState::Stalled) {
                return Some(Verdict::Ended(standing));
            }
            display.show(&object, &standing, terminal);
            None
        }
    });
    display.end();
    match ended? {
        Ended::Decided(Verdict::Ended(standing)) => tell(name, &standing, terminal),
        Ended::Decided(Verdict::Deleted) => {
            terminal.error(&anyhow!("SidecarSet \"{}\" was deleted", name.0));
            Ok(Status::Refused)
        }
        Ended::TimedOut => {
            let last = &display.last;
            terminal.error(&anyhow!("the time is over; SidecarSet \"{}\": {last}", name.0));
            Ok(Status::Refused)
        }
        Ended::Interrupted => {
            terminal
                .error(&anyhow!("interrupted; the rollout of SidecarSet \"{}\" goes on without this command", name.0));
            Ok(Status::Failed)
        }
    }
}

/// Prints how far a rollout is.
fn tell(name: &SetName, standing: &Standing, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let Standing { state, reason, message } = standing;
    let (word, status) = match state {
        RolloutState::Ready => ("is rolled out", Status::Done),
        RolloutState::Stalled => ("is stalled", Status::Refused),
        RolloutState::Reconciling => ("is being rolled out", Status::Done),
        RolloutState::Waiting | RolloutState::Unobserved => ("waits", Status::Done),
    };
    writeln!(terminal.out(), "SidecarSet \"{}\" {word}: {reason}: {message}", name.0)?;
    Ok(status)
}

/// Shows the progress on `stderr`.
struct Display {
    /// The bar, if `stderr` is a terminal.
    bar: Option<ProgressBar>,
    /// How far the rollout is.
    last: String,
    /// The line that was printed last.
    printed: Option<String>,
    is_lost: bool,
}

impl Display {
    fn new(name: &SetName, standing: &Standing) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{prefix} [{bar:20}] {pos}/{len} {elapsed} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(name.0.clone());
            bar
        });
        Self { bar, last: text(standing), printed: None, is_lost: false }
    }

    fn show(&mut self, object: &Value, standing: &Standing, terminal: &mut Terminal) {
        self.is_lost = false;
        self.last = text(standing);
        if let Some(bar) = &self.bar {
            let counts = standing::counts(object);
            bar.set_length(u64::try_from(counts.matched).unwrap_or(u64::MAX));
            bar.set_position(u64::try_from(counts.updated_ready).unwrap_or(u64::MAX));
            bar.set_message(self.last.clone());
            bar.enable_steady_tick(TICK);
        } else if self.printed.as_ref() != Some(&self.last) {
            // Progress that cannot be shown is no reason to stop waiting.
            let _ = writeln!(terminal.err(), "{}", self.last);
            self.printed = Some(self.last.clone());
        }
    }

    fn lost(&mut self, why: &str, terminal: &mut Terminal) {
        if std::mem::replace(&mut self.is_lost, true) {
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_message(format!("trying again: {why}")),
            None => terminal.warn(format_args!("{why}; trying again")),
        }
    }

    /// Removes the bar.
    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn text(standing: &Standing) -> String {
    format!("{}: {}", standing.reason, standing.message)
}
