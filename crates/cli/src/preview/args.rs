//! Arguments of the commands that preview something.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use std::sync::Arc;

use anyhow::bail;

use crate::manifest::{self, Source};
use crate::terminal::Terminal;

/// Which manifests a command is about.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Inputs {
    /// Files or folders with manifests, YAML or JSON; - for stdin, which is also read when it is a pipe and nothing
    /// else is given.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The same, as kubectl has it; may be repeated.
    #[arg(short, long = "filename", value_name = "PATH")]
    pub filenames: Vec<PathBuf>,
    /// Also read the folders inside folders.
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl Inputs {
    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.filenames.is_empty()
    }

    /// The paths, in the order of the command line's groups.
    ///
    /// # Errors
    /// Where there is none and `stdin` is a terminal, on which nobody would know what to wait for.
    pub fn paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = self.paths.iter().chain(&self.filenames).cloned().collect();
        if !paths.is_empty() {
            return Ok(paths);
        }
        if std::io::stdin().is_terminal() {
            bail!("no manifests: give files, folders, or - for stdin");
        }
        Ok(vec![PathBuf::from("-")])
    }
}

/// Reads what `parse` finds in files and folders; `None` where some of it cannot be parsed, all of which was said then.
///
/// # Errors
/// Where a file cannot be read.
pub fn read<T>(
    paths: &[PathBuf],
    recursive: bool,
    terminal: &mut Terminal,
    parse: fn(&Arc<Source>) -> Result<Vec<T>, manifest::Error>,
) -> anyhow::Result<Option<Vec<T>>> {
    let (mut found, mut is_sound) = (Vec::new(), true);
    for source in manifest::sources(paths, recursive)? {
        match parse(&source) {
            Ok(parsed) => found.extend(parsed),
            Err(error) => {
                is_sound = false;
                terminal.error(&error.into());
            }
        }
    }
    Ok(is_sound.then_some(found))
}

/// What surrounds the manifests: the policy's settings and the cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Situation {
    /// A file or a folder with SidecarSets, and whatever else the cluster should have, such as Namespaces. Used like
    /// what stands among the manifests, but not printed; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub sidecar_sets: Vec<PathBuf>,
    /// The policy's settings: a file of settings, or of the Kubewarden policy that has them.
    #[arg(long, value_name = "PATH")]
    pub settings: Option<PathBuf>,
    /// The namespace of objects that name none.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// Labels of Namespaces that are in no manifest, for a namespaceSelector to look at.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = key_value)]
    pub namespace_labels: Vec<(String, String)>,
    /// Take the ServiceAccounts to exist that SidecarSets name and no manifest describes, and merged ones to be ready.
    #[arg(long)]
    pub assume_service_accounts: bool,
}

impl Situation {
    /// The labels of Namespaces that are in no manifest.
    pub fn namespace_labels(&self) -> BTreeMap<String, String> {
        self.namespace_labels.iter().cloned().collect()
    }
}

/// `KEY=VALUE`.
///
/// # Errors
/// Where it is not written so.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written KEY=VALUE".to_owned()),
    }
}
