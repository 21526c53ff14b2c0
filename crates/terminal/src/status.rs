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

impl Status {
    /// Returns the exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Failed => 2,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}
