//! `pillion man`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion man`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion man`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion man` is on its way")
}
