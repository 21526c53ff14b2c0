//! `pillion rollout restart`: evicts the Pods of a SidecarSet, one budget after another.

mod drive;
mod progress;
mod scene;

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use pillion_cluster::rollouts::sets::SetName;
use pillion_cluster::rollouts::strategy;
use pillion_cluster::{Change, DryRun, Evicted, Refusal, WriteError, Writer, Writing, concluded};
use pillion_install::installation::SystemNamespace;
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_rollout::amount::Amount;
use pillion_rollout::restart::Restart;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_terminal::{Status, Terminal};
use serde_json::{Value, json};

use self::drive::{Drive, Ended};
use self::progress::{Progress, pods};
use self::scene::{Scene, Scope};

const ABOUT: &str = "\
Evict the Pods of a SidecarSet, one budget after another, so that their controllers create them anew.

Only the Pods that have the SidecarSet's sidecars are evicted, and only if their controller creates them anew: those of a \
ReplicaSet, StatefulSet, DaemonSet or ReplicationController, and of OpenKruise's workloads. The next ones wait until the \
new ones are ready. PodDisruptionBudgets hold: an eviction that one does not allow is tried again until it does. \
partition and paused of the updateStrategy do not limit a restart; its priorities order it.

The time of the start is kept in the annotation pillion.dev/restarted-at of the SidecarSet. After Ctrl-C or a failure, \
the same command goes on with the Pods that were created before that time. When none is left, it starts anew.

Exit codes: 0 done; 1 if it was interrupted or timed out, or some Pods cannot be evicted; 2 for errors.";

const EXAMPLES: &str = "\
Examples:
  pillion rollout restart log-agent --dry-run=client
  pillion rollout restart log-agent --outdated --max-unavailable 3
  pillion rollout restart log-agent -n shop -l app=web --timeout 10m";

/// The annotation with the time at which a restart began.
const RESTARTED_AT: &str = "pillion.dev/restarted-at";
/// How often the annotation is written again if the SidecarSet changes at the same time.
const ATTEMPTS: usize = 5;

/// The arguments of `pillion rollout restart`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The name of the SidecarSet.
    #[arg(value_name = "NAME")]
    sidecar_set: SetName,
    /// Only the Pods that do not have the version in force.
    #[arg(long)]
    outdated: bool,
    /// How many Pods may be unavailable at the same time: a number, or a percentage of those that -n and -l leave.
    #[arg(long, value_name = "VALUE", default_value = "10%", value_parser = amount, allow_negative_numbers = true)]
    max_unavailable: Amount,
    /// Only the Pods of this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only the Pods with these labels, as in `app=web,tier!=test`.
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Give up after this time, as in 10m; 0 waits for ever.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration)]
    timeout: Duration,
    /// Start anew, even if an earlier restart is not done.
    #[arg(long)]
    anew: bool,
    #[command(flatten)]
    system: SystemNamespace,
    #[command(flatten)]
    writing: Writing,
}

fn amount(text: &str) -> Result<Amount, String> {
    let value = strategy::parse_amount(text)?;
    Amount::try_from(&value).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = pillion_kubernetes::duration::Duration::parse(text).map_err(|error| error.to_string())?;
    u64::try_from(parsed.0).map(Duration::from_nanos).map_err(|_| "it must not be negative".to_owned())
}

/// Runs `pillion rollout restart`.
///
/// # Errors
/// If the command could not do its work.
pub fn run(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let done = restart(args, terminal);
    concluded(done, terminal)
}

