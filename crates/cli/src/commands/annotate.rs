//! `pillion annotate`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion annotate`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion annotate`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion annotate` is on its way")
}
