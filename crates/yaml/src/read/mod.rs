//! Reads YAML and JSON as sigs.k8s.io/yaml does, and so kubectl: YAML 1.1, with merge keys.
//!
//! libyaml gives the events; what scalars, keys, aliases and merge keys mean is decided here, since it is Go's YAML
//! reader that decides what reaches a cluster. docs/design.md says what was compared.

mod compose;
mod decode;
mod depth;
mod events;
mod json;
mod resolve;
mod split;
#[cfg(test)]
mod tests;
mod timestamp;
mod typed;

use serde_json::Value;

use self::compose::Composer;
use self::decode::Decoder;
pub use self::split::{is_marker, parts};
pub use self::typed::from_str;
use crate::node::{Id, Nodes};
use crate::part::Part;
use crate::places::Places;
use crate::problem::Problem;

/// A document of a text.
#[derive(Debug)]
pub struct Document {
    /// The value.
    pub value: Value,
    /// The places of its parts.
    pub places: Places,
}

/// Reads the documents of a text, in their order. A document that is wrong does not keep the others from being read.
/// The places, and those of problems, are bytes of the text. Empty documents are null.
pub fn documents(text: &str) -> Vec<Result<Document, Problem>> {
    parts(text).iter().flat_map(|part| of_part(text, part)).collect()
}

fn of_part(text: &str, part: &Part) -> Vec<Result<Document, Problem>> {
    let content = text.get(part.content.clone()).unwrap_or_default();
    let json = if part.is_json { json::nodes(content) } else { None };
    let read = json.map_or_else(|| yaml(content), |nodes| vec![nodes]);
    let documents = read.into_iter().map(|nodes| {
        let (nodes, root) = nodes?;
        let value = Decoder::new(&nodes).value(root)?;
        Ok(Document { value, places: Places::new(nodes, root, part) })
    });
    documents.map(|read| read.map_err(|problem: Problem| problem.moved(part.content.start))).collect()
}

/// Returns the documents of a part. One that is wrong is the last.
fn yaml(content: &str) -> Vec<Result<(Nodes, Id), Problem>> {
    let events = match events::events(content) {
        Ok(events) => events,
        Err(problem) => return vec![Err(problem)],
    };
    let mut composer = Composer::new(content, events.into_iter());
    let mut is_wrong = false;
    let next = || {
        let next = if is_wrong { None } else { composer.document().transpose() };
        is_wrong = matches!(next, Some(Err(_)));
        next
    };
    std::iter::from_fn(next).collect()
}
