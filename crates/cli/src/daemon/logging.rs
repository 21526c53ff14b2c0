//! The log of a long-running process: one line per event, on stderr.

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Failures.
    Error,
    /// Possible problems.
    Warn,
    /// Refusals and changes.
    #[default]
    Info,
    /// Every request.
    Debug,
    /// Everything.
    Trace,
}

/// The log format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text on a terminal, otherwise JSON.
    #[default]
    Auto,
    /// One line of text per event.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts the log of this process. Later calls have no effect.
///
/// Libraries log warnings and errors only: below that, clients of the API server log what they send and receive.
pub fn start(level: Level, format: LogFormat) {
    let own = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    // A target stands for those that begin with it: each crate of Pillion. Kube's watcher would warn at each attempt that
    // lacks a right, which `pillion_runtime` tells once.
    let targets = Targets::new()
        .with_default(own.min(LevelFilter::WARN))
        .with_target("kube_runtime::watcher", own.min(LevelFilter::ERROR))
        .with_target("pillion", own);
    let is_text = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry();
    // `try_init` fails if a log is already set. The first one stays, and a process needs only one.
    let _ = if is_text {
        registry.with(lines.with_ansi(false).with_filter(targets)).try_init()
    } else {
        registry
            .with(lines.json().flatten_event(true).with_current_span(false).with_span_list(false).with_filter(targets))
            .try_init()
    };
}
