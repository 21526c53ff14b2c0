//! Places of the parts of a document, by JSON pointer (RFC 6901).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::node::{Id, Kind, Node, Nodes};
use crate::part::Part;
use crate::pointer::token;

/// The places of a document's keys and values.
#[derive(Debug)]
pub struct Places {
    nodes: Nodes,
    root: Id,
    /// The byte offset of the document in the text; the ranges of nodes are relative to it.
    start: usize,
    /// The bytes of the part of the text with the document, see [`crate::parts`].
    part: Range<usize>,
    /// Collected on first use: most documents are not asked.
    known: OnceLock<Known>,
}

/// The ranges of keys and values by pointer.
#[derive(Debug, Default)]
struct Known {
    values: BTreeMap<String, Range<usize>>,
    keys: BTreeMap<String, Range<usize>>,
}

impl Places {
    pub(crate) fn new(nodes: Nodes, root: Id, part: &Part) -> Self {
        Self { nodes, root, start: part.content.start, part: part.whole.clone(), known: OnceLock::new() }
    }

    /// Returns the byte range of the whole document.
    pub fn document(&self) -> Range<usize> {
        self.shifted(self.nodes.get(self.root).map_or(0..0, |node| node.range.clone()))
    }

    /// Returns the bytes to show for the value at a pointer: a scalar, the first key of a map, the first dash of a list,
    /// the bracket that begins either, or the lines of a block of text. For a value that an alias stands for it is the
    /// alias, and for the parts of such a value those of the original.
    pub fn value(&self, pointer: &str) -> Option<Range<usize>> {
        self.known().values.get(pointer).map(|range| self.shifted(range.clone()))
    }

    /// Returns the byte range of the key at a pointer; items of lists have none.
    pub fn key(&self, pointer: &str) -> Option<Range<usize>> {
        self.known().keys.get(pointer).map(|range| self.shifted(range.clone()))
    }

    /// Returns the bytes of the part of the text with the document.
    pub fn part(&self) -> Range<usize> {
        self.part.clone()
    }

    pub(crate) fn nodes(&self) -> (&Nodes, Id) {
        (&self.nodes, self.root)
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    fn shifted(&self, range: Range<usize>) -> Range<usize> {
        range.start + self.start..range.end + self.start
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| {
            let mut known = Known::default();
            known.visit(&self.nodes, self.root, &mut String::new());
            known
        })
    }
}

impl Known {
    fn visit(&mut self, nodes: &Nodes, id: Id, pointer: &mut String) {
        let Some(node) = nodes.get(id) else { return };
        self.values.insert(pointer.clone(), shown(nodes, node));
        let length = pointer.len();
        match nodes.resolved(id).map(|node| &node.kind) {
            Some(Kind::List { items, .. }) => {
                for (index, item) in items.iter().enumerate() {
                    pointer.push('/');
                    pointer.push_str(&index.to_string());
                    self.visit(nodes, *item, pointer);
                    pointer.truncate(length);
                }
            }
            Some(Kind::Map { entries, .. }) => self.visit_entries(nodes, entries, pointer),
            _ => {}
        }
    }

    /// Visits entries in their order: what comes later replaces what a merge key brought before.
    fn visit_entries(&mut self, nodes: &Nodes, entries: &[(Id, Id)], pointer: &mut String) {
        let length = pointer.len();
        for (key, value) in entries {
            match nodes.resolved(*key).map(|node| &node.kind) {
                Some(Kind::Scalar { merges: true, .. }) => self.visit_merged(nodes, *value, pointer),
                Some(Kind::Scalar { value: name, .. }) => {
                    let (Ok(name), Some(node)) = (name.key(), nodes.get(*key)) else { continue };
                    pointer.push('/');
                    pointer.push_str(&token(&name));
                    self.keys.insert(pointer.clone(), node.range.clone());
                    self.visit(nodes, *value, pointer);
                    pointer.truncate(length);
                }
                _ => {}
            }
        }
    }

    fn visit_merged(&mut self, nodes: &Nodes, id: Id, pointer: &mut String) {
        match nodes.resolved(id).map(|node| &node.kind) {
            Some(Kind::Map { entries, .. }) => self.visit_entries(nodes, entries, pointer),
            Some(Kind::List { items, .. }) => {
                items.iter().rev().for_each(|item| self.visit_merged(nodes, *item, pointer));
            }
            _ => {}
        }
    }
}

/// Returns the bytes of a node to show.
fn shown(nodes: &Nodes, node: &Node) -> Range<usize> {
    let start = node.range.start;
    match &node.kind {
        Kind::Map { entries, is_flow: false } => {
            entries.first().and_then(|(key, _)| nodes.get(*key)).map_or(start..start + 1, |key| key.range.clone())
        }
        Kind::Map { .. } | Kind::List { .. } => start..start + 1,
        Kind::Scalar { lines: Some(lines), .. } => lines.clone(),
        Kind::Scalar { .. } | Kind::Alias(_) => node.range.clone(),
    }
}
