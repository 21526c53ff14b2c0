//! Manifests: files, folders and `stdin`, in YAML or JSON, with several documents in one file.

mod input;
mod list;
mod syntax;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use pillion_kubernetes::json;
use pillion_yaml::{Original, Places, Tree};
use serde_json::Value;

pub use self::input::{Source, sources, sources_each};
use self::list::List;

/// Errors of texts that are not manifests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML, or ambiguous YAML (a repeated key). The message shows the line with a caret below it.
    #[error("{source_name}: {problem}")]
    Syntax {
        /// The file.
        source_name: String,
        /// The problem, over several lines.
        problem: String,
        /// The problem in one line, without its place.
        summary: String,
        /// The line and the column, from 1; the column counts characters.
        at: Option<(usize, usize)>,
    },
    /// A document that is not an object.
    #[error("{source_name}:{line}: a manifest is an object with apiVersion and kind, this is {found}")]
    NotAnObject {
        /// The file.
        source_name: String,
        /// The line on which the document starts, from 1.
        line: usize,
        /// The type of the value found.
        found: &'static str,
    },
}

/// One object and its place.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The object, as JSON.
    pub value: Value,
    /// The text that it was read from.
    pub source: Arc<Source>,
    /// The places of its parts in the text.
    places: Arc<Places>,
    /// The JSON pointer of the object in its document; not empty for an item of a list.
    within: String,
}

impl Manifest {
    /// Returns the byte range of the value at a JSON pointer; `""` is the whole object.
    pub fn value_at(&self, pointer: &str) -> Option<Range<usize>> {
        self.places.value(&format!("{}{pointer}", self.within))
    }

    /// Returns the byte range of the key at a JSON pointer.
    pub fn key_at(&self, pointer: &str) -> Option<Range<usize>> {
        self.places.key(&format!("{}{pointer}", self.within))
    }

    /// Returns the objects of this document: itself, or the items of a list.
    ///
    /// # Errors
    /// [`Error::NotAnObject`] for an item that is not an object.
    pub fn objects(&self) -> Result<Vec<Self>, Error> {
        let mut objects = Vec::new();
        expand(self.clone(), &mut objects)?;
        Ok(objects)
    }

    /// Returns the object in an AdmissionReview or an AdmissionRequest; returns any other manifest unchanged.
    #[must_use]
    pub fn requested(self) -> Self {
        let Some(object) =
            request_in(&self.value).and_then(|request| request.get("object")).filter(|it| it.is_object())
        else {
            return self;
        };
        let pointer = if self.value.get("request").is_some() { "/request/object" } else { "/object" };
        Self { value: object.clone(), within: format!("{}{pointer}", self.within), ..self }
    }

    /// Returns the text of the object's document after the object has become `tree`, with everything else as it was
    /// written. Returns `None` if the object is not the whole document, or if its text leaves no room for the change.
    pub fn changed(&self, tree: &Tree) -> Option<String> {
        let original = Original { text: &self.source.text, value: &self.value, places: &self.places };
        if self.within.is_empty() { pillion_yaml::edit(&original, tree) } else { None }
    }

    /// Returns the texts of the object before and after a change, to be compared: those of its document if it can be
    /// changed in place, or both printed.
    pub fn texts(&self, before: &Tree, after: &Tree) -> (String, String) {
        match self.changed(after) {
            Some(after) => {
                let mut before = self.source.text.get(self.places.part()).unwrap_or_default().to_owned();
                if !before.ends_with('\n') {
                    before.push('\n');
                }
                (before, after)
            }
            None => (pillion_yaml::print(before), pillion_yaml::print(after)),
        }
    }

    /// Returns the object with its keys in the order of the text.
    pub fn tree(&self) -> Tree {
        Tree::placed(&self.value, |pointer| self.key_at(pointer).map(|range| range.start))
    }

    /// Returns the JSON pointer of the object in its document; not empty for an item of a list.
    pub fn pointer(&self) -> &str {
        &self.within
    }

    /// Returns the line on which the object starts, from 1.
    pub fn line(&self) -> usize {
        self.source.line(self.value_at("").map_or(0, |range| range.start))
    }
}

/// Returns the request of an AdmissionReview, or the object itself if it is a request.
pub fn request_in(object: &Value) -> Option<&Value> {
    if json::text(object, &["kind"]) == "AdmissionReview" {
        return json::at(object, &["request"]).filter(|request| request.is_object());
    }
    let is_request = json::at(object, &["kind"])?.is_object() && json::at(object, &["operation"]).is_some();
    is_request.then_some(object)
}

/// Parses all objects of a text. Skips empty documents, and replaces lists with their items.
///
/// # Errors
/// The [`Error`] of the first invalid document.
pub fn parse(source: &Arc<Source>) -> Result<Vec<Manifest>, Error> {
    parse_each(source).into_iter().collect()
}

/// Like [`parse`], but returns the error of every invalid document.
pub fn parse_each(source: &Arc<Source>) -> Vec<Result<Manifest, Error>> {
    let mut manifests = Vec::new();
    for document in documents_each(source) {
        match document.and_then(|document| document.objects()) {
            Ok(objects) => manifests.extend(objects.into_iter().map(Ok)),
            Err(error) => manifests.push(Err(error)),
        }
    }
    manifests
}

/// Parses the documents of a text without splitting lists. Skips empty documents.
///
/// # Errors
/// Those of [`parse`].
pub fn documents(source: &Arc<Source>) -> Result<Vec<Manifest>, Error> {
    documents_each(source).into_iter().collect()
}

fn documents_each(source: &Arc<Source>) -> Vec<Result<Manifest, Error>> {
    let mut manifests = Vec::new();
    for document in pillion_yaml::documents(&source.text) {
        let (value, places) = match document {
            Ok(document) => (document.value, Arc::new(document.places)),
            Err(problem) => {
                manifests.push(Err(syntax::error(source, &problem)));
                continue;
            }
        };
        if value.is_null() {
            continue;
        }
        manifests.push(if value.is_object() {
            Ok(Manifest { value, source: Arc::clone(source), places, within: String::new() })
        } else {
            Err(Error::NotAnObject {
                source_name: source.name.clone(),
                line: source.line(places.document().start),
                found: json::type_name(&value),
            })
        });
    }
    manifests
}

/// Adds the objects of a manifest: itself, or the items of a list and of nested lists.
fn expand(manifest: Manifest, into: &mut Vec<Manifest>) -> Result<(), Error> {
    let Some(list) = List::parse(&manifest.value) else {
        into.push(manifest);
        return Ok(());
    };
    for (index, item) in list.items.iter().enumerate() {
        let item = Manifest {
            value: list.completed(item),
            source: Arc::clone(&manifest.source),
            places: Arc::clone(&manifest.places),
            within: format!("{}/items/{index}", manifest.within),
        };
        if !item.value.is_object() {
            return Err(Error::NotAnObject {
                source_name: item.source.name.clone(),
                line: item.line(),
                found: json::type_name(&item.value),
            });
        }
        expand(item, into)?;
    }
    Ok(())
}

/// Reads all objects of files, folders and `stdin` (`-`), in the order given; sorts a folder's files by name.
///
/// # Errors
/// If a file cannot be read, or [`parse`] fails.
pub fn read(paths: &[std::path::PathBuf], recursive: bool) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for source in sources(paths, recursive)? {
        manifests.extend(parse(&source)?);
    }
    Ok(manifests)
}
