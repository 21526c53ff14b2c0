//! `make load`, `make bench-load`: puts load on `pillion serve`. `make bench-faults`: breaks it.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use pillion_stress::{faults, load};

#[derive(Debug, Parser)]
#[command(about = "Puts load on an admission server, and breaks it")]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// The module whose answers are right.
    #[arg(long, global = true, default_value = "policy.wasm", value_name = "PATH")]
    module: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Send a server as many reviews as it takes: check its answers, and measure what they cost.
    Load(load::Args),
    /// Overload and break a server, and check what other clients notice.
    Faults(faults::Args),
}

/// Returns 1 if an answer was lost or wrong, and 2 if there was no server to ask.
fn main() -> ExitCode {
    let Args { command, module } = Args::parse();
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let done = match command {
        Command::Load(args) => std::fs::read(&module)
            .with_context(|| module.display().to_string())
            .and_then(|module| load::run(&args, &module, &mut out, &mut err)),
        Command::Faults(args) => faults::run(&args, &mut out, &mut err),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => match writeln!(err, "error: {error:#}") {
            Ok(()) => ExitCode::from(2),
            Err(_) => ExitCode::FAILURE,
        },
    }
}
