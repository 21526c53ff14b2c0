//! Prints what was rendered, or writes it into a folder of files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use pillion_documents::manifest::{self, Source};
use pillion_install::rendering::Rendered;
use pillion_install::rendering::controller::rollout_name;
use pillion_install::rendering::document::{self, Document, INSTANCE, PART_OF, PILLION};
use pillion_kubernetes::json;
use pillion_terminal::output::DataFormat;
use pillion_terminal::{Status, Terminal};
use serde_json::Value;

use crate::files;

/// The format of the manifests, and the folder into which they are written.
#[derive(Debug, clap::Args)]
pub(super) struct Destination {
    /// How to print it. YAML has comments that say what each part is for.
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    format: DataFormat,
    /// Write files into this folder instead of stdout; created if missing. Files of an earlier run for the same
    /// installation that are no longer needed are removed, and stderr lists them. Other files stay.
    #[arg(long = "output-dir", value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The installation whose objects are written.
#[derive(Clone, Copy)]
pub(super) struct Installation<'a> {
    /// Its name, the label of its objects.
    pub name: &'a str,
    /// Whether this kind of rendering writes files with a stem.
    pub has_file: fn(&str) -> bool,
}

impl Installation<'_> {
    /// Whether objects with this label belong to the installation. The rollout controller has a label of its own.
    fn has_instance(&self, instance: &str) -> bool {
        instance == self.name || instance == rollout_name(self.name)
    }
}

impl Destination {
    /// Prints rendered objects or writes them into files, and says on stderr what they are.
    pub(super) fn write(
        &self,
        rendered: &Rendered,
        own: Installation<'_>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Status> {
        let documents = &rendered.documents;
        match &self.folder {
            None => {
                let text = shown(documents, self.format)?;
                write!(terminal.out(), "{text}")?;
                terminal.finish()?;
            }
            Some(folder) => {
                let written = write_files(documents, folder, self.format, own)?;
                let (objects, files) = (counted(documents.len(), "object"), counted(written.len(), "file"));
                let _ = writeln!(terminal.err(), "{objects} in {files} in {}", folder.display());
                for stale in stale(folder, &written, own)? {
                    fs::remove_file(&stale).with_context(|| stale.display().to_string())?;
                    let _ = writeln!(
                        terminal.err(),
                        "removed {}: an earlier run wrote it, and these settings and options do not need it",
                        stale.display()
                    );
                }
            }
        }
        for document in documents {
            let _ = writeln!(terminal.err(), "  {}", document.title());
        }
        for note in &rendered.notes {
            let _ = writeln!(terminal.err(), "note: {note}");
        }
        Ok(Status::Done)
    }
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns files of earlier runs that this run did not write: files of this kind of rendering whose objects all belong
/// to the same installation.
fn stale(folder: &Path, written: &[PathBuf], own: Installation<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let entries: Result<Vec<fs::DirEntry>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut paths: Vec<PathBuf> =
        entries.with_context(|| folder.display().to_string())?.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| {
        let is_manifest = path.extension().is_some_and(|extension| extension == "yaml" || extension == "json");
        let has_name = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(own.has_file);
        let is_ours = || instances(path).is_some_and(|found| found.iter().all(|instance| own.has_instance(instance)));
        is_manifest && has_name && !written.contains(path) && is_ours()
    });
    paths.sort();
    Ok(paths)
}

/// Returns the installation of each object of a file, or `None` if the file is missing, is empty or has other content.
fn instances(path: &Path) -> Option<Vec<String>> {
    let source = Source::read(path).ok()?;
    let objects = manifest::parse(&Arc::new(source)).ok()?;
    let is_ours = objects.iter().all(|object| label(&object.value, PART_OF) == PILLION);
    let instances = objects.iter().map(|object| label(&object.value, INSTANCE).to_owned()).collect();
    (is_ours && !objects.is_empty()).then_some(instances)
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    json::text(object, &["metadata", "labels", key])
}

/// Returns the documents of each file, in the order in which the files first occur. Two processes of controllers have
/// files of the same names.
///
/// # Errors
/// If two objects are the same one of the cluster, which is a bug in this program: the second would replace the first.
fn by_file(documents: &[Document]) -> anyhow::Result<Vec<(&'static str, Vec<&Document>)>> {
    let mut files: Vec<(&'static str, Vec<&Document>)> = Vec::new();
    let mut known = BTreeSet::new();
    for document in documents {
        let title = document.title();
        if known.contains(&title) {
            bail!("{title} is there twice");
        }
        known.insert(title);
        match files.iter_mut().find(|(file, _)| *file == document.file) {
            Some((_, those)) => those.push(document),
            None => files.push((document.file, vec![document])),
        }
    }
    Ok(files)
}

/// Writes a file for each group of objects and returns the paths.
fn write_files(
    documents: &[Document],
    folder: &Path,
    format: DataFormat,
    own: Installation<'_>,
) -> anyhow::Result<Vec<PathBuf>> {
    let extension = if format == DataFormat::Json { "json" } else { "yaml" };
    // Render all texts first, so that little can fail between writing the first file and the last.
    let texts: Vec<(PathBuf, String)> = by_file(documents)?
        .into_iter()
        .map(|(file, group)| Ok((folder.join(format!("{file}.{extension}")), shown(group, format)?)))
        .collect::<anyhow::Result<_>>()?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (path, _) in &texts {
        let found = instances(path).unwrap_or_default();
        if let Some(other) = found.iter().find(|instance| !own.has_instance(instance)) {
            bail!(
                "{}: belongs to the installation {other:?}, and this is {:?}; write into another folder",
                path.display(),
                own.name
            );
        }
    }
    for (path, text) in &texts {
        files::write(path, text.as_bytes())?;
    }
    Ok(texts.into_iter().map(|(path, _)| path).collect())
}

fn shown<'a>(documents: impl IntoIterator<Item = &'a Document>, format: DataFormat) -> anyhow::Result<String> {
    match format {
        DataFormat::Yaml => document::to_yaml(documents),
        DataFormat::Json => document::to_json(documents),
    }
}
