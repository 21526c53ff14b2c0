//! Settings from a file, read again when it changes.
//!
//! Contents are compared, not times: Kubernetes swaps a symbolic link under a mounted ConfigMap. A file that cannot be
//! read or is not valid changes nothing but the log and a metric; the server goes on with what it has.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::metrics::Metrics;
use super::settings::ServedSettings;
use crate::module::Module;

/// How often a file is looked at.
pub const POLL: Duration = Duration::from_secs(2);

/// Makes settings of the bytes of a file; the error is one text that names the file.
pub type Parse = dyn Fn(&[u8]) -> Result<Value, String> + Send + Sync;

/// Why there are no settings: a text that names the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReloadError(String);

/// A file with settings.
pub struct SettingsFile {
    path: PathBuf,
    parse: Box<Parse>,
    module: Module,
    /// What was looked at last, good or not.
    seen: Option<Vec<u8>>,
    /// The last problem, which is told once.
    told: Option<String>,
}

impl SettingsFile {
    /// The file at `path`. `module` says whether settings are valid; give it more time than for a request.
    pub fn new(
        path: impl Into<PathBuf>,
        parse: impl Fn(&[u8]) -> Result<Value, String> + Send + Sync + 'static,
        module: Module,
    ) -> Self {
        Self { path: path.into(), parse: Box::new(parse), module, seen: None, told: None }
    }

    /// Reads the file. Blocks.
    ///
    /// # Errors
    /// Where it cannot be read or a server cannot work with it; the text names the file.
    pub fn load(&mut self) -> Result<ServedSettings, ReloadError> {
        let bytes = std::fs::read(&self.path).map_err(|error| self.problem(error))?;
        let settings = (self.parse)(&bytes).map_err(ReloadError);
        self.seen = Some(bytes);
        ServedSettings::check(&self.module, settings?).map_err(|error| self.problem(error))
    }

    fn problem(&self, problem: impl fmt::Display) -> ReloadError {
        ReloadError(format!("{}: {problem}", self.path.display()))
    }

    /// What the file says, where it says something else than when it was last looked at. Blocks.
    fn reload(&mut self) -> Option<Result<ServedSettings, ReloadError>> {
        let unreadable = match std::fs::read(&self.path) {
            Ok(bytes) if self.seen.as_ref() == Some(&bytes) => {
                self.told = None;
                return None;
            }
            Ok(_) => None,
            Err(error) => Some(self.problem(error)),
        };
        let result = match unreadable {
            Some(error) => Err(error),
            None => self.load(),
        };
        let told = result.as_ref().err().map(ToString::to_string);
        let is_news = result.is_ok() || told != self.told;
        self.told = told;
        is_news.then_some(result)
    }

    /// Looks at the file every `poll` and sends what is new, as long as somebody listens.
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
