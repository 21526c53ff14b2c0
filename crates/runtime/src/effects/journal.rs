//! Remembers what people were told, so that each thing is told once.

use std::collections::{BTreeMap, BTreeSet};

use crate::metrics::Raised;

/// What people were told about one key of a controller.
#[derive(Debug, Default)]
pub struct Journal {
    /// What was told before the current comparison or in it.
    known: BTreeSet<String>,
    /// What the current comparison has found.
    found: BTreeSet<String>,
    /// The texts that tell of a problem. Each counts in a metric.
    problems: BTreeMap<String, Raised>,
}

impl Journal {
    /// Notes a text. Returns whether people have not been told yet.
    pub fn is_news(&mut self, text: &str) -> bool {
        self.found.insert(text.to_owned());
        self.known.insert(text.to_owned())
    }

    /// Notes a text about a problem, which counts in a metric until it is over. Returns whether people have not been
    /// told yet.
    pub fn is_new_problem(&mut self, text: &str, raise: impl FnOnce() -> Raised) -> bool {
        if !self.problems.contains_key(text) {
            self.problems.insert(text.to_owned(), raise());
        }
        self.is_news(text)
    }

    /// Ends a comparison. If it saw everything, forgets the texts that it has not found: they are told again if they
    /// come back.
    pub fn end(&mut self, is_complete: bool) {
        let found = std::mem::take(&mut self.found);
        if is_complete {
            self.problems.retain(|text, _| found.contains(text));
            self.known = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

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

    #[test]
    fn a_problem_counts_until_it_is_over() {
        let (mut journal, metrics) = (Journal::default(), Metrics::new());
        let count = |expected: i64| {
            let line = format!("pillion_controller_problems{{controller=\"test\",reason=\"Missing\"}} {expected}\n");
            assert!(metrics.encoded().contains(&line), "{line} is not in:\n{}", metrics.encoded());
        };
        let missing = |journal: &mut Journal| journal.is_new_problem("missing", || metrics.problem("test", "Missing"));
        assert!(missing(&mut journal));
        assert!(!missing(&mut journal));
        journal.end(true);
        count(1);
        journal.end(false);
        count(1);
        journal.end(true);
        count(0);
        assert!(missing(&mut journal), "it is back");
        count(1);
        drop(journal);
        count(0);
    }
}
