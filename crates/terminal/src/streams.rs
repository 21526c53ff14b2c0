//! Output streams: data goes to `stdout`, messages go to `stderr`.

use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use clap::ValueEnum;

use crate::Status;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` says otherwise.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Nowhere.
    Never,
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// Style of an error's label.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Style of a warning's label.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// The only writer to `stdout` and `stderr`. Callers write styles as escape sequences; the stream strips them when
/// colours are off. A reader that closes its end of a pipe is no error.
pub struct Terminal {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
}

impl Terminal {
    /// The standard streams of the process.
    pub fn new(color: Color) -> Self {
        Self {
            out: Box::new(io::BufWriter::new(Output::new(anstream::AutoStream::new(io::stdout(), color.into())))),
            err: Box::new(Output::new(anstream::AutoStream::new(io::stderr(), color.into()))),
        }
    }

    /// Streams of the caller, which get colours as escape sequences.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn to(out: impl Write + 'static, err: impl Write + 'static) -> Self {
        Self { out: Box::new(out), err: Box::new(err) }
    }

    /// The stream for data.
    pub fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// The stream for messages.
    pub fn err(&mut self) -> &mut dyn Write {
        &mut self.err
    }

    /// Prints an error and its causes in one line to `stderr`. Ignores write errors: there is no other stream to report
    /// them.
    pub fn error(&mut self, error: &anyhow::Error) {
        let _ = writeln!(self.err, "{ERROR}error{ERROR:#}: {error:#}");
    }

    /// Prints a warning to `stderr`. A warning does not stop the command.
    pub fn warn(&mut self, warning: impl Display) {
        let _ = writeln!(self.err, "{WARNING}warning{WARNING:#}: {warning}");
    }

    /// Returns the number of columns of the terminal to which `stdout` goes; `None` if it goes into a file or a pipe.
    pub fn columns(&self) -> Option<usize> {
        terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(columns), _)| columns.into())
    }

    /// Flushes `stdout`.
    ///
    /// # Errors
    /// If `stdout` takes no more.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    /// Ends a command: flushes `stdout`, prints the error if there is one, and returns the command's status.
    pub fn end(&mut self, done: anyhow::Result<Status>) -> Status {
        match done.and_then(|status| self.finish().context("stdout").map(|()| status)) {
            Ok(status) => status,
            Err(error) => {
                self.error(&error);
                Status::Failed
            }
        }
    }
}

/// Prints a line to `stderr`, for code that has no [`Terminal`] at hand: reads that take long and that a policy asks for.
/// Ignores write errors: there is no other stream to report them.
pub fn progress(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A stream whose reader may close its end of the pipe, as `head` and `grep -q` do. Later writes are discarded and are
/// no error: the command still ends with the exit code of its verdict.
struct Output<W> {
    stream: W,
    is_closed: bool,
}

impl<W: Write> Output<W> {
    fn new(stream: W) -> Self {
        Self { stream, is_closed: false }
    }

    /// Returns `done`, but turns a broken pipe into `Ok(all)` and marks the stream as closed.
    fn unless_closed<T>(&mut self, done: io::Result<T>, all: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(all)
            }
            done => done,
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let done = self.stream.write(bytes);
        self.unless_closed(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let done = self.stream.flush();
        self.unless_closed(done, ())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A stream that takes `left` bytes and then fails with `kind`.
    struct Failing {
        left: usize,
        kind: io::ErrorKind,
    }

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.left.min(bytes.len());
            self.left -= taken;
            if taken == 0 { Err(self.kind.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            if self.left == 0 { Err(self.kind.into()) } else { Ok(()) }
        }
    }

    #[rstest]
    #[case::at_once(0)]
    #[case::after_some_bytes(3)]
    fn a_reader_that_has_gone_is_no_error(#[case] left: usize) {
        let mut output = Output::new(Failing { left, kind: io::ErrorKind::BrokenPipe });
        output.write_all(b"a verdict").unwrap();
        output.flush().unwrap();
        output.write_all(b"more").unwrap();
        assert!(output.is_closed);
    }

    #[test]
    fn other_errors_are_errors() {
        let mut output = Output::new(Failing { left: 0, kind: io::ErrorKind::StorageFull });
        assert_eq!(output.write_all(b"a").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(output.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
