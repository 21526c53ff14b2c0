//! `pillion schema`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion schema`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion schema`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion schema` is on its way")
}
