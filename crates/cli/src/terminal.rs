//! Where output goes: data to `stdout`, talk to `stderr`.

use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

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

/// Something is wrong.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Something may be wrong.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// The one gate through which everything is written. Styles are written as escape sequences and taken out where
/// nobody wants them.
pub struct Terminal {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
}

impl Terminal {
    /// The standard streams of the process.
    pub fn new(color: Color) -> Self {
        Self {
            out: Box::new(io::BufWriter::new(anstream::AutoStream::new(io::stdout(), color.into()))),
            err: Box::new(anstream::AutoStream::new(io::stderr(), color.into())),
        }
    }

    /// The stream for data.
    pub fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// The stream for talk.
    pub fn err(&mut self) -> &mut dyn Write {
        &mut self.err
    }

    /// Tells of an error and what led to it, in one line. There is nowhere to tell that `stderr` is closed.
    pub fn error(&mut self, error: &anyhow::Error) {
        let _ = writeln!(self.err, "{ERROR}error{ERROR:#}: {error:#}");
    }

    /// Tells of something that does not stop the command.
    pub fn warn(&mut self, warning: impl Display) {
        let _ = writeln!(self.err, "{WARNING}warning{WARNING:#}: {warning}");
    }

    /// Writes out what is still held back.
    ///
    /// # Errors
    /// Where the stream for data takes no more.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

/// Whether this error only says that the reader of our output has gone, as `head` does.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
