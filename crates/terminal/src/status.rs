//! Results of commands and their exit codes.

use std::process::ExitCode;

/// The result of a command; it determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 0: the command did its work.
    Done,
    /// 1: the command did its work, and the answer is negative: a Pod is refused, a manifest has errors.
    Refused,
    /// 2: the command could not do its work: wrong arguments, unreadable files.
    Failed,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::Refused => 1,
            Status::Failed => 2,
        })
    }
}
