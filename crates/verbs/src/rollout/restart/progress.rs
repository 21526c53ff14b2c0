//! How far a restart is: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use pillion_terminal::Terminal;

/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Tells how far a restart is.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// Whether lines about Pods are data.
    to_out: bool,
    last: String,
}

impl Progress {
    /// Returns the progress of a restart of so many Pods. Lines about Pods go to `stdout` if `to_out`.
    pub fn new(count: usize, to_out: bool) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX));
            if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {elapsed} {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, to_out, last: String::new() }
    }

    /// Prints a line about a Pod.
    pub fn line(&self, text: &str, terminal: &mut Terminal) -> anyhow::Result<()> {
        let mut print = || {
            let out = if self.to_out { terminal.out() } else { terminal.err() };
            writeln!(out, "{text}")?;
            out.flush()
        };
        match &self.bar {
            Some(bar) => bar.suspend(print)?,
            None => print()?,
        }
        Ok(())
    }

    /// Shows how many Pods are done, and what the restart waits for: `waiting` with numbers, `what` without them. A line
    /// is printed only for another `what`.
    pub fn show(&mut self, done: usize, waiting: &str, what: &str, terminal: &mut Terminal) -> anyhow::Result<()> {
        if let Some(bar) = &self.bar {
            bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
            bar.set_message(waiting.to_owned());
        } else if !what.is_empty() && self.last != what {
            writeln!(terminal.err(), "{waiting}")?;
        }
        what.clone_into(&mut self.last);
        Ok(())
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns a number of Pods as words.
pub fn pods(count: usize) -> String {
    if count == 1 { "1 Pod".to_owned() } else { format!("{count} Pods") }
}
