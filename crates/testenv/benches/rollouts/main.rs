//! `make bench-scale`: rollouts of `pillion controller` in a cluster of 10,000 Pods.
//!
//! Measures the program of `--program`. This program creates the cluster, restarts containers as kubelets do, and
//! observes.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how it fails.

#[path = "../../tests/cluster/scale/mod.rs"]
mod scale;
#[path = "../../tests/cluster/support/mod.rs"]
mod support;

mod report;
mod scene;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use pillion_bench::report::markdown;
use report::Report;
use scene::{Scene, Size};

#[derive(clap::Parser)]
struct Args {
    /// The `pillion` program to measure.
    #[arg(long)]
    program: PathBuf,
    #[arg(long, default_value_t = 2000)]
    namespaces: usize,
    #[arg(long, default_value_t = 200)]
    sidecar_sets: usize,
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// The number of SidecarSets whose image changes at once.
    #[arg(long, default_value_t = 20)]
    changed: usize,
    /// How long a container takes to restart, in seconds.
    #[arg(long, default_value_t = 1.0)]
    restart: f64,
    /// How long to observe the program while nothing changes, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// A document with marks; the figures are written between them.
    #[arg(long)]
    docs: Option<PathBuf>,
    /// The flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn tell(text: impl Into<String>) {
    let _ = writeln!(std::io::stderr(), "{}", text.into());
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let figures = measure(&args).await.render();
    let _ = writeln!(std::io::stdout(), "{figures}");
    if let Some(path) = &args.docs {
        markdown::write_into(path, report::MARKS, &figures).unwrap();
    }
}

async fn measure(args: &Args) -> Report {
    let program = std::fs::canonicalize(&args.program).unwrap();
    let size = Size {
        namespaces: args.namespaces,
        sidecar_sets: args.sidecar_sets,
        pods: args.pods,
        changed: args.changed,
        restart: Duration::from_secs_f64(args.restart),
    };
    let cluster = scene::servers().await;
    let mut scene = Scene::prepare(&cluster, size, &program).await;
    tell("the baseline: a client that knows at once that a Pod is ready");
    let needed = scene.baseline().await;
    tell(format!("{:.1} s", needed.seconds));
    let start = scene.start().await;
    tell(format!("the controller has seen everything: {:.1} s, {:.0} MiB", start.seconds, start.usage.peak));
    let rollout = scene.roll_out().await;
    tell(format!("{} SidecarSets are rolled out: {:.1} s", args.changed, rollout.seconds));
    tell(format!("nothing changes for {} s", args.rest));
    let rest = scene.rest(Duration::from_secs(args.rest)).await;
    Report { size, needed, start, rollout, rest }
}
