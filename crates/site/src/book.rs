//! The book: built by mdBook, then checked.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use parking_lot::Mutex;
use tracing::Level;

use crate::outside::Outside;
use crate::{blocks, pages, summary};

/// Builds the site of a repository into a folder, or into the one that `crates/site/book.toml` names, and returns
/// everything that is wrong with it.
pub fn build(root: &Path, destination: Option<&Path>) -> Result<Vec<String>> {
    let mut config = Config::from_disk(root.join("crates/site/book.toml")).context("crates/site/book.toml")?;
    if let Some(destination) = destination {
        destination.clone_into(&mut config.build.build_dir);
    }
    let mut problems = summary::problems(&root.join(&config.book.src))?;
    problems.extend(blocks::problems(root)?);
    let site = root.join(&config.build.build_dir);
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::WARN).with_ansi(false).without_time();
    let subscriber = subscriber.with_target(false).with_writer({
        let log = log.clone();
        move || log.clone()
    });
    let built = tracing::subscriber::with_default(subscriber.finish(), || render(root, config));
    problems.extend(log.lines());
    match built {
        Ok(()) => problems.extend(pages::problems(&site)?),
        Err(error) => problems.extend(format!("{error:#}").lines().map(str::to_owned)),
    }
    Ok(problems)
}

fn render(root: &Path, config: Config) -> Result<()> {
    let mut book = MDBook::load_with_config(root, config)?;
    book.with_preprocessor(Outside);
    book.build()
}

/// What mdBook warns about, such as HTML that does not end.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).lines().map(|line| format!("mdBook: {}", line.trim())).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
