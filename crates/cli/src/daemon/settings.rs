//! Reads the policy's settings from a file, for processes without the module, and again whenever the file changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use pillion_admission::settings::Settings;
use pillion_install::settings;
use tokio::sync::watch;

/// The interval between two looks at the file.
const POLL: Duration = Duration::from_secs(2);

/// A settings file in the state of its last read.
pub struct SettingsFile {
    path: PathBuf,
    /// The content of the last read, valid or not. Contents are compared because Kubernetes swaps a symbolic link under
    /// a mounted ConfigMap.
    seen: Vec<u8>,
    problem: Option<String>,
}

impl SettingsFile {
    /// Reads a file and returns its settings.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or the settings are invalid. The error then lists everything that is wrong.
    pub fn read(path: &Path) -> anyhow::Result<(Self, Settings)> {
        let seen = std::fs::read(path).with_context(|| path.display().to_string())?;
        let settings = decode(path, &seen)?;
        Ok((Self { path: path.to_owned(), seen, problem: None }, settings))
    }

    /// Sends new settings for as long as the future is polled. Invalid settings only cause a log line. After each look,
    /// `tell` hears whether the settings in use are those of the file.
    pub async fn watch(mut self, send: watch::Sender<Arc<Settings>>, tell: impl Fn(bool)) {
        loop {
            tokio::time::sleep(POLL).await;
            let looked = self.look();
            tell(looked.is_ok());
            match looked {
                Ok(None) => self.problem = None,
                Ok(Some(settings)) => {
                    tracing::info!(file = %self.path.display(), "settings loaded");
                    self.problem = None;
                    send.send_replace(Arc::new(settings));
                }
                Err(error) => {
                    let problem = format!("{error:#}");
                    if self.problem.as_ref() != Some(&problem) {
                        tracing::error!(problem, "settings not loaded, the ones before stay in use");
                    }
                    self.problem = Some(problem);
                }
            }
        }
    }

    fn look(&mut self) -> anyhow::Result<Option<Settings>> {
        let bytes = std::fs::read(&self.path).with_context(|| self.path.display().to_string())?;
        if bytes == self.seen {
            // The file has not changed, so its problem remains.
            return self.problem.take().map_or(Ok(None), |problem| Err(anyhow::Error::msg(problem)));
        }
        self.seen = bytes;
        decode(&self.path, &self.seen).map(Some)
    }
}

fn decode(path: &Path, bytes: &[u8]) -> anyhow::Result<Settings> {
    let name = path.display().to_string();
    let value = settings::of_bytes(&name, bytes)?;
    let errors = match Settings::decode(value) {
        Ok(settings) => match settings.validate_all() {
            errors if errors.is_empty() => return Ok(settings),
            errors => errors,
        },
        Err(errors) => errors,
    };
    let shown: Vec<String> = errors.iter().map(|error| format!("{name}: {error}")).collect();
    bail!(shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_read_change_nothing_and_are_told_until_they_can() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.yaml");
        let write = |text: &str| std::fs::write(&path, text).expect("a file");
        write("systemNamespace: one\n");
        let (mut file, first) = SettingsFile::read(&path).expect("settings");
        assert_eq!(first.system_namespace, "one");
        assert!(matches!(file.look(), Ok(None)));
        write("systemNamespace: 1\nbundel: x\n");
        let problem = file.look().expect_err("a problem").to_string();
        assert!(problem.contains("systemNamespace") && problem.contains("bundel"), "{problem}");
        write("systemNamespace: two\n");
        let second = file.look().expect("settings").expect("new ones");
        assert_eq!(second.system_namespace, "two");
    }
}
