//! `make bench-scale`: `pillion controller` in a cluster of 2,000 namespaces.
//!
//! Measures the program of `--program`. This program only creates the cluster and observes.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how it fails.

#[path = "../../tests/cluster/scale/mod.rs"]
mod scale;
#[path = "../../tests/cluster/support/mod.rs"]
mod support;

mod reflect;
mod report;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use pillion_bench::report::markdown;
use pillion_testenv::until;
use report::{Memory, Observed, Report};
use scale::corpus::Size;
use scale::process::Process;
use scale::requests::Request;
use scale::statuses::Statuses;
use scale::{Scene, check, servers};

#[derive(clap::Parser)]
struct Args {
    /// The `pillion` program to measure.
    #[arg(long, required_unless_present = "reflect")]
    program: Option<PathBuf>,
    #[arg(long, default_value_t = 2000)]
    namespaces: usize,
    #[arg(long, default_value_t = 200)]
    sidecar_sets: usize,
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to observe the program while nothing changes, in seconds.
    #[arg(long, default_value_t = 600)]
    rest: u64,
    /// How many statuses of Pods are written per second while the program is observed.
    #[arg(long, default_value_t = 200)]
    status_rate: u32,
    /// For how long statuses are written, in seconds.
    #[arg(long, default_value_t = 300)]
    statuses: u64,
    /// A document with marks; the figures are written between them.
    #[arg(long)]
    docs: Option<PathBuf>,
    /// Only keep whole objects, as a plain watch does, for the cluster of this kubeconfig.
    #[arg(long, hide = true)]
    reflect: Option<PathBuf>,
    /// The flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long nothing must happen before a phase counts as ended.
const QUIET: Duration = Duration::from_secs(5);
const LISTED: Duration = Duration::from_mins(5);

fn tell(text: impl Into<String>) {
    let _ = writeln!(std::io::stderr(), "{}", text.into());
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if let Some(kubeconfig) = &args.reflect {
        reflect::run(kubeconfig).await;
        return;
    }
    let size = Size { namespaces: args.namespaces, sidecar_sets: args.sidecar_sets, pods: args.pods, seed: args.seed };
    let report = measure(&args, size).await;
    let figures = report.render();
    let _ = writeln!(std::io::stdout(), "{figures}");
    if let Some(path) = &args.docs {
        markdown::write_into(path, report::MARKS, &figures).unwrap();
    }
}

async fn measure(args: &Args, size: Size) -> Report {
    let program = std::fs::canonicalize(args.program.as_ref().unwrap()).unwrap();
    let cluster = servers().await;
    let mut scene = Scene::prepare(&cluster, size, &program, QUIET, tell).await;
    let server = |program: &str| Process::find(cluster.folder(), program).unwrap();
    let (api_server, etcd) = (server("kube-apiserver"), server("etcd"));
    let mut memory = vec![Memory::new("kube-apiserver, before", api_server.usage())];
    let mut phases = Vec::new();
    let mut done = |phase: scale::Phase| {
        tell(format!(
            "{}: {:.1} s, {:.1} s of CPU, {:.0} MiB",
            phase.name, phase.compared, phase.cpu, phase.usage.peak
        ));
        phases.push(phase);
    };

    done(scene.start("start, with nothing made").await);
    let found = scene.check().await;
    for place in check::samples(&scene.corpus) {
        check::policy(&scene.client, &scene.corpus, place).await;
    }
    done(scene.edit_permissions().await);
    done(scene.edit_image().await);
    done(scene.add_namespace().await);
    done(scene.label_namespaces().await);
    done(scene.replace_pods().await);
    scene.check().await;
    tell(format!("nothing changes for {} s", args.rest));
    let rest = Observed {
        what: "in which nothing changes".to_owned(),
        stretch: scene.rest(Duration::from_secs(args.rest)).await,
    };
    memory.push(Memory::new("pillion controller, the first", scene.process().usage()));
    tell(format!("{} statuses of Pods are written per second, for {} s", args.status_rate, args.statuses));
    let asked = Statuses { rate: args.status_rate, time: Duration::from_secs(args.statuses) };
    let (stretch, written) = scene.write_statuses(asked).await;
    let statuses = Observed { what: format!("in which {written} statuses of Pods are written"), stretch };
    memory.push(Memory::new("pillion controller, after the statuses", scene.process().usage()));
    scene.stop().await;
    done(scene.start("restart, with everything made").await);
    scene.check().await;
    memory.push(Memory::new("pillion controller, restarted", scene.process().usage()));
    scene.stop().await;

    tell("a plain watch of the same objects");
    let arguments = [format!("--reflect={}", cluster.admin_kubeconfig_file().display())];
    cluster.start_program("reflect", &std::env::current_exe().unwrap(), &arguments).await.unwrap();
    let listed = async || cluster.log("reflect").contains(reflect::DONE).then_some(());
    until("everything being listed", LISTED, listed).await.unwrap();
    let own = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    memory.push(Memory::new("whole objects, kept by kube's reflectors", server(&own).usage()));
    memory.push(Memory::new("kube-apiserver, after", api_server.usage()));
    memory.push(Memory::new("etcd, after", etcd.usage()));
    let unpaged = scene.log.requests.iter().filter(|request| request.is_unpaged_list()).count();
    let refused = scene.log.requests.iter().filter(|request: &&Request| request.status == 429).count();
    Report { size, found, phases, memory, observed: vec![rest, statuses], unpaged, refused }
}
