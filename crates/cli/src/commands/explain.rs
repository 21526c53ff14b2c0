//! `pillion explain`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion explain`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion explain`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion explain` is on its way")
}
