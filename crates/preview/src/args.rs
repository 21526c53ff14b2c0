//! Arguments shared by the commands that preview the policy.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use std::sync::Arc;

use anyhow::bail;
use pillion_cluster::Connection;
use pillion_documents::manifest::{self, Source};
use pillion_terminal::Terminal;

/// The manifests to read.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Inputs {
    /// Files or folders with manifests, YAML or JSON; - for stdin, which is also read when it is a pipe and nothing
    /// else is given.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The same, under the name of kubectl's option; may be repeated.
    #[arg(short, long = "filename", value_name = "PATH")]
    pub filenames: Vec<PathBuf>,
    /// Also read the folders inside folders.
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl Inputs {
    /// Whether no path is given.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.filenames.is_empty()
    }

    /// Returns the paths: first the positional ones, then those of `--filename`. Without any, returns `-` for stdin.
    ///
    /// # Errors
    /// If no path is given and `stdin` is a terminal: waiting for input there would look like a hang.
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

/// Reads files and folders with `parse`. Returns `None` if some cannot be parsed; the errors are printed before.
///
/// # Errors
/// If a file cannot be read.
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

/// The surroundings of the manifests: the policy's settings, and the objects beside the manifests.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Situation {
    /// A file or a folder with SidecarSets and other objects of the cluster, such as Namespaces. Used like the
    /// manifests, but not printed; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub sidecar_sets: Vec<PathBuf>,
    /// The policy's settings: a file of settings, or of the Kubewarden policy that has them. With --cluster, they are by
    /// default those of the installation there.
    #[arg(long, value_name = "PATH")]
    pub settings: Option<PathBuf>,
    /// The namespace of objects that name none.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// Labels of Namespaces that are in no manifest, nor in the cluster of --cluster, for namespaceSelectors.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = key_value)]
    pub namespace_labels: Vec<(String, String)>,
    /// Assume that ServiceAccounts that SidecarSets name exist, even if no manifest describes them and
    /// --cluster does not find them, and that merged ones are ready.
    #[arg(long)]
    pub assume_service_accounts: bool,
    /// The cluster to look at.
    #[command(flatten)]
    pub connection: Connection,
}

impl Situation {
    /// Returns the labels for Namespaces that are in no manifest.
    pub fn namespace_labels(&self) -> BTreeMap<String, String> {
        self.namespace_labels.iter().cloned().collect()
    }
}

/// Parses `KEY=VALUE`.
///
/// # Errors
/// If the text has another form, or an empty key.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written KEY=VALUE".to_owned()),
    }
}
