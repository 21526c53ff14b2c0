//! Reads YAML and JSON as sigs.k8s.io/yaml does, and so kubectl: YAML 1.1, with merge keys.
//!
//! libyaml gives the events; what scalars, keys, aliases and merge keys mean is decided here, since it is Go's YAML
//! reader that decides what reaches a cluster. docs/design.md says what was compared.

mod compose;
mod decode;
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
pub use self::split::{Part, is_marker, json_values, parts};
pub use self::typed::from_str;
use crate::node::{Id, Nodes};
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
    let mut documents = Vec::new();
    for part in parts(text) {
        let content = text.get(part.content.clone()).unwrap_or_default();
        let start = part.content.start;
        let read = if part.is_json { json::nodes(content) } else { None };
        match read {
            Some(nodes) => {
                documents.push(nodes.and_then(|nodes| document(nodes, start)).map_err(|problem| problem.moved(start)));
            }
            None => yaml(content, start, &mut documents),
        }
    }
    documents
}

fn yaml(content: &str, start: usize, into: &mut Vec<Result<Document, Problem>>) {
    let events = match events::events(content) {
        Ok(events) => events,
        Err(problem) => return into.push(Err(problem.moved(start))),
    };
    let mut composer = Composer::new(content, events.into_iter());
    loop {
        match composer.document() {
            Ok(Some(nodes)) => into.push(document(nodes, start).map_err(|problem| problem.moved(start))),
            Ok(None) => return,
            Err(problem) => return into.push(Err(problem.moved(start))),
        }
    }
}

fn document((nodes, root): (Nodes, Id), start: usize) -> Result<Document, Problem> {
    let value = Decoder::new(&nodes).value(root)?;
    Ok(Document { value, places: Places::new(nodes, root, start) })
}
