//! Changes the text of a document so that it has another value. What does not change keeps every byte: comments, order,
//! quotes and line ends.

mod align;
mod layout;
mod list;
mod map;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

use self::layout::Layout;
use crate::node::{Id, Kind, Node, Nodes};
use crate::places::Places;
use crate::printing::{Printer, Style, Tree};
use crate::read::documents;

/// A document and the text that it was read from.
#[derive(Clone, Debug)]
pub struct Original<'a> {
    /// The whole text.
    pub text: &'a str,
    /// The document's value.
    pub value: &'a Value,
    /// The places of its parts.
    pub places: &'a Places,
}

/// Returns the text of a document's part, with the document changed into `new`. Returns `None` if it has to be written
/// anew: what changes is part of `[...]` or `{...}` with comments, has an anchor that aliases name, or is written in a way
/// that leaves no room.
pub fn edit(original: &Original<'_>, new: &Tree) -> Option<String> {
    let Original { text, value, places } = original;
    let (start, part) = (places.start(), places.part());
    let head = text.get(part.start..start)?;
    let mut content = text.get(start..part.end)?.to_owned();
    if !content.ends_with('\n') {
        content.push('\n');
    }
    let (nodes, root) = places.nodes();
    let layout = Layout::new(&content);
    let style = layout.style(nodes);
    let shared = nodes.iter().filter_map(|node| if let Kind::Alias(target) = node.kind { Some(target) } else { None });
    let mut editor = Editor { layout, nodes, style, shared: shared.collect(), changes: Vec::new() };
    editor.node(&Slot::Document, root, value, new)?;
    let changes = std::mem::take(&mut editor.changes);
    let edited = format!("{head}{}", applied(&content, changes)?);
    is_read_as(&edited, new).then_some(edited)
}

/// A range of the text, and what replaces it.
struct Splice {
    range: Range<usize>,
    text: String,
}

/// Where a value stands.
enum Slot {
    /// The document is this value.
    Document,
    /// Behind a key.
    Entry {
        /// The byte behind the colon.
        from: usize,
        /// The column of the key.
        indent: usize,
    },
    /// Behind the dash of an item.
    Item {
        /// The byte behind the dash.
        from: usize,
    },
}

struct Editor<'a> {
    layout: Layout<'a>,
    nodes: &'a Nodes,
    style: Style,
    /// The nodes that aliases name: a change would change the aliases, too.
    shared: BTreeSet<Id>,
    /// What changes; at one place, the first is that of the innermost value.
    changes: Vec<Splice>,
}

impl Editor<'_> {
    /// Changes a value. `None` if its text leaves no room.
    fn node(&mut self, slot: &Slot, id: Id, old: &Value, new: &Tree) -> Option<()> {
        if new.is(old) {
            return Some(());
        }
        if self.shared.contains(&id) {
            return None;
        }
        let nodes = self.nodes;
        let node = nodes.get(id)?;
        match (&node.kind, old, new) {
            (Kind::Map { entries, is_flow: false }, Value::Object(old), Tree::Map(new)) if !new.is_empty() => {
                self.map(entries, old, new)
            }
            (Kind::List { items, is_flow: false }, Value::Array(old), Tree::List(new)) if !new.is_empty() => {
                self.list(slot, items, old, new)
            }
            _ => self.replace(slot, node, new),
        }
    }

    fn splice(&mut self, range: Range<usize>, text: String) {
        self.changes.push(Splice { range, text });
    }

    /// Returns the byte behind the line in which a value ends; `from` is the byte behind its colon or its dash.
    fn end(&self, id: Id, from: usize) -> Option<usize> {
        Some(self.layout.line_end(self.nodes.get(id)?.range.end.max(from)))
    }

    /// Replaces a value as a whole.
    fn replace(&mut self, slot: &Slot, node: &Node, new: &Tree) -> Option<()> {
        let text = self.layout.get(node.range.clone())?;
        let is_block = matches!(node.kind, Kind::Map { is_flow: false, .. } | Kind::List { is_flow: false, .. });
        let has_comments = text.contains('#') && text.contains('\n') && !matches!(node.kind, Kind::Scalar { .. });
        if has_comments {
            return None;
        }
        let is_leaf = match new {
            Tree::Map(entries) => entries.is_empty(),
            Tree::List(items) => items.is_empty(),
            Tree::Scalar(Value::String(text)) => !text.contains('\n'),
            Tree::Scalar(_) => true,
        };
        let from = match slot {
            Slot::Document => return None,
            Slot::Entry { from, .. } | Slot::Item { from } => *from,
        };
        if is_leaf && !is_block && !text.contains('\n') {
            let mut printer = Printer::new(self.style);
            printer.leaf(new, 0);
            let (range, text) = match text {
                "" => (from..from, format!(" {}", printer.out)),
                _ => (node.range.clone(), printer.out),
            };
            self.splice(range, text);
            return Some(());
        }
        let end = node.range.end.max(from);
        let comment = self.layout.rest_of_line(end);
        let mut printer = Printer::new(self.style);
        let start = match slot {
            Slot::Document => return None,
            Slot::Entry { indent, .. } => {
                printer.behind_colon(new, *indent);
                from
            }
            Slot::Item { .. } => {
                let start = if text.is_empty() { return None } else { node.range.start };
                printer.item(new, self.layout.column(start)?);
                start
            }
        };
        // A comment stays behind the key if the value goes to the next lines.
        let text = match (comment, printer.out.strip_prefix('\n')) {
            ("", _) => printer.out,
            (comment, Some(block)) if comment.starts_with('#') => format!(" {comment}\n{block}"),
            _ => return None,
        };
        self.splice(start..self.layout.line_end(end), text);
        Some(())
    }
}

/// Returns a text with its changes, or `None` if two of them overlap.
fn applied(text: &str, mut changes: Vec<Splice>) -> Option<String> {
    changes.sort_by_key(|change| (change.range.start, change.range.end));
    let is_windows = text.contains("\r\n");
    let mut edited = String::with_capacity(text.len());
    let mut from = 0;
    for Splice { range, text: new } in changes {
        edited.push_str(text.get(from..range.start)?);
        edited.push_str(&if is_windows { new.replace('\n', "\r\n") } else { new });
        from = range.end;
    }
    edited.push_str(text.get(from..)?);
    Some(edited)
}

/// Whether a text has one document with this value.
fn is_read_as(text: &str, new: &Tree) -> bool {
    let mut read = documents(text).into_iter();
    matches!((read.next(), read.next()), (Some(Ok(document)), None) if new.is(&document.value))
}
