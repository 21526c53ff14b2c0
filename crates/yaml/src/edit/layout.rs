//! Lines and columns of a text.

use std::ops::Range;

use crate::node::{Kind, Node, Nodes};
use crate::printing::Style;

/// The text of a document; it ends with a line feed.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    text: &'a str,
}

impl<'a> Layout<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text }
    }

    pub(super) fn get(&self, range: Range<usize>) -> Option<&'a str> {
        self.text.get(range)
    }

    /// Returns the byte behind the line in which a byte stands. A byte behind a line feed ends a line.
    pub(super) fn line_end(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        if at > 0 && before.ends_with('\n') {
            return at;
        }
        self.text.get(at..).and_then(|rest| rest.find('\n')).map_or(self.text.len(), |end| at + end + 1)
    }

    /// Returns the first byte of the line in which a byte stands.
    pub(super) fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }

    /// Returns what stands before a byte in its line.
    pub(super) fn before(&self, at: usize) -> &'a str {
        self.text.get(self.line_start(at)..at).unwrap_or_default()
    }

    /// Returns what stands behind a value in its line, without white space around it.
    pub(super) fn rest_of_line(&self, at: usize) -> &'a str {
        self.text.get(at..self.line_end(at)).unwrap_or_default().trim()
    }

    /// Returns the column of a byte, or `None` if more stands before it in its line than spaces and dashes of items.
    pub(super) fn column(&self, at: usize) -> Option<usize> {
        let before = self.before(at);
        before.bytes().all(|byte| matches!(byte, b' ' | b'-')).then_some(before.len())
    }

    /// Returns the byte behind the colon of a key that ends here.
    pub(super) fn behind_colon(&self, key_end: usize) -> Option<usize> {
        let rest = self.text.get(key_end..)?;
        let at = rest.find(|char| !matches!(char, ' ' | '\t'))?;
        rest.get(at..)?.starts_with(':').then_some(key_end + at + 1)
    }

    /// Returns the dash of the item that follows a byte, after comments.
    pub(super) fn dash(&self, from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            let rest = self.text.get(at..)?;
            at += rest.find(|char: char| !char.is_whitespace())?;
            let rest = self.text.get(at..)?;
            if rest.starts_with('#') {
                at = self.line_end(at + 1);
            } else {
                return rest.starts_with('-').then_some(at);
            }
        }
    }

    /// Returns how the blocks of a document are indented.
    pub(super) fn style(&self, nodes: &Nodes) -> Style {
        let mut style = Style::default();
        let entries = nodes.iter().filter_map(|node| match &node.kind {
            Kind::Map { entries, is_flow: false } => Some(entries),
            _ => None,
        });
        let pairs: Vec<(&Node, &Node)> =
            entries.flatten().filter_map(|(key, value)| Some((nodes.get(*key)?, nodes.get(*value)?))).collect();
        let child = |(key, value): &(&Node, &Node)| {
            let from = self.behind_colon(key.range.end)?;
            let at = match &value.kind {
                Kind::List { is_flow: false, .. } => self.dash(from)?,
                Kind::Map { is_flow: false, entries } => nodes.get(entries.first()?.0)?.range.start,
                _ => return None,
            };
            self.column(at)?.checked_sub(self.column(key.range.start)?)
        };
        let is_list = |(_, value): &&(&Node, &Node)| matches!(value.kind, Kind::List { .. });
        if let Some(lists) = pairs.iter().filter(is_list).find_map(child) {
            style.lists = lists;
        }
        if let Some(maps) = pairs.iter().filter(|pair| !is_list(pair)).find_map(child).filter(|maps| *maps > 0) {
            style.maps = maps;
        }
        style
    }
}
