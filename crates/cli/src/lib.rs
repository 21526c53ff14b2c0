//! The command line of Pillion.
//!
//! Every command is a module of [`commands`] with its arguments and one function that gets them and a [`Terminal`];
//! `stdout` is data and `stderr` is talk. What the commands share stands beside them: the built-in module
//! ([`module`]) and what goes to the terminal ([`terminal`]).
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod diff;
pub mod manifest;
pub mod module;
pub mod preview;
pub mod status;
pub mod terminal;
pub mod workload;
pub mod yaml;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Cli;
use crate::status::Status;
use crate::terminal::Terminal;

/// Runs the command line; the first argument is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, anything else is a mistake in the arguments; a closed pipe is neither.
            let status = if error.use_stderr() { Status::Failed } else { Status::Done };
            let _ = error.print();
            return status.into();
        }
    };
    let mut terminal = Terminal::new(cli.color);
    match commands::run(&cli, &mut terminal).and_then(|status| terminal.finish().map(|()| status)) {
        Ok(status) => status.into(),
        Err(error) if terminal::is_closed_pipe(&error) => Status::Done.into(),
        Err(error) => {
            terminal.error(&error);
            Status::Failed.into()
        }
    }
}
