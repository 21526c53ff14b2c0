//! `pillion completions`.

use crate::status::Status;
use crate::terminal::Terminal;

/// The arguments of `pillion completions`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs `pillion completions`.
pub fn run(_args: &Args, _terminal: &mut Terminal) -> anyhow::Result<Status> {
    anyhow::bail!("`pillion completions` is on its way")
}
