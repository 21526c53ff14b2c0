//! The table of what was asked, what came back, and what was lost.

use std::fmt::Write as _;
use std::time::Duration;

use super::Outcome;
use super::trickle::Tally;

/// The longest time until a server answers as usual again.
const RECOVERY: Duration = Duration::from_secs(1);
/// The most memory that a server may use: that of its Pod.
const MEMORY: u64 = 512 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

/// A fault, and what came of it.
pub(super) struct Row {
    pub(super) outcome: Outcome,
    pub(super) ordinary: Tally,
    /// The time until the server answered as usual again.
    pub(super) recovered: Duration,
    /// How many connections the ordinary reviews needed.
    pub(super) connections: usize,
    /// The server's memory before and after, in bytes.
    pub(super) before: u64,
    pub(super) after: u64,
}

impl Row {
    /// Returns what should not have been.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = self.outcome.problems.clone();
        problems.extend(self.ordinary.problems.clone());
        if self.recovered > RECOVERY {
            problems.push(format!("recovered only after {} ms", self.recovered.as_millis()));
        }
        if self.ordinary.memory > MEMORY {
            problems.push(format!("used {} MiB", self.ordinary.memory / MIB));
        }
        problems
    }
}

/// Returns the rows as a table in Markdown.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| what was asked | what came back | ordinary reviews | usual again | memory: before, most, after |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let Row { outcome: Outcome { asked, back, .. }, ordinary, recovered, connections, before, after } = row;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {asked} | {back} | {} asked, {} answered, {} got a 503, {} lost; slowest {} ms; connections: {connections} | \
             {} ms | {}, {}, {} MiB |",
            ordinary.asked(),
            ordinary.right,
            ordinary.busy,
            ordinary.lost,
            ordinary.slowest.as_millis(),
            recovered.as_millis(),
            before / MIB,
            ordinary.memory / MIB,
            after / MIB
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            outcome: Outcome { asked: "much".to_owned(), back: "enough".to_owned(), problems: Vec::new() },
            ordinary: Tally { right: 3, busy: 2, memory: 40 * MIB, ..Tally::default() },
            recovered: Duration::from_millis(20),
            connections: 1,
            before: 30 * MIB,
            after: 35 * MIB,
        }
    }

    #[test]
    fn a_row_says_what_was_lost() {
        let table = table(&[row()]);
        let expected = "| much | enough | 5 asked, 3 answered, 2 got a 503, 0 lost; slowest 0 ms; connections: 1 | 20 ms | 30, 40, 35 MiB |\n";
        assert!(table.ends_with(expected), "{table}");
        assert_eq!(row().problems(), [""; 0]);
    }

    #[test]
    fn what_should_not_be_is_a_problem() {
        let mut ordinary = Tally::default();
        ordinary.count("u", Err("no answer".to_owned()), Duration::ZERO);
        let bad = Row { ordinary: Tally { memory: 600 * MIB, ..ordinary }, recovered: Duration::from_secs(2), ..row() };
        assert_eq!(bad.problems(), ["u: no answer", "recovered only after 2000 ms", "used 600 MiB"]);
    }
}
