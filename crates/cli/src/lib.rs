//! The command line of Pillion.
//!
//! Every command is a module of [`commands`] with its arguments and one function that gets them and a [`Terminal`];
//! `stdout` is data and `stderr` is talk. What the commands share stands beside them: the built-in module
//! ([`module`]), what goes to the terminal ([`terminal`]) and into files ([`files`]).
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod daemon;
pub mod diff;
pub mod files;
pub mod manifest;
pub mod module;
pub mod preview;
pub mod rendering;
pub mod report;
pub mod schema;
pub mod status;
pub mod terminal;
pub mod workload;
pub mod yaml;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::args::Cli;
use crate::status::Status;
use crate::terminal::Terminal;

/// Runs the command line; the first argument is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let (mut terminal, done) = match Cli::read(&args) {
        Ok(cli) => {
            let mut terminal = Terminal::new(cli.color);
            let done = commands::run(&cli, &mut terminal);
            (terminal, done)
        }
        Err(error) => {
            let mut terminal = Terminal::new(args::color(&args));
            let done = help(&error, &mut terminal);
            (terminal, done)
        }
    };
    match done.and_then(|status| terminal.finish().context("stdout").map(|()| status)) {
        Ok(status) => status.into(),
        Err(error) => {
            terminal.error(&error);
            Status::Failed.into()
        }
    }
}

/// Help and version are answers, anything else that clap says is a mistake in the arguments.
fn help(error: &clap::Error, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let text = error.render();
    if error.use_stderr() {
        write!(terminal.err(), "{}", text.ansi())?;
        return Ok(Status::Failed);
    }
    write!(terminal.out(), "{}", text.ansi())?;
    Ok(Status::Done)
}