fn restart(args: &Args, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let (runtime, writer) = args.writing.writer()?;
    let object = runtime.block_on(writer.sidecar_set(&args.sidecar_set.0))?;
    // Only outdated Pods are told apart by a revision.
    let system_namespace = if args.outdated {
        let reader = args.writing.kubeconfig.reader()?;
        Some(args.system.read(&reader, terminal)?)
    } else {
        None
    };
    runtime.block_on(async {
        let decoded = decode(object.clone());
        let set = decoded
            .map_err(|errors| anyhow!("SidecarSet {}: {}", args.sidecar_set.0, joined(&errors)))?
            .into_sidecar_set();
        let scope = Scope::read(args, &writer, &set, &object, system_namespace.as_deref()).await?;
        let earlier = json::text(&object, &["metadata", "annotations", RESTARTED_AT]);
        let earlier = Timestamp::parse(earlier).filter(|_| !args.anew);
        let left = match earlier {
            Some(time) => Some((scope.look(&writer, time).await?, time)).filter(|(scene, _)| scene.due() > 0),
            None => None,
        };
        let is_new = left.is_none();
        let (scene, time) = if let Some((scene, time)) = left {
            let left = pods(scene.due());
            writeln!(
                terminal.err(),
                "going on with the restart that began at {time}: {left} left; --anew starts anew"
            )?;
            (scene, time)
        } else {
            let now = writer.now().await?;
            (scope.look(&writer, now).await?, now)
        };
        tell_skipped(&scene, terminal);
        let due = scene.due();
        if due == 0 {
            let what = if args.outdated { "outdated Pods" } else { "Pods" };
            writeln!(terminal.err(), "SidecarSet {} has no {what} to restart", args.sidecar_set.0)?;
            return Ok(if scene.skipped().next().is_some() { Status::Refused } else { Status::Done });
        }
        let restart = Restart::new(args.max_unavailable, &scene.members)
            .map_err(|error| Refusal(format!("--max-unavailable: {error}")))?;
        match args.writing.dry_run {
            DryRun::Client => {
                show_waves(&scene, &restart, args, terminal)?;
                args.writing.print(&object, "restarted", terminal)?;
                return Ok(Status::Done);
            }
            DryRun::Server => {
                let status = try_all(&scene, &writer, terminal).await?;
                args.writing.print(&object, "restarted", terminal)?;
                return Ok(status);
            }
            DryRun::None => {}
        }
        let object = if is_new { begin(object, &writer, time, args).await? } else { object };
        let progress = Progress::new(due, args.writing.output.is_none());
        let mut drive = Drive::new(&writer, &scope, restart, time, args.outdated, progress);
        let ended = tokio::select! {
            ended = drive.run(scene, args.timeout, terminal) => ended,
            signal = tokio::signal::ctrl_c() => signal.context("Ctrl-C").map(|()| Ended::Interrupted),
        };
        drive.progress.clear();
        let left = format!("{} of {} restarted; run the same command again to go on", drive.done(), pods(due));
        match ended.with_context(|| left.clone())? {
            Ended::Done => args.writing.print(&object, "restarted", terminal).map(|()| Status::Done),
            Ended::Interrupted => Err(Refusal(format!("interrupted: {left}")).into()),
            Ended::TimedOut(waiting) => Err(Refusal(format!("timed out, {waiting}: {left}")).into()),
            Ended::Impossible(count) => {
                args.writing.print(&object, "restarted", terminal)?;
                Err(Refusal(format!("{} could not be evicted", pods(count))).into())
            }
        }
    })
}

/// Writes the time of the start into the SidecarSet, and returns the SidecarSet.
async fn begin(mut object: Value, writer: &Writer, time: Timestamp, args: &Args) -> Result<Value, WriteError> {
    for _ in 1..ATTEMPTS {
        match mark(&object, time).make(writer, DryRun::None).await {
            // A status was written at the same time.
            Err(WriteError::Changed(_)) => object = writer.sidecar_set(&args.sidecar_set.0).await?,
            done => return done,
        }
    }
    mark(&object, time).make(writer, DryRun::None).await
}

fn mark(object: &Value, time: Timestamp) -> Change<'_> {
    let time = time.to_string();
    let operation = match json::object(object, &["metadata", "annotations"]) {
        Some(_) => {
            let path = format!("/metadata/annotations/{}", RESTARTED_AT.replace('/', "~1"));
            json!({"op": "add", "path": path, "value": time})
        }
        None => json!({"op": "add", "path": "/metadata/annotations", "value": {RESTARTED_AT: time}}),
    };
    Change::of_metadata(object, vec![operation])
}

fn tell_skipped(scene: &Scene, terminal: &mut Terminal) {
    for (pod, why) in scene.skipped() {
        terminal.warn(format_args!("{pod} is left alone: {why}"));
    }
    let without = scene.without_sidecars();
    if without > 0 {
        terminal.warn(format_args!(
            "{} that the SidecarSet selects {} none of its sidecars, and {} left alone",
            pods(without),
            if without == 1 { "has" } else { "have" },
            if without == 1 { "is" } else { "are" }
        ));
    }
}

fn show_waves(scene: &Scene, restart: &Restart, args: &Args, terminal: &mut Terminal) -> anyhow::Result<()> {
    let out = if args.writing.output.is_none() { terminal.out() } else { terminal.err() };
    for (number, wave) in restart.waves(&scene.members).iter().enumerate() {
        writeln!(out, "wave {}: {}", number.saturating_add(1), pods(wave.len()))?;
        for found in wave.iter().filter_map(|position| scene.found.get(*position)) {
            writeln!(out, "  {found}")?;
        }
    }
    Ok(())
}

/// Sends each eviction as a dry run: the API server checks rights and budgets, and evicts nothing.
async fn try_all(scene: &Scene, writer: &Writer, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let mut status = Status::Done;
    for (found, _) in scene.found.iter().zip(&scene.members).filter(|(_, member)| member.is_due && member.is_alive) {
        let metadata = &found.pod.metadata;
        let evicted = writer.evict(&metadata.namespace, &metadata.name, &metadata.uid, true).await?;
        match evicted {
            Evicted::Yes => writeln!(terminal.err(), "{found} may be evicted now")?,
            Evicted::Gone => {}
            Evicted::Held { message, .. } => writeln!(terminal.err(), "{found} would have to wait: {message}")?,
            Evicted::Impossible(message) => {
                terminal.warn(format_args!("{found} cannot be evicted: {message}"));
                status = Status::Refused;
            }
        }
    }
    Ok(status)
}
