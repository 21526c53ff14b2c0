//! `pillion check`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion check`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion check`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion check` is on its way")
}
