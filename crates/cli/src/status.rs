//! How a command ends.

use std::process::ExitCode;

/// How a command ended, which its exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 0: it did what was asked.
    Done,
    /// 1: it did what was asked, and the answer is no: a Pod is refused, a manifest has errors.
    Refused,
    /// 2: it could not do what was asked: wrong arguments, unreadable files.
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
