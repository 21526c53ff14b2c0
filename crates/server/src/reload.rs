//! Settings from a file, reloaded when it changes.
//!
//! Changes are detected by content rather than by time, because Kubernetes swaps a symbolic link under a mounted
//! ConfigMap. If the file is unreadable or invalid, the server keeps its settings, logs the problem and counts it in a
//! metric.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillion_host::Module;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::settings::{Many, Parse, ServedSettings};

/// The interval at which to check a file.
pub const POLL: Duration = Duration::from_secs(2);

/// Why settings cannot be loaded; the text names the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReloadError(String);

/// A settings file.
pub struct SettingsFile {
    path: PathBuf,
    parse: Box<Parse>,
    module: Module,
    hasher: RandomState,
    /// The hash of the content at the last check, valid or not.
    seen: Option<u64>,
    /// The last reported problem; each is reported once.
    reported: Option<String>,
}

impl SettingsFile {
    /// Creates a handle for the file at `path`. `module` validates the settings; give it a longer time limit than for a
    /// request.
    pub fn new(
        path: impl Into<PathBuf>,
        parse: impl Fn(&[u8]) -> Result<Value, String> + Send + Sync + 'static,
        module: Module,
    ) -> Self {
        Self {
            path: path.into(),
            parse: Box::new(parse),
            module,
            hasher: RandomState::new(),
            seen: None,
            reported: None,
        }
    }

    /// Reads the file. Blocks.
    ///
    /// # Errors
    /// If the file is unreadable, or a server cannot use its settings; the text names the file.
    pub fn load(&mut self) -> Result<ServedSettings, ReloadError> {
        let bytes = std::fs::read(&self.path).map_err(|error| self.problem(error))?;
        self.seen = Some(self.hash(&bytes));
        let checked = if let Some(many) = Many::find(&bytes) {
            ServedSettings::check_many(&self.module, many, &self.parse)
        } else {
            let settings = (self.parse)(&bytes).map_err(ReloadError)?;
            ServedSettings::check(&self.module, settings)
        };
        checked.map_err(|error| self.problem(error))
    }

    /// Returns a hash of the file's content, which takes less memory than the content.
    fn hash(&self, bytes: &[u8]) -> u64 {
        self.hasher.hash_one(bytes)
    }

    fn problem(&self, problem: impl fmt::Display) -> ReloadError {
        ReloadError(format!("{}: {problem}", self.path.display()))
    }

    /// Loads the file if its content changed since the last check. Blocks.
    fn reload(&mut self) -> Option<Result<ServedSettings, ReloadError>> {
        let unreadable = match std::fs::read(&self.path) {
            Ok(bytes) if self.seen == Some(self.hash(&bytes)) => {
                self.reported = None;
                return None;
            }
            Ok(_) => None,
            Err(error) => {
                // The content counts as new when the file can be read again, so that the metric recovers.
                self.seen = None;
                Some(self.problem(error))
            }
        };
        let result = match unreadable {
            Some(error) => Err(error),
            None => self.load(),
        };
        let reported = result.as_ref().err().map(ToString::to_string);
        let is_news = result.is_ok() || reported != self.reported;
        self.reported = reported;
        is_news.then_some(result)
    }

    /// Checks the file every `poll` and sends new settings, until the receiver is gone.
    pub fn watch(
        mut self,
        poll: Duration,
        send: watch::Sender<Arc<ServedSettings>>,
        metrics: Arc<Metrics>,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            while !send.is_closed() {
                tokio::time::sleep(poll).await;
                let looked = tokio::task::spawn_blocking(move || {
                    let news = self.reload();
                    (self, news)
                });
                let Ok((file, news)) = looked.await else { return };
                self = file;
                let Some(result) = news else { continue };
                metrics.settings_reloaded(result.is_ok());
                match result {
                    Ok(settings) => {
                        tracing::info!(file = %self.path.display(), "settings loaded");
                        send.send_replace(Arc::new(settings));
                    }
                    Err(error) => {
                        tracing::error!(%error, "settings not loaded, the ones before stay in use");
                    }
                }
            }
        })
    }
}
