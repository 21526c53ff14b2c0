//! `pillion man`.

mod page;

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::files;
use crate::status::Status;
use crate::terminal::Terminal;

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
    // Render all pages first, so that little can fail between writing the first file and the last.
    let pages = page::all(command)?;
    fs::create_dir_all(&args.out_dir).with_context(|| args.out_dir.display().to_string())?;
    for page in &pages {
        files::write(&args.out_dir.join(&page.file), &page.text)?;
    }
    writeln!(terminal.err(), "{} pages in {}", pages.len(), args.out_dir.display())?;
    Ok(Status::Done)
}
