//! Changes of the entries of a map.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{Editor, Slot};
use crate::node::{Id, Kind};
use crate::printing::{Printer, Tree};

/// An entry that is written in the map, not brought by a merge key.
struct Entry {
    name: String,
    key: Range<usize>,
    value: Id,
    /// The byte behind the colon.
    from: usize,
}

impl Editor<'_> {
    /// Changes the entries of a map in block style.
    pub(super) fn map(&mut self, entries: &[(Id, Id)], old: &Map<String, Value>, new: &[(String, Tree)]) -> Option<()> {
        let written: Vec<Entry> = entries.iter().filter_map(|entry| self.entry(*entry)).collect();
        let indent = entries.iter().find_map(|(key, _)| self.layout.column(self.nodes.get(*key)?.range.start))?;
        for (index, entry) in written.iter().enumerate() {
            match (new.iter().find(|(name, _)| *name == entry.name), old.get(&entry.name)) {
                (Some((_, tree)), Some(value)) => {
                    self.node(&Slot::Entry { from: entry.from, indent }, entry.value, value, tree)?;
                }
                _ => self.remove_entry(entry, written.get(index + 1))?,
            }
        }
        let is_added = |(name, tree): &&(String, Tree)| {
            written.iter().all(|entry| entry.name != *name) && !old.get(name).is_some_and(|value| tree.is(value))
        };
        let added: Vec<(String, Tree)> = new.iter().filter(is_added).cloned().collect();
        if added.is_empty() {
            return Some(());
        }
        let last = entries.iter().filter_map(|(key, value)| {
            let from = self.layout.behind_colon(self.nodes.get(*key)?.range.end)?;
            self.end(*value, from)
        });
        let at = last.max()?;
        let mut printer = Printer::new(self.style);
        printer.spaces(indent);
        printer.map(&added, indent);
        self.splice(at..at, printer.out);
        Some(())
    }

    fn entry(&self, (key, value): (Id, Id)) -> Option<Entry> {
        let range = self.nodes.get(key)?.range.clone();
        match &self.nodes.resolved(key)?.kind {
            Kind::Scalar { value: name, merges: false, .. } => {
                let from = self.layout.behind_colon(range.end)?;
                Some(Entry { name: name.key().ok()?, key: range, value, from })
            }
            _ => None,
        }
    }

    fn remove_entry(&mut self, entry: &Entry, next: Option<&Entry>) -> Option<()> {
        let range = if self.layout.before(entry.key.start).trim().is_empty() {
            self.layout.line_start(entry.key.start)..self.end(entry.value, entry.from)?
        } else {
            // The first entry of an item stands behind the dash. The next one takes its place.
            entry.key.start..next?.key.start
        };
        self.splice(range, String::new());
        Some(())
    }
}
