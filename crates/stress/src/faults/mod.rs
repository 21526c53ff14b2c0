//! `pillion-stress faults`: overloads and breaks `pillion serve` in every way that a client, a disk or a cluster can, and
//! checks what other clients notice.

mod api_server;
mod bodies;
mod caller;
mod change;
mod connections;
mod disk;
mod overload;
mod raw;
mod report;
mod resets;
mod review;
mod slow;
mod stop;
mod trickle;

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use tokio::time::sleep;

use self::caller::Caller;
use self::report::Row;
use self::trickle::Trickle;
use crate::server::{self, Authority, Server, Start, program};
use crate::stand_in::StandIn;

const ABOUT: &str = "\
Overload and break `pillion serve`, and check what other clients notice.

For each fault, a server starts on this machine. Ordinary reviews go to it, 50 in a second, over a connection that stays \
open as an API server's does: before the fault, during it and afterwards. Each must have the right answer, or a 503 at \
once; a review without an answer is lost. The table says for each fault what was asked, what came back, what became of \
the ordinary reviews, how long the server took to answer as usual afterwards, and its memory.

Needs Linux, and 5,000 file descriptors.

Exit codes: 0 done; 1 if anything was lost; 2 if there was no server to ask.";

const EXAMPLES: &str = "\
Examples:
  pillion-stress faults
  pillion-stress faults --quick --only silent,resets";

/// The arguments of `pillion-stress faults`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The program to start as a server [default: `pillion` in the folder of this program].
    #[arg(long, value_name = "PATH")]
    pillion: Option<PathBuf>,
    /// A twentieth of the clients, in a fifth of the time.
    #[arg(long)]
    quick: bool,
    /// Only these faults.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT")]
    only: Vec<Fault>,
}

/// A way to overload or break a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// Ten times as many reviews as it can answer.
    Overload,
    /// Clients that send a byte at a time.
    Slow,
    /// Connections that are opened and closed.
    Connections,
    /// Connections that say nothing.
    Silent,
    /// Long, too long and truncated bodies.
    Bodies,
    /// Half-closed connections and streams.
    HalfClosed,
    /// HTTP/2 streams that are reset.
    Resets,
    /// Settings and certificate are replaced.
    Changes,
    /// SIGTERM.
    Stop,
    /// No file descriptors are left.
    Descriptors,
    /// The disk is full.
    Disk,
    /// The API server is gone.
    ApiServer,
}

/// The inputs that all faults share.
struct Context<'a> {
    program: &'a Path,
    authority: &'a Authority,
    /// A folder that is deleted at the end.
    folder: &'a Path,
    is_quick: bool,
    /// An API server that a fault has started and that must outlive it.
    kept: RefCell<Option<StandIn>>,
}

impl<'a> Context<'a> {
    /// Returns a number of clients for this run.
    fn times(&self, number: usize) -> usize {
        if self.is_quick { (number / 20).max(number.min(30)) } else { number }
    }

    /// Returns a length of time for this run.
    fn seconds(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds) / if self.is_quick { 5 } else { 1 }
    }

    /// Returns how to start a usual server.
    fn start(&self) -> Start<'a> {
        Start::new(self.program, self.authority, review::settings(1))
    }

    fn keep(&self, api_server: StandIn) {
        self.kept.replace(Some(api_server));
    }
}

/// The result of a fault.
struct Outcome {
    /// The load or the fault, for the table's first column.
    asked: String,
    /// The server's answers, for the table's second column.
    back: String,
    /// Descriptions of everything that went wrong.
    problems: Vec<String>,
}

/// Runs `pillion-stress faults`, and returns whether nothing was lost. Writes the table to `out`, and progress and
/// problems to `err`.
///
/// # Errors
/// If there is no server to ask.
pub fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<bool> {
    let program = program::find(args.pillion.as_deref())?;
    let folder = tempfile::tempdir().context("a folder")?;
    let context = Context {
        program: &program,
        authority: &Authority::new()?,
        folder: folder.path(),
        is_quick: args.quick,
        kept: RefCell::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the event loop")?;
    let mut rows = Vec::new();
    for fault in Fault::value_variants() {
        if !args.only.is_empty() && !args.only.contains(fault) {
            continue;
        }
        let name = fault.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        writeln!(err, "{name} ...")?;
        let row = runtime.block_on(suffer(&context, *fault)).with_context(|| name.clone())?;
        for problem in row.problems() {
            writeln!(err, "{name}: {problem}")?;
        }
        rows.push(row);
    }
    write!(out, "{}", report::table(&rows))?;
    Ok(rows.iter().all(|row| row.problems().is_empty()))
}

/// Starts a server, and observes it before, during and after a fault.
async fn suffer(context: &Context<'_>, fault: Fault) -> anyhow::Result<Row> {
    let mut api_server = match fault {
        Fault::ApiServer => Some(api_server::with_a_namespace(([127, 0, 0, 1], 0).into())?),
        _ => None,
    };
    let start = match (&api_server, fault) {
        (Some(api_server), _) => api_server::start(context, api_server)?,
        (None, Fault::Disk) => disk::start(context),
        (None, _) => context.start(),
    };
    let mut server = Server::start(start).await?;
    let other = if fault == Fault::Stop { Some(Server::start(context.start()).await?) } else { None };
    let targets = [Some(&server), other.as_ref()].into_iter().flatten().map(|server| server.target().clone()).collect();
    let caller = Arc::new(Caller::new(targets));
    // The first reviews of a process are slower.
    trickle::recovery(&caller).await;
    let before = server::memory(server.process());
    let trickle = Trickle::start(Arc::clone(&caller), server.process());
    sleep(Duration::from_millis(500)).await;
    let outcome = match fault {
        Fault::Overload => overload::run(context, &server).await,
        Fault::Slow => slow::run(context, &server).await,
        Fault::Connections => connections::opened_and_closed(context, &server).await,
        Fault::Silent => connections::silent(context, &server).await,
        Fault::Bodies => bodies::run(context, &server).await,
        Fault::HalfClosed => slow::half_closed(context, &server).await,
        Fault::Resets => resets::run(context, &server).await,
        Fault::Changes => change::run(context, &server).await,
        Fault::Stop => match &other {
            Some(other) => stop::run(context, &mut server, other).await,
            None => bail!("no second server"),
        },
        Fault::Descriptors => connections::descriptors(context, &server).await,
        Fault::Disk => disk::run(context, &server).await,
        Fault::ApiServer => match api_server.take() {
            Some(api_server) => api_server::run(context, api_server, &server).await,
            None => bail!("no API server"),
        },
    }?;
    let recovered = trickle::recovery(&caller).await;
    sleep(Duration::from_millis(500)).await;
    let ordinary = trickle.stop().await?;
    let after = server::memory(server.process());
    context.kept.take();
    Ok(Row { outcome, ordinary, recovered, connections: caller.connections(), before, after })
}
