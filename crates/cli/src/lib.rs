//! The command line of Pillion.
//!
//! Every command is a module of [`commands`]: its arguments, and one function that takes them and a [`Terminal`].
//! `stdout` carries data; `stderr` carries messages for the user. The work of the larger commands is in crates of its
//! own: [`pillion_check`], [`pillion_preview`] (`inject`, `explain`, `plan`), [`pillion_install`] (`manifest`,
//! `schema`) and [`pillion_verbs`] (`status`, `rollout`, `set`).
//!
//! It never decides about a SidecarSet, a Pod or a rollout: it reads arguments, calls and prints.
//!
//! The feature `server`, on by default, adds the commands `serve` and `controller`. All others run wherever Rust's
//! standard library does.
//!
//! Start with [`args`], which has the list of commands, and the module of a command.
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod completion;
#[cfg(feature = "server")]
pub mod daemon;
pub mod files;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use pillion_terminal::{Status, Terminal};

use crate::args::{Cli, Command};

/// Runs the command line; the first argument is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let mut out = Vec::new();
    if completion::answer(&args, || args::command(None), &mut out) {
        // The separators are control characters, which a terminal's stream removes. A shell can do nothing about a failure.
        let _ = std::io::stdout().write_all(&out);
        return Status::Done.into();
    }
    let (mut terminal, done) = match Cli::read(&args) {
        Ok(cli) => {
            let mut terminal = Terminal::new(cli.color);
            let done = run(&cli, &mut terminal);
            (terminal, done)
        }
        Err(error) => {
            let mut terminal = Terminal::new(args::color(&args));
            let done = help(&error, &mut terminal);
            (terminal, done)
        }
    };
    terminal.end(done).into()
}

/// Runs the command given on the command line.
///
/// # Errors
/// If the command could not do its work.
fn run(cli: &Cli, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match &cli.command {
        Command::Run(args) => commands::run::run(args, terminal),
        Command::Annotate(args) => commands::annotate::run(args, terminal),
        Command::Inject(args) => commands::inject::run(args, terminal),
        Command::Explain(args) => commands::explain::run(args, terminal),
        Command::Check(args) => commands::check::run(args, terminal),
        Command::Bundle(args) => commands::bundle::run(args, terminal),
        Command::Manifest(args) => commands::manifest::run(args, terminal),
        #[cfg(feature = "server")]
        Command::Serve(args) => commands::serve::run(args, terminal),
        #[cfg(feature = "server")]
        Command::Controller(args) => commands::controller::run(args, terminal),
        Command::Plan(args) => commands::plan::run(args, terminal),
        Command::Status(args) => pillion_verbs::status::run(args, terminal),
        Command::Rollout(args) => pillion_verbs::rollout::run(args, terminal),
        Command::Set(args) => pillion_verbs::set::run(args, terminal),
        Command::Probe(args) => commands::probe::run(args, terminal),
        Command::Uninstall(args) => commands::uninstall::run(args, terminal),
        Command::Schema(args) => commands::schema::run(args, terminal),
        Command::Completions(completions) => {
            let program = std::env::args_os().next();
            commands::completions::run(completions, args::completed(program.as_deref()), terminal)
        }
        Command::Man(man) => commands::man::run(man, args::command(None), terminal),
    }
}

/// Prints what clap answers: help and version texts to `stdout`; mistakes in the arguments to `stderr`, with
/// [`Status::Failed`].
fn help(error: &clap::Error, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let text = error.render();
    if error.use_stderr() {
        write!(terminal.err(), "{}", text.ansi())?;
        return Ok(Status::Failed);
    }
    write!(terminal.out(), "{}", text.ansi())?;
    Ok(Status::Done)
}
