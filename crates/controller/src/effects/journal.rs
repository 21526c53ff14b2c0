//! Remembers what people were told, so that each thing is told once.

use std::collections::BTreeSet;

/// What people were told about one key of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// What was told before the current comparison or in it.
    told: BTreeSet<String>,
    /// What the current comparison has found.
    found: BTreeSet<String>,
}

impl Journal {
    /// Notes a text. Returns whether people have not been told yet.
    pub fn is_news(&mut self, text: &str) -> bool {
        self.found.insert(text.to_owned());
        self.told.insert(text.to_owned())
    }

    /// Ends a comparison. If it saw everything, forgets the texts that it has not found: they are told again if they
    /// come back.
    pub fn end(&mut self, is_complete: bool) {
        let found = std::mem::take(&mut self.found);
        if is_complete {
            self.told = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_once_until_it_is_over() {
        let mut journal = Journal::default();
        assert!(journal.is_news("missing"));
        assert!(!journal.is_news("missing"));
        journal.end(true);
        assert!(!journal.is_news("missing"), "it still holds");
        journal.end(true);

        journal.end(false);
        assert!(!journal.is_news("missing"), "the comparison did not see everything");
        journal.end(true);

        journal.end(true);
        assert!(journal.is_news("missing"), "it was over and is back");
    }
}
