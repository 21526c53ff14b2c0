//! `pillion inject`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion inject`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion inject`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion inject` is on its way")
}
