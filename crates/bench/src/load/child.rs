//! A server in a child process, so that its memory can be measured apart from the memory of this process.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::thread;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::program;

/// A running server. Dropping it stops the process.
pub(super) struct Child {
    process: process::Child,
    url: String,
    ca: PathBuf,
    _folder: TempDir,
}

impl Child {
    /// Starts `pillion serve` with these settings on a free port of this machine. `program` is `pillion`.
    ///
    /// # Errors
    /// If the server does not start; the error contains its output.
    pub(super) fn start(program: &Path, settings: &Value) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        let (settings_file, ca) = (folder.path().join("settings.json"), folder.path().join("ca.crt"));
        std::fs::write(&settings_file, super::json(settings)).context("a folder for the server")?;
        let mut command = program::command(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--certificates", "temporary", "--cluster", "none"]);
        command.args(["--log-format", "json", "--log-level", "info"]);
        command.arg("--settings").arg(&settings_file).arg("--ca-file").arg(&ca);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().context("a server could not be started")?;
        let said = process.stderr.take();
        let mut child = Self { process, url: String::new(), ca, _folder: folder };
        let mut lines = BufReader::new(said.context("a server without stderr")?).lines();
        let mut heard = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                bail!("the server did not start: {}", heard.join("; "));
            };
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event.get("message").is_some_and(|message| message == "serving") {
                break event.get("address").and_then(Value::as_str).unwrap_or_default().to_owned();
            }
            heard.push(line);
        };
        child.url = format!("https://{address}");
        // Drain the log: the server logs refusals continuously, and a full pipe would block it.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(child)
    }

    /// Returns the id of the process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn ca(&self) -> &Path {
        &self.ca
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
