//! `make bench-growth`.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use pillion_bench::report::markdown;
use pillion_growth::plan::Size;
use pillion_growth::scene::Times;
use pillion_growth::{picture, report, simulated};
use pillion_stress::server::program;

// With the allocator of the C library, the simulated API server is slower than what it is there to measure.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  pillion-growth
  pillion-growth --pods 1000,3000,10000
  pillion-growth --pods 10000 --sidecar-sets 100,1000,10000";

/// Measures what the controllers take in simulated clusters of growing sizes.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
struct Args {
    /// The program `pillion` [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    pillion: Option<PathBuf>,
    /// Numbers of Pods; each is a cluster.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    pods: Vec<usize>,
    /// Numbers of SidecarSets, each with each number of Pods [default: a fiftieth of the Pods, from 100 to 10,000].
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    sidecar_sets: Vec<usize>,
    /// The number of namespaces [default: a fifth of the Pods, from 100 to 20,000].
    #[arg(long, value_name = "N")]
    namespaces: Option<usize>,
    /// How long Pods are replaced, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    churn: u64,
    /// How long nothing changes, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    rest: u64,
    /// A document with marks; the tables are written between them.
    #[arg(long, value_name = "FILE")]
    docs: Option<PathBuf>,
    /// The file for the picture, an SVG.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

impl Args {
    fn sizes(&self) -> Vec<Size> {
        let sizes = self
            .pods
            .iter()
            .map(|pods| Size::of_pods(*pods))
            .map(|size| Size { namespaces: self.namespaces.unwrap_or(size.namespaces), ..size });
        sizes
            .flat_map(|size| match self.sidecar_sets.as_slice() {
                [] => vec![size],
                numbers => numbers.iter().map(|number| Size { sidecar_sets: *number, ..size }).collect(),
            })
            .collect()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let program = program::find(args.pillion.as_deref())?;
    let times = Times { churn: Duration::from_secs(args.churn), rest: Duration::from_secs(args.rest) };
    let mut points = Vec::new();
    for size in args.sizes() {
        points.push(simulated::measure(&program, size, times).await?);
    }
    let figures = report::render(&points);
    writeln!(std::io::stdout(), "{figures}")?;
    if let Some(path) = &args.docs {
        markdown::write_into(path, report::MARKS, &figures)?;
    }
    if let Some(path) = &args.picture {
        picture::write(path, &points)?;
    }
    Ok(())
}
