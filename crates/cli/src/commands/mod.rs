//! One module for each command.

pub mod annotate;
pub mod bench;
pub mod bundle;
pub mod check;
pub mod completions;
pub mod controller;
pub mod explain;
pub mod inject;
pub mod man;
pub mod manifest;
pub mod plan;
pub mod run;
pub mod schema;
pub mod serve;

use crate::args::{Cli, Command};
use crate::status::Status;
use crate::terminal::Terminal;

/// Runs the command that was asked for.
///
/// # Errors
/// Where the command could not do what was asked.
pub fn run(cli: &Cli, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &cli.command {
        Command::Run(args) => run::run(args, terminal),
        Command::Annotate(args) => annotate::run(args, terminal),
        Command::Inject(args) => inject::run(args, terminal),
        Command::Explain(args) => explain::run(args, terminal),
        Command::Check(args) => check::run(args, terminal),
        Command::Bundle(args) => bundle::run(args, terminal),
        Command::Manifest(args) => manifest::run(args, terminal),
        Command::Serve(args) => serve::run(args, terminal),
        Command::Controller(args) => controller::run(args, terminal),
        Command::Plan(args) => plan::run(args, terminal),
        Command::Bench(args) => bench::run(args, terminal),
        Command::Schema(args) => schema::run(args, terminal),
        Command::Completions(args) => completions::run(args, terminal),
        Command::Man(args) => man::run(args, terminal),
    }
}

/// How `run` and `annotate` end: as kwctl does, which knows no difference between a no and a failure. What went wrong
/// is told here and exits with 1.
///
/// # Errors
/// Where the output cannot be written.
fn as_kwctl(done: anyhow::Result<()>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match done {
        Ok(()) => Ok(Status::Done),
        Err(error) => {
            // What was answered before stands before it.
            terminal.finish()?;
            terminal.error(&error);
            Ok(Status::Refused)
        }
    }
}
