//! Manifests as people keep them: files, folders and `stdin`, YAML or JSON, several documents in one file.

mod input;
mod list;
mod node;
mod places;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use pillion_kubernetes::json;
use serde_json::Value;

pub use self::input::{Source, sources, sources_each};
use self::list::List;
pub use self::node::json_values;
pub use self::places::{Places, token};

/// Why a text holds no manifests.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML, or YAML that could mean two things (a key twice). The text has the line and a caret under it.
    #[error("{source_name}: {problem}")]
    Syntax {
        /// The file.
        source_name: String,
        /// What is wrong, over several lines.
        problem: String,
        /// The same in one line, without the place.
        summary: String,
        /// Where: line and column from 1, the column in characters.
        at: Option<(usize, usize)>,
    },
    /// A document that is no object, where nothing but objects can stand.
    #[error("{source_name}:{line}: a manifest is an object with apiVersion and kind, this is {found}")]
    NotAnObject {
        /// The file.
        source_name: String,
        /// The line on which the document starts, from 1.
        line: usize,
        /// What stands there.
        found: &'static str,
    },
}

/// One object and where it stands.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The object, as JSON.
    pub value: Value,
    /// The text that it was read from.
    pub source: Arc<Source>,
    /// Where its parts stand in the text.
    places: Arc<Places>,
    /// The JSON pointer of this object in its document: not empty for an item of a List.
    within: String,
}

impl Manifest {
    /// Where the value at a JSON pointer stands, as bytes of the source's text; the whole object is at `""`.
    pub fn value_at(&self, pointer: &str) -> Option<Range<usize>> {
        self.places.value(&format!("{}{pointer}", self.within))
    }

    /// Where the key of the value at a JSON pointer stands.
    pub fn key_at(&self, pointer: &str) -> Option<Range<usize>> {
        self.places.key(&format!("{}{pointer}", self.within))
    }

    /// The objects of this document: itself, or the items where it is a list.
    ///
    /// # Errors
    /// [`Error::NotAnObject`] for an item that is none.
    pub fn objects(&self) -> Result<Vec<Self>, Error> {
        let mut objects = Vec::new();
        expand(self.clone(), &mut objects)?;
        Ok(objects)
    }

    /// The object that an AdmissionReview or an AdmissionRequest is about; any other manifest is its own.
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

    /// The JSON pointer of this object in its document: not empty for an item of a List.
    pub fn pointer(&self) -> &str {
        &self.within
    }

    /// The line on which the object starts, from 1.
    pub fn line(&self) -> usize {
        self.source.line(self.value_at("").map_or(0, |range| range.start))
    }
}

/// The request of an AdmissionReview, or the object itself if it is a request.
pub fn request_in(object: &Value) -> Option<&Value> {
    if json::text(object, &["kind"]) == "AdmissionReview" {
        return json::at(object, &["request"]).filter(|request| request.is_object());
    }
    let is_request = json::at(object, &["kind"])?.is_object() && json::at(object, &["operation"]).is_some();
    is_request.then_some(object)
}

/// Reads all objects of a text. Documents that are empty are skipped, and a list stands for its items.
///
/// # Errors
/// [`Error`] for the first document that is no manifest.
pub fn parse(source: &Arc<Source>) -> Result<Vec<Manifest>, Error> {
    parse_each(source).into_iter().collect()
}

/// [`parse`] for those who want to know of every document that is no manifest. A syntax error ends the text: nobody
/// can say where the next document starts.
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

/// Reads the documents of a text as they stand: a List is one of them. Documents that are empty are skipped.
///
/// # Errors
/// As [`parse`].
pub fn documents(source: &Arc<Source>) -> Result<Vec<Manifest>, Error> {
    documents_each(source).into_iter().collect()
}

fn documents_each(source: &Arc<Source>) -> Vec<Result<Manifest, Error>> {
    let documents = match node::documents(source) {
        Ok(documents) => documents,
        Err(error) => return vec![Err(error)],
    };
    let mut manifests = Vec::new();
    for document in documents {
        let places = Arc::new(Places::of(&document, &source.text));
        let value = document.root.value.into_value();
        if value.is_null() {
            continue;
        }
        manifests.push(if value.is_object() {
            Ok(Manifest { value, source: Arc::clone(source), places, within: String::new() })
        } else {
            Err(Error::NotAnObject {
                source_name: source.name.clone(),
                line: source.line(places.value("").map_or(0, |range| range.start)),
                found: json::type_name(&value),
            })
        });
    }
    manifests
}

/// Adds the objects that a manifest stands for: itself, or the items of a list and of the lists in it.
fn expand(manifest: Manifest, into: &mut Vec<Manifest>) -> Result<(), Error> {
    let Some(list) = List::of(&manifest.value) else {
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

/// Reads all objects of files, folders and `stdin` (`-`), in the order given; a folder's files by name.
///
/// # Errors
/// Where a file cannot be read, or is not what [`parse`] reads.
pub fn read(paths: &[std::path::PathBuf], recursive: bool) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for source in sources(paths, recursive)? {
        manifests.extend(parse(&source)?);
    }
    Ok(manifests)
}
