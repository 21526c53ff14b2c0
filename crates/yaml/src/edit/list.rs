//! Changes of the items of a list.

use serde_json::Value;

use super::align::{Step, align};
use super::{Editor, Slot};
use crate::node::Id;
use crate::printing::{Printer, Tree};

/// An item and its dash.
struct Item {
    id: Id,
    dash: usize,
    /// The byte behind the last line of the item.
    end: usize,
}

impl Editor<'_> {
    /// Changes the items of a list in block style.
    pub(super) fn list(&mut self, slot: &Slot, items: &[Id], old: &[Value], new: &[Tree]) -> Option<()> {
        let items = self.items(slot, items)?;
        let indent = self.layout.column(items.first()?.dash)?;
        let mut before = 0;
        for step in align(old, new)? {
            match step {
                Step::Keep { old: index, new: tree } => {
                    let item = items.get(index)?;
                    self.node(&Slot::Item { from: item.dash + 1 }, item.id, old.get(index)?, tree)?;
                    before = index + 1;
                }
                Step::Remove { old: index } => {
                    let item = items.get(index)?;
                    if !self.layout.before(item.dash).trim().is_empty() {
                        return None;
                    }
                    self.splice(self.layout.line_start(item.dash)..item.end, String::new());
                    before = index + 1;
                }
                Step::Add { new: tree } => self.add(slot, &items, before, indent, tree)?,
            }
        }
        Some(())
    }

    fn items(&self, slot: &Slot, ids: &[Id]) -> Option<Vec<Item>> {
        let mut from = match slot {
            Slot::Document => 0,
            Slot::Entry { from, .. } | Slot::Item { from } => *from,
        };
        let item = |id: &Id| {
            let dash = self.layout.dash(from)?;
            from = self.end(*id, dash + 1)?;
            Some(Item { id: *id, dash, end: from })
        };
        ids.iter().map(item).collect()
    }

    /// Adds an item behind the first `before` ones.
    fn add(&mut self, slot: &Slot, items: &[Item], before: usize, indent: usize, tree: &Tree) -> Option<()> {
        let mut printer = Printer::new(self.style);
        printer.list(std::slice::from_ref(tree), indent);
        let indentation = " ".repeat(indent);
        let line = match (before.checked_sub(1), slot) {
            (Some(last), _) => items.get(last)?.end,
            // Comments between the key and the first item describe the first item.
            (None, Slot::Entry { from, .. }) => self.layout.line_end(*from),
            (None, _) => {
                // The line may begin with the dash of another list.
                let dash = items.first()?.dash;
                self.splice(dash..dash, printer.out + &indentation);
                return Some(());
            }
        };
        self.splice(line..line, indentation + &printer.out);
        Some(())
    }
}
