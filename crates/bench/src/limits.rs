//! The limits of an admission: a table in the repository with which counted instructions are compared.
//!
//! Counts are exact, so the tolerance is small. It covers changes in the generated code that unrelated edits cause. A
//! count outside the tolerance is an intended change or a regression.

use std::fmt;

use anyhow::{Context as _, bail};

use crate::measure::Work;

/// The tolerance above the table, in percent.
const MORE: u64 = 2;
/// The tolerance below the table, in percent. Beyond it, renew the table, so that a later regression does not go
/// unnoticed.
const LESS: u64 = 5;
const HEADER: &str = "\
# The cost of an evaluation: instructions (wasmtime's fuel) and the peak of the instance's memory in KiB, for the module
# that `make policy.wasm` makes. crates/bench/tests/bench/fuel.rs compares; this writes the numbers of the rows anew:
#
#   make policy.wasm && PILLION_RENEW=1 PILLION_MODULE=$PWD/policy.wasm cargo test --workspace --test bench fuel::
";

/// The table of limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Scenarios by name, in the order of the file.
    pub rows: Vec<(String, Limit)>,
}

/// The limits of one evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Instructions of the instance's start and of the call.
    pub instructions: u64,
    /// The peak of the instance's memory, in KiB.
    pub memory: u64,
}

impl From<&Work> for Limit {
    fn from(work: &Work) -> Self {
        Self { instructions: work.start + work.call, memory: work.memory / 1024 }
    }
}

impl Limits {
    /// Reads the table: a line for each scenario, with its name and two numbers.
    ///
    /// # Errors
    /// If a line has another form.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let numbers: Vec<u64> =
                words.map(str::parse).collect::<Result<_, _>>().with_context(|| format!("\"{line}\""))?;
            let &[instructions, memory] = numbers.as_slice() else { bail!("\"{line}\": not a name with two numbers") };
            Ok((name.to_owned(), Limit { instructions, memory }))
        };
        Ok(Self { rows: lines.map(row).collect::<anyhow::Result<_>>()? })
    }

    /// Compares the table with measured numbers. Returns one line for each difference.
    pub fn compare(&self, measured: &Self) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, limit) in &self.rows {
            match measured.rows.iter().find(|(other, _)| other == name) {
                Some((_, found)) => {
                    problems.extend(off(name, "instructions", limit.instructions, found.instructions));
                    problems.extend(off(name, "KiB of memory", limit.memory, found.memory));
                }
                None => problems.push(format!("{name}: is no scenario")),
            }
        }
        problems
    }
}

fn off(name: &str, unit: &str, limit: u64, found: u64) -> Option<String> {
    if found * 100 > limit * (100 + MORE) {
        Some(format!("{name}: {found} {unit}, and the table says {limit}: more than {MORE} % too many"))
    } else if found * 100 < limit * (100 - LESS) {
        Some(format!("{name}: {found} {unit}, and the table says {limit}: renew it, so that this stays"))
    } else {
        None
    }
}

/// Writes the table in the format of the file.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        writeln!(f, "{HEADER}")?;
        self.rows.iter().try_for_each(|(name, Limit { instructions, memory })| {
            writeln!(f, "{name:<width$} {instructions:>12} {memory:>8}")
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn table(instructions: u64, memory: u64) -> Limits {
        Limits { rows: vec![("a/b".to_owned(), Limit { instructions, memory })] }
    }

    #[test]
    fn a_table_reads_as_it_was_written() {
        let limits = table(1_000_000, 1_024);
        assert_eq!(Limits::parse(&limits.to_string()).unwrap(), limits);
    }

    #[rstest]
    #[case("a/b 1")]
    #[case("a/b")]
    #[case("a/b 1 2 3")]
    #[case("a/b one 2")]
    fn what_is_no_row_is_refused(#[case] line: &str) {
        assert!(Limits::parse(line).unwrap_err().to_string().contains(line));
    }

    #[rstest]
    #[case::same(1_000, &[])]
    #[case::a_little_more(1_020, &[])]
    #[case::more(1_021, &["a/b: 1021 instructions, and the table says 1000: more than 2 % too many"])]
    #[case::a_little_less(950, &[])]
    #[case::less(949, &["a/b: 949 instructions, and the table says 1000: renew it, so that this stays"])]
    fn what_leaves_the_band_is_reported(#[case] instructions: u64, #[case] expected: &[&str]) {
        assert_eq!(table(1_000, 1).compare(&table(instructions, 1)), expected);
    }

    #[test]
    fn memory_and_missing_rows_are_reported_too() {
        assert_eq!(table(1, 100).compare(&table(1, 200)).len(), 1);
        assert_eq!(table(1, 1).compare(&Limits::default()), ["a/b: is no scenario"]);
    }
}
