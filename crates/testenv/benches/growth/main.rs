//! `make bench-growth`: `pillion controller` beside a real API server, and beside a simulated one with the same objects.
//!
//! Measures the program of `--pillion`. `pillion_growth` has the objects and the phases; this program creates the objects
//! in a real cluster.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how it fails.

#[allow(dead_code, reason = "the other benchmarks do more with it")]
#[path = "../../tests/cluster/scale/populate.rs"]
mod populate;

mod real;
mod report;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use pillion_bench::report::markdown;
use pillion_growth::plan::Size;
use pillion_growth::scene::Times;
use pillion_growth::simulated;

#[derive(clap::Parser)]
struct Args {
    /// The `pillion` program to measure.
    #[arg(long)]
    pillion: PathBuf,
    /// The number of Pods. The other objects are as many as `pillion-growth` has by default.
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// How long Pods are replaced, in seconds.
    #[arg(long, default_value_t = 60)]
    churn: u64,
    /// How long nothing changes, in seconds.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// A document with marks; the table is written between them.
    #[arg(long)]
    docs: Option<PathBuf>,
    /// The flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let (program, size) = (std::fs::canonicalize(&args.pillion)?, Size::of_pods(args.pods));
    let times = Times { churn: Duration::from_secs(args.churn), rest: Duration::from_secs(args.rest) };
    let real = real::measure(&program, size, times).await?;
    let simulated = simulated::measure(&program, size, times).await?;
    let table = report::render(&real, &simulated);
    writeln!(std::io::stdout(), "{table}")?;
    if let Some(path) = &args.docs {
        markdown::write_into(path, report::MARKS, &table)?;
    }
    Ok(())
}
