//! The log lines of policies.

use std::fmt;

use serde_json::{Map, Value};

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For developers of the policy.
    Debug,
    /// Normal operation.
    Info,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A line that a policy logged.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The severity.
    pub level: LogLevel,
    /// The text.
    pub message: String,
    /// The context of the message, by key.
    pub data: Map<String, Value>,
}

impl LogLine {
    /// Reads the payload of a `tracing/log` call; `None` if the payload is not a log line.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut data: Map<String, Value> = serde_json::from_slice(payload).ok()?;
        let level = match data.remove("level")?.as_str()?.to_ascii_lowercase().as_str() {
            "trace" => LogLevel::Trace,
            "debug" => LogLevel::Debug,
            "info" => LogLevel::Info,
            "warning" => LogLevel::Warning,
            "error" => LogLevel::Error,
            _ => return None,
        };
        let message = data.remove("message").and_then(|message| message.as_str().map(str::to_owned));
        Some(Self { level, message: message.unwrap_or_default(), data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_sdk_writes_them() {
        let line = LogLine::parse(br#"{"level": "INFO", "message": "hello", "pod": "p", "file": "lib.rs"}"#).unwrap();
        assert_eq!((line.level, line.message.as_str()), (LogLevel::Info, "hello"));
        assert_eq!(line.data.get("pod"), Some(&Value::from("p")));
        let bare = LogLine::parse(br#"{"level": "warning"}"#).unwrap();
        assert_eq!((bare.level.to_string().as_str(), bare.message.as_str()), ("warning", ""));
        assert_eq!(LogLine::parse(br#"{"level": "loud"}"#), None);
        assert_eq!(LogLine::parse(b"hello"), None);
    }
}
