//! Runs the function of a command in a test, and returns what its user would see.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use serde_json::Value;

use crate::{Status, Terminal};

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The exit code.
    pub code: u8,
    /// The data, without colours.
    pub out: String,
    /// The messages, without colours.
    pub err: String,
}

impl Run {
    /// Returns the output, parsed as JSON.
    ///
    /// # Panics
    /// If it is none, as a test fails.
    #[allow(clippy::panic, reason = "this is how a test fails")]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// Returns the run with the names of files as they are relative to a folder.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        let folder = format!("{}/", folder.display());
        for text in [&mut self.out, &mut self.err] {
            *text = text.replace(&folder, "");
        }
        self
    }
}

/// Runs a command to its end, as the program does.
pub fn run(command: impl FnOnce(&mut Terminal) -> anyhow::Result<Status>) -> Run {
    let (out, err) = (Stream::default(), Stream::default());
    let mut terminal = Terminal::to(out.clone(), err.clone());
    let done = command(&mut terminal);
    let status = terminal.end(done);
    Run { code: status.code(), out: out.text(), err: err.text() }
}

/// A stream that keeps what is written to it.
#[derive(Clone, Default)]
struct Stream(Rc<RefCell<Vec<u8>>>);

impl Stream {
    /// Returns what was written, without escape sequences.
    fn text(&self) -> String {
        let written = String::from_utf8_lossy(&self.0.borrow()).into_owned();
        anstream::adapter::strip_str(&written).to_string()
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;
    use crate::WARNING;

    #[test]
    fn both_streams_are_kept_without_colours() {
        let run = run(|terminal| {
            writeln!(terminal.out(), "/tmp/x/a.yaml: {WARNING}fine{WARNING:#}")?;
            terminal.warn("but");
            Ok(Status::Refused)
        });
        let run = run.within(Path::new("/tmp/x"));
        assert_eq!(run, Run { code: 1, out: "a.yaml: fine\n".to_owned(), err: "warning: but\n".to_owned() });
    }

    #[test]
    fn an_error_ends_a_run_like_the_program() {
        let run = run(|_| bail!("no"));
        assert_eq!(run, Run { code: 2, out: String::new(), err: "error: no\n".to_owned() });
    }
}
