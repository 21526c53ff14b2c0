//! One module for each command. The commands that run as servers need the feature `server`.

pub mod annotate;
pub mod bundle;
pub mod check;
pub mod completions;
#[cfg(feature = "server")]
pub mod controller;
pub mod explain;
pub mod inject;
pub mod man;
pub mod manifest;
pub mod plan;
pub mod probe;
pub mod run;
pub mod schema;
#[cfg(feature = "server")]
pub mod serve;
pub mod uninstall;

use pillion_terminal::{Status, Terminal};

/// Reports the error of `run` or `annotate` and exits as kwctl does: with 1 for every error, since kwctl does not
/// distinguish a refusal from a failure.
///
/// # Errors
/// If the output cannot be written.
fn as_kwctl(done: anyhow::Result<()>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    match done {
        Ok(()) => Ok(Status::Done),
        Err(error) => {
            // Print the answer so far before the error.
            terminal.finish()?;
            terminal.error(&error);
            Ok(Status::Refused)
        }
    }
}
