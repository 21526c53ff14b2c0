//! Runs a target: its corpus, then generated inputs for some time.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FUZZ_SECONDS` | how long to generate inputs; default: half a second |
//! | `FUZZ_SEED` | the seed of the first round; default: 0. The same seed yields the same inputs |
//! | `FUZZ_INPUT` | a file whose inputs are the only ones |

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pillion_testkit::module::workspace;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use serde_json::Value;

use crate::corpus::{self, Named};

/// The default duration of generation. It is short so that `cargo test` stays quick.
const TIME: Duration = Duration::from_millis(500);
/// The number of inputs in a round. Each round has its own seed.
const ROUND: u32 = 16;
/// The limits of the search for the smallest input that still fails, in milliseconds and in steps.
const SHRINK_TIME: u32 = 60_000;
const SHRINK_STEPS: u32 = 4_096;
/// The maximum length of an input that a failure prints in full, in bytes.
const PRINTED_MAX: usize = 4_096;

/// A target, named like its folder in the corpus.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget(pub &'static str);

/// The values of the variables.
#[derive(Debug)]
struct Budget {
    time: Duration,
    seed: u64,
    input: Option<PathBuf>,
}

impl Budget {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let number = |name: &str| set(name).map(|value| value.to_string_lossy().into_owned());
        let wrong = |name: &str, value: &str| format!("{name}={value} is not a number");
        let time = match number("FUZZ_SECONDS") {
            Some(seconds) => {
                let parsed = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                parsed.with_context(|| wrong("FUZZ_SECONDS", &seconds))?
            }
            None => TIME,
        };
        let seed = number("FUZZ_SEED").map_or(Ok(0), |seed| seed.parse().with_context(|| wrong("FUZZ_SEED", &seed)))?;
        Ok(Self { time, seed, input: set("FUZZ_INPUT").map(PathBuf::from) })
    }
}

impl FuzzTarget {
    /// Checks every input of `corpus`, then inputs from `generated`.
    ///
    /// # Errors
    /// If `check` fails for an input. The error contains the smallest such input and the command that runs it again.
    pub fn run(
        self,
        corpus: &[Named],
        generated: impl Strategy<Value = Value>,
        check: impl Fn(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let budget = Budget::read(|name| env::var_os(name))?;
        if let Some(path) = &budget.input {
            return self.replay(&corpus::read_file(path)?, &check);
        }
        self.replay(corpus, &check)?;
        let (start, mut seed) = (Instant::now(), budget.seed);
        while start.elapsed() < budget.time {
            let config = Config {
                cases: ROUND,
                rng_seed: RngSeed::Fixed(seed),
                failure_persistence: None,
                max_shrink_iters: SHRINK_STEPS,
                max_shrink_time: SHRINK_TIME,
                ..Config::default()
            };
            let checked = |input| check(&input).map_err(|error| TestCaseError::fail(format!("{error:#}")));
            match TestRunner::new(config).run(&generated, checked) {
                Ok(()) => seed += 1,
                Err(TestError::Fail(reason, input)) => bail!(self.found(&input, reason.message(), seed)?),
                Err(TestError::Abort(reason)) => bail!("{reason}"),
            }
        }
        say(&format!(
            "fuzz {}: {} inputs of the corpus, {} generated ones (seeds {} to {})",
            self.0,
            corpus.len(),
            (seed - budget.seed) * u64::from(ROUND),
            budget.seed,
            seed
        ))
    }

    /// Checks inputs without changing them.
    fn replay(self, inputs: &[Named], check: impl Fn(&Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
        inputs.iter().try_for_each(|Named { name, input }| check(input).with_context(|| format!("{}: {name}", self.0)))
    }

    /// Writes a failing input to a file, and returns the report about it.
    fn found(self, input: &Value, reason: &str, seed: u64) -> anyhow::Result<String> {
        let text = input.to_string();
        let folder = workspace().join("target/fuzz").join(self.0);
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("seed-{seed}.json"));
        // The input is wrapped in a list, as a corpus file may be, so that every kind of input can be read back.
        fs::write(&path, format!("[{text}]\n"))?;
        let shown = if text.len() <= PRINTED_MAX { text } else { format!("({} bytes)", text.len()) };
        Ok(format!(
            "{target}: {reason}\n\nThe input: {shown}\nRun it again:  {run}\nRun its round: FUZZ_SEED={seed} cargo test --workspace --locked --test fuzz {target}::",
            target = self.0,
            run = again(self.0, &path),
        ))
    }
}

fn again(target: &str, path: &Path) -> String {
    format!("FUZZ_INPUT={} cargo test --workspace --locked --test fuzz {target}::", path.display())
}

/// Writes past the capture of the test runner: the number of inputs is of interest even if none fails.
fn say(line: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().write_all(format!("{line}\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn budget(variables: &[(&str, &str)]) -> anyhow::Result<Budget> {
        Budget::read(|name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()))
    }

    fn small(input: &Value) -> anyhow::Result<()> {
        anyhow::ensure!(input.as_u64().is_some_and(|number| number < 300), "{input} is too large");
        Ok(())
    }

    #[rstest]
    #[case::nothing(&[], 500, 0)]
    #[case::empty(&[("FUZZ_SECONDS", "")], 500, 0)]
    #[case::seconds(&[("FUZZ_SECONDS", "1.5")], 1500, 0)]
    #[case::seed(&[("FUZZ_SEED", "7")], 500, 7)]
    fn variables_say_how_long(#[case] variables: &[(&str, &str)], #[case] milliseconds: u128, #[case] seed: u64) {
        let budget = budget(variables).unwrap();
        assert_eq!((budget.time.as_millis(), budget.seed), (milliseconds, seed));
    }

    #[rstest]
    #[case("FUZZ_SECONDS", "soon")]
    #[case("FUZZ_SECONDS", "-1")]
    #[case("FUZZ_SEED", "x")]
    fn a_variable_that_is_not_a_number_is_told(#[case] name: &str, #[case] value: &str) {
        assert_eq!(budget(&[(name, value)]).unwrap_err().to_string(), format!("{name}={value} is not a number"));
    }

    #[test]
    fn a_failure_tells_the_smallest_input_and_how_to_run_it_again() {
        let numbers = (0..1_000_u32).prop_map(|number| json!(number));
        let error = FuzzTarget("self-test").run(&[], numbers, small).unwrap_err().to_string();
        assert!(error.starts_with("self-test: 300 is too large"), "{error}");
        let (_, rest) = error.split_once("FUZZ_INPUT=").unwrap();
        let (path, _) = rest.split_once(' ').unwrap();
        let inputs = corpus::read_file(Path::new(path)).unwrap();
        assert_eq!(inputs.into_iter().map(|named| named.input).collect::<Vec<_>>(), [json!(300)]);
        assert!(error.contains("FUZZ_SEED="), "{error}");
    }

    #[test]
    fn every_input_of_the_corpus_is_checked() {
        let corpus = [
            Named { name: "small.json".to_owned(), input: json!(1) },
            Named { name: "large.json".to_owned(), input: json!(500) },
        ];
        let error = FuzzTarget("self-test").replay(&corpus, small).unwrap_err();
        assert_eq!(format!("{error:#}"), "self-test: large.json: 500 is too large");
    }
}
