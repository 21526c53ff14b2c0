//! Composes nodes from events.

use std::collections::HashMap;
use std::ops::Range;

use libyaml_safer::{EventData, MappingStyle, ScalarStyle, SequenceStyle};

use super::events::Event;
use super::resolve::resolve;
use crate::node::{Id, Kind, Nodes};
use crate::problem::Problem;
use crate::scalar::Scalar;

/// Composes the documents of events.
pub(super) struct Composer<'a, I: Iterator<Item = Event>> {
    text: &'a str,
    events: std::iter::Peekable<I>,
    nodes: Nodes,
    anchors: HashMap<String, Id>,
    /// How many `[...]` and `{...}` are open.
    flow: usize,
}

impl<'a, I: Iterator<Item = Event>> Composer<'a, I> {
    pub(super) fn new(text: &'a str, events: I) -> Self {
        let (nodes, anchors) = (Nodes::default(), HashMap::new());
        Self { text, events: events.peekable(), nodes, anchors, flow: 0 }
    }

    /// Returns the next document with its root, or `None` at the end.
    ///
    /// # Errors
    /// If an alias has no anchor, a scalar is not what its tag says, or values are nested too deeply.
    pub(super) fn document(&mut self) -> Result<Option<(Nodes, Id)>, Problem> {
        loop {
            match self.events.peek().map(|event| &event.data) {
                None => return Ok(None),
                Some(
                    EventData::StreamStart { .. } | EventData::DocumentStart { .. } | EventData::DocumentEnd { .. },
                ) => {
                    self.events.next();
                }
                Some(_) => break,
            }
        }
        self.anchors.clear();
        let root = self.node()?;
        Ok(Some((std::mem::take(&mut self.nodes), root)))
    }

    fn node(&mut self) -> Result<Id, Problem> {
        let Some(Event { data, range }) = self.events.next() else {
            let end = self.text.len();
            return Err(Problem::new("the document ends too early", end..end));
        };
        match data {
            EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                if self.flow > 0 && style == ScalarStyle::Plain && value.contains('?') {
                    return Err(question_mark(range));
                }
                if style == ScalarStyle::DoubleQuoted {
                    self.no_escaped_slash(&range)?;
                }
                let merges = value == "<<" && (plain_implicit || tag.as_deref().is_some_and(is_merge_tag));
                let value = if tag.is_none() && !plain_implicit {
                    Scalar::Text(value)
                } else {
                    resolve(tag.as_deref(), &value).map_err(|message| Problem::new(message, range.clone()))?
                };
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let lines = if is_block { block_lines(self.text, &range) } else { None };
                let range = if is_block { without_empty_lines(self.text, range) } else { range };
                let id = self.nodes.add(Kind::Scalar { value, merges, lines }, range);
                self.anchored(anchor, id);
                Ok(id)
            }
            EventData::Alias { anchor } => {
                let Some(target) = self.anchors.get(&anchor) else {
                    return Err(Problem::new(format!("no anchor &{anchor} stands before the alias *{anchor}"), range));
                };
                Ok(self.nodes.add(Kind::Alias(*target), range))
            }
            EventData::SequenceStart { anchor, style, .. } => {
                let is_flow = style == SequenceStyle::Flow;
                let id = self.begun(range, anchor);
                let items = self.children(id, is_flow)?;
                self.ended(id, Kind::List { items, is_flow });
                Ok(id)
            }
            EventData::MappingStart { anchor, style, .. } => {
                let is_flow = style == MappingStyle::Flow;
                let id = self.begun(range, anchor);
                let mut children = self.children(id, is_flow)?.into_iter();
                let entries = std::iter::from_fn(|| Some((children.next()?, children.next()?))).collect();
                self.ended(id, Kind::Map { entries, is_flow });
                Ok(id)
            }
            _ => Err(Problem::new("the document is not complete", range)),
        }
    }

    /// Adds a collection whose children follow. An alias among them may name it.
    fn begun(&mut self, range: Range<usize>, anchor: Option<String>) -> Id {
        let id = self.nodes.add(Kind::List { items: Vec::new(), is_flow: false }, range);
        self.anchored(anchor, id);
        id
    }

    fn anchored(&mut self, anchor: Option<String>, id: Id) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
    }

    /// Returns the nodes up to the end of a collection, and extends the collection's range over them.
    fn children(&mut self, parent: Id, is_flow: bool) -> Result<Vec<Id>, Problem> {
        let opening = self.nodes.get(parent).map_or(0..0, |node| node.range.clone());
        self.flow += usize::from(is_flow);
        let mut children = Vec::new();
        let mut end = opening.end;
        loop {
            if let Some(Event { data: EventData::SequenceEnd | EventData::MappingEnd, range }) = self.events.peek() {
                // The end of a block is where the next token begins, after comments.
                end = if is_flow { range.end } else { end };
                self.events.next();
                break;
            }
            let child = self.node()?;
            end = self.nodes.get(child).map_or(end, |node| end.max(node.range.end));
            children.push(child);
        }
        self.flow -= usize::from(is_flow);
        if let Some(node) = self.nodes.get_mut(parent) {
            node.range.end = end;
        }
        Ok(children)
    }

    fn ended(&mut self, id: Id, kind: Kind) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.kind = kind;
        }
    }

    /// JSON may escape a slash, YAML 1.1 may not.
    fn no_escaped_slash(&self, range: &Range<usize>) -> Result<(), Problem> {
        match self.text.get(range.clone()).and_then(escaped_slash) {
            Some(at) => {
                let at = range.start + at;
                Err(Problem::new("a slash is escaped", at..at + 2).help("write / without \\; kubectl refuses it"))
            }
            None => Ok(()),
        }
    }
}

/// kubectl takes a question mark in an unquoted text of `[...]` and `{...}` for the beginning of a key, and then refuses
/// the text.
fn question_mark(range: Range<usize>) -> Problem {
    let message = "an unquoted text in [...] or {...} has a question mark";
    Problem::new(message, range).help("write the text in quotes; kubectl refuses it without")
}

/// Returns the place of `\/` in a text, if the slash is what is escaped.
fn escaped_slash(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        if char == '\\' && chars.next().is_some_and(|(_, escaped)| escaped == '/') {
            return Some(at);
        }
    }
    None
}

/// Leaves out the empty lines behind a block of text, unless its header says that they belong to the text.
fn without_empty_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let block = text.get(range.clone()).unwrap_or_default();
    let header = block.lines().next().unwrap_or_default();
    if header.split('#').next().is_some_and(|indicators| indicators.contains('+')) {
        return range;
    }
    let content = block.trim_end().len().max(header.len());
    let end = block.get(content..).and_then(|rest| rest.find('\n')).map_or(block.len(), |end| content + end + 1);
    range.start..range.start + end
}

/// Returns the bytes of the lines of a block of text, from its first character to its last.
fn block_lines(text: &str, range: &Range<usize>) -> Option<Range<usize>> {
    let block = text.get(range.clone())?;
    let header = block.find('\n')? + 1;
    let lines = block.get(header..)?;
    let start = range.start + header + lines.len() - lines.trim_start().len();
    let end = range.start + header + lines.trim_end().len();
    (start < end).then_some(start..end)
}

fn is_merge_tag(tag: &str) -> bool {
    tag == "tag:yaml.org,2002:merge"
}
