//! `pillion man`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use pillion_terminal::{Status, Terminal};

const EXAMPLES: &str = "\
Examples:
  pillion man --out-dir man1 && man -l man1/pillion-explain.1
  pillion man --out-dir ~/.local/share/man/man1";

/// The arguments of `pillion man`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The folder for the pages, one for each command; created if missing.
    #[arg(long, value_name = "DIR")]
    out_dir: PathBuf,
}

/// Runs `pillion man`: `command` is the whole command line.
///
/// # Errors
/// If the folder cannot be made or a page cannot be written.
pub fn run(args: &Args, command: clap::Command, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let folder = &args.out_dir;
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.with_context(|| folder.display().to_string())?;
    writeln!(terminal.err(), "manual pages in {}", folder.display())?;
    Ok(Status::Done)
}
