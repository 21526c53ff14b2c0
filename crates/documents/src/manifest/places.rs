//! Places of the parts of a document, by JSON pointer (RFC 6901).

use std::collections::BTreeMap;
use std::ops::Range;

use serde_saphyr::{Location, Spanned};

use super::node::{Document, Node};

/// The places of a document's keys and values.
#[derive(Debug, Default)]
pub struct Places {
    /// The byte offset of the document in the text; the ranges are relative to it.
    start: usize,
    values: BTreeMap<String, Range<usize>>,
    keys: BTreeMap<String, Range<usize>>,
}

impl Places {
    /// Returns the places of a document in `text`.
    pub(super) fn of(document: &Document, text: &str) -> Self {
        let Document { root, within } = document;
        let mut places = Self { start: within.start, ..Self::default() };
        places.visit(root, &mut String::new(), text.get(within.clone()).unwrap_or_default());
        places
    }

    /// Returns the byte range of the value at a pointer.
    pub fn value(&self, pointer: &str) -> Option<Range<usize>> {
        self.values.get(pointer).map(|range| self.shifted(range))
    }

    /// Returns the byte range of the key at a pointer; items of lists have none.
    pub fn key(&self, pointer: &str) -> Option<Range<usize>> {
        self.keys.get(pointer).map(|range| self.shifted(range))
    }

    fn shifted(&self, range: &Range<usize>) -> Range<usize> {
        range.start + self.start..range.end + self.start
    }

    fn visit(&mut self, node: &Spanned<Node>, pointer: &mut String, text: &str) {
        if let Some(range) = range(node.referenced, text) {
            self.values.insert(pointer.clone(), range);
        }
        let length = pointer.len();
        match &node.value {
            Node::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    pointer.push('/');
                    pointer.push_str(&index.to_string());
                    self.visit(item, pointer, text);
                    pointer.truncate(length);
                }
            }
            Node::Object(entries) => {
                for (key, value) in entries {
                    pointer.push('/');
                    pointer.push_str(&token(&key.value));
                    if let Some(range) = range(key.referenced, text) {
                        self.keys.insert(pointer.clone(), range);
                    }
                    self.visit(value, pointer, text);
                    pointer.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Escapes a key for a JSON pointer.
pub fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the byte range of a location, if it has one.
fn range(location: Location, text: &str) -> Option<Range<usize>> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let end = start.checked_add(length)?.min(text.len());
    text.get(start..end).map(|_| start..end)
}
