//! `pillion run`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion run`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion run`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion run` is on its way")
}
